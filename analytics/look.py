"""The columns of a file that a tenant has brought, told by a process that has nothing else (`look_process`).

What reads Parquet, ORC, JSON, CSV and their packings is native code, and a file can be made to cost it any time and
memory, or its life. Here the file is only handed over, in pieces and up to a bound; the process that gets them has
little memory and time, no setting, no secret and no file, and where there is one stands behind the engine's wall.
"""

import json
import os
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
from analytics.places import Places
from analytics.specs import Column

__all__ = ["PACKED", "columns_of"]

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

_places = Places(MOST)


class _Ended(Exception):  # noqa: N818
    """The process ended, or was ended, before it had told anything."""


def columns_of(file: LakeFile, file_format: str, options: Mapping[str, str], holder: str) -> list[Column]:
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
        f"it is damaged, or to look at it takes more than {LONGEST_CPU_S} s or {MOST_MEMORY >> 30} GiB of memory"
    )
    raise LakeError(f"The file {name} cannot be read as {file_format}: {reason}.")


@contextmanager
def _place(holder: str, deadline: float) -> Iterator[None]:
    if not _places.take(holder, deadline):
        raise LakeError("Too many files are being looked at at the moment; try again.")
    try:
        yield
    finally:
        _places.give_back(holder)


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
        raise LakeUnavailable(f"Files cannot be looked at: {error}") from error
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
