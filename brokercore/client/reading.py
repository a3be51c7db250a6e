"""Which requests only read: all that may go to a cluster on which nothing is to change."""

from __future__ import annotations

from brokercore.client.session import Call
from brokercore.protocol.codes import OwnRequestCode, PlainAclCode, RequestCode

READING = frozenset(
    {
        RequestCode.PULL_MESSAGE,
        RequestCode.QUERY_MESSAGE,
        RequestCode.QUERY_CONSUMER_OFFSET,
        RequestCode.GET_ALL_TOPIC_CONFIG,
        RequestCode.GET_BROKER_CONFIG,
        RequestCode.GET_BROKER_RUNTIME_INFO,
        RequestCode.SEARCH_OFFSET_BY_TIMESTAMP,
        RequestCode.GET_MAX_OFFSET,
        RequestCode.GET_MIN_OFFSET,
        RequestCode.GET_EARLIEST_MSG_STORETIME,
        RequestCode.VIEW_MESSAGE_BY_ID,
        RequestCode.GET_CONSUMER_LIST_BY_GROUP,
        RequestCode.GET_ALL_CONSUMER_OFFSET,
        RequestCode.GET_ALL_DELAY_OFFSET,
        RequestCode.GET_KV_CONFIG,
        RequestCode.GET_ROUTEINFO_BY_TOPIC,
        RequestCode.GET_BROKER_CLUSTER_INFO,
        RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG,
        RequestCode.GET_TOPIC_STATS_INFO,
        RequestCode.GET_CONSUMER_CONNECTION_LIST,
        RequestCode.GET_PRODUCER_CONNECTION_LIST,
        RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER,
        RequestCode.GET_CONSUME_STATS,
        RequestCode.GET_KVLIST_BY_NAMESPACE,
        RequestCode.INVOKE_BROKER_TO_GET_CONSUMER_STATUS,
        RequestCode.GET_TOPICS_BY_CLUSTER,
        RequestCode.QUERY_TOPIC_CONSUME_BY_WHO,
        RequestCode.QUERY_CONSUME_TIME_SPAN,
        RequestCode.GET_SYSTEM_TOPIC_LIST_FROM_NS,
        RequestCode.GET_SYSTEM_TOPIC_LIST_FROM_BROKER,
        RequestCode.GET_CONSUMER_RUNNING_INFO,
        RequestCode.VIEW_BROKER_STATS_DATA,
        RequestCode.GET_BROKER_CONSUME_STATS,
        RequestCode.GET_NAMESRV_CONFIG,
        RequestCode.QUERY_CONSUME_QUEUE,
        RequestCode.QUERY_DATA_VERSION,
        RequestCode.GET_ALL_PRODUCER_INFO,
        RequestCode.QUERY_TOPICS_BY_CONSUMER,
        RequestCode.QUERY_SUBSCRIPTION_BY_CONSUMER,
        RequestCode.GET_TOPIC_CONFIG,
        RequestCode.GET_SUBSCRIPTIONGROUP_CONFIG,
        RequestCode.GET_BROKER_MEMBER_GROUP,
        RequestCode.GET_BROKER_HA_STATUS,
        RequestCode.AUTH_GET_USER,
        RequestCode.AUTH_LIST_USER,
        RequestCode.AUTH_GET_ACL,
        RequestCode.AUTH_LIST_ACL,
        RequestCode.GET_ALL_MESSAGE_REQUEST_MODE,
        PlainAclCode.GET_BROKER_CLUSTER_ACL_INFO,
        PlainAclCode.GET_BROKER_CLUSTER_ACL_CONFIG,
        OwnRequestCode.GET_ALL_TOPIC_OFFSETS,
    }
)
"""Requests that leave brokers, name servers and clients as they are. Every other one counts as a change."""

_COMMITS = 1
"""The bit of a pull's `sysFlag` that makes it write the group's offset as well (PullSysFlag.FLAG_COMMIT_OFFSET)."""


def is_reading(call: Call) -> bool:
    """Whether a request changes nothing. What is not known counts as a change."""
    if call.code not in READING:
        return False
    flags = call.ext.get("sysFlag", "0")
    return call.code != RequestCode.PULL_MESSAGE or (flags.isdecimal() and not int(flags) & _COMMITS)
