"""Header fields: those of requests, read with their type, and the headers of the two answers that are sent most.

A field that is missing or no number is refused with one sentence. The two answers are written without a JSON encoder;
everything else goes through Command.
"""

from __future__ import annotations

from collections.abc import Mapping

import orjson

from brokercore.protocol.codes import ResponseCode
from brokercore.server.errors import Refusal

SEND_FIELDS = {
    "a": "producerGroup",
    "b": "topic",
    "c": "defaultTopic",
    "d": "defaultTopicQueueNums",
    "e": "queueId",
    "f": "sysFlag",
    "g": "bornTimestamp",
    "h": "flag",
    "i": "properties",
    "j": "reconsumeTimes",
    "k": "unitMode",
    "l": "maxReconsumeTimes",
    "m": "batch",
}
"""Header fields of SEND_MESSAGE_V2 and SEND_REPLY_MESSAGE_V2, and what the older requests call them."""

_LONG = range(-(2**63), 2**63)

_SEND = (
    b'{"code":0,"extFields":{"MSG_REGION":"%b","TRACE_ON":"true","msgId":"%b","queueId":"%d","queueOffset":"%d",'
    b'"transactionId":%b%b},"flag":1,"language":"JAVA","opaque":%d,"serializeTypeCurrentRPC":"JSON","version":479}'
)
_PULL = (
    b'{"code":%d,"extFields":{"groupSysFlag":"0","maxOffset":"%d","minOffset":"%d","nextBeginOffset":"%d",'
    b'"suggestWhichBrokerId":"0","topicSysFlag":"0"},"flag":1,"language":"JAVA","opaque":%d,"remark":"%b",'
    b'"serializeTypeCurrentRPC":"JSON","version":479}'
)


def text(ext: Mapping[str, str], name: str) -> str:
    """A required text field."""
    value = ext.get(name)
    if value is None:
        raise Refusal(ResponseCode.SYSTEM_ERROR, f"the header field {name} is missing")
    return value


def integer(ext: Mapping[str, str], name: str, default: int | None = None) -> int:
    """A whole number of 64 bits; required when there is no default."""
    value = ext.get(name)
    if value is None or value == "":
        if default is None:
            raise Refusal(ResponseCode.SYSTEM_ERROR, f"the header field {name} is missing")
        return default
    try:
        number = int(value)
    except ValueError:
        number = 1 << 64
    if number not in _LONG:
        raise Refusal(ResponseCode.SYSTEM_ERROR, f"the header field {name} is not a whole number: {value[:40]!r}")
    return number


def boolean(ext: Mapping[str, str], name: str, default: bool = False) -> bool:
    """A truth value as Java writes it."""
    value = ext.get(name)
    return default if value is None else value.lower() == "true"


def send_answer(  # noqa: PLR0917 (as many as the header has fields; keywords cost time here)
    opaque: int, region: bytes, message_id: bytes, queue_id: int, queue_offset: int, unique_id: str, handle: str = ""
) -> bytes:
    """The frame that tells a producer its message is stored; `handle` recalls a scheduled one (Base64, or nothing)."""
    name = b'"%b"' % unique_id.encode() if unique_id.isalnum() else orjson.dumps(unique_id)
    recall = b',"recallHandle":"%b"' % handle.encode() if handle else b""
    header = _SEND % (region, message_id, queue_id, queue_offset, name, recall, opaque)
    size = len(header)
    return (size + 4).to_bytes(4, "big") + size.to_bytes(4, "big") + header


def pull_head(  # noqa: PLR0917 (as above)
    opaque: int, code: int, remark: bytes, next_offset: int, min_offset: int, max_offset: int, body_size: int = 0
) -> bytes:
    """A pull answer up to its body."""
    header = _PULL % (code, max_offset, min_offset, next_offset, opaque, remark)
    size = len(header)
    return (size + 4 + body_size).to_bytes(4, "big") + size.to_bytes(4, "big") + header
