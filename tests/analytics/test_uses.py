"""An outdated engine is ended while nobody is in it, once, and who comes meanwhile waits."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable

import pytest

from analytics import session, uses
from analytics.errors import EngineOutdated

PATIENCE_SECONDS = 60.0


class Engine:
    """In place of the JVM: which one runs, and what it may reach."""

    def __init__(self) -> None:
        self.number = 1
        self.is_outdated = True
        self.ends = 0
        self.may_end = threading.Event()
        self.may_end.set()
        self.is_ending = threading.Event()

    def end(self) -> None:
        self.is_ending.set()
        assert self.may_end.wait(PATIENCE_SECONDS)
        self.ends += 1
        self.number += 1
        self.is_outdated = False

    def outdated(self, addresses: Iterable[str]) -> EngineOutdated | None:
        return EngineOutdated("Later.", addresses=addresses) if self.is_outdated else None


@pytest.fixture
def engine(monkeypatch: pytest.MonkeyPatch) -> Engine:
    made = Engine()
    monkeypatch.setattr(session, "running", lambda: made.number)
    monkeypatch.setattr(session, "outdated", made.outdated)
    return made


def in_thread(work: Callable[[], object]) -> threading.Thread:
    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    return thread


def test_one_that_reaches_everything_is_left(engine: Engine) -> None:
    engine.is_outdated = False
    uses.renew(["a:1"], engine.end)
    assert engine.ends == 0


def test_one_with_nobody_in_it_is_ended(engine: Engine) -> None:
    with uses.one():
        pass
    uses.renew(["a:1"], engine.end)
    assert engine.ends == 1


def test_one_with_somebody_in_it_is_left(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(uses, "PATIENCE_S", 0.05)
    with uses.one(), pytest.raises(EngineOutdated) as caught:
        uses.renew(["a:1"], engine.end)
    assert (caught.value.addresses, engine.ends) == (("a:1",), 0)


def test_who_is_about_to_leave_is_waited_for(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(uses, "PATIENCE_S", PATIENCE_SECONDS)
    there, leave = threading.Event(), threading.Event()

    def stay() -> None:
        with uses.one():
            there.set()
            leave.wait(PATIENCE_SECONDS)

    user = in_thread(stay)
    assert there.wait(PATIENCE_SECONDS)
    renewer = in_thread(lambda: uses.renew(["a:1"], engine.end))
    renewer.join(0.2)
    assert engine.ends == 0
    leave.set()
    renewer.join(PATIENCE_SECONDS)
    user.join(PATIENCE_SECONDS)
    assert engine.ends == 1


def test_of_two_that_need_another_one_ends_it_and_both_go_on(engine: Engine) -> None:
    engine.may_end.clear()
    renewers = [in_thread(lambda: uses.renew(["a:1"], engine.end)) for _ in range(2)]
    assert engine.is_ending.wait(PATIENCE_SECONDS)
    engine.may_end.set()
    for renewer in renewers:
        renewer.join(PATIENCE_SECONDS)
    assert engine.ends == 1


def test_who_comes_while_it_ends_waits_for_the_next(engine: Engine) -> None:
    engine.may_end.clear()
    found: list[int] = []

    def come() -> None:
        with uses.one():
            found.append(engine.number)

    renewer = in_thread(lambda: uses.renew(["a:1"], engine.end))
    assert engine.is_ending.wait(PATIENCE_SECONDS)
    user = in_thread(come)
    user.join(0.2)
    assert found == []
    engine.may_end.set()
    user.join(PATIENCE_SECONDS)
    renewer.join(PATIENCE_SECONDS)
    assert found == [2]


def test_an_end_that_fails_keeps_nobody_out(engine: Engine) -> None:
    def fail() -> None:
        raise OSError("no")

    with pytest.raises(OSError, match="no"):
        uses.renew(["a:1"], fail)
    with uses.one():
        pass
