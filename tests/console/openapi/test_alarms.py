"""Alarms by the management API."""

from __future__ import annotations

import pytest

from console.alarms import rounds
from console.alarms.readings import Readings
from console.metrics.store import Change, Latest, Store
from tests.console.openapi.caller import Caller
from tests.support.cast import Cast, make_group

pytestmark = [pytest.mark.django_db, pytest.mark.process]
RECIPIENT = {"recipient": "on call", "kind": "slack", "address": "https://hooks.example.com/s3cret"}
RULE = {"rule": "behind", "condition": "group.backlog", "threshold": "100", "recipients": "on call"}


def test_a_rule_fires_and_is_acknowledged(alice: Caller, cast: Cast, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("console.metrics.store.STALE_MS", 600_000)
    assert alice.symbol("alarm/putRule", **RULE) == "BIZ_ALARM_NOT_FOUND"
    assert alice.symbol("alarm/putRecipient", **RECIPIENT) == "SUCCESS"
    made = alice.data("alarm/putRule", **RULE)
    assert (made["unit"], made["names"], made["recipients"]) == ("messages", "*", ["on call"])
    changed = alice.data("alarm/putRule", **RULE, severity="critical", quietFrom="22:00", quietUntil="06:30")
    assert (changed["severity"], changed["quietUntil"]) == ("critical", "06:30")
    assert len(alice.data("alarm/rules")) == 1
    alice.data("alarm/putRule", **RULE)
    group = make_group(cast.alice, cast.instance, "GID_pay")
    readings = Readings()
    change = Change(Latest(readings.now_ms, 10.0, ["broker-a"], []))
    change.backlog[group.physical_name] = 500
    with Store(cast.cluster.name).lease() as token:
        assert Store(cast.cluster.name).commit(token, change)
    assert rounds.run(readings).fired == 1
    (alarm,) = alice.data("alarm/list")
    assert (alarm["sentence"], alarm["endTime"]) == ("GID_pay has a backlog of 500 messages (instance orders)", None)
    assert alice.symbol("alarm/acknowledge", alarm=str(alarm["alarm"])) == "SUCCESS"
    assert alice.symbol("alarm/acknowledge", alarm=str(alarm["alarm"])) == "BIZ_ALARM_STATE_INVALID"
    assert [one["acknowledgedBy"] for one in alice.data("alarm/list", text="GID_pay")] == ["admin@acme"]
    assert alice.data("alarm/list", text="unheard of") == []
    assert alice.symbol("alarm/deleteRule", rule="behind") == "SUCCESS"
    assert [one["rule"] for one in alice.data("alarm/list", state="ended")] == ["behind"]


def test_what_is_secret_is_not_told(alice: Caller) -> None:
    assert alice.symbol("alarm/putRecipient", **RECIPIENT) == "SUCCESS"
    (told,) = alice.data("alarm/recipients")
    assert told == {
        "recipient": "on call", "kind": "slack", "address": "https://hooks.example.com/…", "signed": False, "rules": 0,
        "instanceId": "", "topic": "", "queue": "", "language": "en",
        "lastState": "", "lastError": "",
    }  # fmt: skip


def test_a_language_stays_until_another_is_named(alice: Caller) -> None:
    assert alice.symbol("alarm/putRecipient", **RECIPIENT, language="zh-hans") == "SUCCESS"
    assert alice.symbol("alarm/putRecipient", **RECIPIENT) == "SUCCESS"
    assert alice.data("alarm/recipients")[0]["language"] == "zh-hans"
    assert alice.symbol("alarm/putRecipient", **RECIPIENT, language="en") == "SUCCESS"
    assert alice.data("alarm/recipients")[0]["language"] == "en"
    assert alice.symbol("alarm/putRecipient", **RECIPIENT, language="xx") == "BIZ_FIELD_CHECK_INVALID"


def test_an_account_has_so_many_and_no_more(alice: Caller, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("console.alarms.services.MOST_RECIPIENTS", 1)
    monkeypatch.setattr("console.alarms.services.MOST_RULES", 1)
    assert alice.symbol("alarm/putRecipient", **RECIPIENT) == "SUCCESS"
    assert alice.symbol("alarm/putRecipient", **RECIPIENT | {"recipient": "b"}) == "BIZ_ALARM_QUOTA_EXCEEDED"
    assert alice.symbol("alarm/putRule", **RULE) == "SUCCESS"
    assert alice.symbol("alarm/putRule", **RULE | {"rule": "b"}) == "BIZ_ALARM_QUOTA_EXCEEDED"
    assert alice.symbol("alarm/deleteRecipient", recipient="on call") == "BIZ_ALARM_STATE_INVALID"


@pytest.mark.parametrize(
    ("values", "symbol"),
    [
        ({"threshold": "many"}, "BIZ_FIELD_CHECK_INVALID"),
        ({"threshold": "nan"}, "BIZ_FIELD_CHECK_INVALID"),
        ({"quietFrom": "25:00", "quietUntil": "06:00"}, "BIZ_FIELD_CHECK_INVALID"),
        ({"quietFrom": "22:00"}, "BIZ_FIELD_CHECK_INVALID"),
        ({"zone": "Mars"}, "BIZ_FIELD_CHECK_INVALID"),
        ({"names": "a;b"}, "BIZ_FIELD_CHECK_INVALID"),
        ({"instanceId": "MQ_INST_1_nobodys"}, "BIZ_INSTANCE_NOT_FOUND"),
        ({"condition": "group.unheard"}, "BIZ_FIELD_CHECK_INVALID"),
    ],
)
def test_what_can_be_no_rule_is_refused(alice: Caller, values: dict[str, str], symbol: str) -> None:
    alice.symbol("alarm/putRecipient", **RECIPIENT)
    assert alice.symbol("alarm/putRule", **RULE | values) == symbol
    assert alice.data("alarm/rules") == []
