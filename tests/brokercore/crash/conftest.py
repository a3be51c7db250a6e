"""Prints the figures of all scenarios at the end; `GANTRY_TEST_CRASH_TABLE=FILE` also writes them as Markdown."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.brokercore.crash.field import ALWAYS, Field, field
from tests.brokercore.crash.figures import TABLE, as_markdown, as_text


@pytest.fixture
def ground() -> Iterator[Field]:
    """A field whose Redis writes to disk before it answers."""
    with field(*ALWAYS) as it:
        yield it


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """The figures of this run."""
    if TABLE:
        terminalreporter.section("crash tests")
        for line in as_text(TABLE):
            terminalreporter.write_line(line)
    if (path := os.environ.get("GANTRY_TEST_CRASH_TABLE")) and TABLE:
        Path(path).write_text(as_markdown(TABLE))
