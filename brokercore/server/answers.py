"""The two answers that are sent most, written without a JSON encoder; everything else goes through Command."""

from __future__ import annotations

import orjson

_SEND = (
    b'{"code":0,"extFields":{"MSG_REGION":"%b","TRACE_ON":"true","msgId":"%b","queueId":"%d","queueOffset":"%d",'
    b'"transactionId":%b%b},"flag":1,"language":"JAVA","opaque":%d,"serializeTypeCurrentRPC":"JSON","version":479}'
)
_PULL = (
    b'{"code":%d,"extFields":{"groupSysFlag":"0","maxOffset":"%d","minOffset":"%d","nextBeginOffset":"%d",'
    b'"suggestWhichBrokerId":"0","topicSysFlag":"0"},"flag":1,"language":"JAVA","opaque":%d,"remark":"%b",'
    b'"serializeTypeCurrentRPC":"JSON","version":479}'
)


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
