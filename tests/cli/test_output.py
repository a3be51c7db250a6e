"""What is shown: tables for people, and nothing that steers their terminal."""

from __future__ import annotations

import json

import pytest

from gantry_cli.output import cell, harmless, show, table


def test_a_list_of_objects_has_a_column_a_field() -> None:
    lines = table([{"topic": "a", "perm": 6}, {"topic": "longer", "remark": None}]).splitlines()
    assert lines[0].split() == ["topic", "perm", "remark"]
    assert lines[2].split() == ["a", "6", "-"] and lines[3].split() == ["longer", "-", "-"]


def test_an_object_shows_its_lists_below() -> None:
    text = table({"topic": "orders", "rows": [{"groupId": "GID_a"}], "empty": []})
    assert text.startswith("topic  orders") and "rows:\ngroupId" in text and "empty" in text


def test_times_are_readable_and_other_numbers_stay() -> None:
    assert cell("createTime", 1767225602000) == "2026-01-01T00:00:02.000Z"
    assert cell("totalDiff", 1767225602000) == "1767225602000" and cell("delayTime", 12) == "12"


@pytest.mark.parametrize("hostile", ["\x1b[31mred", "a\rb", "bell\x07", "\u202eevil", "nul\x00", "line\nbreak"])
def test_foreign_texts_cannot_steer_the_terminal(hostile: str) -> None:
    shown = table([{"remark": hostile}])
    assert not set(shown.splitlines()[2]) & set("\x1b\r\x07\u202e\x00") and len(shown.splitlines()) == 3


def test_emoji_and_wide_letters_stay() -> None:
    assert harmless("订单 🛩️ ok") == "订单 🛩️ ok"


def test_json_is_what_the_server_said(capsys: pytest.CaptureFixture[str]) -> None:
    show({"remark": "\x1b[31m", "n": [1]}, "json")
    out = capsys.readouterr().out
    assert json.loads(out) == {"remark": "\x1b[31m", "n": [1]} and "\x1b" not in out
