"""What was attempted in vain is on record, whatever transaction it died in."""

from __future__ import annotations

from typing import Any, NoReturn

import pytest
from django.core.exceptions import PermissionDenied
from django.db import DatabaseError, transaction
from django.urls import reverse

from brokercore.client.errors import BrokerUnreachable
from console.accounts.access import require
from console.audit import record as services
from console.audit.models import Entry
from console.audit.record import attempts, record, unwritten
from console.web.errors import Refused
from tests.support.cast import Cast, make_topic

pytestmark = pytest.mark.django_db(transaction=True)


def latest() -> Entry:
    return Entry.objects.latest("pk")


def broken(*_: Any, **__: Any) -> NoReturn:
    raise BrokerUnreachable("broker-a:10911", "connection refused")


def test_a_refusal_inside_a_transaction_survives_its_rollback(cast: Cast) -> None:
    rita = cast.actor("rita")
    with pytest.raises(PermissionDenied), attempts.attempt(rita, "x.y.z"), transaction.atomic():
        require(rita, "mq:CreateTopic", f"acs:mq:*:*:{cast.instance.instance_id}", owner=cast.acme)
    entry = latest()
    assert (entry.actor, entry.action, entry.result) == ("rita@acme", "mq:CreateTopic", "refused")
    assert "no statement allows" in entry.detail["reason"]
    assert Entry.objects.filter(action="mq:CreateTopic").count() == 1


def test_a_change_that_the_broker_did_not_take_is_a_failed_one(cast: Cast, monkeypatch: pytest.MonkeyPatch) -> None:
    topic = make_topic(cast.alice, cast.instance)
    monkeypatch.setattr("console.instances.broker.admin", broken)
    url = reverse("topics.delete", args=[cast.instance.instance_id, topic.name])
    response = cast.client("alice").post(url, {"name": topic.name})
    assert response.status_code == 503
    entry = latest()
    assert entry.result == "failed"
    assert entry.action in ("topics.topic.delete", "topics.delete")
    assert topic.name in entry.resource
    assert entry.detail["reason"] == "No connection to broker-a:10911: connection refused."
    assert entry.request_id == response["X-Request-Id"]


def test_a_change_that_failed_before_it_was_recorded_is_there_by_its_page(
    cast: Cast, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("console.instances.broker.admin", broken)
    url = reverse("topics.create", args=[cast.instance.instance_id])
    cast.client("alice").post(url, {"name": "made-in-vain", "order_type": "0"})
    entry = latest()
    assert entry.result == "failed"
    assert entry.action in ("topics.create", "topics.topic.create")
    assert cast.instance.instance_id in entry.resource


def test_what_a_rule_refuses_is_there_with_the_rule(cast: Cast) -> None:
    make_topic(cast.alice, cast.instance)
    cast.client("alice").post(reverse("instances.delete", args=[cast.instance.instance_id]), {"name": "orders"})
    entry = latest()
    assert (entry.action, entry.result) == ("instances.delete", "refused")
    assert entry.detail["symbol"] == "BIZ_INSTANCE_NOT_EMPTY"


def test_reaching_for_what_is_another_accounts_is_in_the_own_trail(cast: Cast) -> None:
    url = reverse("instances.update", args=[cast.instance.instance_id])
    assert cast.client("charlie").post(url, {"name": "mine"}).status_code == 404
    entry = latest()
    assert (entry.actor, entry.action, entry.result) == ("admin@umbrella", "instances.update", "refused")
    assert entry.tenant == cast.charlies.tenant


def test_a_form_with_a_typo_is_no_attempt(cast: Cast) -> None:
    before = Entry.objects.count()
    url = reverse("instances.update", args=[cast.instance.instance_id])
    assert cast.client("alice").post(url, {"name": ""}).status_code == 422
    assert Entry.objects.count() == before


def test_success_is_recorded_once(cast: Cast) -> None:
    url = reverse("instances.update", args=[cast.instance.instance_id])
    data = {"name": "renamed", "max_send_tps": "250", "max_receive_tps": "250"}
    assert cast.client("alice").post(url, data).status_code == 302
    assert Entry.objects.filter(action="instances.instance.update").count() == 1
    assert not Entry.objects.exclude(result="success").exists()


def test_of_what_reads_only_a_missing_right_is_recorded(cast: Cast) -> None:
    alice, before = cast.actor("alice"), Entry.objects.count()
    with pytest.raises(Refused), attempts.attempt(alice, "x.y.read", reads=True):
        raise Refused("BIZ_TOPIC_NOT_FOUND", "There is no such topic.")
    assert Entry.objects.count() == before
    with pytest.raises(PermissionDenied), attempts.attempt(alice, "x.y.read", reads=True):
        raise PermissionDenied("not yours")
    assert (latest().action, latest().result, latest().detail) == ("x.y.read", "refused", {"reason": "not yours"})


def test_the_text_of_an_unexpected_error_stays_out(cast: Cast) -> None:
    with pytest.raises(RuntimeError), attempts.attempt(cast.actor("alice"), "x.y.z"):
        raise RuntimeError("password is hunter2hunter2")
    assert latest().result == "failed"
    assert latest().detail == {"reason": "RuntimeError"}


def test_a_trail_that_cannot_be_written_stops_no_answer_and_the_entry_waits(
    cast: Cast, monkeypatch: pytest.MonkeyPatch
) -> None:
    waiting: list[dict[str, Any]] = []

    def full(**_: Any) -> NoReturn:
        raise DatabaseError("disk full")

    before = Entry.objects.count()
    with monkeypatch.context() as disk:
        disk.setattr(services, "_add", full)
        disk.setattr(unwritten, "keep", waiting.append)
        with pytest.raises(PermissionDenied), attempts.attempt(cast.actor("bob"), "x.y.z"):
            raise PermissionDenied("no")
    assert Entry.objects.count() == before
    (values,) = waiting
    Entry.objects.create(**values)
    entry = latest()
    assert (entry.action, entry.result, entry.detail, entry.at) == ("x.y.z", "refused", {"reason": "no"}, values["at"])


def test_an_entry_that_a_rollback_took_back_comes_again_with_its_true_result(cast: Cast) -> None:
    alice = cast.actor("alice")
    alice.request_id = "r-1"

    @transaction.atomic
    def change() -> None:
        record(alice, "x.thing.change", "thing", detail={"colour": "red"})
        broken()

    with pytest.raises(BrokerUnreachable), attempts.attempt(alice, "x.y.z"):
        change()
    entry = Entry.objects.get(action="x.thing.change")
    assert (entry.resource, entry.result, entry.request_id) == ("thing", "failed", "r-1")
    assert entry.detail == {"colour": "red", "reason": "No connection to broker-a:10911: connection refused."}


def test_entries_that_were_kept_are_not_written_twice(cast: Cast) -> None:
    bob = cast.actor("bob")
    with pytest.raises(PermissionDenied), attempts.attempt(bob, "x.y.z"):
        record(bob, "first.step.done")
        raise PermissionDenied("second step")
    assert Entry.objects.filter(action="first.step.done").count() == 1
