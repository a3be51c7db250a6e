"""Names without a namespace that clients make by admin calls: by the same decision as the page, and the console's."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator

import pytest
from django.db import connection as database

from brokercore.policy.table import WANTED, Wanted
from brokercore.protocol.codes import RequestCode as Code
from brokercore.protocol.codes import ResponseCode
from console.accounts import services as accounts
from console.accounts.services import IssuedKey
from console.audit.models import Entry
from console.rights import access_table
from console.topics import wanted
from console.topics.models import Group, OrderType, Topic
from console.web.redis import connection
from tests.brokercore.server.wire import Wire
from tests.support.broker import BrokerProcess, eventually
from tests.support.cast import Cast, make_instance, make_topic, on_broker

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def answering(cast: Cast) -> Iterator[None]:
    """The console answers, as a thread of the process that captures does."""
    stop = threading.Event()

    def serve() -> None:
        wanted.serve(stop)
        database.close()

    thread = threading.Thread(target=serve)
    thread.start()
    yield
    stop.set()
    thread.join()


def key_of(cast: Cast, name: str = "alice") -> IssuedKey:
    issued = accounts.create_access_key(actor=cast.actor("alice"), user=cast.users[name])
    access_table.publish()
    return issued


def wire_of(broker: BrokerProcess, issued: IssuedKey) -> Wire:
    wire = Wire(broker.address, (issued.access_key_id, issued.access_key_secret))
    eventually(lambda: wire.call(Code.GET_BROKER_CLUSTER_INFO).code == 0)
    return wire


def make_topic_over(wire: Wire, name: str, **fields: object) -> tuple[int, str]:
    ext = {
        "topic": name, "defaultTopic": "TBW102", "readQueueNums": 3, "writeQueueNums": 3, "perm": 6,
        "topicFilterType": "SINGLE_TAG", "order": "false",
    } | fields  # fmt: skip
    answer = wire.call(Code.UPDATE_AND_CREATE_TOPIC, ext)
    return answer.code, answer.remark or ""


def make_group_over(wire: Wire, name: str, **fields: object) -> tuple[int, str]:
    answer = wire.call(Code.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, body=json.dumps({"groupName": name} | fields).encode())
    return answer.code, answer.remark or ""


@pytest.mark.usefixtures("answering")
def test_a_client_makes_bare_names_that_are_its_accounts_at_once(cast: Cast, broker: BrokerProcess) -> None:
    bare = make_instance(cast.alice, cast.cluster, name="bare", independent_naming=False, topic_capacity=2)
    issued, name = key_of(cast), f"bare-{cast.acme.uid}"
    with wire_of(broker, issued) as wire:
        assert make_topic_over(wire, name, attributes="+message.type=FIFO") == (0, "")
        topic = Topic.objects.get(physical_name=name)
        assert (topic.instance, topic.queues, topic.order_type) == (bare, 3, OrderType.PARTITIONALLY_ORDERED)
        assert wire.publish(name).code == 0, "its rights hold before it is answered"
        assert make_group_over(wire, f"GID_{name}", retryMaxTimes=3) == (0, "")
        group = Group.objects.get(physical_name=f"GID_{name}")
        assert (group.instance, group.owner, group.retry_max_times) == (bare, cast.acme, 3)
        assert wire.pull(f"GID_{name}", name).code == 0
        assert make_topic_over(wire, name, perm=4)[0] == 0, "and its account changes it"
        entries = Entry.objects.filter(action__in=("topics.topic.create", "topics.group.create"), channel="broker")
        assert [(e.resource, e.access_key_id) for e in entries.order_by("pk")] == [
            (name, issued.access_key_id), (f"GID_{name}", issued.access_key_id),
        ]  # fmt: skip
        for wrong, said in {
            "CIDlike": "does not begin with CID or GID", "x" * 128: "127", "TBW102": "conflicts",
            name[:2]: "has 3 to 127",
        }.items():  # fmt: skip
            code, remark = make_topic_over(wire, wrong)
            assert code == ResponseCode.INVALID_PARAMETER and said in remark, (wrong, code, remark)
        assert "begins with GID_ or GID-" in make_group_over(wire, "readers")[1]
        assert make_topic_over(wire, f"{name}-2")[0] == 0
        code, remark = make_topic_over(wire, f"{name}-3")
        assert (code, remark) == (ResponseCode.INVALID_PARAMETER, "bare may have 2 topics.")
        assert f"{name}-3" not in on_broker(cast.cluster)


@pytest.mark.usefixtures("answering")
def test_who_may_not_on_the_page_may_not_over_the_wire(cast: Cast, broker: BrokerProcess) -> None:
    name = f"bare-{cast.acme.uid}"
    with wire_of(broker, key_of(cast)) as wire:
        code, remark = make_topic_over(wire, name)
        assert code == ResponseCode.NO_PERMISSION, "an account without such an instance has no bare names"
        assert "no permission mq:CreateTopic or mq:UpdateTopic" in remark
    make_instance(cast.alice, cast.cluster, name="bare", independent_naming=False)
    theirs = make_instance(cast.charlie, cast.cluster, name="bare", independent_naming=False)
    make_topic(cast.charlie, theirs, f"{name}-theirs")
    with wire_of(broker, key_of(cast, "rita")) as wire:
        assert make_topic_over(wire, name)[0] == ResponseCode.NO_PERMISSION, "a RAM user with rights to look"
        assert make_group_over(wire, f"GID_{name}")[0] == ResponseCode.NO_PERMISSION
    with wire_of(broker, key_of(cast)) as wire:
        code, remark = make_topic_over(wire, f"{name}-theirs")
        assert code == ResponseCode.NO_PERMISSION, "a name that another account has"
        assert "no permission mq:CreateTopic or mq:UpdateTopic" in remark
    assert not Topic.objects.filter(physical_name=name).exists()


def test_without_a_console_that_answers_nothing_is_made_and_the_client_is_told(
    cast: Cast, broker: BrokerProcess
) -> None:
    make_instance(cast.alice, cast.cluster, name="bare", independent_naming=False)
    name = f"bare-{cast.acme.uid}"
    with wire_of(broker, key_of(cast)) as wire:
        code, remark = make_topic_over(wire, name)
    assert code == ResponseCode.SYSTEM_BUSY
    assert "the console, which keeps names without a namespace, does not answer" in remark
    assert wanted.answer_next(), "what is too late is left undone"
    assert name not in on_broker(cast.cluster)
    assert not Topic.objects.filter(physical_name=name).exists()


@pytest.mark.usefixtures("answering")
def test_who_asks_again_for_what_is_being_made_is_told_to_wait(
    cast: Cast, broker: BrokerProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The brokers have the name already, and nobody has rights on it yet."""
    make_instance(cast.alice, cast.cluster, name="bare", independent_naming=False)
    name, may_go_on, publish = f"bare-{cast.acme.uid}", threading.Event(), access_table.publish_on_commit

    def publish_late() -> None:
        assert may_go_on.wait(60)
        publish()

    with wire_of(broker, key_of(cast)) as wire:
        monkeypatch.setattr(access_table, "publish_on_commit", publish_late)
        assert make_topic_over(wire, name)[0] == ResponseCode.SYSTEM_BUSY
        assert name in on_broker(cast.cluster)
        code, remark = make_topic_over(wire, name)
        may_go_on.set()
        assert (code, remark) == (ResponseCode.SYSTEM_BUSY, f"{name} is being made; try again later")
        eventually(lambda: make_topic_over(wire, name)[0] == 0)


def test_what_is_no_wish_is_dropped(cast: Cast) -> None:
    late = Wanted("n", "topic", "late", "LTAI", "", False, int(time.time() * 1000) + 60_000)
    connection().lpush(WANTED, "nonsense", late.encode())
    assert wanted.answer_next()
    assert wanted.answer_next()
    assert json.loads(str(connection().get("gantry:acl:answer:n")))["kind"] == "permission"
