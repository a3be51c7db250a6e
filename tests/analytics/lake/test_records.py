"""Reading result.csv: exactly, lazily, as Python's csv module reads it, and with null told from the empty text."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from analytics.errors import LakeError
from analytics.lake import records

CELLS = st.none() | st.text(st.characters(exclude_categories=["Cs"]) | st.sampled_from('",\r\n\0 '), max_size=12)


def written(rows: list[list[str | None]]) -> bytes:
    def cell(text: str | None) -> str:
        if text is None:
            return ""
        return '"' + text.replace('"', '""') + '"' if text == "" or any(s in text for s in '",\r\n') else text

    return "".join(",".join(map(cell, row)) + "\n" for row in rows).encode()


@given(st.integers(1, 4).flatmap(lambda width: st.lists(st.lists(CELLS, min_size=width, max_size=width), max_size=6)))
def test_what_was_written_is_read(rows: list[list[str | None]]) -> None:
    header: list[str | None] = [f"c,{number}" for number in range(len(rows[0]) if rows else 1)]
    content = written([header, *rows])
    names, found = records.read(io.BytesIO(content))
    assert (names, list(found)) == (header, rows)
    by_python = list(csv.reader(io.StringIO(content.decode(), newline="")))
    assert [row or [""] for row in by_python[1:]] == [[cell or "" for cell in row] for row in rows]


def test_records_are_whole_wherever_the_blocks_end(monkeypatch: pytest.MonkeyPatch) -> None:
    rows: list[list[str | None]] = [["漢字,\n", None, ""], ["a", '"', "x" * 20]] * 3
    for size in range(1, 40):
        monkeypatch.setattr(records, "_BLOCK_BYTES", size)
        assert list(records.read(io.BytesIO(written([["a", "b", "c"], *rows])))[1]) == rows


def test_a_file_is_read_as_far_as_it_is_asked_for_and_closed_at_its_end() -> None:
    class Counted(io.BytesIO):
        blocks = 0

        def read(self, size: int | None = -1) -> bytes:
            self.blocks += 1
            return super().read(size)

    file = Counted(b"a\n" + b"1\n" * 1_000_000)
    _, rows = records.read(file)
    assert next(rows) == ["1"]
    assert file.blocks == 1
    assert sum(1 for _ in rows) == 999_999
    assert file.closed


def test_a_statement_without_columns_has_rows_without_cells() -> None:
    names, rows = records.read(io.BytesIO(b"\n\n\n"))
    assert (names, list(rows)) == ([], [[], []])
    names, rows = records.read(io.BytesIO(b'""\n\n""\n'))
    assert (names, list(rows)) == ([""], [[None], [""]])


def test_what_is_no_csv_is_an_error() -> None:
    rows: Iterator[list[str | None]] = records.read(io.BytesIO(b'a\n1\n"x"y\n'))[1]
    assert next(rows) == ["1"]
    with pytest.raises(LakeError, match="not valid CSV near"):
        next(rows)


def test_a_preview_reads_no_more_than_it_shows() -> None:
    file = io.BytesIO(b'a\n1\n2\n"broken')
    assert records.preview(file, 2, 0, 10) == (["a"], [["1"], ["2"]])


def test_a_preview_can_begin_further_down_and_cuts_a_huge_cell() -> None:
    content = b"a\n1\n2\n" + b"x" * 50 + b"\n4\n"
    assert records.preview(io.BytesIO(content), 2, 2, 10) == (["a"], [["x" * 10 + "…"], ["4"]])
