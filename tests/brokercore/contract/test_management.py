"""Clusters, topics, groups, settings, figures: what a console asks and changes."""

from __future__ import annotations

import pytest

from brokercore.client import GroupConfig, Message
from brokercore.client.errors import BrokerError, ConsumerNotOnline, GroupNotExist, TopicNotExist
from brokercore.client.pulling import PULL_CODES, pull_call
from tests.brokercore.contract.cluster import Cluster
from tests.brokercore.contract.differences import Differs
from tests.support.broker import eventually


def test_the_cluster_names_its_master(cluster: Cluster) -> None:
    found = cluster.admin.brokers.cluster()
    assert found.clusters == {"DefaultCluster": ["broker-a"]}
    assert list(found.brokers) == ["broker-a"]
    assert found.brokers["broker-a"].startswith("127.0.0.1:")


@pytest.mark.parametrize("name", ["DefaultCluster", "broker-a"])
def test_the_cluster_and_the_broker_have_routes_by_which_tools_make_topics(cluster: Cluster, name: str) -> None:
    route = cluster.admin.topics.route(name)
    assert [broker.broker_name for broker in route.brokers] == ["broker-a"]


def test_runtime_information_has_what_a_console_shows(cluster: Cluster) -> None:
    info = cluster.admin.brokers.runtime_info()["broker-a"]
    wanted = {"brokerVersionDesc", "bootTimestamp", "putTps", "getTransferredTps", "msgPutTotalTodayNow", "runtime"}
    assert wanted <= info.keys()
    assert int(info["bootTimestamp"]) > 0


def test_a_topic_is_created_changed_and_deleted(cluster: Cluster) -> None:
    admin, name = cluster.admin, cluster.physical("life-of-a-topic")
    admin.topics.create(name, queues=4, message_type="FIFO")
    config = admin.topics.config(name)
    assert (config.read_queues, config.write_queues, config.perm, config.message_type) == (4, 4, 6, "FIFO")
    assert name in admin.topics.configs()
    eventually(lambda: name in admin.topics.names())
    admin.topics.create(name, queues=6, message_type="FIFO")
    eventually(lambda: {queue.write_queues for queue in admin.topics.route(name).queues} == {6})
    admin.topics.delete(name)
    assert name not in admin.topics.configs()
    eventually(lambda: name not in admin.topics.names())
    with pytest.raises(TopicNotExist):
        admin.topics.route(name)
    admin.topics.delete(name)  # one that is not there is no failure


@pytest.mark.parametrize("name", ["with space", "x" * 128, "Zürich", "a/b"])
def test_a_bad_topic_name_is_refused(cluster: Cluster, name: str) -> None:
    with pytest.raises(BrokerError):
        cluster.admin.topics.create(name)
    assert name not in cluster.admin.topics.configs()


def test_a_group_is_created_changed_and_deleted(cluster: Cluster) -> None:
    admin, name = cluster.admin, cluster.physical("GID_life_of_a_group")
    admin.groups.create(name, retry_max_times=3)
    assert (admin.groups.config(name).retry_max_times, admin.groups.config(name).consume_enable) == (3, True)
    changed = GroupConfig(name, consume_enable=False, consume_message_orderly=True, consume_timeout_minutes=5)
    admin.groups.update(changed)
    found = admin.groups.config(name)
    assert (found.consume_enable, found.consume_message_orderly, found.consume_timeout_minutes) == (False, True, 5)
    assert admin.groups.configs()[name].retry_max_times == 16
    admin.groups.delete(name)
    assert name not in admin.groups.configs()


def test_what_does_not_exist_is_said(cluster: Cluster) -> None:
    admin, topic, group = cluster.admin, cluster.physical("nothing"), cluster.physical("GID_nothing")
    for ask in (admin.topics.route, admin.topics.config, admin.topics.stats, admin.topics.groups):
        with pytest.raises(TopicNotExist):
            ask(topic)
    with pytest.raises(GroupNotExist):
        admin.groups.config(group)
    with pytest.raises(ConsumerNotOnline):
        admin.clients.consumers(group)
    with pytest.raises(ConsumerNotOnline):
        admin.clients.running_info(group, "nobody@1")
    assert admin.clients.producers(group) == []


def test_all_producers_are_told_with_their_addresses(cluster: Cluster) -> None:
    topic = cluster.topic("produced", queues=1)
    with cluster.producer() as producer:
        producer._members().join(cluster.admin.brokers.addresses().values())  # as the vendor's say that they are there
        producer.send(Message(topic, b"1"))
        (stored,) = cluster.wait_stored(topic, 1)
        host, port = stored.born_host

        def known() -> list[str]:
            told = [one for clients in cluster.admin.clients.all_producers().values() for one in clients]
            return [one.client_id for one in told if one.address == f"{host}:{port}"]

        assert eventually(known, 30)


def test_a_group_that_may_not_consume_gets_nothing(cluster: Cluster) -> None:
    topic, group = cluster.topic("disabled", queues=1), cluster.group("disabled")
    with cluster.producer() as producer:
        producer.send(Message(topic, b"kept"))
    cluster.admin.groups.create(cluster.physical(group), consume_enable=False)
    with cluster.pull_consumer(group).subscribe(topic).start() as consumer:
        assert consumer.poll(1) == []
        cluster.admin.groups.create(cluster.physical(group), consume_enable=True)
        eventually(lambda: [message.body for message in consumer.poll(1)] == [b"kept"], 30)


def test_statistics_of_a_topic(cluster: Cluster) -> None:
    topic = cluster.topic("counted", queues=2)
    with cluster.producer() as producer:
        last = [producer.send(Message(topic, b"x")) for _ in range(6)][-1]
    cluster.wait_stored(topic, 6)
    stats = cluster.admin.topics.stats(cluster.physical(topic))
    assert [(queue.queue_id, s.min_offset, s.max_offset) for queue, s in sorted(stats.items())] == [
        (0, 0, 3),
        (1, 0, 3),
    ]
    newest = max(s.last_update_ms for s in stats.values())
    assert newest == cluster.admin.messages.view(last.offset_message_id, cluster.physical(topic)).store_timestamp
    both = cluster.admin.topics.stats_of([cluster.physical(topic), "nothing"])
    assert both == {cluster.physical(topic): stats}
    names = [cluster.physical(topic), "nothing"]
    assert cluster.admin.topics.positions_of(names) == {cluster.physical(topic): {"broker-a": [0, 3, 0, 3]}}
    assert cluster.admin.topics.last_stored_ms(names) == {cluster.physical(topic): newest}


def test_rates_of_a_topic(cluster: Cluster) -> None:
    topic = cluster.topic("rates")
    assert cluster.admin.brokers.rates("TOPIC_PUT_NUMS", cluster.physical(topic)) == {}
    with cluster.producer() as producer:
        producer.send(Message(topic, b"x"))
    assert set(cluster.admin.brokers.rates("TOPIC_PUT_NUMS", cluster.physical(topic))) == {"Minute", "Hour", "Day"}


def test_settings_are_read(cluster: Cluster) -> None:
    config = cluster.admin.brokers.config("broker-a")
    assert (config["brokerName"], config["brokerClusterName"]) == ("broker-a", "DefaultCluster")
    assert config["maxMessageSize"] == "4194304"
    assert "listenPort" in next(iter(cluster.admin.name_servers.config().values()))


def test_a_setting_is_changed_while_the_broker_runs(cluster: Cluster) -> None:
    before = cluster.admin.brokers.config("broker-a")["fileReservedTime"]
    cluster.admin.brokers.update_config("broker-a", {"fileReservedTime": "48"})
    assert cluster.admin.brokers.config("broker-a")["fileReservedTime"] == "48"
    cluster.admin.brokers.update_config("broker-a", {"fileReservedTime": before})


def test_name_servers_keep_values(cluster: Cluster) -> None:
    servers = cluster.admin.name_servers
    assert servers.key_value("CONTRACT", "colour") is None
    assert servers.key_values("CONTRACT") == {}
    servers.put_key_value("CONTRACT", "colour", "blue")
    assert (servers.key_value("CONTRACT", "colour"), servers.key_values("CONTRACT")) == ("blue", {"colour": "blue"})
    servers.delete_key_value("CONTRACT", "colour")
    assert servers.key_value("CONTRACT", "colour") is None


def test_an_ordered_topic_has_its_queues_written_down(cluster: Cluster, differs: Differs) -> None:
    admin, name = cluster.admin, cluster.physical("fixed-queues")
    admin.topics.create(name, queues=3, message_type="FIFO", order=True)
    assert admin.name_servers.key_value("ORDER_TOPIC_CONFIG", name) == "broker-a:3"
    eventually(lambda: name in admin.topics.names())
    assert admin.topics.route(name).order_conf == differs("fixed queues in the route of an ordered topic")
    admin.topics.delete(name)
    assert admin.name_servers.key_value("ORDER_TOPIC_CONFIG", name) is None


def test_an_unknown_group_cannot_be_reset(cluster: Cluster) -> None:
    topic = cluster.topic("reset-unknown", queues=1)
    with pytest.raises(GroupNotExist):
        cluster.admin.offsets.reset(cluster.physical("GID_unknown"), cluster.physical(topic), 0)


def test_an_unknown_group_pulls_nothing(cluster: Cluster) -> None:
    topic = cluster.topic("pull-unknown", queues=1)
    (queue,) = cluster.queues(topic)
    (address,) = cluster.admin.brokers.masters().values()
    call = pull_call(address, queue, cluster.physical("GID_unknown"), 0)
    with pytest.raises(GroupNotExist):
        cluster.admin.session.call(call, accept=PULL_CODES)
