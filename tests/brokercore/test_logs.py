"""Log lines: one event, one line, whatever a stranger put into it."""

from __future__ import annotations

import json
import logging
import sys

import pytest

from brokercore.logs import FORMATTERS, LONGEST

HOSTILE = 'x\r\n2026-01-01 INFO forged "y" \x1b[2J\u202egnp.exe\u2028'


def record(message: str, *arguments: object, **fields: object) -> logging.LogRecord:
    made = logging.LogRecord("gantry", logging.WARNING, __file__, 1, message, arguments, None)
    made.fields = fields
    return made


@pytest.mark.parametrize("name", FORMATTERS)
def test_a_hostile_text_never_breaks_a_line(name: str) -> None:
    line = FORMATTERS[name]().format(record("client %s", HOSTILE, client_id=HOSTILE))
    assert len(line.splitlines()) == 1
    assert line.isprintable()


def test_json_has_time_level_event_and_the_fields_that_are_not_empty() -> None:
    row = json.loads(
        FORMATTERS["json"]().format(record("a %d", 1, client_id=HOSTILE, tenant="", code=215, remark=None))
    )
    assert row.pop("time").endswith("Z")
    assert row == {"level": "warning", "event": "a 1", "logger": "gantry", "client_id": HOSTILE, "code": 215}


@pytest.mark.parametrize("name", FORMATTERS)
def test_a_long_text_is_cut(name: str) -> None:
    assert len(FORMATTERS[name]().format(record("%s", "x" * 1_000_000, topic="y" * 1_000_000))) < 3 * LONGEST


def test_a_traceback_stays_with_its_line() -> None:
    made = record("failed")
    try:
        raise ValueError("2026-01-01\nforged")
    except ValueError:
        made.exc_info = sys.exc_info()
    lines = FORMATTERS["text"]().format(made).splitlines()
    assert [line for line in lines[1:] if not line.startswith("  | ")] == []
    assert "forged" in json.loads(FORMATTERS["json"]().format(made))["exception"]
