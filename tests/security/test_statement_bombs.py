"""Statements that hold the cores: for another account's, and after they were cancelled."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from analytics import session as spark_session
from analytics.engine import cancel as cancel_statement
from analytics.engine import culprit, is_lost, progress, run_query, stop
from analytics.errors import EngineLost, QueryCancelled
from analytics.specs import QueryResult, QuerySpec
from analytics.sql.backend import Backend
from tests.analytics.conftest import specification
from tests.analytics.sql.test_engine import in_background

pytestmark = pytest.mark.spark

#: A pattern that is matched for years, by tasks that never look whether they were told to end.
BACKTRACKING = "select count(*) from range(0, 8, 1, 8) where rlike(repeat('a', 20000 + int(id)), '.*.*.*.*.*.*x')"
#: Runs for an hour in a few long tasks.
CROSS_JOIN = "select max(a.id * b.id % 7) from range(0, 1000000000, 1, 8) a cross join range(0, 10000, 1, 1) b"
Bomb = tuple[QuerySpec, threading.Thread, list[BaseException | QueryResult]]
SMALL = "select count(*), max(id) from range(0, 1000, 1, 2)"


@pytest.fixture(scope="module")
def engine() -> Iterator[None]:
    """An engine of this process that has answered once; the attack may cost it."""
    run_query(specification(SMALL, {}, tenant="bob"))
    yield
    stop()


def attack(sql: str, times: int) -> list[Bomb]:
    """Mallory's statements, one of which has tasks that run."""
    started: list[Bomb] = []
    for _ in range(times):
        spec = specification(sql, {}, tenant="mallory")
        thread, outcome = in_background(spec)
        started.append((spec, thread, outcome))
    assert eventually(lambda: any(progress(spec.task_id) for spec, _, _ in started)), "no job was started"
    return started


def another_account_is_served(bombs: list[Bomb]) -> None:
    for _ in range(3):
        assert run_query(specification(SMALL, {}, tenant="bob", time_limit_s=90.0)).row_count == 1
    assert not any(outcome for _, _, outcome in bombs), "they still hold the cores"


def cancel(bombs: list[Bomb]) -> None:
    for spec, _, _ in bombs:
        assert cancel_statement(spec.task_id)
    for _, thread, outcome in bombs:
        thread.join(60)
        assert isinstance(outcome[0], QueryCancelled)


def test_a_cross_join_takes_no_other_account_the_cores_and_its_tasks_end_when_it_is_cancelled(engine: None) -> None:
    bombs = attack(CROSS_JOIN, 4)
    another_account_is_served(bombs)
    cancel(bombs)
    spark = Backend()
    assert eventually(lambda: not any(spark.holds_cores(f"gantry-{spec.task_id}") for spec, _, _ in bombs))
    assert not is_lost()
    another_account_is_served([])


def test_the_accounts_own_client_that_waits_is_served_beside_its_long_statements(engine: None) -> None:
    bombs = attack(CROSS_JOIN, 3)
    waited_for = specification(SMALL, {}, tenant="mallory", synchronous=True, time_limit_s=90.0)
    assert run_query(waited_for).row_count == 1
    assert not any(outcome for _, _, outcome in bombs)
    cancel(bombs)


def test_tasks_that_do_not_end_when_their_statement_was_cancelled_cost_the_engine_and_nobody_else_is_to_blame(
    engine: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(spark_session, "TASK_PATIENCE_S", 5.0)
    bombs = attack(BACKTRACKING, 4)
    another_account_is_served(bombs)
    # A task that was told to end before it began to match ends like any other.
    assert eventually(is_matching), "no task has come to its pattern"
    cancel(bombs)
    assert eventually(is_lost), f"nothing less ends them; matching: {is_matching()}"
    assert culprit() in {spec.task_id for spec, _, _ in bombs}
    with pytest.raises(EngineLost) as lost:
        run_query(specification(SMALL, {}, tenant="bob"))
    assert lost.value.culprit == culprit()


def is_matching() -> bool:
    """Whether a thread of Spark's tasks is in the midst of a pattern."""
    jvm: Any = spark_session.get()._jvm
    threads = jvm.java.lang.management.ManagementFactory.getThreadMXBean().dumpAllThreads(False, False)
    return any(
        thread.getStackTrace()[0].getClassName().startswith("java.util.regex.")
        for thread in threads
        if thread is not None and "task launch worker" in thread.getThreadName() and len(thread.getStackTrace())
    )


def eventually(condition: Callable[[], object]) -> bool:
    pause = threading.Event()
    return any(condition() or pause.wait(0.2) for _ in range(900))
