"""Names with every character that RocketMQ takes: adopted, opened on each page, asked for by API, and searched."""

from __future__ import annotations

import html
import string
import time
from collections.abc import Iterator
from functools import partial

import pytest
from django.test import Client
from django.urls import reverse

from brokercore.client import Message
from brokercore.client.errors import ClientError
from brokercore.names import GROUP_MAX, TOPIC_MAX
from console.accounts.models import Tenant
from console.adoption import queries, services, worker
from console.adoption.models import Kind
from console.adoption.patterns import checked, matcher
from console.adoption.unowned import unowned
from console.drift import queries as drift
from console.drift import sweep
from console.instances import broker as clients
from console.instances.models import Instance
from console.topics.models import Group, Topic
from console.web.errors import Refused
from tests.console.openapi.caller import Caller
from tests.support.broker import eventually
from tests.support.cast import Cast, make_instance

EVERY = string.ascii_letters + string.digits + "%|-_"
TOPICS = (
    EVERY, "1-begins-with-a-digit", "%begins", "|pipe|", "-dash-", "_", "a%2Fb", "x%00y", "%%", "create", "GID_a-topic",
    "CID-a-topic", "odd-" + "t" * (TOPIC_MAX - 4),
)  # fmt: skip
GROUPS = (
    EVERY, "1group", "%group", "|group", "-group-", "_g", "g%2Fh", "live", "order-service",
    "odd-" + "g" * (GROUP_MAX - 4),
)  # fmt: skip
TOPIC_PAGES = (
    "topics.detail", "topics.delete", "messaging.publish", "metrics.topic", "grants.topic", "archive.topic",
)  # fmt: skip
GROUP_PAGES = (
    "messaging.status", "groups.detail", "groups.delete", "messaging.reset", "messaging.dead_letters", "metrics.group",
)  # fmt: skip


@pytest.fixture(autouse=True)
def odd(cast: Cast) -> Iterator[Instance]:
    """Acme's instance without namespace, which has adopted all of them."""
    admin = clients.admin(cast.cluster)
    for name in TOPICS:
        admin.topics.create(name, queues=1)
    for name in GROUPS:
        admin.groups.create(name)
    bare = make_instance(cast.alice, cast.cluster, name="bare", independent_naming=False)
    names = [one for one in unowned(cast.cluster) if one.name in (TOPICS if one.kind is Kind.TOPIC else GROUPS)]
    assert [one.name for one in names if one.refusal] == []
    worker.work(services.adopt(actor=cast.actor("petra"), instance=bare, names=names).pk)
    yield bare


def test_all_of_them_are_adopted_without_drift_and_forgotten(cast: Cast, odd: Instance) -> None:
    assert set(odd.topics.values_list("name", flat=True)) == set(TOPICS)
    assert set(odd.groups.values_list("group_id", flat=True)) == set(GROUPS)
    sweep.sweep(cast.cluster)
    assert drift.parts(cast.actor("alice"))[0].seen == []
    petra = cast.actor("petra")
    keys = queries.keys_of(f"topic:{name}" for name in TOPICS)
    chosen = queries.adopted(petra, cast.cluster, queries.Choice(keys=keys))
    assert {one.name for one in chosen} == set(TOPICS)
    (run,) = services.forget_each(actor=petra, names=chosen)
    worker.work(run.pk)
    assert not odd.topics.exists() and odd.groups.count() == len(GROUPS)


def test_each_opens_on_every_page(cast: Cast, odd: Instance) -> None:
    alice = cast.client("alice")
    for pages, names in ((TOPIC_PAGES, TOPICS), (GROUP_PAGES, GROUPS)):
        for page in pages:
            for name in names:
                answer = alice.get(reverse(page, args=[odd.instance_id, name]))
                assert answer.status_code == 200, (page, name)
                assert name in html.unescape(answer.content.decode()), (page, name)
    for page, names in (("topics.list", TOPICS), ("groups.list", GROUPS)):
        for name in names:
            text = alice.get(reverse(page, args=[odd.instance_id]), {"q": name}).content.decode()
            assert name in html.unescape(text), (page, name)


def test_messages_are_sent_and_found_by_time_key_and_id(cast: Cast, odd: Instance) -> None:
    alice, producer = cast.client("alice"), clients.producer(cast.cluster)
    search = reverse("messaging.search", args=[odd.instance_id])
    for name in TOPICS:
        sent = producer.send(Message(name, b"hello", keys="key-1"))
        given = {"topic": name, "search": "1"}
        by_id = {"by": "id", "message_id": sent.message_id}
        for how in ({"by": "time", "range": "15m"}, {"by": "key", "key": "key-1"}, by_id):
            assert eventually(partial(_found, alice, search, given | how, sent.message_id), seconds=30), (name, how)
        one = alice.get(reverse("messaging.message", args=[odd.instance_id, name, sent.message_id]))
        assert one.status_code == 200 and "hello" in one.content.decode(), name


def _found(client: Client, address: str, given: dict[str, str], message_id: str) -> bool:
    return message_id in client.get(address, given).content.decode()


def test_the_management_api_takes_each(cast: Cast, odd: Instance) -> None:
    alice, here = Caller.of(cast.alice), {"instanceId": odd.instance_id}
    producer, now = clients.producer(cast.cluster), int(time.time() * 1000)
    assert set(alice.data("topic/listNames", **here)) == set(TOPICS)
    assert {row["groupId"] for row in alice.data("group/list", **here)} == set(GROUPS)
    for name in TOPICS:
        sent = producer.send(Message(name, b"hello", keys="key-2"))
        there = here | {"topic": name}
        assert alice.data("topic/get", **there)["topic"] == name
        assert alice.data("topic/subDetail", **there)["topic"] == name
        assert alice.data("message/getById", **there, msgId=sent.message_id)["topic"] == name
        times = {"beginTime": str(now - 60_000), "endTime": str(now + 600_000), "currentPage": "1"}
        page = alice.data("message/getByPagedTopic", **there, **times)
        assert sent.message_id in str(page), name
    for group in GROUPS:
        there = here | {"groupId": group}
        assert alice.data("group/subDetail", **there)["groupId"] == group
        assert alice.data("consumer/accumulate", **there)["totalDiff"] == 0
    Tenant.objects.filter(name="acme").update(may_adopt=True)
    assert {row["name"] for row in alice.data("adoption/listAdopted", pageSize="100")} == {*TOPICS, *GROUPS}


def test_what_rocketmq_does_not_take_is_on_no_cluster_and_no_pattern(cast: Cast) -> None:
    admin = clients.admin(cast.cluster)
    for name in ("ca^ret", "sp ace", "do.t", "sla/sh", "ümlaut", "t" * (TOPIC_MAX + 1)):
        with pytest.raises(ClientError):
            admin.topics.create(name)
        if len(name) <= TOPIC_MAX:
            with pytest.raises(Refused, match="is no pattern"):
                checked(name.replace(" ", "\u00b7"), "include")
    assert matcher(checked("*|*", "include"))("|pipe|") and not matcher("*|*")("pipe")
    assert matcher("%*")("%begins") and not matcher("%*")("begins%")


def test_retries_and_dead_letters_go_with_their_group(cast: Cast, odd: Instance) -> None:
    admin = clients.admin(cast.cluster)
    kept = [f"{prefix}{group}" for prefix in ("%RETRY%", "%DLQ%") for group in ("1group", "|group")]
    for name in kept:
        admin.topics.create(name, queues=1)
    assert not {one.name for one in unowned(cast.cluster)} & set(kept)
    chosen = queries.chosen(cast.cluster, queries.Choice(include="%RETRY%* %DLQ%*"))
    assert chosen == []
    letters = cast.client("alice").get(reverse("messaging.dead_letters", args=[odd.instance_id, "|group"]))
    assert letters.status_code == 200
    assert not Topic.objects.filter(name__startswith="%RETRY%").exists() and Group.objects.count() == len(GROUPS)
