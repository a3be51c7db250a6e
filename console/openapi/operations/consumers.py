"""Consumption: backlog, diagnosis, connections, time span, reset."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field

from console.messaging import offsets
from console.messaging.status import clients_of, group_status, time_span
from console.openapi.operations import lookup
from console.openapi.operations.consumer_results import (
    Accumulate,
    ConnectionDo,
    ConsumerStatus,
    TimeSpanDo,
    connection_row,
    consumer_status,
    topic_rows,
)
from console.openapi.operations.fields import (
    NOTHING,
    Boolean,
    Choice,
    GroupId,
    InstanceId,
    Nothing,
    OptionalMillis,
    TopicName,
)
from console.openapi.registry import Call, Parameters, operation
from console.topics.models import Group, Topic
from console.web.errors import Refused

_MISSES = (
    "BIZ_SUBSCRIPTION_NOT_FOUND",
    "BIZ_PUBLISH_INFO_NOT_FOUND",
    "BIZ_CONSUMER_ID_BELONG_TO_OTHER_USER",
    "BIZ_PRODUCER_ID_BELONG_TO_OTHER_USER",
    "BIZ_INSTANCE_NOT_FOUND",
)


class GroupQuery(Parameters):
    instanceId: InstanceId = ""
    groupId: GroupId


class AccumulateQuery(GroupQuery):
    detail: Boolean = Field(default=False, description="true: also the backlog of each topic.")


class StatusQuery(GroupQuery):
    detail: Boolean = Field(default=False, description="true: also each topic and each client.")
    needJstack: Boolean = Field(
        default=False, description="true: also the stacks of every client's threads; only together with detail."
    )


class TimeSpanQuery(GroupQuery):
    topic: TopicName


class ResetOffset(TimeSpanQuery):
    type: Annotated[Literal[0, 1], Choice] = Field(
        description="0: skip everything stored. 1: go to the first message stored at or after resetTime."
    )
    resetTime: OptionalMillis = Field(
        default=None, description="Milliseconds since the epoch; needed with type 1, not in future."
    )


@operation(
    "consumer/accumulate",
    service="Consumer",
    summary="Backlog of a group",
    description="Works while the group is offline too: then from its committed offsets.",
    parameters=AccumulateQuery,
    result=Accumulate,
    errors=_MISSES,
    rpc="OnsConsumerAccumulate",
)
def accumulate(call: Call, parameters: AccumulateQuery) -> Accumulate:
    status = group_status(_group(call, parameters))
    return Accumulate(
        onLine=status.online,
        online=status.online,
        totalDiff=status.backlog,
        consumeTps=status.consume_tps,
        lastTimestamp=status.last_timestamp_ms,
        delayTime=status.delay_ms,
        DetailInTopicList=topic_rows(status) if parameters.detail else [],
    )


@operation(
    "consumer/status",
    service="Consumer",
    summary="Full diagnosis of a group",
    description="Asks every client of the group; slow, so do not call it often. While a client does not answer, "
    "`subscriptionSame` and `rebalanceOK` are null when the others do not tell.",
    parameters=StatusQuery,
    result=ConsumerStatus,
    errors=_MISSES,
    rpc="OnsConsumerStatus",
    limit="status",
)
def status(call: Call, parameters: StatusQuery) -> ConsumerStatus:
    return consumer_status(
        _group(call, parameters), detail=parameters.detail, jstack=parameters.needJstack and parameters.detail
    )


@operation(
    "consumer/getConnection",
    service="Consumer",
    summary="Online consumers of a group",
    parameters=GroupQuery,
    result=list[ConnectionDo],
    errors=(*_MISSES, "BIZ_CONSUMER_NOT_ONLINE"),
    rpc="OnsConsumerGetConnection",
)
def get_connection(call: Call, parameters: GroupQuery) -> list[ConnectionDo]:
    group = _group(call, parameters)
    connection = clients_of(group)
    if connection is None:
        raise Refused("BIZ_CONSUMER_NOT_ONLINE", f"No consumer of {group.group_id} is online.", "groupId")
    return [connection_row(row) for row in connection.connections]


@operation(
    "consumer/timespan",
    service="Consumer",
    summary="Times of the stored messages and of the last consumption",
    description="minTimeStamp is the earliest, maxTimeStamp the latest stored message; 0 for an empty topic.",
    parameters=TimeSpanQuery,
    result=TimeSpanDo,
    errors=(*_MISSES, "BIZ_TOPIC_NOT_FOUND"),
    rpc="OnsConsumerTimeSpan",
)
def timespan(call: Call, parameters: TimeSpanQuery) -> TimeSpanDo:
    group, topic = _group(call, parameters), _topic(call, parameters)
    span = time_span(group, topic.physical_name)
    return TimeSpanDo(
        topic=topic.name, minTimeStamp=span.min_ms, maxTimeStamp=span.max_ms, consumeTimeStamp=span.consumed_ms
    )


@operation(
    "consumer/resetoffset",
    service="Consumer",
    summary="Reset the offset of a group in one topic",
    description="Works for online and offline groups, forwards and backwards. Messages that wait for a retry are not "
    "affected. A broadcasting group is refused: its clients keep their offsets.",
    parameters=ResetOffset,
    result=Nothing,
    changes=True,
    errors=(*_MISSES, "BIZ_TOPIC_NOT_FOUND"),
    rpc="OnsConsumerResetOffset",
)
def reset_offset(call: Call, parameters: ResetOffset) -> dict[str, Any]:
    target: offsets.Target = "end"
    if parameters.type == 1:
        if parameters.resetTime is None:
            raise Refused("BIZ_FIELD_CHECK_INVALID", "The parameter resetTime is missing; type is 1.", "resetTime")
        target = parameters.resetTime
    group = lookup.group(call, parameters.instanceId, parameters.groupId, "mq:ResetOffset")
    offsets.reset_offset(call.actor, group, _topic(call, parameters), target)
    return NOTHING


def _group(call: Call, parameters: GroupQuery) -> Group:
    return lookup.group(call, parameters.instanceId, parameters.groupId, "mq:QueryGroup")


def _topic(call: Call, parameters: TimeSpanQuery) -> Topic:
    return lookup.topic(call, parameters.instanceId, parameters.topic, "mq:QueryTopic")
