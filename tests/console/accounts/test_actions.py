"""One list of actions: the code asks about nothing else, and the docs name each."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from brokercore.smq.wire.requests import Operation
from console.accounts.policy_documents import ACTIONS, matched, suggestions

ROOT = Path(__file__).resolve().parents[3]
_ACTION = r"(?:mq|mns|dla|cms|dts|ram|sts|actiontrail):[A-Z]\w+"
#: What stands in the audit trail for a refused attempt to hand on rights, and the type of an event: no policy is asked.
_NO_ACTION = {"ram:Delegate", "dts:Change"}


def test_the_docs_name_every_action_and_no_other() -> None:
    text = (ROOT / "docs" / "use" / "permissions.md").read_text()
    assert set(re.findall(f"`({_ACTION})`", text)) - _NO_ACTION == set(ACTIONS)


def test_the_code_asks_about_no_other_action() -> None:
    found: dict[str, str] = {}
    for package in ("console", "brokercore"):
        for path in (ROOT / package).rglob("*.py"):
            found |= dict.fromkeys(re.findall(f'"({_ACTION})"', path.read_text()), str(path.relative_to(ROOT)))
    assert {action: path for action, path in found.items() if action not in {*ACTIONS, *_NO_ACTION}} == {}


def test_every_operation_of_the_queue_service_is_an_action() -> None:
    assert {operation.right for operation in Operation} == {name for name in ACTIONS if name.startswith("mns:")}


@pytest.mark.parametrize(
    ("pattern", "near"),
    [("mq:Pubb", "mq:PUB"), ("mq:QueryTopics", "mq:QueryTopic"), ("ons:CreateTopic", "mq:CreateTopic")],
)
def test_an_unknown_action_gets_a_suggestion(pattern: str, near: str) -> None:
    assert matched(pattern) == ()
    assert near in suggestions(pattern)


def test_patterns_stand_for_the_actions_that_they_match() -> None:
    assert matched("MQ:query*") == tuple(a for a in ACTIONS if a.startswith("mq:Query"))
    assert matched("*") == ACTIONS
