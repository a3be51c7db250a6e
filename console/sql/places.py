"""Where in a statement Spark found what is wrong, so that the editor can underline it."""

from __future__ import annotations

import re
from dataclasses import dataclass

from console.sql.models import QueryTask

#: `position` is Spark's and counts from 0, `column` is the guard's and counts from 1.
_PLACE = re.compile(r"\(line (?P<line>\d{1,7}), (?P<unit>position|column) (?P<number>\d{1,7})\)")


@dataclass(frozen=True, slots=True)
class Place:
    """A line and a column of the text as it was submitted, both from 1."""

    line: int
    column: int


def place_of(task: QueryTask) -> Place | None:
    """The place that the message of a failed task names, in its `command`; None when it names none."""
    return placed(task.message, task.command, task.statement)


def placed(message: str, command: str, statement: str) -> Place | None:
    """Messages count in the statement, which stands in the command behind the hint."""
    found = _PLACE.search(message)
    if found is None:
        return None
    line, column = int(found["line"]), int(found["number"]) + (found["unit"] == "position")
    before = command[: max(command.find(statement), 0)]
    if line == 1:
        column += len(before) - (before.rfind("\n") + 1)
    return Place(line + before.count("\n"), column)
