"""What differs between two texts of a job."""

from __future__ import annotations

from console.pipelines.changes import changes


def test_equal_texts_have_no_changes() -> None:
    assert changes("a\nb", "a\nb") == []


def test_changes_have_signs_numbers_and_three_lines_around_them() -> None:
    before = "\n".join(f"line {number}" for number in range(1, 21))
    found = changes(before, before.replace("line 10", "line ten\nand more"))
    assert [(line.sign, line.before, line.after) for line in found] == [
        ("⋯", None, None), ("", 7, 7), ("", 8, 8), ("", 9, 9), ("-", 10, None), ("+", None, 10), ("+", None, 11),
        ("", 11, 12), ("", 12, 13), ("", 13, 14), ("⋯", None, None),
    ]  # fmt: skip
    assert [line.text for line in found if line.sign == "+"] == ["line ten", "and more"]


def test_a_text_from_nothing_is_all_new() -> None:
    assert [(line.sign, line.text) for line in changes("", "a\nb")] == [("+", "a"), ("+", "b")]
