"""Consumption: backlog, diagnosis, connections, time span, reset."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field

from brokercore.client import Connection
from brokercore.names import retry_topic
from console.messaging import services
from console.messaging.status import (
    ClientStatus,
    Diagnosis,
    GroupStatus,
    clients_of,
    diagnose,
    group_status,
    release,
    time_span,
)
from console.openapi.operations import lookup
from console.openapi.registry import (
    NOTHING,
    Boolean,
    Call,
    Choice,
    GroupId,
    InstanceId,
    Nothing,
    OptionalMillis,
    Parameters,
    Result,
    TopicName,
    operation,
)
from console.topics.models import Group, Topic
from console.topics.names import shown_name
from console.web.errors import Refused

_MISSES = (
    "BIZ_SUBSCRIPTION_NOT_FOUND",
    "BIZ_PUBLISH_INFO_NOT_FOUND",
    "BIZ_CONSUMER_ID_BELONG_TO_OTHER_USER",
    "BIZ_PRODUCER_ID_BELONG_TO_OTHER_USER",
    "BIZ_INSTANCE_NOT_FOUND",
)


class DetailInQueue(Result):
    brokerName: str
    queueId: int
    brokerOffset: int = Field(description="Where the queue ends.")
    consumerOffset: int = Field(description="What the group consumes next.")
    diff: int = Field(description="Backlog, messages.")
    lastTimestamp: int = Field(description="Store time of the last consumed message, ms; 0: none.")


class DetailInTopic(Result):
    topic: str = Field(description="The group's own retry topic stands as %RETRY%<group>.")
    totalDiff: int = Field(description="Backlog, messages.")
    lastTimestamp: int = Field(description="Store time of the last consumed message, ms; 0: none.")
    delayTime: int = Field(description="Age of the oldest message not yet consumed, ms; 0 without backlog.")
    queues: list[DetailInQueue]


class Accumulate(Result):
    onLine: bool = Field(description="At least one consumer is online.")
    online: bool = Field(description="The same as onLine.")
    totalDiff: int = Field(description="Backlog over all topics, messages.")
    consumeTps: float = Field(description="Messages a second.")
    lastTimestamp: int = Field(description="Store time of the last consumed message, ms; 0: none.")
    delayTime: int = Field(description="Largest delay of a topic, ms.")
    DetailInTopicList: list[DetailInTopic]


class ConnectionDo(Result):
    """ConnectionDo."""

    clientId: str
    clientAddr: str = Field(description="Address and port.")
    language: str
    version: str
    remoteIP: str


class SubscriptionDo(Result):
    """SubscriptionData."""

    topic: str
    subString: str = Field(description="The filter expression.")
    subVersion: int
    tagsSet: list[str]


class RunningData(Result):
    """ConsumerRunningDataDo."""

    groupId: str
    topic: str
    rt: float = Field(description="Response time, ms.")
    okTps: float
    failedTps: float
    failedCountPerHour: int


class ThreadTrack(Result):
    """ThreadTrackDo."""

    thread: str
    trackList: list[str] = Field(description="Lines of the stack.")


class ConsumerConnectionInfo(Result):
    """ConsumerConnectionInfoDo."""

    clientId: str
    connection: str = Field(description="The address; and why nothing more is known, when the client did not answer.")
    language: str
    version: str
    consumeModel: str | None = Field(description="CLUSTERING or BROADCASTING.")
    consumeType: str | None = Field(description="PUSH or PULL.")
    threadCount: int | None
    startTimeStamp: int | None = Field(description="Start of the consumer, ms.")
    lastTimeStamp: int | None = Field(description="Latest consumption, ms.")
    SubscriptionSet: list[SubscriptionDo]
    RunningDataList: list[RunningData]
    Jstack: list[ThreadTrack]


class ConsumerStatus(Result):
    """ConsumerStatusDo."""

    online: bool
    totalDiff: int
    consumeTps: float
    lastTimestamp: int
    delayTime: int
    consumeModel: str | None = Field(description="CLUSTERING or BROADCASTING; null while offline.")
    subscriptionSame: bool | None = Field(description="All consumers have the same subscriptions.")
    rebalanceOK: bool | None = Field(description="Every queue of the subscribed topics has exactly one consumer.")
    ConnectionSet: list[ConnectionDo]
    DetailInTopicList: list[DetailInTopic]
    ConsumerConnectionInfoList: list[ConsumerConnectionInfo]


class TimeSpanDo(Result):
    topic: str
    minTimeStamp: int = Field(description="Earliest stored message, ms.")
    maxTimeStamp: int = Field(description="Latest stored message, ms.")
    consumeTimeStamp: int = Field(description="Store time of the last message that the group consumed, ms.")


def consumer_status(group: Group, *, detail: bool, jstack: bool) -> ConsumerStatus:
    """Everything about a group; with `jstack` a client that does not answer is an ONS_INVOKE_ERROR.

    Raises Refused, ClientError.
    """
    status = group_status(group)
    found = diagnose(group, jstack=jstack)
    if jstack and (silent := next((c for c in found.clients if c.problem), None)):
        message = f"{silent.connection.client_id} did not return its thread stacks: {silent.problem}"
        raise Refused("ONS_INVOKE_ERROR", message)
    return ConsumerStatus(
        online=status.online,
        totalDiff=status.backlog,
        consumeTps=status.consume_tps,
        lastTimestamp=status.last_timestamp_ms,
        delayTime=status.delay_ms,
        consumeModel=status.consume_model or None,
        subscriptionSame=found.subscription_same if status.online else True,
        rebalanceOK=found.rebalance_ok if status.online else False,
        ConnectionSet=[connection_row(row) for row in status.connections],
        DetailInTopicList=topic_rows(status) if detail else [],
        ConsumerConnectionInfoList=_clients(group, found) if detail else [],
    )


def connection_row(connection: Connection) -> ConnectionDo:
    """One online client."""
    return ConnectionDo(
        clientId=connection.client_id,
        clientAddr=connection.address,
        language=connection.language,
        version=_version(connection),
        remoteIP=connection.address.rpartition(":")[0].strip("[]"),
    )


def topic_rows(status: GroupStatus) -> list[DetailInTopic]:
    """Progress by topic; the sum of the backlogs is that of the group."""
    return [
        DetailInTopic(
            topic=retry_topic(topic.topic) if topic.is_retry else topic.topic,
            totalDiff=topic.backlog,
            lastTimestamp=topic.last_timestamp_ms,
            delayTime=topic.delay_ms,
            queues=[
                DetailInQueue(
                    brokerName=queue.broker_name,
                    queueId=queue.queue_id,
                    brokerOffset=queue.broker_offset,
                    consumerOffset=queue.consumer_offset,
                    diff=queue.backlog,
                    lastTimestamp=queue.last_timestamp_ms,
                )
                for queue in topic.queues
            ],
        )
        for topic in status.topics
    ]


def _clients(group: Group, found: Diagnosis) -> list[ConsumerConnectionInfo]:
    return [_client(group, client) for client in found.clients]


def _client(group: Group, client: ClientStatus) -> ConsumerConnectionInfo:
    connection = client.connection
    return ConsumerConnectionInfo(
        clientId=connection.client_id,
        connection=f"{connection.address} ({client.problem})" if client.problem else connection.address,
        language=connection.language,
        version=_version(connection),
        consumeModel=client.consume_model or None,
        consumeType=client.consume_type or None,
        threadCount=client.threads,
        startTimeStamp=client.started_at_ms,
        lastTimeStamp=client.last_consume_ms,
        SubscriptionSet=[
            SubscriptionDo(
                topic=shown_name(group.instance, s.topic), subString=s.expression, subVersion=s.version, tagsSet=s.tags
            )
            for s in client.subscription_data
            if s.topic != retry_topic(group.physical_name)
        ],
        RunningDataList=[
            RunningData(
                groupId=group.group_id,
                topic=row.topic,
                rt=row.response_ms,
                okTps=row.ok_tps,
                failedTps=row.failed_tps,
                failedCountPerHour=row.failed_per_hour,
            )
            for row in client.running
        ],
        Jstack=[ThreadTrack(thread=thread, trackList=lines) for thread, lines in threads_of(client.stack)],
    )


def _version(connection: Connection) -> str:
    """As clients write it: V5_3_3."""
    return "V" + release(connection.version).removeprefix("version ").replace(".", "_")


class GroupQuery(Parameters):
    instanceId: InstanceId = ""
    groupId: GroupId


class AccumulateQuery(GroupQuery):
    detail: Boolean = Field(default=False, description="true: also the backlog of each topic and queue.")


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
        default=None, description="Milliseconds since the epoch; needed with type 1, not in the future."
    )
    queue: str = Field(
        default="", max_length=255, description="One queue as `broker-a:0`; all of the topic when it is left out."
    )


@operation(
    "consumer/accumulate",
    service="Consumer",
    summary="Backlog of a group",
    description="Works while the group is offline too: then from its committed offsets.",
    parameters=AccumulateQuery,
    result=Accumulate,
    needs=("mq:QueryGroup",),
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
    needs=("mq:QueryGroup",),
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
    needs=("mq:QueryGroup",),
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
    needs=(
        "mq:QueryGroup",
        "mq:QueryTopic",
    ),
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
    needs=("mq:ResetOffset",),
    changes=True,
    errors=(*_MISSES, "BIZ_TOPIC_NOT_FOUND"),
    rpc="OnsConsumerResetOffset",
)
def reset_offset(call: Call, parameters: ResetOffset) -> dict[str, Any]:
    target: services.Target = "end"
    if parameters.type == 1:
        if parameters.resetTime is None:
            raise Refused("BIZ_FIELD_CHECK_INVALID", "The parameter resetTime is missing; type is 1.", "resetTime")
        target = parameters.resetTime
    group = lookup.group(call, parameters.instanceId, parameters.groupId, "mq:ResetOffset")
    services.reset_offset(call.actor, group, _topic(call, parameters), target, parameters.queue)
    return NOTHING


def _group(call: Call, parameters: GroupQuery) -> Group:
    return lookup.group(call, parameters.instanceId, parameters.groupId, "mq:QueryGroup")


def _topic(call: Call, parameters: TimeSpanQuery) -> Topic:
    return lookup.topic(call, parameters.instanceId, parameters.topic, "mq:QueryTopic")


def threads_of(text: str) -> list[tuple[str, list[str]]]:
    """Each thread's name and the lines of its stack.

    A thread is a block between blank lines. Its first line is the name, padded, with `TID: … STATE: …`; in the Java
    client every further line begins with the name again.
    """
    threads = []
    for block in text.replace("\r\n", "\n").split("\n\n"):
        first, *rest = [line for line in block.split("\n") if line.strip()] or [""]
        name, mark, state = first.partition("TID:")
        name = name.strip()
        if not mark:
            continue
        threads.append((name, [f"TID:{state}".rstrip(), *(_frame(name, line) for line in rest)]))
    return threads


def _frame(name: str, line: str) -> str:
    return line.removeprefix(name).strip() if name else line.strip()
