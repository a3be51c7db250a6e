"""The lake: the only package that knows what stands behind an `oss://` location, and where things are kept.

oss://<bucket>/<key>                                    → a file of $GANTRY_LAKE, a folder or an object storage
oss://aliyun-oa-query-results-<uid>-oss-<region>/…      results of async SQL
oss://gantry-metrics/tps/day=<yyyy-mm-dd>/…             samples and rollups

locations   names: what is one, which one a thing has
store       what is asked of a storage; folder and objects answer it
records     reads result.csv
hadoop      the lake as Spark sees it; reach, what of it a session can open
"""

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import date
from pathlib import Path
from typing import IO

from analytics import settings
from analytics.errors import LakeError
from analytics.lake import records, store
from analytics.lake.folder import FolderStore
from analytics.lake.hadoop import as_locations, hadoop_secrets, spark_configuration, spark_url
from analytics.lake.locations import (
    DRAFT,
    METRICS,
    RESULT_BUCKETS,
    LakeFile,
    Place,
    metrics_location,
    parse_location,
    result_location,
    table_location,
)

__all__ = [
    "LakeFile",
    "Place",
    "as_locations",
    "drop_drafts",
    "file",
    "files",
    "fingerprint",
    "folders",
    "hadoop_secrets",
    "is_folder",
    "is_free",
    "join_files",
    "lake_path",
    "lock_file",
    "make_ready",
    "metrics_days",
    "metrics_location",
    "move",
    "move_all",
    "open_file",
    "open_result",
    "parse_location",
    "preview_result",
    "read_result",
    "remove",
    "result_buckets",
    "result_location",
    "size_of",
    "spark_configuration",
    "spark_url",
    "table_location",
    "write_file",
]

#: A cell of a preview longer than this is cut: a page shows it, nobody computes with it.
PREVIEW_CELL_CHARACTERS = 10_000
_MOVES_AT_ONCE = 8
_DRAFT = re.compile(rf"(.*/{re.escape(DRAFT)}[0-9a-f]{{32}})(?:/.*)?")


def is_folder() -> bool:
    """Whether the lake is a folder of this machine, and no object storage."""
    return isinstance(store.get(), FolderStore)


def lake_path(location: str | Place) -> str:
    """The file or folder behind an `oss://bucket/key`.

    Raises LakeError when it is malformed or leads elsewhere, or when the lake is no folder of this machine.
    """
    place = parse_location(location)
    found = store.get()
    if not isinstance(found, FolderStore):
        raise LakeError(f"{location} lies in object storage and has no path")
    return str(found.path(place))


def files(location: str | Place, *, hidden: bool = False) -> list[LakeFile]:
    """All files in and below a folder, by name; those that Spark overlooks (`.…`, `_…`) only when `hidden`.

    Raises LakeError.
    """
    return sorted(store.get().files(parse_location(location), hidden=hidden), key=lambda file: file.location)


def file(location: str | Place) -> LakeFile | None:
    """One file as it is now; None when there is none. Raises LakeError."""
    return store.get().file(parse_location(location))


def folders(location: str | Place) -> list[str]:
    """Names of the folders directly in a folder. Raises LakeError."""
    return store.get().folders(parse_location(location))


def fingerprint(location: str | Place) -> int | None:
    """A number that changes when files of a folder come, go or change; None when there are none. Raises LakeError."""
    found = files(location)
    return hash(tuple(found)) if found else None


def is_there(location: str | Place) -> bool:
    """Whether there is a folder, an empty one too where the lake is a folder, or a file. Raises LakeError."""
    return store.get().is_there(parse_location(location))


def is_free(bucket: str) -> bool:
    """Whether nothing is kept in a bucket of this name, whoever has put it there. Raises LakeError."""
    return store.get().is_free(parse_location(f"oss://{bucket}").bucket)


def make_ready(location: str | Place) -> None:
    """Make the bucket and the folder of a place that Spark is to write. Raises LakeError."""
    store.get().make_ready(parse_location(location))


def open_file(location: str | Place) -> IO[bytes]:
    """A file, open for reading and seeking. Raises LakeError when it is not there."""
    return store.get().open(parse_location(location))


def write_file(location: str | Place, content: IO[bytes]) -> int:
    """Write a file, whole or not at all; returns its size in bytes. Raises LakeError."""
    return store.get().write(parse_location(location), content)


def join_files(location: str | Place, head: bytes, parts: Sequence[LakeFile], check: Callable[[], None]) -> int:
    """Make a file of `head` and the parts, whole or not at all, without reading them here where that can be.

    `check` is called now and then and may raise to stop it. Returns the size. Raises LakeError.
    """
    return store.get().join(parse_location(location), head, parts, check)


def size_of(location: str | Place, *, without: Collection[str] = ()) -> int:
    """Bytes of all that is in a folder, with what is hidden and what is not finished. Raises LakeError.

    `without` are names of folders, anywhere below it, that are left out.
    """
    if not without:
        return store.get().size(parse_location(location))
    found = store.get().files(parse_location(location), hidden=True)
    return sum(file.size for file in found if not set(without).intersection(file.location.split("/")[3:-1]))


def move(source: str, destination: str) -> None:
    """Give a file another location; a file that is there is replaced in one step.

    In object storage it is copied, then deleted: stopped in between both are there, and moving again finishes it.
    Raises LakeError when there is no such file.
    """
    store.get().move(parse_location(source), parse_location(destination))


def move_all(moves: Iterable[tuple[str, str]]) -> None:
    """Give many files other locations, in object storage several at a time. Raises as `move`, after those under way."""
    pairs = [(parse_location(source), parse_location(destination)) for source, destination in moves]
    found = store.get()
    if isinstance(found, FolderStore) or len(pairs) < _MOVES_AT_ONCE:
        for source, destination in pairs:
            found.move(source, destination)
        return
    with ThreadPoolExecutor(_MOVES_AT_ONCE, thread_name_prefix="lake-move") as threads:
        under_way = [threads.submit(found.move, source, destination) for source, destination in pairs]
        try:
            for move_ in under_way:
                move_.result()
        finally:
            threads.shutdown(cancel_futures=True)


def remove(location: str | Place) -> None:
    """Delete a file, or a folder with all in it; nothing when it is not there. Raises LakeError."""
    store.get().remove(parse_location(location))


def result_buckets() -> list[str]:
    """Buckets that hold results of statements."""
    return [bucket for bucket in store.get().buckets() if RESULT_BUCKETS.fullmatch(bucket)]


def lock_file(name: str) -> Path:
    """A file of this machine to lock: in the lake itself where that is a folder, which other machines may share."""
    found = store.get()
    folder = Path(found.root) if isinstance(found, FolderStore) else settings.load().home / "spark"
    folder.mkdir(parents=True, exist_ok=True)
    return folder / f".{name}.lock"


def metrics_days() -> list[date]:
    """The UTC days that have samples, oldest first."""
    return sorted(date.fromisoformat(name.removeprefix("day=")) for name in folders(METRICS) if name.startswith("day="))


def open_result(location: str | Place) -> IO[bytes]:
    """The result file, open for reading bytes. Raises LakeError when it is not there (any more)."""
    return open_file(location)


def read_result(location: str | Place) -> tuple[list[str], Iterator[list[str | None]]]:
    """Column names, and the rows of a result one after the other, None for null; nothing is cut, nothing is gathered.

    The file is open until the iterator is exhausted or closed. Raises LakeError when it is not there (any more), and
    the iterator when it is no CSV.
    """
    return records.read(open_result(location))


def preview_result(location: str | Place, rows: int, skip: int = 0) -> tuple[list[str], list[list[str | None]]]:
    """Column names and `rows` rows of a result after the first `skip`; None for null, and very long cells are cut.

    Rows that are skipped are read and thrown away. Raises as `read_result`.
    """
    return records.preview(open_result(location), rows, skip, PREVIEW_CELL_CHARACTERS)


def drop_drafts(before_ms: int, buckets: Iterable[str]) -> int:
    """Delete drafts of killed writers: those in which nothing changed since `before_ms` (UTC).

    In the given buckets and those of results; returns how many. Only our own names are touched: a file of a tenant that
    merely is hidden stays.
    """
    storage = store.get()
    dropped = 0
    for bucket in sorted({*buckets, *filter(RESULT_BUCKETS.fullmatch, storage.buckets())}):
        newest: dict[str, int] = {}
        for file in storage.files(Place(bucket, ""), hidden=True):
            if found := _DRAFT.fullmatch(file.location):
                newest[found[1]] = max(newest.get(found[1], 0), file.modified_ms)
        for location, changed_ms in newest.items():
            if changed_ms < before_ms:
                storage.remove(parse_location(location))
                dropped += 1
        dropped += storage.remove_unfinished(bucket, before_ms)
    return dropped
