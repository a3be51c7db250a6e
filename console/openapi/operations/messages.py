"""Messages: by ID, by key, by time, and what became of them; and those that are dead letters.

Of dead letters the names of parameters and results are PascalCase; parameters are also taken in camelCase.
"""

from __future__ import annotations

import base64
import zlib
from typing import Any, Literal

from django.conf import settings
from pydantic import Field, model_validator

from console.instances import broker
from console.messaging import dead_letters, queries, services
from console.messaging.consumption import delivery_tracks
from console.messaging.queries import Source
from console.messaging.records import MessageRecord
from console.openapi import registry
from console.openapi.operations import lookup
from console.openapi.registry import (
    NOTHING,
    Begin,
    Boolean,
    Call,
    End,
    InstanceId,
    MessageId,
    Nothing,
    PageNumber,
    PageSize,
    Parameters,
    Result,
    TaskId,
    TopicName,
    operation,
)
from console.topics.models import Group, Topic
from console.topics.names import shown_name
from console.web.errors import Refused

_MISSES = ("BIZ_TOPIC_NOT_FOUND", "BIZ_NO_MESSAGE", "BIZ_INSTANCE_NOT_FOUND")

_LETTER_MISSES = (
    "BIZ_SUBSCRIPTION_NOT_FOUND",
    "BIZ_PUBLISH_INFO_NOT_FOUND",
    "BIZ_CONSUMER_ID_BELONG_TO_OTHER_USER",
    "BIZ_PRODUCER_ID_BELONG_TO_OTHER_USER",
    "BIZ_NO_MESSAGE",
    "BIZ_INSTANCE_NOT_FOUND",
)


_FILTERS = ("State", "Reason", "Tag", "Key", "Property", "Body")


class Property(Result):
    """MessageProperty."""

    name: str
    value: str


class Message(Result):
    """OnsRestMessageDo."""

    topic: str
    propertyList: list[Property]
    body: str | None = Field(description="Text when the bytes are UTF-8, else Base64; null when it was left out.")
    bodyBase64: bool = Field(description="Whether the body is given in Base64.")
    bodyOmitted: bool = Field(description="Whether the body is too large for a list; message/getById has it.")
    storeSize: int = Field(description="Bytes.")
    bornTimestamp: int = Field(description="When it was produced, ms.")
    bornHost: str = Field(description="ip:port of the producer.")
    storeTimestamp: int = Field(description="When the broker stored it, ms.")
    storeHost: str = Field(description="ip:port of the broker.")
    msgId: str = Field(description="The ID that the client made.")
    bodyCRC: int = Field(description="CRC-32 of the body, without its highest bit.")
    reconsumeTimes: int = Field(description="Consumption retries so far.")


class MessagePage(Result):
    """MsgFoundDo."""

    taskId: str
    maxPageCount: int
    currentPage: int
    data: list[Message]


class LetterProperty(Result):
    """MessageProperty of a dead letter."""

    Name: str
    Value: str


class Letter(Result):
    """A dead letter."""

    Topic: str = Field(description="The topic it was published to.")
    PropertyList: list[LetterProperty]
    Body: str | None = Field(description="Text when the bytes are UTF-8, else Base64; null when it was left out.")
    BodyBase64: bool = Field(description="Whether the body is given in Base64.")
    BodyOmitted: bool = Field(description="Whether the body is too large for a list.")
    StoreSize: int = Field(description="Bytes.")
    BornTimestamp: int = Field(description="When it was produced, ms.")
    BornHost: str
    StoreTimestamp: int = Field(description="When it became a dead letter, ms.")
    StoreHost: str
    MsgId: str
    BodyCRC: int
    ReconsumeTimes: int


class LetterPage(Result):
    """MsgFoundDo of dead letters."""

    TaskId: str
    MaxPageCount: int
    CurrentPage: int
    Data: list[Letter]


def message(record: MessageRecord, *, listed: bool = False) -> Message:
    """One message; a large body is left out of a list (`GANTRY_API_LIST_BODY_BYTES`)."""
    body, is_base64, omitted = _body(record.body, listed=listed)
    return Message(
        topic=record.topic,
        propertyList=[Property(name=n, value=v) for n, v in record.properties.items()],
        body=body,
        bodyBase64=is_base64,
        bodyOmitted=omitted,
        storeSize=record.stored_size,
        bornTimestamp=record.born_at_ms,
        bornHost=record.born_host,
        storeTimestamp=record.stored_at_ms,
        storeHost=record.store_host,
        msgId=record.message_id,
        bodyCRC=zlib.crc32(record.body) & 0x7FFFFFFF,
        reconsumeTimes=record.reconsume_times,
    )


def letter(source: Source, record: MessageRecord, *, listed: bool = False) -> Letter:
    """One dead letter of the group behind `source`."""
    plain = message(record, listed=listed)
    return Letter(
        Topic=shown_name(source.instance, record.original_topic),
        PropertyList=[LetterProperty(Name=p.name, Value=p.value) for p in plain.propertyList],
        Body=plain.body,
        BodyBase64=plain.bodyBase64,
        BodyOmitted=plain.bodyOmitted,
        StoreSize=plain.storeSize,
        BornTimestamp=plain.bornTimestamp,
        BornHost=plain.bornHost,
        StoreTimestamp=plain.storeTimestamp,
        StoreHost=plain.storeHost,
        MsgId=plain.msgId,
        BodyCRC=plain.bodyCRC,
        ReconsumeTimes=plain.reconsumeTimes,
    )


def _body(body: bytes, *, listed: bool) -> tuple[str | None, bool, bool]:
    if listed and len(body) > settings.API_LIST_BODY_BYTES:
        return None, False, True
    try:
        return body.decode(), False, False
    except UnicodeDecodeError:
        return base64.b64encode(body).decode(), True, False


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
    summary="Whether each group has consumed a message",
    description="Derived from offsets: after an offset reset it can be wrong. Groups of other accounts are left "
    "out; broadcasting and pulling groups are UNKNOWN.",
    parameters=MessageQuery,
    result=list[MessageTrack],
    needs=("mq:QueryMessage",),
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
            consumerGroup=track.group.group_id,
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
    needs=("mq:QueryMessage",),
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
    needs=("mq:QueryMessage",),
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
    needs=("mq:QueryMessage",),
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


class PushQuery(MessageQuery):
    groupId: registry.GroupId
    clientId: str = Field(min_length=1, max_length=512, description="One of consumer/getConnection.")


class PushDo(Result):
    """What the client made of it."""

    result: str = Field(
        description="CR_SUCCESS, CR_LATER, CR_THROW_EXCEPTION, CR_RETURN_NULL, CR_COMMIT or CR_ROLLBACK."
    )
    remark: str = Field(description="What the client adds, such as its exception.")
    spentTimeMillis: int = Field(description="How long its listener took, ms.")


@operation(
    "message/push",
    service="Message",
    summary="Hand a message to one client of a group",
    description="At once, whatever the group consumed; its offsets stay. The client's listener decides what becomes of "
    "it, and its answer is the result. The group must subscribe to the topic.",
    parameters=PushQuery,
    result=PushDo,
    needs=("mq:QueryMessage", "mq:ResendDeadLetter"),
    changes=True,
    errors=(*_LETTER_MISSES, "BIZ_TOPIC_NOT_FOUND", "BIZ_CONSUMER_NOT_ONLINE"),
    rpc="OnsMessagePush",
    extension=True,
)
def push(call: Call, parameters: PushQuery) -> PushDo:
    topic = _topic(call, parameters.instanceId, parameters.topic)
    group = lookup.group(call, parameters.instanceId, parameters.groupId, "mq:ResendDeadLetter")
    found = _by_id(topic, parameters.msgId)
    pushed = services.push_message(call.actor, group, topic, found, parameters.clientId)
    return PushDo(result=pushed.answer, remark=pushed.remark, spentTimeMillis=pushed.spent_ms)


class EitherSpelling(Parameters):
    """Takes `InstanceId` and `instanceId` alike; the signature covers the names as they were sent."""

    @model_validator(mode="before")
    @classmethod
    def _to_pascal_case(cls, given: Any) -> Any:
        renamed: dict[str, Any] = {}
        for name, value in dict(given).items():
            proper = name[:1].upper() + name[1:]
            target = proper if proper in cls.model_fields else name
            if target in renamed:
                raise ValueError(f"the parameter {target} is given in both spellings")
            renamed[target] = value
        return renamed


class LetterQuery(EitherSpelling):
    InstanceId: registry.InstanceId = ""
    GroupId: registry.GroupId
    MsgId: registry.MessageId


class LetterTimeQuery(EitherSpelling):
    InstanceId: registry.InstanceId = ""
    GroupId: registry.GroupId
    BeginTime: registry.Begin
    EndTime: registry.End
    TaskId: registry.TaskId = ""
    CurrentPage: registry.PageNumber
    PageSize: registry.PageSize = 20
    State: Literal["", "unsent", "sent", "discarded", "all"] = Field(
        default="", description="unsent or sent: sent again or not; empty: all but what was discarded."
    )
    Reason: Literal["", "used", "early"] = Field(
        default="", description="used: all retries failed; early: the client gave up before."
    )
    Tag: str = Field(default="", max_length=128, description="Exactly this tag.")
    Key: str = Field(default="", max_length=1024, description="One of the keys, exactly.")
    Property: str = Field(default="", max_length=1024, description="name=value, a name, or a part of a value.")
    Body: str = Field(default="", max_length=1024, description="A part of the body, in any case.")


class LetterChange(LetterQuery):
    Restore: Boolean = Field(default=False, description="Put it back among the others.")


@operation(
    "message/getByIdInDLQ",
    service="Dead letters",
    summary="One dead letter by ID",
    description="Of several letters with one ID (each resend that fails adds one): the newest.",
    parameters=LetterQuery,
    result=Letter,
    needs=("mq:QueryMessage",),
    errors=_LETTER_MISSES,
    rpc="OnsDLQMessageGetById",
    limit="query",
    any_case=True,
)
def letter_by_id(call: Call, parameters: LetterQuery) -> Letter:
    group = _group_of(call, parameters, "mq:QueryMessage")
    return letter(Source.of_dead_letters(group), _found_letter(group, parameters.MsgId).record)


@operation(
    "message/getByPagedDLQ",
    service="Dead letters",
    summary="Dead letters of a group by time, page by page",
    description="By the time they became dead letters, newest first. Pages and tasks as in message/getByPagedTopic. "
    "What was discarded is left out unless State says so.",
    parameters=LetterTimeQuery,
    result=LetterPage,
    needs=("mq:QueryMessage",),
    errors=(*_LETTER_MISSES, "BIZ_TASK_NOT_FOUND"),
    rpc="OnsDLQMessagePageQueryByGroupId",
    limit="query",
    any_case=True,
)
def letters_by_paged(call: Call, parameters: LetterTimeQuery) -> LetterPage:
    group = _group_of(call, parameters, "mq:QueryMessage")
    if parameters.TaskId:
        page = dead_letters.next_page(call.actor, group, parameters.TaskId, parameters.CurrentPage)
    else:
        begun = dead_letters.search(
            call.actor,
            group,
            parameters.BeginTime,
            parameters.EndTime,
            page=parameters.CurrentPage,
            page_size=parameters.PageSize,
            wanted={name.lower(): getattr(parameters, name) for name in _FILTERS},
        )
        if begun is None or begun.total == 0:
            raise Refused("BIZ_NO_MESSAGE", f"The group {group.group_id} has no dead letter in this range.")
        page = begun
    source = Source.of_dead_letters(group)
    return LetterPage(
        TaskId=page.task_id,
        MaxPageCount=page.max_page_count,
        CurrentPage=page.page,
        Data=[letter(source, record, listed=True) for record in page.messages],
    )


@operation(
    "message/resendByIdInDLQ",
    service="Dead letters",
    summary="Resend a dead letter to its group",
    description="To this group only, at once, with a retry counter that starts at 0. The letter stays in the queue, "
    "also when it is consumed now; if it fails again, a new letter with the same ID appears.",
    parameters=LetterQuery,
    result=Nothing,
    needs=("mq:ResendDeadLetter",),
    changes=True,
    errors=_LETTER_MISSES,
    rpc="OnsDLQMessageResendById",
    any_case=True,
)
def resend_letter(call: Call, parameters: LetterQuery) -> dict[str, Any]:
    group = _group_of(call, parameters, "mq:ResendDeadLetter")
    found = _found_letter(group, parameters.MsgId)
    [result] = services.resend_dead_letters(call.actor, group, [str(found.record.position)])
    if result.error:
        raise Refused("ONS_INVOKE_ERROR", result.error, "MsgId")
    return NOTHING


@operation(
    "message/discardByIdInDLQ",
    service="Dead letters",
    summary="Put a dead letter aside",
    description="It stays in the queue until retention removes it, and is left out of lists. With Restore it is put "
    "back.",
    parameters=LetterChange,
    result=Nothing,
    needs=("mq:ResendDeadLetter",),
    changes=True,
    errors=_LETTER_MISSES,
    any_case=True,
    extension=True,
)
def discard_letter(call: Call, parameters: LetterChange) -> dict[str, Any]:
    group = _group_of(call, parameters, "mq:ResendDeadLetter")
    found = _found_letter(group, parameters.MsgId)
    [result] = services.discard_dead_letters(call.actor, group, [str(found.record.position)], back=parameters.Restore)
    if result.error:
        raise Refused("ONS_INVOKE_ERROR", result.error, "MsgId")
    return NOTHING


def _group_of(call: Call, parameters: LetterQuery | LetterTimeQuery, action: str) -> Group:
    return lookup.group(call, parameters.InstanceId, parameters.GroupId, action)


def _found_letter(group: Group, message_id: str) -> dead_letters.Letter:
    found = dead_letters.find(group, message_id)
    if found is None:
        raise Refused("BIZ_NO_MESSAGE", f"The group {group.group_id} has no dead letter with this ID.", "MsgId")
    return found
