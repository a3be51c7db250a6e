"""Replies to requests: 324 and 325, passed on to the requester as 326."""

from __future__ import annotations

import time

from brokercore.protocol import properties as names
from brokercore.protocol.codes import RequestCode, ResponseCode
from brokercore.protocol.command import Command
from brokercore.protocol.properties import decode_properties, encode_properties
from brokercore.server import permissions
from brokercore.server.broker import Broker
from brokercore.server.connection import Connection
from brokercore.server.errors import Refusal
from brokercore.server.headers import SEND_FIELDS, integer
from brokercore.server.incoming import check_body
from brokercore.server.replies import is_reply_topic, reply_cluster
from brokercore.server.security import Caller

PASS_ON_SECONDS = 10
"""How long the requester's client may take to accept its reply."""

_PUSH_REPLY_TIME = "PUSH_REPLY_TIME"
_PASSED_ON = "abcdefghijk"
"""The fields of a reply that its requester is told, by their short names."""


async def reply(broker: Broker, connection: Connection, command: Command, caller: Caller) -> Command:
    """SEND_REPLY_MESSAGE and SEND_REPLY_MESSAGE_V2.

    A reply goes to the connection that the request came on, from whoever may subscribe to the request's topic. Apache
    RocketMQ pushes to any client that a reply names.
    """
    ext = command.ext
    header = {SEND_FIELDS[short]: ext.get(SEND_FIELDS[short]) or ext.get(short) for short in _PASSED_ON}
    name = header["topic"] or ""
    cluster = broker.settings.cluster_name
    if not any(is_reply_topic(name, called) for called in (cluster, reply_cluster(cluster, broker.name))):
        raise Refusal(ResponseCode.TOPIC_NOT_EXIST, f"replies are not sent to topic {name or 'without a name'}")
    check_body(command.body)
    properties = decode_properties(header["properties"] or "")
    awaited = broker.replies.find(properties)
    if awaited is None or not permissions.may(caller, connection, permissions.SUBSCRIBE, awaited.topic):
        raise Refusal(
            ResponseCode.SYSTEM_ERROR,
            f"push reply message fail: no request {properties.get(names.CORRELATION_ID)!r} of client"
            f" {properties.get(names.REPLY_TO_CLIENT)!r} is waiting for a reply",
        )
    now = str(int(time.time() * 1000))
    header |= {
        "properties": encode_properties(properties | {_PUSH_REPLY_TIME: now}).decode(),
        "bornHost": connection.address,
        "storeHost": broker.address,
        "storeTimestamp": now,
    }
    question = {field: value for field, value in header.items() if value is not None}
    answer = await awaited.connection.request(
        RequestCode.PUSH_REPLY_MESSAGE_TO_CLIENT, question, command.body, seconds=PASS_ON_SECONDS
    )
    if answer.code != ResponseCode.SUCCESS:
        raise Refusal(ResponseCode.SYSTEM_ERROR, f"the requester refused its reply: {answer.remark or answer.code}")
    broker.replies.done(properties)
    queue_id = integer(ext, "e" if "e" in ext else "queueId", 0)
    return command.response(ResponseCode.SUCCESS, ext={"msgId": "0", "queueId": str(queue_id), "queueOffset": "0"})


HANDLERS = {RequestCode.SEND_REPLY_MESSAGE: reply, RequestCode.SEND_REPLY_MESSAGE_V2: reply}
