"""Puts the files of an INSERT in place: what is to be done is written down first, so that it is done once.

Spark writes to `<table>/_staging-<task>/…`, which no reader looks at. Then, while nobody else changes the table
(`Target.turn`), the plan of moves is written to the staging folder as one file: from that moment the rows are in the
table. A worker that dies between the moves leaves the plan, and whoever writes to the table next carries it out: the
task itself when it is run again, which then does not ask Spark a second time, or another statement. File names carry
the task's id and a source that is gone was moved already, so carrying out a plan again changes nothing. The plan stays
until the task has ended (`forget`); what a task left that ended otherwise is swept by the next statement that writes.
"""

import io
import json
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from itertools import zip_longest

from analytics import lake
from analytics.errors import LakeError, QueryFailed
from analytics.lake import LakeFile
from analytics.specs import Target

#: Files of one statement; more are a query that writes a folder for every row.
MOST_FILES = 10_000
_PLAN = "moves.json"
_ENDING = re.compile(r"\.(?!c\d)[a-z0-9]+(?:\.[a-z0-9]+)?$")


@dataclass(frozen=True, slots=True)
class Plan:
    """What puts a statement's files in place; paths are relative to the table's location."""

    rows: int
    #: Names and types of the table's columns.
    columns: list[list[str]]
    moves: list[list[str]]
    removals: list[str]
    #: Bytes of each of the removals, as it was; none in a plan of a statement that was begun by an older Gantry.
    removed_sizes: list[int] = field(default_factory=list)
    done: bool = False
    #: Bytes of the files that are put in place.
    size: int = 0


def staging(location: str, task_id: str) -> str:
    """The folder in which the files of a task wait."""
    return f"{location.rstrip('/')}/_staging-{task_id}/"


def read(location: str, task_id: str) -> Plan | None:
    """The plan of a task, when it has come that far."""
    try:
        with lake.open_result(staging(location, task_id) + _PLAN) as file:
            plan = Plan(**json.load(file))
    except LakeError as error:
        if error.is_missing:
            return None
        raise  # while the lake does not answer nobody knows whether the rows are in the table
    own = staging("", task_id).lstrip("/")
    if not all(source.startswith(own) for source, _ in plan.moves):
        raise QueryFailed(f"The plan in {staging(location, task_id)} moves files that no statement has written there.")
    return plan


def commit(location: str, task_id: str, plan: Plan) -> None:
    """Write the plan down, which makes the rows part of the table, and carry it out. In the table's turn."""
    _write(location, task_id, plan)
    carry_out(location, task_id, plan)


def carry_out(location: str, task_id: str, plan: Plan) -> None:
    """Move what was not moved yet, then remove what an overwrite replaces. In the table's turn."""
    if plan.done:
        return
    base = location.rstrip("/") + "/"
    folders = {"/".join(source.split("/")[:2]) for source, _ in plan.moves}  # _staging-<task>/<attempt>
    waiting = {file.location for folder in folders for file in lake.files(base + folder)}
    moves = [(base + source, base + destination) for source, destination in plan.moves]
    lake.move_all(move for move in moves if move[0] in waiting)
    for name in plan.removals:
        lake.remove(base + name)
    _write(location, task_id, replace(plan, done=True))


def recover(location: str, writers: Mapping[str, bool]) -> None:
    """Carry out what other writers of the table left; sweep the folders of those that have ended. In its turn."""
    for task_id, ended in writers.items():
        plan = read(location, task_id)
        if plan is not None:
            carry_out(location, task_id, plan)
        if ended:
            forget(location, task_id)


def forget(location: str, task_id: str) -> None:
    """Remove the staging folder of a task that has ended."""
    lake.remove(staging(location, task_id))


def discard(location: str, task_id: str) -> None:
    """Take back what a task has put in place, and its staging folder; what it has removed does not come back."""
    plan = read(location, task_id)
    for _, destination in plan.moves if plan is not None else ():
        lake.remove(f"{location.rstrip('/')}/{destination}")
    forget(location, task_id)


def placed(location: str, task_id: str) -> tuple[list[LakeFile], list[LakeFile]]:
    """The files that a task has put in place, and those that it has removed, as they were. Raises LakeError."""
    plan = read(location, task_id)
    if plan is None:
        return [], []
    base = location.rstrip("/") + "/"
    written = {base + destination for _, destination in plan.moves}
    removed = zip_longest(plan.removals, plan.removed_sizes, fillvalue=0)
    return (
        [file for file in lake.files(base) if file.location in written],
        [LakeFile(f"{base}{name}", size, 0) for name, size in removed],
    )


def planned(  # noqa: PLR0917  what a plan is made of
    target: Target, task_id: str, attempt: str, rows: int, columns: list[list[str]], emptied: str | None
) -> Plan:
    """The plan for the files that Spark has left in the folder `attempt`, a part of the task's staging folder.

    `emptied` is the partition that an overwrite replaces also when there are no rows for it. Raises QueryFailed for too
    many files, LakeError for a partition whose name cannot be a folder.
    """
    base = target.table.location.rstrip("/") + "/"
    found = lake.files(attempt)
    written = [file.location.removeprefix(base) for file in found]
    if len(written) > MOST_FILES:
        raise QueryFailed(
            f"The statement would write {len(written):,} files, one for each partition and task; {MOST_FILES:,} are"
            " allowed."
        )
    start = len(attempt.removeprefix(base).rstrip("/")) + 1
    moves = []
    for number, source in enumerate(written):
        ending = _ENDING.search(source)
        name = f"{task_id}-{number:05d}{ending.group() if ending else ''}"
        moves.append([source, _folder(source)[start:] + name])
        lake.spark_url(base + moves[-1][1])
    touched = {_folder(destination) for _, destination in moves} | ({emptied} if emptied is not None else set())
    removals = {}
    if target.overwrite:
        there = {file.location.removeprefix(base): file.size for file in lake.files(base)}
        removals = {n: size for n, size in there.items() if not target.table.partitions or _folder(n) in touched}
    size = sum(file.size for file in found)
    return Plan(rows, columns, moves, list(removals), list(removals.values()), size=size)


def _folder(path: str) -> str:
    """The folder part of a path, with its slash; empty for none."""
    head, separator, _ = path.rpartition("/")
    return head + separator


def _write(location: str, task_id: str, plan: Plan) -> None:
    lake.write_file(staging(location, task_id) + _PLAN, io.BytesIO(json.dumps(asdict(plan)).encode()))
