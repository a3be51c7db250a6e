"""The service's client for Gantry's own code: synchronous, for use by any number of threads.

    client = QueueClient("http://127.0.0.1:8071", key_id, secret, account="1234567890123456")
    client.send("orders", b"one")
    for delivery in client.receive("orders", most=16, wait_s=5):
        ...
        client.delete("orders", [delivery.handle])

Each thread keeps one connection. Errors:

    SmqError                  the service refused the request: a code, and a sentence
    QueueServiceUnavailable   it could not be reached, or gave no answer that can be read
"""

from __future__ import annotations

import contextlib
import re
import select
import socket
import threading
import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from email.utils import formatdate
from http import HTTPStatus
from http.client import HTTPConnection, HTTPException, HTTPSConnection, RemoteDisconnected
from typing import Any
from urllib.parse import quote, urlsplit

from brokercore.addresses import Network, may_reach
from brokercore.smq.wire.errors import Code, SmqError
from brokercore.smq.wire.messages import Draft, Sent
from brokercore.smq.wire.queues import LOGGING, RANGES, QueueState
from brokercore.smq.wire.signature import SCHEME, sign, text_to_sign
from brokercore.smq.wire.xml import Element, branch, document, leaf, read

VERSION = "2015-06-06"
MOST_LISTED = 1000
#: Bytes of an answer: a batch of 16 notifications of 64 KiB, in which every character is written as an entity twice.
MAX_ANSWER = 16 << 20
#: Elements of an answer: a page of 1,000 queues with all that is told of each.
_ELEMENTS = 40_000
#: How long a connection may have rested to be used again, s; the service closes it after 120.
_REST_SECONDS = 60.0
_TEXT_TYPE = "text/xml;charset=utf-8"
_PLAIN = re.compile(r"[\x21-\x7e]*")
_CODES = {code.text: code for code in Code}


class QueueServiceUnavailable(Exception):  # noqa: N818
    """The queue service cannot be reached, or gave no answer that can be read."""


@dataclass(frozen=True, slots=True)
class Delivered:
    """A message that was received or peeked at; times are epoch ms. A peeked one has no handle and no next time."""

    id: str
    body: bytes
    priority: int
    count: int
    enqueued_ms: int
    first_ms: int
    handle: str = ""
    next_visible_ms: int = 0


@dataclass(frozen=True, slots=True)
class _Answer:
    status: int
    body: bytes


class QueueClient:
    """The operations on the queues of one account.

    A key of an account acts for it. Gantry's own key acts for the account named in `account`. `token` is of a temporary
    key. `timeout_s` is how long the service may be silent, beyond the time a receive waits. With `networks` nothing is
    sent to an address that is neither public nor in one of them, whatever the name stands for at that moment.
    """

    def __init__(
        self,
        endpoint: str,
        key_id: str,
        secret: str,
        *,
        account: str = "",
        token: str = "",
        timeout_s: float = 10,
        networks: Collection[Network] | None = None,
    ) -> None:
        address = urlsplit(endpoint)
        if address.scheme not in ("http", "https") or not address.hostname or address.path.strip("/"):
            raise ValueError(f"The endpoint {endpoint!r} is not such as http://127.0.0.1:8071.")
        self._kind = HTTPSConnection if address.scheme == "https" else HTTPConnection
        self._host, self._port = address.hostname, address.port
        self.endpoint, self.account = endpoint.rstrip("/"), account
        self._key_id, self._secret, self._token, self._timeout_s = key_id, secret, token, timeout_s
        self._networks = networks
        self._own = threading.local()

    def close(self) -> None:
        """Close the connection of this thread; the next request opens another."""
        connection: HTTPConnection | None = getattr(self._own, "connection", None)
        self._own.connection = None
        if connection is not None:
            connection.close()

    # Queues

    def create_queue(self, name: str, attributes: Mapping[str, int] | None = None) -> bool:
        """Make a queue; what is not named has its default. False when it was there with the same attributes."""
        answer = self._ask("PUT", _path(name), _attributes(attributes or {}))
        return answer.status == 201

    def set_attributes(self, name: str, attributes: Mapping[str, int]) -> None:
        """Change attributes of a queue; what is not named stays."""
        self._ask("PUT", f"{_path(name)}?metaoverride=true", _attributes(attributes))

    def queue(self, name: str) -> QueueState:
        """What a queue is and holds now."""
        return _state(self._read(self._ask("GET", _path(name)), "Queue"))

    def queues(self, prefix: str = "", marker: str = "", most: int = MOST_LISTED) -> tuple[list[QueueState], str]:
        """Queues in order of their names, behind `marker`; and the marker of the next page, empty at the end."""
        root = self._list(prefix, marker, most, with_states=True)
        found = [_state(child) for child in root.children if child.name == "Queue"]
        return found, root.text_of("NextMarker") or ""

    def delete_queue(self, name: str) -> None:
        """Remove a queue with all that is in it; nothing happens when there is none."""
        self._ask("DELETE", _path(name))

    def queue_names(self, prefix: str = "", marker: str = "", most: int = MOST_LISTED) -> tuple[list[str], str]:
        """As `queues`, but only the names: the service counts nothing for it."""
        root = self._list(prefix, marker, most, with_states=False)
        urls = (_text(child, "QueueURL") for child in root.children if child.name == "Queue")
        return [url.rpartition("/")[2] for url in urls], root.text_of("NextMarker") or ""

    def _list(self, prefix: str, marker: str, most: int, *, with_states: bool) -> Element:
        headers = {"x-mns-with-meta": str(with_states).lower(), "x-mns-ret-number": str(most)}
        for header, value in (("x-mns-prefix", prefix), ("x-mns-marker", marker)):
            if not _PLAIN.fullmatch(value):
                raise SmqError(Code.INVALID_ARGUMENT, f"No queue's name begins with {value[:40]!r}.")
            headers |= {header: value} if value else {}
        return self._read(self._ask("GET", "/queues", headers=headers), "Queues")

    # Messages

    def send(self, queue: str, body: bytes, *, delay_s: int | None = None, priority: int | None = None) -> Sent:
        """Send a message: UTF-8 text. Without a delay it has the queue's; without a priority 8, of 1 to 16."""
        answer = self._ask("POST", _path(queue, "/messages"), document("Message", _draft(body, delay_s, priority)))
        return _sent(self._read(answer, "Message"))

    def send_batch(self, queue: str, drafts: Sequence[Draft]) -> list[Sent | SmqError]:
        """Send 1 to 16 messages; gives for each, in their order, what it became or why it was refused."""
        entries = (branch("Message", _draft(one.body, one.delay, one.priority)) for one in drafts)
        answer = self._ask("POST", _path(queue, "/messages"), document("Messages", entries), in_part="Messages")
        return [_sent_or_refused(child) for child in self._read(answer, "Messages").children]

    def receive(self, queue: str, most: int = 1, wait_s: int = 0) -> list[Delivered]:
        """Receive up to 16 messages, and wait up to 30 s for the first; they are hidden from other receivers."""
        return self.deliveries_of(self.receive_unread(queue, most, wait_s))

    def receive_unread(self, queue: str, most: int = 1, wait_s: int = 0) -> bytes:
        """As `receive`, but gives the answer as it came, for `deliveries_of`: who receives much reads it meanwhile."""
        query = f"numOfMessages={most:d}&waitseconds={wait_s:d}"
        return self._unread_deliveries(_path(queue, f"/messages?{query}"), wait_s)

    def deliveries_of(self, answer: bytes) -> list[Delivered]:
        """The messages of an answer. Raises QueueServiceUnavailable for what is none."""
        if not answer:
            return []
        root = self._read(_Answer(HTTPStatus.OK, answer), "Messages")
        return [_delivered(child) for child in root.children if child.name == "Message"]

    def peek(self, queue: str, most: int = 1) -> list[Delivered]:
        """The up to 16 messages that would be received next; nothing of them changes."""
        target = _path(queue, f"/messages?peekonly=true&numOfMessages={most:d}")
        return self.deliveries_of(self._unread_deliveries(target, is_harmless=True))

    def hide(self, queue: str, handle: str, seconds: int) -> tuple[str, int]:
        """Hide a received message for so long from now on; its new handle, and when it is visible again (epoch ms)."""
        query = f"receiptHandle={quote(handle, safe='=')}&visibilityTimeout={seconds:d}"
        answer = self._ask("PUT", _path(queue, f"/messages?{query}"), is_harmless=False)
        root = self._read(answer, "ChangeVisibility")
        return _text(root, "ReceiptHandle"), _number(root, "NextVisibleTime")

    def delete(self, queue: str, handles: Sequence[str]) -> list[tuple[str, SmqError]]:
        """Delete up to 16 received messages; gives the handles that were refused, each with the reason."""
        if not handles:
            return []
        body = document("ReceiptHandles", (leaf("ReceiptHandle", handle) for handle in handles))
        answer = self._ask("DELETE", _path(queue, "/messages"), body, in_part="Errors", is_harmless=False)
        if answer.status == 204:
            return []
        refused = (child for child in self._read(answer, "Errors").children if child.name == "Error")
        return [(_text(child, "ReceiptHandle"), _refusal(child, "ErrorCode", "ErrorMessage")) for child in refused]

    def _unread_deliveries(self, target: str, wait_s: int = 0, *, is_harmless: bool = False) -> bytes:
        try:
            answer = self._ask("GET", target, wait_s=wait_s, is_harmless=is_harmless)
        except SmqError as error:
            if error.code is Code.MESSAGE_NOT_EXIST:
                return b""
            raise
        if not answer.body:
            raise QueueServiceUnavailable(f"What answers at {self.endpoint} is not a queue service: it sent nothing.")
        return answer.body

    # Requests

    def _ask(
        self,
        method: str,
        target: str,
        body: bytes = b"",
        *,
        headers: Mapping[str, str] | None = None,
        wait_s: int = 0,
        in_part: str = "",
        is_harmless: bool | None = None,
    ) -> _Answer:
        """The answer to a request. `in_part` is the root of an answer that tells what was refused of a batch.

        `is_harmless` is whether it may be done twice; by default all may but a POST.
        """
        again = method != "POST" if is_harmless is None else is_harmless
        signed = self._signed(method, target, body, headers or {})
        try:
            answer = self._exchange(method, target, body, signed, self._timeout_s + max(0, wait_s), again=again)
        except (OSError, HTTPException) as error:
            self.close()
            why = str(error) or type(error).__name__
            raise QueueServiceUnavailable(f"The queue service at {self.endpoint} does not answer: {why}.") from error
        if answer.status >= 400:
            root = self._tree(answer)
            if root.name != in_part:
                raise _refusal(root, "Code", "Message")
        return answer

    def _exchange(
        self, method: str, target: str, body: bytes, headers: Mapping[str, str], timeout_s: float, *, again: bool
    ) -> _Answer:
        connection, is_kept = self._connection()
        connection.timeout = timeout_s
        if connection.sock is not None:
            connection.sock.settimeout(timeout_s)
        try:
            connection.request(method, target, body or None, dict(headers))
            response = connection.getresponse()
        except (RemoteDisconnected, ConnectionResetError, BrokenPipeError):
            if not (is_kept and again):
                raise
            # The service ended the connection while it rested, and may or may not have read this request.
            self.close()
            return self._exchange(method, target, body, headers, timeout_s, again=False)
        content = response.read(MAX_ANSWER + 1)
        if len(content) > MAX_ANSWER:
            raise HTTPException(f"the answer has more than {MAX_ANSWER} bytes")
        self._own.used = time.monotonic()
        if response.will_close:
            self.close()
        return _Answer(response.status, content)

    def _connection(self) -> tuple[HTTPConnection, bool]:
        """The connection of this thread, and whether it has been used before."""
        kept: HTTPConnection | None = getattr(self._own, "connection", None)
        if kept is not None:
            rested = time.monotonic() - self._own.used
            if kept.sock is not None and rested < _REST_SECONDS and not _has_ended(kept):
                return kept, True
            self.close()
        connection = self._own.connection = self._kind(self._host, self._port, timeout=self._timeout_s)
        if self._networks is not None:
            connection._create_connection = self._judged  # type: ignore[attr-defined]  # before TLS begins
        self._own.used = time.monotonic()
        return connection, False

    def _judged(self, *arguments: Any) -> socket.socket:
        """A connection whose other end was looked at: a name may stand for another address each time."""
        opened = socket.create_connection(*arguments)
        if not may_reach(opened.getpeername()[0], self._networks or ()):
            opened.close()
            raise OSError(f"{self._host} has no public address, nor one that the platform's administrator allows")
        return opened

    def _signed(self, method: str, target: str, body: bytes, given: Mapping[str, str]) -> dict[str, str]:
        headers = {"date": formatdate(usegmt=True), "x-mns-version": VERSION, **given}
        if self.account:
            headers["x-mns-account"] = self.account
        if body:
            headers["content-type"] = _TEXT_TYPE
        headers["authorization"] = (
            f"{SCHEME} {self._key_id}:{sign(self._secret, text_to_sign(method, target, headers))}"
        )
        if self._token:
            headers["security-token"] = self._token
        return headers

    # Answers

    def _read(self, answer: _Answer, root: str) -> Element:
        found = self._tree(answer)
        if found.name != root:
            raise QueueServiceUnavailable(
                f"What answers at {self.endpoint} is not a queue service: it sent {found.name}."
            )
        return found

    def _tree(self, answer: _Answer) -> Element:
        try:
            return read(answer.body, elements=_ELEMENTS)
        except SmqError as error:
            raise QueueServiceUnavailable(
                f"What answers at {self.endpoint} is not a queue service: {answer.status}, {error.message}"
            ) from error


def _has_ended(connection: HTTPConnection) -> bool:
    """True when the service has closed a connection that rests: nothing else could be there to read."""
    try:
        return bool(select.select([connection.sock], [], [], 0)[0])
    except (OSError, ValueError):
        return True


def _path(name: str, rest: str = "") -> str:
    if not name:
        raise SmqError(Code.INVALID_QUEUE_NAME, "The queue's name is missing.")
    return f"/queues/{quote(name, safe='')}{rest}"


def _attributes(attributes: Mapping[str, int]) -> bytes:
    flags = {LOGGING: bool(attributes[LOGGING])} if LOGGING in attributes else {}
    return document("Queue", (leaf(name, value) for name, value in {**attributes, **flags}.items()))


def _draft(body: bytes, delay_s: int | None, priority: int | None) -> list[str]:
    try:
        text = body.decode()
    except UnicodeDecodeError as error:
        raise SmqError(Code.INVALID_ARGUMENT, "The body is not valid UTF-8; send bytes as Base64.") from error
    return [
        leaf("MessageBody", text),
        *([] if delay_s is None else [leaf("DelaySeconds", delay_s)]),
        *([] if priority is None else [leaf("Priority", priority)]),
    ]


def _state(element: Element) -> QueueState:
    name = element.text_of("QueueName") or _text(element, "QueueURL").rpartition("/")[2]
    return QueueState(
        name,
        {attribute: _number(element, attribute) for attribute in RANGES},
        _text(element, LOGGING) == "True",
        _number(element, "CreateTime"),
        _number(element, "LastModifyTime"),
        _number(element, "ActiveMessages"),
        _number(element, "InactiveMessages"),
        _number(element, "DelayMessages"),
        _number(element, "OldestMessageTime"),
        _number(element, "SentMessages"),
        _number(element, "ReceivedMessages"),
    )


def _sent(element: Element) -> Sent:
    digest = b""
    with contextlib.suppress(ValueError):
        digest = bytes.fromhex(_text(element, "MessageBodyMD5"))
    return Sent(_text(element, "MessageId"), digest, element.text_of("ReceiptHandle") or "")


def _sent_or_refused(element: Element) -> Sent | SmqError:
    if element.text_of("ErrorCode") is None:
        return _sent(element)
    return _refusal(element, "ErrorCode", "ErrorMessage")


def _delivered(element: Element) -> Delivered:
    handle = element.text_of("ReceiptHandle") or ""
    return Delivered(
        _text(element, "MessageId"),
        _text(element, "MessageBody").encode(),
        _number(element, "Priority"),
        _number(element, "DequeueCount"),
        _number(element, "EnqueueTime"),
        _number(element, "FirstDequeueTime"),
        handle,
        _number(element, "NextVisibleTime") if handle else 0,
    )


def _refusal(element: Element, code: str, message: str) -> SmqError:
    name, sentence = element.text_of(code) or "", element.text_of(message) or ""
    if name not in _CODES:
        return SmqError(Code.INTERNAL_ERROR, f"{name}: {sentence}" if name else "The service gave no reason.")
    return SmqError(_CODES[name], sentence)


def _text(element: Element, name: str) -> str:
    found = element.text_of(name)
    if found is None:
        raise QueueServiceUnavailable(f"The queue service left {name} out of its answer.")
    return found


def _number(element: Element, name: str) -> int:
    text = _text(element, name)
    if not text.isascii() or not text.isdecimal() or len(text) > 18:
        raise QueueServiceUnavailable(f"The queue service answered {name} {text[:40]!r}, which is not a number.")
    return int(text)
