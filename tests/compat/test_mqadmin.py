"""mqadmin works against the broker, its keys in tools.yml."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.compat.mqadmin import Mqadmin
from tests.compat.programs import Event
from tests.compat.world import World, sent
from tests.support.product import eventually

#: Each command idles for 3 s when its client shuts down: several at once.
AT_ONCE = 4
CREATED = "by-mqadmin"


@pytest.fixture(scope="module")
def topic(world: World) -> str:
    return world.topic("admin")


@pytest.fixture(scope="module")
def group(world: World) -> str:
    return world.group("admin")


@pytest.fixture(scope="module")
def messages(world: World, topic: str, group: str) -> list[Event]:
    return sent(world.run("ApacheProducer", topic, group, count=3, key="K1001", tag="TagA", body="admin"))


@pytest.fixture(scope="module")
def said(
    world: World, tmp_path_factory: pytest.TempPathFactory, topic: str, group: str, messages: list[Event]
) -> Mapping[str, str]:
    """What each command printed, by its name, run while a consumer of the group is online."""
    consumer = world.start("ApacheConsumer", topic, group)
    consumer.wait_received(e["body"] for e in messages)
    users = {"system": world.system, "own": world.tenant, "other": world.stranger}
    mqadmin = {
        name: Mqadmin.with_keys(world.tools, tmp_path_factory.mktemp(name), keys) for name, keys in users.items()
    }
    system, physical_topic, physical_group = mqadmin["system"], world.physical(topic), world.physical(group)
    created = world.physical(CREATED)
    with ThreadPoolExecutor(AT_ONCE) as pool:
        running = {
            "updateTopic": pool.submit(system, "updateTopic", "-c", "DefaultCluster", "-t", created, "-r4", "-w4"),
            "clusterList": pool.submit(system, "clusterList"),
            "topicStatus": pool.submit(system, "topicStatus", "-t", physical_topic),
            "consumerConnection": pool.submit(system, "consumerConnection", "-g", physical_group),
            "queryMsgByKey": pool.submit(system, "queryMsgByKey", "-t", physical_topic, "-k", "K1001"),
            "queryMsgByUniqueKey": pool.submit(
                system, "queryMsgByUniqueKey", "-t", physical_topic, "-i", messages[0]["id"]
            ),
            "queryMsgById": pool.submit(system, "queryMsgById", "-t", physical_topic, "-i", messages[0]["offsetId"]),
            "own": pool.submit(mqadmin["own"], "topicStatus", "-t", physical_topic),
            "other": pool.submit(mqadmin["other"], "topicStatus", "-t", physical_topic),
        }
        running["updateTopic"].result()
        running["topicList"] = pool.submit(system, "topicList")
        # A consumer commits its offsets every 5 s, for the first time after 10 s.
        eventually(lambda: world.committed(topic, group) == len(messages), seconds=40)
        running["consumerProgress"] = pool.submit(system, "consumerProgress", "-g", physical_group)
        return {name: future.result() for name, future in running.items()}


def test_cluster_list_names_the_broker_and_its_address(said: Mapping[str, str]) -> None:
    (row,) = [line.split() for line in said["clusterList"].splitlines() if "broker-a" in line]
    assert row[:3] == ["DefaultCluster", "broker-a", "0"]
    assert row[3].startswith("127.0.0.1:")


def test_update_topic_creates_a_topic_that_topic_list_shows(world: World, said: Mapping[str, str]) -> None:
    name = world.physical(CREATED)
    assert "success" in said["updateTopic"]
    assert name in said["topicList"].split()
    config = world.admin.topics.configs()[name]
    assert (config.read_queues, config.write_queues) == (4, 4)


def test_topic_status_shows_the_offsets_of_each_queue(said: Mapping[str, str], messages: list[Event]) -> None:
    rows = [line.split() for line in said["topicStatus"].splitlines()]
    offsets = {int(row[1]): int(row[3]) for row in rows if row and row[0] == "broker-a"}
    assert sorted(offsets) == [0, 1, 2, 3]
    assert sum(offsets.values()) == len(messages)


def test_consumer_progress_shows_the_group_s_offsets_per_queue(
    world: World, said: Mapping[str, str], topic: str, messages: list[Event]
) -> None:
    start = world.physical(topic)[:20]  # mqadmin cuts long names
    rows = [line.split() for line in said["consumerProgress"].splitlines() if line.startswith(start)]
    assert sum(int(row[3]) for row in rows) == len(messages), said["consumerProgress"]
    assert "Diff Total" in said["consumerProgress"]


def test_consumer_connection_shows_the_client_and_its_subscription(
    world: World, said: Mapping[str, str], topic: str
) -> None:
    printed = said["consumerConnection"]
    assert "JAVA" in printed
    assert "V5_3_3" in printed
    assert world.physical(topic) in printed
    assert "CLUSTERING" in printed


@pytest.mark.parametrize("command", ["queryMsgByKey", "queryMsgByUniqueKey", "queryMsgById"])
def test_a_message_is_found_by_its_key_and_by_either_id(
    said: Mapping[str, str], messages: list[Event], command: str
) -> None:
    found = messages if command == "queryMsgByKey" else messages[:1]
    for message in found:
        assert message["id"] in said[command], said[command]


def test_a_tenant_s_keys_show_its_own_topic_and_not_another_tenant_s(said: Mapping[str, str]) -> None:
    assert "broker-a" in said["own"]
    assert "CODE: 17" in said["other"]  # as of a topic that nobody has
