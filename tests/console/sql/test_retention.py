"""A result that the sweep deleted is told as expired, not as an error."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from pytest_django import Settings

from analytics.errors import LakeError, LakeUnavailable
from console.sql import lifecycle, services
from console.sql.lifecycle import Outcome
from console.sql.models import QueryTask, TaskStatus
from console.sql.results import expired_since, why_gone
from console.sql.views import panes
from console.statements import read
from tests.support.sql_cast import Cast

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def task(cast: Cast, handed_over: list[str], kicked: list[int], settings: Settings) -> QueryTask:
    settings.RESULTS_DAYS = 30
    task = services.submit(cast.alice, read("select 1"), "demo")
    held = lifecycle.claim(task.pk, "w1")
    assert held is not None
    lifecycle.end(held, Outcome(TaskStatus.SUCCESS, result_file="oss://nowhere/result.csv"))
    held.refresh_from_db()
    return held


def aged(task: QueryTask, days: int) -> QueryTask:
    task.create_time = datetime.now(UTC) - timedelta(days=days)
    return task


def test_it_expires_the_day_after_the_last_it_is_kept(task: QueryTask) -> None:
    assert expired_since(aged(task, 30)) is None
    assert expired_since(aged(task, 31)) == datetime.now(UTC).date()
    assert expired_since(aged(task, 40)) == datetime.now(UTC).date() - timedelta(days=9)


def test_it_never_expires_when_results_are_kept_for_ever(task: QueryTask, settings: Settings) -> None:
    settings.RESULTS_DAYS = 0
    assert expired_since(aged(task, 4000)) is None


def test_its_page_says_since_when(task: QueryTask) -> None:
    shown = panes._rows(aged(task, 31), 1)
    today = datetime.now(UTC).date()
    assert shown["result_gone"].startswith(f"The result has expired since {today}: results are kept for 30 days.")
    assert "expired" not in panes._rows(aged(task, 1), 1)["result_gone"]


def test_an_outage_is_no_expiry(task: QueryTask) -> None:
    assert why_gone(aged(task, 99), LakeUnavailable("The lake does not answer.")) == "The lake does not answer."
    assert "expired" in why_gone(aged(task, 99), LakeError("No such file."))
