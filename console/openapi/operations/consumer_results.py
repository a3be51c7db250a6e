"""What the consumer operations answer with, and how it is put together."""

from __future__ import annotations

from pydantic import Field

from brokercore.client import Connection
from console.messaging import diagnosis
from console.messaging.diagnosis import ClientStatus, Diagnosis
from console.messaging.names import release, retry_topic, shown_name
from console.messaging.stacks import threads_of
from console.messaging.status import GroupStatus, group_status
from console.openapi.registry import Result
from console.topics.models import Group
from console.web.errors import Refused


class DetailInTopic(Result):
    topic: str = Field(description="The group's own retry topic stands as %RETRY%<group>.")
    totalDiff: int = Field(description="Backlog, messages.")
    lastTimestamp: int = Field(description="Store time of the last consumed message, ms; 0: none.")
    delayTime: int = Field(description="Age of the oldest message not yet consumed, ms; 0 without backlog.")


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
    found = diagnosis.diagnose(group, jstack=jstack)
    if jstack and (silent := next((c for c in found.clients if c.problem), None)):
        message = f"{silent.connection.client_id} did not tell its thread stacks: {silent.problem}"
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
            topic=f"%RETRY%{topic.topic}" if topic.is_retry else topic.topic,
            totalDiff=topic.backlog,
            lastTimestamp=topic.last_timestamp_ms,
            delayTime=topic.delay_ms,
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
            if s.topic != retry_topic(group)
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
