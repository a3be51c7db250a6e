"""What the brokers of each version cannot do, and that the pages say so where it is missing; the documented table."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

import pytest

from brokercore.client import Admin
from brokercore.client.admin import Capability
from brokercore.client.errors import RequestNotSupported, RequestTimeout, SystemFault
from brokercore.client.session import Call
from brokercore.protocol.codes import PlainAclCode, RequestCode
from console.accounts.actor import Actor
from console.instances.capabilities import SENTENCES
from console.instances.models import Cluster
from console.messaging import queries, services
from console.messaging.queries import Source
from console.topics.models import OrderType
from console.web.errors import Refused
from tests.brokercore.server.grpc.conftest import rocketmq
from tests.brokercore.server.grpc.vendor import Vendor, drain, tried_again
from tests.clusters.conftest import CLUSTERS
from tests.clusters.test_walk import has_route
from tests.support.apache import ApacheRocketMQ
from tests.support.broker import eventually
from tests.support.cast import Cast, make_group, make_instance, make_topic

__all__ = ["rocketmq"]

pytestmark = [pytest.mark.broker, pytest.mark.java, pytest.mark.database]

DOCUMENT = Path(__file__).parents[2] / "docs" / "operate" / "cluster.md"
#: `WRITE_TABLE=1` writes the columns of the versions that run; else they are compared.
WRITES = os.environ.get("WRITE_TABLE") == "1"
BEGIN, END = "<!-- versions: made by tests/clusters/test_capabilities.py -->", "<!-- end of versions -->"

FEATURES = {
    "Topics, groups, messages, lags, resets, dead letters, adoption, API, SQL": None,
    "Message types of topics are kept": Capability.MESSAGE_TYPES,
    "Delivery at any time": Capability.DELIVERY_TIMES,
    "Delayed messages are taken back": Capability.RECALLS,
    "Clients of gRPC, by the cluster's own proxy": Capability.POP,
    "Filters by SQL92": Capability.SQL_FILTERS,
    "Rights as accounts of `plain_acl.yml` (ACL 1.0)": Capability.ACL_1,
    "Rights as users and lists (ACL 2.0)": Capability.ACL_2,
}
_REQUESTS: dict[Capability, int] = {
    Capability.ACL_1: PlainAclCode.GET_BROKER_CLUSTER_ACL_INFO,
    Capability.ACL_2: RequestCode.AUTH_LIST_USER,
}


def test_the_pages_say_what_the_brokers_cannot_do(cast: Cast, admin: Admin, cluster: Cluster) -> None:
    make_topic(cast.alice, cast.instance, "later", OrderType.DELAYED)
    there = admin.capabilities.of_cluster()
    client, instance = cast.client("alice"), cast.instance.instance_id
    pages = {
        f"/i/{instance}/create-topic/": (Capability.MESSAGE_TYPES, Capability.DELIVERY_TIMES),
        f"/i/{instance}/topics/later/": (Capability.MESSAGE_TYPES, Capability.DELIVERY_TIMES),
        f"/i/{instance}/topics/later/publish/": (Capability.DELIVERY_TIMES,),
        f"/i/{instance}/create-group/": (Capability.POP,),
    }
    for path, wanted in pages.items():
        answer = client.get(path)
        assert answer.status_code == 200, path
        for capability in wanted:
            assert (str(SENTENCES[capability]) in answer.content.decode()) == (capability not in there), (
                path,
                capability,
            )
    shown = cast.client("petra").get(f"/platform/clusters/{cluster.pk}/").content.decode()
    for capability, sentence in SENTENCES.items():
        assert (str(sentence) in shown) == (capability not in there)


def test_a_delivery_time_is_kept_or_refused(cast: Cast, admin: Admin) -> None:
    topic = make_topic(cast.alice, cast.instance, "later", OrderType.DELAYED)
    eventually(lambda: has_route(admin, topic), 30)
    due = int(time.time() * 1000) + 4000
    if Capability.DELIVERY_TIMES not in admin.capabilities.of_cluster():
        with pytest.raises(Refused, match="cannot deliver at a chosen time"):
            services.publish_test_message(cast.actor("alice"), topic, body=b"later", deliver_at_ms=due)
        return
    services.publish_test_message(cast.actor("alice"), topic, body=b"later", deliver_at_ms=due)
    (found,) = eventually(lambda: _all(cast.actor("alice"), Source.of_topic(topic)), 30)
    assert found.stored_at_ms >= due - 1000


def _all(actor: Actor, source: Source) -> list[Any]:
    return queries.search_by_time(actor, source, 0, int(time.time() * 1000) + 1000).messages


@pytest.mark.of_kind(proxy=True)
def test_what_clients_send_and_receive_by_the_proxy_is_seen(
    cast: Cast, admin: Admin, apache: ApacheRocketMQ, rocketmq: Any
) -> None:
    # The proxy of 5.3.3 cannot acknowledge in a namespace (docs/operate/broker.md).
    bare = make_instance(cast.alice, cast.cluster, name="bare", independent_naming=False)
    topic, group = make_topic(cast.alice, bare, "by-grpc"), make_group(cast.alice, bare, "GID_by_grpc")
    eventually(lambda: has_route(admin, topic), 30)
    with Vendor(rocketmq, apache.grpc) as vendor:
        producer = vendor.producer(topic.physical_name)
        sent = producer.send(vendor.message(topic.physical_name, b"by gRPC", keys="grpc"))
        source = Source.of_topic(topic)
        (found,) = eventually(lambda: queries.find_by_id(source, sent.message_id), 30)
        assert found.body == b"by gRPC"
        consumer = vendor.simple_consumer(group.physical_name, topic.physical_name)
        with tried_again() as attempt:  # its settings reach the proxy a moment after it has started
            (received,) = attempt(lambda: drain(consumer, 1, seconds=40))
        assert received.body == b"by gRPC"

        def lag() -> int:
            rows = admin.groups.stats(group.physical_name, topic.physical_name).queues
            return sum(row.broker_offset - row.consumer_offset for row in rows.values())

        eventually(lambda: lag() == 0, 30)


def test_the_table_of_versions_says_what_was_found(admin: Admin, apache: ApacheRocketMQ) -> None:
    there = admin.capabilities.of_cluster()
    column = {
        feature: "yes" if one is None or one in there or _can_be_switched_on(one, admin) else "no"
        for feature, one in FEATURES.items()
    }
    rows = _table()
    if WRITES:
        for feature, found in column.items():
            rows[feature][apache.version] = found
        _write(rows)
    assert {feature: cells[apache.version] for feature, cells in rows.items()} == column


def _can_be_switched_on(capability: Capability, admin: Admin) -> bool:
    """Whether the broker has what is off here: it lists its switch, or knows the requests about it."""
    if capability is Capability.RECALLS:
        return "recallMessageEnable" in admin.brokers.config("broker-a")
    if capability not in _REQUESTS:
        return False
    address = admin.brokers.masters()["broker-a"]
    try:
        admin.session.call(Call(address, _REQUESTS[capability], {}), timeout_ms=2000)
    except RequestNotSupported:
        return False
    except (RequestTimeout, SystemFault):
        return True
    return True


def _table() -> dict[str, dict[str, str]]:
    text = DOCUMENT.read_text("utf-8").partition(BEGIN)[2].partition(END)[0]
    lines = [
        [cell.strip() for cell in line.strip().removeprefix("|").removesuffix("|").split("|")]
        for line in text.strip().splitlines()
    ]
    if len(lines) < 3:
        return {feature: dict.fromkeys(CLUSTERS, "") for feature in FEATURES}
    versions = lines[0][1:]
    return {cells[0]: dict(zip(versions, cells[1:], strict=True)) for cells in lines[2:]}


def _write(rows: dict[str, dict[str, str]]) -> None:
    head, _, rest = DOCUMENT.read_text("utf-8").partition(BEGIN)
    lines = [f"| Apache RocketMQ | {' | '.join(CLUSTERS)} |", f"| --- |{' --- |' * len(CLUSTERS)}"]
    lines += [f"| {feature} | {' | '.join(cells[one] for one in CLUSTERS)} |" for feature, cells in rows.items()]
    DOCUMENT.write_text(head + BEGIN + "\n" + "\n".join(lines) + "\n" + END + rest.partition(END)[2], "utf-8")
