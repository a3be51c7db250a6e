from __future__ import annotations

import io
from datetime import UTC, datetime
from pathlib import Path

import pytest

from launcher.output import Output, timed

NOW = datetime(2026, 1, 15, 10, 0, 0, 123_456, UTC)


@pytest.mark.parametrize(
    ("said", "kept"),
    [
        ("ready", "2026-01-15 10:00:00,123 ready"),
        ("", "2026-01-15 10:00:00,123 "),
        ("17:M 15 Jan 2026 11:00:00.122 * Ready", "2026-01-15 10:00:00,123 17:M * Ready"),
        ("2026-01-15 09:59:59,999 INFO broker: up", "2026-01-15 09:59:59,999 INFO broker: up"),
        ('{"time": "2026-01-15T09:59:59.999Z"}', '{"time": "2026-01-15T09:59:59.999Z"}'),
        ("2026-01-15 is a day", "2026-01-15 10:00:00,123 2026-01-15 is a day"),
    ],
)
def test_every_line_of_a_log_file_begins_with_its_time_in_one_form(said: str, kept: str) -> None:
    assert timed(said, NOW) == kept


def test_a_terminal_that_knows_ascii_only_is_told_all_the_same(tmp_path: Path) -> None:
    shown = io.BytesIO()
    output = Output(tmp_path, io.TextIOWrapper(shown, encoding="ascii", write_through=True), colour=False)
    output.say("the home is /höme-家")
    output.say("ready")
    output.close()
    assert shown.getvalue().decode().split("\n")[:2] == [
        "gantry  | the home is /h\\xf6me-\\u5bb6",
        "gantry  | ready",
    ]
    assert "höme-家" in (tmp_path / "gantry.log").read_text(encoding="utf-8")
