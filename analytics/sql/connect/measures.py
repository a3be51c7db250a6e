"""What Spark Connect tells of a statement's operations: stages and bytes while they run, rows of scans at their end."""

import threading
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from analytics.specs import Progress
from analytics.sql.metrics import Counters


@dataclass(slots=True)
class _Operation:
    tags: frozenset[str]
    stages: list[Any] = field(default_factory=list)
    scanned_rows: int = 0
    written_rows: int = 0
    file_bytes: int = 0
    """Sizes of the files that a write has read from."""


class Measures:
    """The operations of one statement, by the tags that were on when they began."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._operations: list[_Operation] = []
        self._by_id: dict[str, _Operation] = {}

    def progressed(self, operation_id: str, tags: Iterable[str], stages: Iterable[Any]) -> None:
        """The server has told how far the stages of an operation are."""
        with self._lock:
            self._operation(operation_id, tags).stages = list(stages)

    def scanned(self, tags: Iterable[str], nodes: Iterable[Any]) -> None:
        """The server has told what each node of an executed plan has counted."""
        rows = 0
        for node in nodes:
            if node.name.startswith(("Scan ", "BatchScan ")) and "OneRowRelation" not in node.name:
                rows += sum(int(metric.value) for metric in node.metrics if metric.name == "numOutputRows")
        self._add(_Operation(frozenset(tags), scanned_rows=rows))

    def wrote(self, tags: Iterable[str], rows: int, scanned_rows: int, file_bytes: int) -> None:
        """Rows were written, out of about so many rows and bytes that were read."""
        self._add(_Operation(frozenset(tags), written_rows=rows, scanned_rows=scanned_rows, file_bytes=file_bytes))

    def counters(self, tag: str) -> Counters:
        """The sums over the operations with the tag.

        The last message on progress comes before a write has ended: it counts as having read its files.
        """
        with self._lock:
            found = [operation for operation in self._operations if tag in operation.tags]
        return Counters(
            input_rows=sum(operation.scanned_rows for operation in found),
            input_bytes=_bytes_read(found),
            output_rows=sum(operation.written_rows for operation in found),
        )

    def progress(self, tag: str) -> Progress | None:
        """How far the operations with the tag are; None before the first stage."""
        with self._lock:
            stages = [stage for found in self._operations if tag in found.tags for stage in found.stages]
        if not stages:
            return None
        return Progress(
            stages=len(stages),
            stages_done=sum(bool(stage.done) for stage in stages),
            tasks=sum(stage.num_tasks for stage in stages),
            tasks_done=sum(stage.num_completed_tasks for stage in stages),
            scanned_row_count=self.counters(tag).input_rows,
            scanned_data_bytes=sum(stage.num_bytes_read for stage in stages),
        )

    def _operation(self, operation_id: str, tags: Iterable[str]) -> _Operation:
        found = self._by_id.get(operation_id)
        if found is None:
            found = self._by_id[operation_id] = _Operation(frozenset(tags))
            self._operations.append(found)
        return found

    def _add(self, operation: _Operation) -> None:
        with self._lock:
            self._operations.append(operation)


def _bytes_read(operations: list[_Operation]) -> int:
    told = sum(int(stage.num_bytes_read) for operation in operations for stage in operation.stages)
    return max(told, sum(operation.file_bytes for operation in operations))
