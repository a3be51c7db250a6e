"""What a run calls a fault."""

from __future__ import annotations

from collections import Counter

from tests.chaos.figures import Report
from tests.chaos.harms import KILL, Harm


def good() -> Report:
    report = Report(seed=1, sent=3, acknowledged=2, tasks=1, pages=Counter(answered=5, refused=2), queue_acknowledged=1)
    report.harmed(Harm(KILL, ("broker", "web")), {"broker": 1.5, "web": 3.0})
    return report


def test_a_run_as_promised_has_no_fault_and_shows_the_recovery() -> None:
    assert good().verdict() == []
    assert "| broker | 1 | 1.5 | 1.5 | 1.5 |" in str(good())


def test_each_loss_is_a_fault_with_its_names() -> None:
    for name, told in (
        ("lost", "1 acknowledged messages are lost: one"),
        ("queue_lost", "1 acknowledged messages of the queue service are lost: one"),
        ("stuck", "1 tasks are stuck: one"),
        ("missing", "1 notices are missing: one"),
    ):
        report = good()
        getattr(report, name).add("one")
        assert report.verdict() == [told]
    report = good()
    report.pages["broken"] += 1
    assert len(report.verdict()) == 1
    report = good()
    report.faults.append("broker did not come back")
    assert report.verdict() == ["broker did not come back"]


def test_a_run_in_which_nothing_ran_is_a_fault() -> None:
    assert "the load did not run" in Report(seed=1).verdict()[0]
