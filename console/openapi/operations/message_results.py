"""Messages as the management API shows them; the dead-letter operations with names in PascalCase."""

from __future__ import annotations

import base64
import zlib

from django.conf import settings
from pydantic import Field

from console.messaging.names import shown_name
from console.messaging.queries import Source
from console.messaging.records import MessageRecord
from console.openapi.registry import Result


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
