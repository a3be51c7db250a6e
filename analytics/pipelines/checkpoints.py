"""The state of a pipeline in the lake, and who may write it.

    oss://<bucket>/<pipeline>/
      run-00000007/            held by the runner with the fencing number 7, and by nobody else
        fence                  the number
        state/
          insert-late/         Spark's checkpoint of the insert into the table late
            ended              where its rows end and are all written, instead of it: by which start of its owner's
          source-flights/      messages that were received and not deleted yet (spool)
          source-events/, sink-messages/    where an inflow task stands (reaches), what it counts (inflow_sink)
          ended                of a job that has come to its end: the same
          waiting-late-…       a request of the sink late that is tried again (waits)
      savepoint-<name>/        a copy of a state

A runner takes the folder over by renaming it to its own number. That is one step of the file system: from then on
whatever an older runner, which does not know that it was replaced, writes or renames has nowhere to go, or lands in a
folder that nobody reads. A later runner finds it and removes it.

The lake has to be a folder: object storage cannot rename one.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import time
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from pathlib import Path

from analytics import lake
from analytics.errors import LakeError, PipelineFenced, PipelineRefused
from analytics.pipelines import waits

_RUN = re.compile(r"run-(\d{8})")
_SAVEPOINT = "savepoint-"
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
_FENCE, _STATE, _NEXT, _FORMER = "fence", "state", "state.next", "state.former"
#: In the state of a job, or the folder of an insert, that has come to its end: in which start of its owner's.
_ENDED = "ended"
#: Where a pipeline's state begins: as it was left, with nothing, or a savepoint's name behind this.
CHECKPOINT, NOTHING, SAVEPOINT = "checkpoint", "nothing", "savepoint:"


@dataclass(frozen=True, slots=True)
class Held:
    """The state of a pipeline, held by one runner."""

    #: The pipeline's own folder, an `oss://` location.
    location: str
    number: int

    @property
    def run(self) -> Path:
        """The folder that bears the number."""
        return _folder(self.location) / f"run-{self.number:08}"

    @property
    def state(self) -> Path:
        """What Spark and the connectors write."""
        return self.run / _STATE

    @property
    def state_location(self) -> str:
        """The same as a location in the lake."""
        return f"{self.location.rstrip('/')}/run-{self.number:08}/{_STATE}/"

    def check(self) -> None:
        """Raise PipelineFenced when another runner has taken over."""
        if not (self.run / _FENCE).exists():
            raise PipelineFenced(
                f"The pipeline's state at {self.location} was taken over from the runner with the number {self.number}."
            )


def claim(location: str, number: int, origin: str = CHECKPOINT) -> Held:
    """Take the state over from whoever has it, and let it begin as `origin` says.

    Raises PipelineFenced when a runner with this or a higher number has it, PipelineRefused for an unknown savepoint
    and where the lake is no folder, and LakeError.
    """
    if not lake.is_folder():
        raise PipelineRefused(
            "The lake of this deployment is in object storage, where the state of a job cannot be kept: SQL jobs need"
            " a lake in a folder (GANTRY_LAKE)."
        )
    top = _folder(location)
    top.mkdir(parents=True, exist_ok=True)
    held = Held(location, number)
    saved = _saved(location, origin.removeprefix(SAVEPOINT)) if origin.startswith(SAVEPOINT) else None
    _take_over(top, held)
    _settle(held.run)
    if origin != CHECKPOINT:
        _replace(held.run, saved)
    held.state.mkdir(exist_ok=True)
    for lock in (*held.state.glob("source-*/lock"), *held.state.glob("print-*.lock")):
        lock.unlink()  # an older runner that lives on keeps its lock on a file that nobody finds
    waits.forget(held.state)
    for number_, folder in _runs(top):
        if number_ < number:  # what a runner without a state made up
            shutil.rmtree(folder, ignore_errors=True)
    return held


def _take_over(top: Path, held: Held) -> None:
    while True:
        runs = [found for found in _runs(top) if (found[1] / _FENCE).exists()]
        latest, folder = max(runs, default=(-1, None))
        if latest >= held.number:
            raise PipelineFenced(
                f"The pipeline's state at {held.location} is held by the runner with the number {latest};"
                f" {held.number} is too low.",
                latest,
            )
        try:
            if folder is None:
                _begin(top, held)
            else:
                folder.rename(held.run)
        except (FileNotFoundError, FileExistsError, OSError) as error:
            if not _was_faster(error):
                raise LakeError(f"The state at {held.location} cannot be taken over: {error}") from error
            continue
        (held.run / _FENCE).write_text(f"{held.number}\n", encoding="ascii")
        return


def _was_faster(error: OSError) -> bool:
    """Whether another runner has renamed the folder, or made one, since it was looked for."""
    return isinstance(error, FileNotFoundError | FileExistsError)


def _begin(top: Path, held: Held) -> None:
    draft = top / f".run-{held.number:08}-{os.getpid()}-{time.monotonic_ns()}"
    draft.mkdir()
    (draft / _FENCE).write_text(f"{held.number}\n", encoding="ascii")
    try:
        draft.rename(held.run)
    except OSError:
        shutil.rmtree(draft, ignore_errors=True)
        raise FileExistsError(held.run) from None


def _runs(top: Path) -> list[tuple[int, Path]]:
    with contextlib.suppress(FileNotFoundError):
        return [(int(found[1]), top / name) for name in os.listdir(top) if (found := _RUN.fullmatch(name))]
    return []


def _replace(run: Path, saved: Path | None) -> None:
    """Give the run another state; `_settle` finishes what is interrupted here."""
    shutil.rmtree(run / _NEXT, ignore_errors=True)
    if saved is None:
        (run / _NEXT).mkdir()
    else:
        shutil.copytree(saved, run / _NEXT)
    if (run / _STATE).exists():
        (run / _STATE).rename(run / _FORMER)
    _settle(run)


def _settle(run: Path) -> None:
    if not (run / _STATE).exists() and (run / _NEXT).exists():
        (run / _NEXT).rename(run / _STATE)
    for name in (_NEXT, _FORMER):
        shutil.rmtree(run / name, ignore_errors=True)


def save(held: Held, name: str) -> str:
    """Keep a copy of the state under a name, while nothing writes it; returns its location.

    Raises PipelineRefused for a name that is none or is taken, PipelineFenced, and LakeError.
    """
    if not _NAME.fullmatch(name):
        raise PipelineRefused(
            f"A savepoint cannot be named {name[:40]!r}: letters, digits, '.', '_' and '-' are allowed."
        )
    held.check()
    target = _folder(held.location) / f"{_SAVEPOINT}{name}"
    draft = target.with_name(f".{target.name}")
    if target.exists():
        raise PipelineRefused(f"There is a savepoint {name} already.")
    try:
        shutil.rmtree(draft, ignore_errors=True)
        shutil.copytree(held.state, draft)
        draft.rename(target)
    except OSError as error:
        raise LakeError(f"The savepoint {name} cannot be written: {error}") from error
    return f"{held.location.rstrip('/')}/{target.name}/"


def savepoints(location: str) -> Iterator[str]:
    """Names of what `save` has kept, in order."""
    with contextlib.suppress(FileNotFoundError):
        for name in sorted(os.listdir(_folder(location))):
            if name.startswith(_SAVEPOINT):
                yield name.removeprefix(_SAVEPOINT)


def drop_savepoint(location: str, name: str) -> None:
    """Remove one: all of it, or for a start none. Raises PipelineRefused when there is none of the name, LakeError."""
    target = _saved(location, name)
    draft = target.with_name(f".{target.name}")
    try:
        shutil.rmtree(draft, ignore_errors=True)
        # What is interrupted from here on is no savepoint any more: `drop_unknown` finds it.
        with contextlib.suppress(FileNotFoundError):  # another one removes it too
            target.rename(draft)
            shutil.rmtree(draft)
    except OSError as error:
        raise LakeError(f"The savepoint {name} cannot be removed: {error}") from error


def drop_unknown(location: str, known: Callable[[], Collection[str] | None]) -> list[str]:
    """Remove savepoints that nobody knows, and what a crash left of one; returns their folders' names.

    `known` gives the names that stay, or None while one may be being saved. It is asked after the look at the folders,
    since a savepoint has its folder before it is known. What cannot be removed stays.
    """
    with contextlib.suppress(FileNotFoundError):
        found = [name for name in sorted(os.listdir(_folder(location))) if name.lstrip(".").startswith(_SAVEPOINT)]
        names = known() if found else None
        if names is not None:
            unknown = [name for name in found if name.removeprefix(_SAVEPOINT) not in names]
            for name in unknown:
                shutil.rmtree(_folder(location) / name, ignore_errors=True)
            return unknown
    return []


def _saved(location: str, name: str) -> Path:
    found = _folder(location) / f"{_SAVEPOINT}{name}"
    if not _NAME.fullmatch(name) or not found.is_dir():
        known = ", ".join(savepoints(location)) or "none"
        raise PipelineRefused(f"There is no savepoint {name[:40]!r}; there is {known}.")
    return found


def _folder(location: str) -> Path:
    return Path(lake.lake_path(location))


def note_end(held: Held, begun: str, insert: str = "") -> None:
    """Write down that the job of a start, or its insert in that folder, has come to its end, before anybody is told.

    Raises PipelineFenced and LakeError.
    """
    folder = held.state / insert
    draft = folder / f"{_ENDED}.draft"
    try:
        folder.mkdir(exist_ok=True)
        with draft.open("w", encoding="utf-8") as opened:
            opened.write(begun)
            opened.flush()
            os.fsync(opened.fileno())
        draft.rename(folder / _ENDED)
    except OSError as error:
        held.check()
        raise LakeError(f"The end of the job cannot be written to {held.location}: {error}") from error
    held.check()  # Spark may have made the folder of a state that was taken over anew


def has_ended(held: Held, begun: str) -> bool:
    """Whether the job of this start of its owner's has come to its end already."""
    with contextlib.suppress(FileNotFoundError):
        return bool(begun) and (held.state / _ENDED).read_text(encoding="utf-8") == begun
    return False


def insert_has_ended(held: Held, insert: str) -> bool:
    """Whether all rows of the insert in that folder are written."""
    return (held.state / insert / _ENDED).exists()


def forget_ends(held: Held, begun: str, *, goes_on: bool) -> None:
    """At a start of a job: let what has come to its end begin anew, where it is to. Raises OSError.

    An insert of a job that goes on stays ended, as its streams stay where they are, until the whole job has ended; one
    of a batch job only in further attempts of the same start.
    """
    whole = held.state / _ENDED
    for note in held.state.glob(f"*/{_ENDED}"):
        is_of_start = bool(begun) and note.read_text(encoding="utf-8") == begun
        if whole.exists() or not (goes_on or is_of_start):
            note.unlink()
    whole.unlink(missing_ok=True)


def keep_only(held: Held, inserts: Collection[str]) -> None:
    """Remove the checkpoints of inserts that are none any more: one of that name begins anew. Raises OSError."""
    for folder in held.state.iterdir():
        if folder.name.partition("-")[0] in ("insert", "select") and folder.name not in inserts:
            shutil.rmtree(folder)


def committed(insert: Path) -> list[str]:
    """What Spark noted for each source of an insert at its last committed batch, as JSON; empty before the first.

    Spark keeps a batch's offsets (`offsets/<n>`: a version, the batch's own values, a line for each source) until long
    after its commit (`commits/<n>`).
    """
    batches = _numbers(insert / "commits")
    if not batches:
        return []
    lines = (insert / "offsets" / str(max(batches))).read_text(encoding="utf-8").splitlines()
    return lines[2:]


def _numbers(folder: Path) -> list[int]:
    with contextlib.suppress(FileNotFoundError):
        return [int(name) for name in os.listdir(folder) if name.isdecimal()]
    return []
