"""The lake: the only module that knows which file stands behind an `oss://` location, and where things are kept.

oss://<bucket>/<key>                                    → $GANTRY_LAKE/<bucket>/<key>
oss://aliyun-oa-query-results-<uid>-oss-<region>/…      results of async SQL
oss://gantry-metrics/tps/day=<yyyy-mm-dd>/…             samples and rollups
"""

import os
import re
import shutil
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import IO

from analytics import settings
from analytics.errors import LakeError
from analytics.lake import records

#: OSS bucket names: 3 to 63 of lower-case letters, digits and hyphens, no hyphen at the ends.
_BUCKET = re.compile(r"[a-z0-9][a-z0-9-]{1,61}[a-z0-9]")
_METRICS = "oss://gantry-metrics/tps"
#: A cell of a preview longer than this is cut: a page shows it, nobody computes with it.
PREVIEW_CELL_CHARACTERS = 10_000


def lake_path(location: str) -> str:
    """The file or folder behind an `oss://bucket/key`. Raises LakeError when it is malformed or leads elsewhere."""
    scheme, separator, rest = location.partition("://")
    if scheme != "oss" or not separator:
        raise LakeError(f"{location!r} is no location of the lake: it must have the form oss://bucket/key")
    bucket, _, key = rest.partition("/")
    if not _BUCKET.fullmatch(bucket):
        raise LakeError(f"{bucket!r} is no bucket name: 3 to 63 lower-case letters, digits and hyphens")
    parts = [part for part in key.split("/") if part]
    if any(part in {".", ".."} or "\\" in part or not part.isprintable() for part in parts):
        raise LakeError(
            f"{location!r} is no location of the lake: no part of it may be . or .., or hold \\ or control characters"
        )
    lake = os.path.realpath(settings.load().lake)
    path = os.path.realpath(os.path.join(lake, bucket, *parts))
    if not (path + os.sep).startswith(os.path.join(lake, bucket, "")):
        raise LakeError(f"{location!r} leads out of the lake")
    return path


@dataclass(frozen=True, slots=True)
class LakeFile:
    """A file of the lake."""

    location: str
    size: int
    #: Time of the last change, UTC ms.
    modified_ms: int


def spark_url(location: str) -> str:
    """The address that Spark and Hadoop are given for a location. Raises LakeError as `lake_path`."""
    return lake_path(location)


def files(location: str) -> list[LakeFile]:
    """All files in and below a folder, by name; hidden ones (`.…`, `_…`) are left out. Raises LakeError."""
    top = lake_path(location)
    base = location.rstrip("/")
    found = []
    for folder, folders, names in os.walk(top):
        folders[:] = [name for name in folders if not name.startswith(("_", "."))]
        for name in names:
            if not name.startswith(("_", ".")):
                path = os.path.join(folder, name)
                status = os.stat(path)
                key = os.path.relpath(path, top).replace(os.sep, "/")
                found.append(LakeFile(f"{base}/{key}", status.st_size, status.st_mtime_ns // 1_000_000))
    return sorted(found, key=lambda file: file.location)


def fingerprint(location: str) -> int | None:
    """A number that changes when files of a folder come, go or change; None when there are none."""
    found = files(location)
    return hash(tuple(found)) if found else None


def write_file(location: str, content: IO[bytes]) -> int:
    """Write a file, whole or not at all; returns its size in bytes. Raises LakeError."""
    path = Path(lake_path(location))
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_name(f".{path.name}.{uuid.uuid4().hex}")
    try:
        with draft.open("wb") as file:
            shutil.copyfileobj(content, file, 1024**2)
            size = file.tell()
        draft.replace(path)
    finally:
        draft.unlink(missing_ok=True)
    return size


def move(source: str, destination: str) -> None:
    """Give a file another location; a file that is there is replaced. Raises LakeError."""
    target = Path(lake_path(destination))
    target.parent.mkdir(parents=True, exist_ok=True)
    try:
        Path(lake_path(source)).replace(target)
    except FileNotFoundError as error:
        raise LakeError(f"there is no file {source}") from error


def remove(location: str) -> None:
    """Delete a file, or a folder with all in it; nothing when it is not there. Raises LakeError when malformed."""
    path = Path(lake_path(location))
    if path.is_dir():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)


def result_location(tenant_uid: str, region: str, task_id: str, day: date) -> str:
    """Where the result of a task goes (Data Lake Analytics, "Asynchronous execution": one folder a task)."""
    return f"oss://aliyun-oa-query-results-{tenant_uid}-oss-{region}/DLA_Result/{day:%Y/%m/%d}/{task_id}/result.csv"


def table_location(bucket: str, schema: str, table: str) -> str:
    """The folder of a table that we write ourselves."""
    return f"oss://{bucket}/{schema}/{table}/"


def root() -> Path:
    """The folder that holds all buckets."""
    return Path(os.path.realpath(settings.load().lake))


def metrics_folder(day: date) -> Path:
    """Samples and rollups of one UTC day."""
    return Path(lake_path(f"{_METRICS}/day={day:%Y-%m-%d}"))


def metrics_days() -> list[date]:
    """The UTC days that have samples, oldest first."""
    folder = Path(lake_path(_METRICS))
    names = [entry.name for entry in folder.iterdir()] if folder.is_dir() else []
    return sorted(date.fromisoformat(name.removeprefix("day=")) for name in names if name.startswith("day="))


def open_result(location: str) -> IO[bytes]:
    """The result file, open for reading bytes. Raises LakeError when it is not there (any more)."""
    try:
        return open(lake_path(location), "rb")
    except (FileNotFoundError, IsADirectoryError, NotADirectoryError) as error:
        raise LakeError(f"there is no file {location}") from error


def read_result(location: str) -> tuple[list[str], Iterator[list[str | None]]]:
    """Column names, and the rows of a result one after the other, None for null; nothing is cut, nothing is gathered.

    The file is open until the iterator is exhausted or closed. Raises LakeError when it is not there (any more), and
    the iterator when it is no CSV.
    """
    return records.read(open_result(location))


def preview_result(location: str, rows: int, skip: int = 0) -> tuple[list[str], list[list[str | None]]]:
    """Column names and `rows` rows of a result after the first `skip`; None for null, and very long cells are cut.

    Rows that are skipped are read and thrown away. Raises as `read_result`.
    """
    return records.preview(open_result(location), rows, skip, PREVIEW_CELL_CHARACTERS)
