"""What the files of a folder look like: their format, columns and partitions.

One file is looked at, and by a process that has nothing else (`look_process`): what reads Parquet, ORC, JSON, CSV and
their packings is native code, and a file can be made to cost it any time and memory, or its life. Here the file is only
handed over, in pieces and up to a bound; the process that gets them has little memory and time, no setting, no secret
and no file, and where there is one stands behind the engine's wall.
"""

import json
import os
import re
import select
import struct
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, cast

from analytics import confined, lake, wall
from analytics.errors import LakeError, LakeUnavailable
from analytics.lake import LakeFile
from analytics.look_process import ASK, LONGEST_CPU_S, MOST_MEMORY, PACKED, TELL
from analytics.specs import Column, Inferred

_ENDINGS = {"parquet": "parquet", "orc": "orc", "json": "json", "jsonl": "json", "ndjson": "json", "csv": "csv"}
_TEXT_ENDINGS = {"tsv": "\t", "txt": ","}
_INTEGER = re.compile(r"-?\d{1,18}")
_DAY = re.compile(r"\d{4}-\d\d-\d\d")
#: Processes at a time; one account has all but one of them.
MOST = 3
#: Bytes of a file that are handed over at most: the end of a Parquet file tells what is in it.
MOST_BYTES = 64 * 1024**2
#: How long a look may take, and how long a free place is waited for, s. The limit of processor time comes first, unless
#: the machine is very busy.
_LONGEST_S = 30.0
#: Most bytes of an outcome.
_LONGEST_OUTCOME = 16 * 1024**2
_PROGRAM = Path(__file__).with_name("look_process.py")
#: Arrow's memory from the system, so that the limit of address space is one of memory.
_ENVIRONMENT = {"LANG": "C.UTF-8", "ARROW_DEFAULT_MEMORY_POOL": "system", "MALLOC_ARENA_MAX": "2"} | dict.fromkeys(
    ("OMP_NUM_THREADS", "ARROW_IO_THREADS"), "1"
)

_places = confined.Places(MOST)


def infer_table(location: str, file_format: str | None, options: Mapping[str, str], holder: str = "") -> Inferred:
    """Look at the first file of a folder; without `file_format` its ending tells. Raises LakeError with the reason.

    `holder` is the account that asks: it does not take all the processes that look.
    """
    files = [file for file in lake.files(location) if file.size > 0]
    if not files:
        raise LakeError(f"There are no files in {location} to take the columns from.")
    first = files[0]
    name = first.location.rsplit("/", 1)[-1]
    found, delimiter = _format_of(name)
    file_format = file_format or found
    if file_format is None:
        raise LakeError(
            f"The ending of {name} does not name a format; known are {', '.join([*_ENDINGS, *_TEXT_ENDINGS])}."
        )
    chosen = dict(options)
    if file_format == "csv" and delimiter and "delimiter" not in chosen:
        chosen["delimiter"] = delimiter
    columns = _columns_of(first, file_format, chosen, holder)
    if file_format in ("csv", "json"):  # text without a zone is read in the session's, which is UTC
        columns = [Column(c.name, c.type.replace("timestamp_ntz", "timestamp")) for c in columns]
    partitions = _partitions(location, [file.location for file in files])
    names = {partition.name.lower() for partition in partitions}
    own = [column for column in columns if column.name.lower() not in names]
    return Inferred(
        file_format,
        (*own, *partitions),
        tuple(partition.name for partition in partitions),
        tuple(sorted(chosen.items())),
    )


def _format_of(name: str) -> tuple[str | None, str]:
    """Format and, for text, its delimiter, by the ending of a name."""
    plain = name.lower()
    for packed in PACKED:
        plain = plain.removesuffix(packed)
    ending = plain.rpartition(".")[2]
    if ending in _TEXT_ENDINGS:
        return "csv", _TEXT_ENDINGS[ending]
    return _ENDINGS.get(ending), ""


def _partitions(location: str, files: list[str]) -> list[Column]:
    """Columns that all files have in the names of their folders: `day=2026-01-15/`."""
    base = len(location.rstrip("/")) + 1
    named: list[tuple[str, ...]] = []
    seen: dict[str, list[str]] = {}
    for file in files:
        pairs = [part.partition("=") for part in file[base:].split("/")[:-1]]
        if not pairs or any(not separator for _, separator, _ in pairs):
            return []
        named.append(tuple(key for key, _, _ in pairs))
        for key, _, value in pairs:
            seen.setdefault(key, []).append(value)
    if len(set(named)) != 1:
        raise LakeError(f"The folders below {location} do not all name the same columns.")
    return [Column(key, _type_of_values(seen[key])) for key in named[0]]


def _type_of_values(values: list[str]) -> str:
    given = [value for value in values if value != "__HIVE_DEFAULT_PARTITION__"]
    if given and all(_INTEGER.fullmatch(value) for value in given):
        leading = any(len(v.lstrip("-")) > 1 and v.lstrip("-").startswith("0") for v in given)
        return "string" if leading else ("int" if all(len(v) <= 9 for v in given) else "bigint")
    if given and all(_DAY.fullmatch(value) for value in given):
        return "date"
    return "string"


class _Ended(Exception):  # noqa: N818
    """The process ended, or was ended, before it had told anything."""


def _columns_of(file: LakeFile, file_format: str, options: Mapping[str, str], holder: str) -> list[Column]:
    """The columns of a file, in Spark's types, for an account that asks. Raises LakeError with the reason why not."""
    name = file.location.rpartition("/")[2]
    deadline = time.monotonic() + _LONGEST_S
    with _place(holder, deadline), lake.open_file(file.location) as opened:
        wanted = {"format": file_format, "name": name, "options": dict(options), "size": file.size}
        try:
            outcome = _asked(opened, json.dumps(wanted).encode(), deadline)
        except _Ended:
            outcome = {"too_much": True}
    if "columns" in outcome:
        return [Column(str(column), str(kind)) for column, kind in outcome["columns"]]
    if "unreadable" in outcome:
        raise LakeError(str(outcome["unreadable"]))
    reason = outcome.get("damaged") or (
        f"it is damaged, or reading it takes more than {LONGEST_CPU_S} s or {MOST_MEMORY >> 30} GiB of memory"
    )
    raise LakeError(f"The file {name} cannot be read as {file_format}: {reason}.")


@contextmanager
def _place(holder: str, deadline: float) -> Iterator[None]:
    if not _places.acquire(holder, deadline):
        raise LakeError("Too many files are being read at the moment; try again.")
    try:
        yield
    finally:
        _places.release(holder)


def _asked(file: IO[bytes], wanted: bytes, deadline: float) -> dict[str, Any]:
    process = _started()
    try:
        return _conversation(process, file, wanted, deadline)
    except (BrokenPipeError, ValueError) as error:
        raise _Ended from error
    finally:
        process.kill()
        process.wait()
        for pipe in (process.stdin, process.stdout):
            try:
                cast("IO[bytes]", pipe).close()
            except OSError:  # what was not written has no reader any more
                continue


def _started() -> "subprocess.Popen[bytes]":
    program = [sys.executable, "-I", str(_PROGRAM)]
    try:
        if wall.is_wanted():
            program = wall.command(wall.Rules([sys.prefix, sys.base_prefix], [str(_PROGRAM)]), program)
    except wall.NoWall as error:
        raise LakeUnavailable(f"Files cannot be read: {error}") from error
    return confined.start(program, _ENVIRONMENT, bufsize=0)


def _conversation(
    process: "subprocess.Popen[bytes]", file: IO[bytes], wanted: bytes, deadline: float
) -> dict[str, Any]:
    source, sink = cast("IO[bytes]", process.stdout), cast("IO[bytes]", process.stdin)
    _write(sink, struct.pack(">I", len(wanted)) + wanted, deadline)
    left = MOST_BYTES
    while True:
        match _read(source, 1, deadline):
            case frame if frame == TELL:
                (length,) = struct.unpack(">I", _read(source, 4, deadline))
                if length > _LONGEST_OUTCOME:
                    raise _Ended
                return dict(json.loads(_read(source, length, deadline)))
            case frame if frame == ASK:
                offset, length = struct.unpack(">QI", _read(source, 12, deadline))
                length = min(length, left)
                file.seek(offset)
                piece = file.read(length)
                left -= len(piece)
                _write(sink, struct.pack(">I", len(piece)) + piece, deadline)
            case _:
                raise _Ended


def _read(source: IO[bytes], length: int, deadline: float) -> bytes:
    pieces = bytearray()
    while len(pieces) < length:
        _wait(source, select.POLLIN, deadline)
        piece = os.read(source.fileno(), length - len(pieces))
        if not piece:
            raise _Ended
        pieces += piece
    return bytes(pieces)


def _write(sink: IO[bytes], content: bytes, deadline: float) -> None:
    """In pieces that a pipe that is ready has room for: one that nobody reads must not hold this thread."""
    left = memoryview(content)
    while left:
        _wait(sink, select.POLLOUT, deadline)
        left = left[os.write(sink.fileno(), left[: select.PIPE_BUF]) :]


def _wait(pipe: IO[bytes], event: int, deadline: float) -> None:
    poll = select.poll()  # not select(), which knows no file beyond 1023
    poll.register(pipe, event)
    left_ms = (deadline - time.monotonic()) * 1000
    if left_ms <= 0 or not poll.poll(left_ms):
        raise _Ended
