"""The threads of clients."""

from __future__ import annotations

import threading

import pytest

from brokercore.client.threads import Workers


def test_work_is_done_by_no_more_threads_than_allowed() -> None:
    workers, gate, names = Workers(2, "w"), threading.Event(), set()
    entered, all_done = threading.Semaphore(0), threading.Semaphore(0)

    def work() -> None:
        names.add(threading.current_thread().name)
        entered.release()
        gate.wait(10)
        all_done.release()

    for _ in range(6):
        workers.submit(work)
    assert entered.acquire(timeout=10)
    assert entered.acquire(timeout=10)
    gate.set()
    assert all(all_done.acquire(timeout=10) for _ in range(6))
    assert len(names) == 2
    assert workers.stop(10)


def test_work_that_raises_is_logged_and_the_next_is_done(caplog: pytest.LogCaptureFixture) -> None:
    workers, done = Workers(1, "w"), threading.Event()

    def fail() -> None:
        raise ValueError("broken")

    workers.submit(fail)
    workers.submit(done.set)
    assert done.wait(10)
    assert workers.stop(10)
    assert "broken" in caplog.text


@pytest.mark.parametrize("finish", [True, False])
def test_stopping_finishes_what_waits_only_when_asked(finish: bool) -> None:
    workers, entered, gate, done = Workers(1, "w"), threading.Event(), threading.Event(), threading.Event()

    def hold() -> None:
        entered.set()
        gate.wait(10)

    workers.submit(hold)
    workers.submit(done.set)
    assert entered.wait(10)
    assert not workers.stop(0, finish=finish)
    gate.set()
    assert workers.stop(10, finish=finish)
    assert done.is_set() == finish
    assert not workers.submit(done.set)
