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
    found = cluster.admin.cluster()
    assert found.clusters == {"DefaultCluster": ["broker-a"]}
    assert list(found.brokers) == ["broker-a"]
    assert found.brokers["broker-a"].startswith("127.0.0.1:")


def test_runtime_information_has_what_a_console_shows(cluster: Cluster) -> None:
    info = cluster.admin.runtime_info()["broker-a"]
    wanted = {"brokerVersionDesc", "bootTimestamp", "putTps", "getTransferredTps", "msgPutTotalTodayNow", "runtime"}
    assert wanted <= info.keys()
    assert int(info["bootTimestamp"]) > 0


def test_a_topic_is_created_changed_and_deleted(cluster: Cluster) -> None:
    admin, name = cluster.admin, cluster.physical("life-of-a-topic")
    admin.create_topic(name, queues=4, message_type="FIFO")
    config = admin.topic_config(name)
    assert (config.read_queues, config.write_queues, config.perm, config.message_type) == (4, 4, 6, "FIFO")
    assert name in admin.topic_configs()
    eventually(lambda: name in admin.topic_names())
    admin.create_topic(name, queues=6, message_type="FIFO")
    eventually(lambda: {queue.write_queues for queue in admin.route(name).queues} == {6})
    admin.delete_topic(name)
    assert name not in admin.topic_configs()
    eventually(lambda: name not in admin.topic_names())
    with pytest.raises(TopicNotExist):
        admin.route(name)
    admin.delete_topic(name)  # one that is not there is no failure


@pytest.mark.parametrize("name", ["with space", "x" * 128, "Zürich", "a/b"])
def test_a_bad_topic_name_is_refused(cluster: Cluster, name: str) -> None:
    with pytest.raises(BrokerError):
        cluster.admin.create_topic(name)
    assert name not in cluster.admin.topic_configs()


def test_a_group_is_created_changed_and_deleted(cluster: Cluster) -> None:
    admin, name = cluster.admin, cluster.physical("GID_life_of_a_group")
    admin.create_group(name, retry_max_times=3)
    assert (admin.group_config(name).retry_max_times, admin.group_config(name).consume_enable) == (3, True)
    changed = GroupConfig(name, consume_enable=False, consume_message_orderly=True, consume_timeout_minutes=5)
    admin.update_group(changed)
    found = admin.group_config(name)
    assert (found.consume_enable, found.consume_message_orderly, found.consume_timeout_minutes) == (False, True, 5)
    assert admin.group_configs()[name].retry_max_times == 16
    admin.delete_group(name)
    assert name not in admin.group_configs()


def test_what_does_not_exist_is_said(cluster: Cluster) -> None:
    admin, topic, group = cluster.admin, cluster.physical("nothing"), cluster.physical("GID_nothing")
    for ask in (admin.route, admin.topic_config, admin.topic_stats, admin.groups_of_topic):
        with pytest.raises(TopicNotExist):
            ask(topic)
    with pytest.raises(GroupNotExist):
        admin.group_config(group)
    with pytest.raises(ConsumerNotOnline):
        admin.consumer_connection(group)
    with pytest.raises(ConsumerNotOnline):
        admin.consumer_running_info(group, "nobody@1")
    assert admin.producer_connections(group) == []


def test_a_group_that_may_not_consume_gets_nothing(cluster: Cluster) -> None:
    topic, group = cluster.topic("disabled", queues=1), cluster.group("disabled")
    with cluster.producer() as producer:
        producer.send(Message(topic, b"kept"))
    cluster.admin.create_group(cluster.physical(group), consume_enable=False)
    with cluster.pull_consumer(group).subscribe(topic).start() as consumer:
        assert consumer.poll(1) == []
        cluster.admin.create_group(cluster.physical(group), consume_enable=True)
        eventually(lambda: [message.body for message in consumer.poll(1)] == [b"kept"], 30)


def test_statistics_of_a_topic(cluster: Cluster) -> None:
    topic = cluster.topic("counted", queues=2)
    with cluster.producer() as producer:
        last = [producer.send(Message(topic, b"x")) for _ in range(6)][-1]
    cluster.wait_stored(topic, 6)
    stats = cluster.admin.topic_stats(cluster.physical(topic))
    assert [(queue.queue_id, s.min_offset, s.max_offset) for queue, s in sorted(stats.items())] == [
        (0, 0, 3),
        (1, 0, 3),
    ]
    newest = max(s.last_update_ms for s in stats.values())
    assert newest == cluster.admin.view_message(last.offset_message_id, cluster.physical(topic)).store_timestamp
    both = cluster.admin.topics_stats([cluster.physical(topic), "nothing"])
    assert both == {cluster.physical(topic): stats}


def test_rates_of_a_topic(cluster: Cluster) -> None:
    topic = cluster.topic("rates")
    assert cluster.admin.rates("TOPIC_PUT_NUMS", cluster.physical(topic)) == {}
    with cluster.producer() as producer:
        producer.send(Message(topic, b"x"))
    assert set(cluster.admin.rates("TOPIC_PUT_NUMS", cluster.physical(topic))) == {"Minute", "Hour", "Day"}


def test_settings_are_read(cluster: Cluster) -> None:
    config = cluster.admin.broker_config("broker-a")
    assert (config["brokerName"], config["brokerClusterName"]) == ("broker-a", "DefaultCluster")
    assert config["maxMessageSize"] == "4194304"
    assert "listenPort" in next(iter(cluster.admin.name_server_config().values()))


def test_a_setting_is_changed_while_the_broker_runs(cluster: Cluster) -> None:
    before = cluster.admin.broker_config("broker-a")["fileReservedTime"]
    cluster.admin.update_broker_config("broker-a", {"fileReservedTime": "48"})
    assert cluster.admin.broker_config("broker-a")["fileReservedTime"] == "48"
    cluster.admin.update_broker_config("broker-a", {"fileReservedTime": before})


def test_name_servers_keep_values(cluster: Cluster) -> None:
    admin = cluster.admin
    assert admin.key_value("CONTRACT", "colour") is None
    assert admin.key_values("CONTRACT") == {}
    admin.put_key_value("CONTRACT", "colour", "blue")
    assert (admin.key_value("CONTRACT", "colour"), admin.key_values("CONTRACT")) == ("blue", {"colour": "blue"})
    admin.delete_key_value("CONTRACT", "colour")
    assert admin.key_value("CONTRACT", "colour") is None


def test_an_ordered_topic_has_its_queues_written_down(cluster: Cluster, differs: Differs) -> None:
    admin, name = cluster.admin, cluster.physical("fixed-queues")
    admin.create_topic(name, queues=3, message_type="FIFO", order=True)
    assert admin.key_value("ORDER_TOPIC_CONFIG", name) == "broker-a:3"
    eventually(lambda: name in admin.topic_names())
    assert admin.route(name).order_conf == differs("fixed queues in the route of an ordered topic")
    admin.delete_topic(name)
    assert admin.key_value("ORDER_TOPIC_CONFIG", name) is None


def test_an_unknown_group_cannot_be_reset(cluster: Cluster) -> None:
    topic = cluster.topic("reset-unknown", queues=1)
    with pytest.raises(GroupNotExist):
        cluster.admin.reset_offset(cluster.physical("GID_unknown"), cluster.physical(topic), 0)


def test_an_unknown_group_pulls_nothing(cluster: Cluster) -> None:
    topic = cluster.topic("pull-unknown", queues=1)
    (queue,) = cluster.queues(topic)
    (address,) = cluster.admin.masters().values()
    call = pull_call(address, queue, cluster.physical("GID_unknown"), 0)
    with pytest.raises(GroupNotExist):
        cluster.admin.session.call(call, accept=PULL_CODES)
