"""What is done to a running copy, and how long it takes until all that was harmed is well again."""

from __future__ import annotations

import contextlib
import os
import random
import shutil
import signal
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count
from pathlib import Path

from tests.chaos.targets import GUARD, JOBS_JVM, JVM, LAUNCHER, Process, Targets
from tests.support.disk import resize
from tests.support.product import SLOWNESS, eventually

#: Seconds until what was harmed must be well again; the launcher alone pauses up to 30 s before it starts one anew.
PATIENCE = 400.0

#: Seconds between two looks, which is how exact the seconds of recovery are.
LOOK = 0.05

KILL, STOP, DISK = "kill", "stop", "disk"

#: Bytes left on the disk that is made full: a moment's load.
LEFT = 64 << 10


class NotBackError(Exception):
    """What was harmed is not well again, or was not there to be harmed."""


@dataclass(frozen=True)
class Harm:
    """One deed. `seconds` is how long processes are stopped or the disk is full."""

    kind: str
    names: tuple[str, ...] = ()
    seconds: float = 0.0

    def __str__(self) -> str:
        if self.kind == DISK:
            return f"disk full for {self.seconds:.0f} s"
        names = " and ".join(self.names)
        return f"kill -9 of {names}" if self.kind == KILL else f"{names} stopped for {self.seconds:.0f} s"


def short() -> Iterator[Harm]:
    """Each kind of harm once: some two minutes."""
    yield Harm(KILL, ("broker",))
    yield Harm(KILL, (JVM, "web"))
    yield Harm(KILL, ("redis", "beat"))
    yield Harm(KILL, ("smq",))
    yield Harm(DISK, seconds=6)
    yield Harm(KILL, ("worker", "sql"))
    yield Harm(KILL, ("tracking", JOBS_JVM))
    yield Harm(STOP, ("redis",), 4)
    yield Harm(KILL, (LAUNCHER,))


def endless(names: list[str], chance: random.Random) -> Iterator[Harm]:
    """Round after round: every process, pairs of them, the launcher, some of them stopped, and the disk, in any order.

    The launcher is killed alone in one round and together with its guard in the next.
    """
    for turn in count():
        deeds = [Harm(KILL, (name,)) for name in names]
        deeds += [Harm(KILL, tuple(chance.sample(names, 2))) for _ in range(4)]
        deeds += [Harm(STOP, (name,), chance.uniform(2, 12)) for name in chance.sample(names, 3)]
        deeds += [
            Harm(STOP, ("redis", "broker"), chance.uniform(2, 20)),
            Harm(KILL, (GUARD,)),
            Harm(KILL, (LAUNCHER,) if turn % 2 == 0 else (GUARD, LAUNCHER)),
            Harm(DISK, seconds=chance.uniform(5, 15)),
        ]
        chance.shuffle(deeds)
        yield from deeds


def do(harm: Harm, targets: Targets, disk: Path | None) -> dict[str, float]:
    """Do it and wait until all is well; the seconds of recovery by name of what was killed.

    Raises NotBackError.
    """
    if harm.kind == DISK:
        assert disk is not None
        _fill(disk, harm.seconds)
    elif harm.kind == STOP:
        _stop(harm, targets)
    else:
        return _kill(harm, targets)
    _until_all_well(targets, harm)
    return {}


def _kill(harm: Harm, targets: Targets) -> dict[str, float]:
    before = {name: found(targets, name) for name in harm.names}
    began = time.monotonic()
    for process in before.values():
        with contextlib.suppress(ProcessLookupError):  # one of a pair may have taken the other with it
            os.kill(process.pid, signal.SIGKILL)
    if LAUNCHER in harm.names:
        product = targets.product
        assert product.process is not None
        product.process.wait()
        try:
            product.start(seconds=PATIENCE)
        except AssertionError as error:
            raise NotBackError(str(error)) from error
        _until_all_well(targets, harm)
        return {" and ".join(harm.names): time.monotonic() - began}
    waiting, took = dict(before), dict[str, float]()
    deadline = began + PATIENCE * SLOWNESS
    while waiting:
        for name, killed in list(waiting.items()):
            now = targets.find(name)
            if now is not None and now != killed and targets.well(name):
                took[name] = time.monotonic() - began
                del waiting[name]
        if waiting and time.monotonic() > deadline:
            raise NotBackError(f"{', '.join(waiting)} did not come back within {PATIENCE:.0f} s after: {harm}")
        _pause(LOOK)
    _until_all_well(targets, harm)
    return took


def _stop(harm: Harm, targets: Targets) -> None:
    stopped = [found(targets, name) for name in harm.names]
    try:
        for process in stopped:
            os.kill(process.pid, signal.SIGSTOP)
        _pause(harm.seconds)
    finally:
        for process in stopped:
            with contextlib.suppress(ProcessLookupError):  # it was ended and started anew meanwhile
                os.kill(process.pid, signal.SIGCONT)


def _fill(disk: Path, seconds: float) -> None:
    """The disk shrinks to what lies on it, which takes neither time nor memory, and gets its size back."""
    size = shutil.disk_usage(disk).total
    try:
        eventually(lambda: resize(disk, shutil.disk_usage(disk).used + LEFT), what="a full disk")
        _pause(seconds)
    finally:
        resize(disk, size)


def found(targets: Targets, name: str) -> Process:
    """The process to harm. A service that another harm took with it may be between two starts."""
    deadline = time.monotonic() + PATIENCE * SLOWNESS
    while (process := targets.find(name)) is None:
        if time.monotonic() > deadline:
            raise NotBackError(f"there is no process {name}")
        _pause(LOOK)
    return process


def _until_all_well(targets: Targets, harm: Harm) -> None:
    deadline = time.monotonic() + PATIENCE * SLOWNESS
    while not targets.well(LAUNCHER):
        if time.monotonic() > deadline:
            ill = [name for name in (GUARD, *targets.names) if not (targets.find(name) and targets.well(name))]
            raise NotBackError(f"{', '.join(ill)} not well within {PATIENCE:.0f} s after: {harm}")
        _pause(LOOK)


def _pause(seconds: float) -> None:
    """Let time pass, which here is the harm itself or the distance of two looks."""
    threading.Event().wait(seconds)
