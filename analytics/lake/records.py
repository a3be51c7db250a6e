"""Reads result.csv: lazily, exactly, with null and empty text kept apart (docs/operate/lake.md).

The csv module cannot tell an empty cell from `""`, which here is the difference between null and an empty text.
"""

import itertools
import re
from collections.abc import Iterator
from typing import IO

from analytics.errors import LakeError

#: Read at once; large enough that a file of an object store is not asked for in crumbs.
_BLOCK_BYTES = 1024**2
#: A cell and what ends it. Possessive, so that no file makes it go back over what it has read.
_CELL = re.compile(r'(?:"([^"]*+(?:""[^"]*+)*+)"|([^,"]*+))(,|$)')


def read(file: IO[bytes]) -> tuple[list[str], Iterator[list[str | None]]]:
    """The columns' names, and the rows as texts, None for null. Closes the file after the last row.

    Nothing is cut, and no more is in memory than a block of the file and the cells of one row. Bytes that are no
    UTF-8 become U+FFFD. The iterator raises LakeError where the file is no CSV.
    """
    records = _records(file)
    header = next(records, [])
    if header == [None]:  # a statement without columns; a name is never empty without quotes
        return [], ([] for _ in records)
    return [name or "" for name in header], records


def _records(file: IO[bytes]) -> Iterator[list[str | None]]:
    lines = _lines(file)
    for line in lines:
        if '"' not in line:
            cells: list[str | None] = [*line.split(",")]
            yield [cell or None for cell in cells] if "" in cells else cells
        else:
            yield _cells(_whole(line, lines))


def _lines(file: IO[bytes]) -> Iterator[str]:
    """Lines without their line feeds; what precedes the feed belongs to the cell."""
    with file:
        begun: list[bytes] = []
        while block := file.read(_BLOCK_BYTES):
            ended, separator, rest = block.rpartition(b"\n")
            if not separator:
                begun.append(rest)
                continue
            text = b"".join([*begun, ended]).decode(errors="replace")
            begun = [rest] if rest else []
            yield from text.split("\n")
        if begun:
            yield b"".join(begun).decode(errors="replace")


def _whole(line: str, following: Iterator[str]) -> str:
    """The record that begins with a line: it ends where every quote is closed."""
    if line.count('"') % 2 == 0:
        return line
    lines = [line]
    for further in following:
        lines.append(further)
        if further.count('"') % 2:
            break
    return "\n".join(lines)


def _cells(record: str) -> list[str | None]:
    cells: list[str | None] = []
    position = 0
    while True:
        found = _CELL.match(record, position)
        if found is None:
            raise LakeError(f"the result is not valid CSV near {record[position : position + 40]!r}")
        quoted, plain, end = found.groups()
        cells.append(plain or None if quoted is None else quoted.replace('""', '"'))
        if not end:
            return cells
        position = found.end()


def preview(file: IO[bytes], rows: int, skip: int, most_characters: int) -> tuple[list[str], list[list[str | None]]]:
    """The columns' names and `rows` rows after the first `skip`; longer cells are cut. Closes the file."""
    with file:
        columns, records = read(file)
        return columns, [_cut(record, most_characters) for record in itertools.islice(records, skip, skip + rows)]


def _cut(record: list[str | None], most: int) -> list[str | None]:
    return [cell if cell is None or len(cell) <= most else cell[:most] + "…" for cell in record]
