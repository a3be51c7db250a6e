"""Messages of queues: as a request brings them, as a queue keeps them, and as an answer tells them."""

from __future__ import annotations

import hashlib
import re
import struct
from base64 import b64decode
from binascii import Error as Base64Error
from binascii import a2b_base64, b2a_base64
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from brokercore.smq.wire.errors import Code, SmqError
from brokercore.smq.wire.queues import RANGES
from brokercore.smq.wire.xml import ERROR_NAMESPACE, Element, branch, document, escape, leaf, read

MAX_BATCH = 16
PRIORITY_LEAST, PRIORITY_DEFAULT, PRIORITY_MOST = 1, 8, 16
#: Of a kept message: enqueue time (epoch ms), MD5 of the body, bytes of what stands between this and the body.
_HEAD = struct.Struct(">Q16sI")
HEAD_BYTES = _HEAD.size
#: Which message: its priority and its number in the queue. So the bytes' order is the order of delivery.
PLACE_BYTES, NONCE_BYTES = 7, 8
#: A receipt handle: which queue, which message, which delivery of it.
_HANDLE = struct.Struct(f">8s{PLACE_BYTES}s{NONCE_BYTES}s")
#: Of each sort of properties the element of one, and its types. Consumers that read another one stumble over it.
_PROPERTIES = {
    "UserProperties": ("PropertyValue", ("STRING", "NUMBER", "BOOLEAN", "BINARY")),
    "SystemProperties": ("SystemPropertyValue", ("STRING",)),
}
_NUMBER = re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d+)?", re.ASCII)
_MAX_PROPERTIES = 32
#: Bytes of all that a message brings beside its body.
MAX_EXTRA = 64 << 10


@dataclass(slots=True)
class Draft:
    """A message that is to be sent. `delay` (s) is None for the queue's own; `extra` is XML that comes back."""

    body: bytes
    delay: int | None = None
    priority: int = PRIORITY_DEFAULT
    extra: bytes = b""
    digest: bytes = field(init=False)
    """MD5 of the body, by which a client sees that all of it arrived."""

    def __post_init__(self) -> None:
        self.digest = hashlib.md5(self.body, usedforsecurity=False).digest()

    def kept(self, now_ms: int) -> bytes:
        """The message as a queue keeps it."""
        return _HEAD.pack(now_ms, self.digest, len(self.extra)) + self.extra + self.body


@dataclass(slots=True)
class Delivery:
    """A message that was received or peeked at; `handle` and `next_visible_ms` are of a received one."""

    id: str
    kept: bytes
    priority: int
    count: int
    first_ms: int
    handle: str = ""
    next_visible_ms: int = 0

    def leaves(self) -> list[str]:
        """The elements of the answer. Nothing in them needs to be escaped but the body: `extra` is XML already."""
        enqueued, digest, extra = _HEAD.unpack_from(self.kept)
        leaves = [
            f"<MessageId>{self.id}</MessageId>",
            f"<MessageBody>{escape(self.kept[HEAD_BYTES + extra :].decode())}</MessageBody>",
            f"<MessageBodyMD5>{digest.hex().upper()}</MessageBodyMD5>",
            f"<EnqueueTime>{enqueued}</EnqueueTime>",
            f"<FirstDequeueTime>{self.first_ms or enqueued}</FirstDequeueTime>",
            f"<DequeueCount>{self.count}</DequeueCount>",
            f"<Priority>{self.priority}</Priority>",
        ]
        if self.handle:
            leaves.append(f"<ReceiptHandle>{self.handle}</ReceiptHandle>")
            leaves.append(f"<NextVisibleTime>{self.next_visible_ms}</NextVisibleTime>")
        if extra:
            leaves.append(self.kept[HEAD_BYTES : HEAD_BYTES + extra].decode())
        return leaves


class Place(NamedTuple):
    """Where a message stands in its queue."""

    priority: int
    number: int

    def packed(self) -> bytes:
        """The place as the queue's sets hold it."""
        return bytes((self.priority,)) + self.number.to_bytes(PLACE_BYTES - 1)

    @classmethod
    def read(cls, packed: bytes) -> Place:
        """The place of such bytes."""
        return cls(packed[0], int.from_bytes(packed[1:]))


def message_id(queue_id: str, place: Place) -> str:
    """The ID of a message: unique also among queues of the same name, one after the other."""
    return f"{queue_id}-{place.priority:X}-{place.number:X}"


def write_handle(queue_id: str, place: bytes, nonce: bytes) -> str:
    """The receipt handle of one delivery. SDKs put it into a query as it is, so it has no sign that needs escaping."""
    packed = b2a_base64(bytes.fromhex(queue_id) + place + nonce, newline=False)
    return "1-" + packed.decode().replace("+", "-").replace("/", "_")


def read_handle(text: str) -> tuple[str, bytes, bytes]:
    """Queue ID, place and nonce of a receipt handle. Raises SmqError."""
    version, _, encoded = text.strip().partition("-")
    try:
        packed = a2b_base64(encoded.replace("-", "+").replace("_", "/"))
    except (Base64Error, ValueError):
        packed = b""
    if version != "1" or len(packed) != _HANDLE.size:
        raise SmqError(Code.RECEIPT_HANDLE_ERROR, "The receipt handle is none of this service.")
    queue_id, place, nonce = _HANDLE.unpack(packed)
    return queue_id.hex().upper(), place, nonce


def read_drafts(body: bytes) -> tuple[list[Draft], bool]:
    """The messages of a send, and whether it is a batch. Raises SmqError."""
    root = read(body, "Message", "Messages")
    if root.name == "Message":
        return [_draft(root)], False
    entries = [child for child in root.children if child.name == "Message"]
    if not 1 <= len(entries) <= MAX_BATCH:
        raise SmqError(Code.INVALID_ARGUMENT, f"The batch has {len(entries)} messages; allowed are 1 to {MAX_BATCH}.")
    return [_draft(entry) for entry in entries], True


def _draft(element: Element) -> Draft:
    text = element.text_of("MessageBody")
    if not text:
        raise SmqError(Code.INVALID_ARGUMENT, "MessageBody is missing or empty.")
    if len(element.children) == 1:  # as most have nothing else
        return Draft(text.encode())
    delays = RANGES["DelaySeconds"]
    delay = _number(element, "DelaySeconds", delays.least, delays.most)
    priority = _number(element, "Priority", PRIORITY_LEAST, PRIORITY_MOST)
    return Draft(text.encode(), delay, PRIORITY_DEFAULT if priority is None else priority, read_extra(element))


def read_extra(element: Element) -> bytes:
    """What a message brings that the service only gives back: properties and the group, as XML. Raises SmqError."""
    sorts = [child for child in element.children if child.name in _PROPERTIES]
    if len({sort.name for sort in sorts}) < len(sorts):
        raise SmqError(Code.INVALID_ARGUMENT, "A message has UserProperties and SystemProperties once each.")
    extra = "".join(map(_properties, sorts))
    group = element.text_of("MessageGroupId")
    if group:
        extra += leaf("MessageGroupId", group)
    kept = extra.encode()
    if len(kept) > MAX_EXTRA:
        raise SmqError(
            Code.INVALID_ARGUMENT,
            f"The properties and the group of a message take {len(kept)} bytes; allowed are {MAX_EXTRA}.",
        )
    return kept


def _number(element: Element, name: str, least: int, most: int) -> int | None:
    text = (element.text_of(name) or "").strip()
    if not text:
        return None
    if not text.isascii() or not text.isdecimal() or len(text) > 18 or not least <= int(text) <= most:
        raise SmqError(
            Code.INVALID_ARGUMENT, f"{name} is {text[:40]!r}; allowed are whole numbers from {least} to {most}."
        )
    return int(text)


def _properties(element: Element) -> str:
    """Properties as they came, with nothing but what the service knows of."""
    if len(element.children) > _MAX_PROPERTIES:
        raise SmqError(
            Code.INVALID_ARGUMENT, f"{element.name} has {len(element.children)} entries; allowed are {_MAX_PROPERTIES}."
        )
    word, kinds = _PROPERTIES[element.name]
    entries = []
    for entry in element.children:
        if entry.name != word:
            raise SmqError(
                Code.INVALID_ARGUMENT, f"{element.name} holds {entry.name[:50]!r}; allowed are {word} elements."
            )
        name, kind = entry.text_of("Name"), entry.text_of("Type")
        if not name or kind not in kinds:
            raise SmqError(
                Code.INVALID_ARGUMENT,
                f"An entry of {element.name} needs a Name and a Type; types are {', '.join(kinds)}.",
            )
        value = entry.text_of("Value") or ""
        if not _is_of(kind, value):
            raise SmqError(Code.INVALID_ARGUMENT, f"The property {name[:50]!r} is {value[:40]!r}, which is no {kind}.")
        entries.append(branch(word, [leaf("Name", name), leaf("Value", value), leaf("Type", kind)]))
    return branch(element.name, entries)


def _is_of(kind: str, value: str) -> bool:
    """Whether a property's value is what its type says."""
    match kind:
        case "NUMBER":
            return _NUMBER.fullmatch(value) is not None
        case "BOOLEAN":
            return value.lower() in ("true", "false")
        case "BINARY":
            try:
                b64decode(value.strip(), validate=True)
            except ValueError:
                return False
    return True


def read_handles(body: bytes) -> list[str]:
    """The receipt handles of a batch of deletions. Raises SmqError."""
    handles = [child.text for child in read(body, "ReceiptHandles").children if child.name == "ReceiptHandle"]
    if not 1 <= len(handles) <= MAX_BATCH:
        raise SmqError(
            Code.INVALID_ARGUMENT, f"The batch has {len(handles)} receipt handles; allowed are 1 to {MAX_BATCH}."
        )
    return handles


@dataclass(slots=True)
class Sent:
    """A message that was taken; `handle` is of one that is delayed: it can be deleted, or shown sooner, by it."""

    id: str
    digest: bytes
    handle: str = ""

    def leaves(self) -> list[str]:
        """The elements of the answer."""
        leaves = [
            f"<MessageId>{self.id}</MessageId>",
            f"<MessageBodyMD5>{self.digest.hex().upper()}</MessageBodyMD5>",
        ]
        if self.handle:
            leaves.append(f"<ReceiptHandle>{self.handle}</ReceiptHandle>")
        return leaves


def sent_document(sent: Sequence[Sent | SmqError], *, is_batch: bool) -> bytes:
    """The answer of a send: what was taken in the request's order, or why it was refused."""
    if any(isinstance(one, SmqError) for one in sent):  # SDKs read these entries with these elements only
        entries = [
            [leaf("ErrorCode", one.code.text), leaf("ErrorMessage", one.message)]
            if isinstance(one, SmqError)
            else one.leaves()[:2]
            for one in sent
        ]
    else:
        entries = [one.leaves() for one in sent if isinstance(one, Sent)]
    if not is_batch:
        return document("Message", entries[0])
    return document("Messages", (branch("Message", entry) for entry in entries))


def deliveries_document(deliveries: Iterable[Delivery], *, is_batch: bool) -> bytes:
    """The answer of a receive or a peek."""
    if is_batch:
        return document("Messages", (branch("Message", one.leaves()) for one in deliveries))
    return document("Message", next(iter(deliveries)).leaves())


def visibility_document(handle: str, next_visible_ms: int) -> bytes:
    """The answer of ChangeMessageVisibility."""
    return document("ChangeVisibility", [leaf("ReceiptHandle", handle), leaf("NextVisibleTime", next_visible_ms)])


def refused_handles_document(refused: Iterable[tuple[str, SmqError]]) -> bytes:
    """The answer of a batch of deletions of which some were refused."""
    return document(
        "Errors",
        (
            branch(
                "Error",
                [leaf("ErrorCode", why.code.text), leaf("ErrorMessage", why.message), leaf("ReceiptHandle", handle)],
            )
            for handle, why in refused
        ),
    )


def error_document(error: SmqError, request_id: str, host: str) -> bytes:
    """The answer to a request that was refused."""
    return document(
        "Error",
        [
            leaf("Code", error.code.text),
            leaf("Message", error.message),
            leaf("RequestId", request_id),
            leaf("HostId", host),
        ],
        ERROR_NAMESPACE,
    )
