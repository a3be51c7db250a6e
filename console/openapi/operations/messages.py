"""Messages: by ID, by key, by time, and what became of them."""

from __future__ import annotations

from pydantic import Field

from console.instances import broker
from console.messaging import queries
from console.messaging.queries import Source
from console.messaging.records import MessageRecord
from console.messaging.tracks import delivery_tracks
from console.openapi.operations import lookup
from console.openapi.operations.fields import Begin, End, InstanceId, MessageId, PageNumber, PageSize, TaskId, TopicName
from console.openapi.operations.message_results import Message, MessagePage, message
from console.openapi.registry import Call, Parameters, Result, operation
from console.topics.models import Topic
from console.web.errors import Refused

_MISSES = ("BIZ_TOPIC_NOT_FOUND", "BIZ_NO_MESSAGE", "BIZ_INSTANCE_NOT_FOUND")


class MessageQuery(Parameters):
    instanceId: InstanceId = ""
    topic: TopicName
    msgId: MessageId


class KeyQuery(Parameters):
    instanceId: InstanceId = ""
    topic: TopicName
    key: str = Field(min_length=1, max_length=1024, description="One of the message's keys, exactly.")


class TimeQuery(Parameters):
    instanceId: InstanceId = ""
    topic: TopicName
    beginTime: Begin
    endTime: End
    taskId: TaskId = ""
    currentPage: PageNumber
    pageSize: PageSize = 20


class MessageTrack(Result):
    """MessageTrack."""

    instanceId: str
    consumerGroup: str
    trackType: str = Field(description="CONSUMED, CONSUMED_BUT_FILTERED, NOT_CONSUME_YET, NOT_ONLINE or UNKNOWN.")
    exceptionDesc: str


@operation(
    "message/trace",
    service="Message",
    summary="Was a message consumed, by group",
    description="Judged from offsets: after an offset was reset it can be wrong. Groups of other accounts are left "
    "out; broadcasting and pulling groups are UNKNOWN.",
    parameters=MessageQuery,
    result=list[MessageTrack],
    errors=_MISSES,
    rpc="OnsMessageTrace",
    limit="query",
)
def trace(call: Call, parameters: MessageQuery) -> list[MessageTrack]:
    topic = _topic(call, parameters.instanceId, parameters.topic)
    found = delivery_tracks(
        broker.admin(topic.instance.cluster), topic, _by_id(topic, parameters.msgId), call.actor.tenant
    )
    return [
        MessageTrack(
            instanceId=topic.instance.instance_id,
            consumerGroup=track.group_id,
            trackType=track.track_type.value,
            exceptionDesc=track.explanation,
        )
        for track in found.tracks
    ]


@operation(
    "message/getById",
    service="Message",
    summary="One message by ID",
    description="The ID of the SDK's SendResult, or the broker's offset ID. Of several messages with one ID: the "
    "newest.",
    parameters=MessageQuery,
    result=Message,
    errors=_MISSES,
    rpc="OnsMessageGetByMsgId",
    limit="query",
)
def get_by_id(call: Call, parameters: MessageQuery) -> Message:
    return message(_by_id(_topic(call, parameters.instanceId, parameters.topic), parameters.msgId))


@operation(
    "message/getByKey",
    service="Message",
    summary="Messages by key",
    description="Those one of whose keys is exactly this one; the 64 newest, newest first.",
    parameters=KeyQuery,
    result=list[Message],
    errors=_MISSES,
    rpc="OnsMessageGetByKey",
    limit="query",
)
def get_by_key(call: Call, parameters: KeyQuery) -> list[Message]:
    topic = _topic(call, parameters.instanceId, parameters.topic)
    found = queries.find_by_key(Source.of_topic(topic), parameters.key)
    if not found:
        raise Refused("BIZ_NO_MESSAGE", f"The topic {topic.name} has no message with this key.", "key")
    return [message(record, listed=True) for record in found]


@operation(
    "message/getByPagedTopic",
    service="Message",
    summary="Messages of a topic by time, page by page",
    description="By store time, newest first. The first call gives the filter and gets a task ID with page 1 and the "
    "number of pages; later calls give the task ID and a page, and the first call's filter and page size hold. A task "
    "lives for ten minutes after its last use. At most 50 pages can be read.",
    parameters=TimeQuery,
    result=MessagePage,
    errors=(*_MISSES, "BIZ_TASK_NOT_FOUND"),
    rpc="OnsMessagePageQueryByTopic",
    limit="query",
)
def get_by_paged_topic(call: Call, parameters: TimeQuery) -> MessagePage:
    topic = _topic(call, parameters.instanceId, parameters.topic)
    source = Source.of_topic(topic)
    if parameters.taskId:
        page = queries.next_page(call.actor, source, parameters.taskId, parameters.currentPage)
    else:
        page = queries.search_by_time(
            call.actor,
            source,
            parameters.beginTime,
            parameters.endTime,
            page=parameters.currentPage,
            page_size=parameters.pageSize,
        )
        if page.total == 0:
            raise Refused("BIZ_NO_MESSAGE", f"The topic {topic.name} stored no message in this range.", "beginTime")
    return MessagePage(
        taskId=page.task_id,
        maxPageCount=page.max_page_count,
        currentPage=page.page,
        data=[message(record, listed=True) for record in page.messages],
    )


def _topic(call: Call, instance_id: str, name: str) -> Topic:
    return lookup.topic(call, instance_id, name, "mq:QueryMessage")


def _by_id(topic: Topic, message_id: str) -> MessageRecord:
    found = queries.find_by_id(Source.of_topic(topic), message_id)
    if not found:
        raise Refused("BIZ_NO_MESSAGE", f"The topic {topic.name} has no message with this ID.", "msgId")
    return found[0]
