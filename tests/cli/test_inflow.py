"""Message inflow tasks on the command line, against a real console over HTTP."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from analytics.inflow.event_log import EventLog
from gantry_cli import config
from tests.cli.conftest import Run
from tests.console.inflow.conftest import change, document, log, no_message, topics
from tests.support.cast import Cast

__all__ = ["log", "no_message", "topics"]
pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.process]


def test_a_task_is_made_of_a_file_tried_and_paused(  # noqa: PLR0917
    gantry: Run, profile: config.Profile, cast: Cast, log: EventLog, topics: None, tmp_path: Path
) -> None:
    file, sample = tmp_path / "orders.json", tmp_path / "event.json"
    file.write_text(json.dumps(document(cast)))
    sample.write_text(json.dumps(change(7)))
    tried = gantry("inflow", "test", "--document", f"@{file}", "--sample", f"@{sample}", "-o", "json")
    assert json.loads(tried.out)["messages"][0]["key"] == "7", tried.err
    made = gantry("inflow", "create", "--document", f"@{file}", "-o", "json")
    assert json.loads(made.out)["state"] == "Starting", made.err
    assert gantry("inflow", "stop", "--task", "orders-to-topic").out == "done\n"
    listed = json.loads(gantry("-o", "json", "inflow", "list").out)
    assert [(row["task"], row["state"]) for row in listed] == [("orders-to-topic", "Paused")]
    again = gantry("inflow", "create", "--document", f"@{file}")
    assert "BIZ_INFLOW_TASK_EXISTED" in again.err
