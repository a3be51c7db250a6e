"""What each operation does: the head of a request is judged, its body read, its queue changed, its answer written."""

from __future__ import annotations

import asyncio
import binascii
import hashlib
from base64 import b64decode
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from http import HTTPStatus
from typing import TypeVar

from brokercore.server.errors import RedisError, StoreUnavailable
from brokercore.server.rights.authentication import Caller
from brokercore.smq.server.http import VERSION, Answer, Request
from brokercore.smq.server.limits import QueueLimits
from brokercore.smq.server.rights import CHANGES, Rights
from brokercore.smq.server.waiting import Waiting
from brokercore.smq.storage.keys import channel
from brokercore.smq.storage.queues import Queues
from brokercore.smq.wire import messages, queues
from brokercore.smq.wire.errors import Code, SmqError
from brokercore.smq.wire.messages import MAX_BATCH, Delivery
from brokercore.smq.wire.requests import Call, Operation, read_call
from brokercore.smq.wire.xml import document, leaf

Content = TypeVar("Content")

_VERSION_HEADER = "x-mns-version"
_ACCOUNT_HEADER = "x-mns-account"
_MOST_LISTED = 1000
#: Bytes of a body that is read at once, and that requests which bring no messages may have.
_SMALL = 256 << 10
_WITH_MESSAGES = (Operation.SEND_MESSAGE, Operation.PUBLISH_MESSAGE)
_readers = ThreadPoolExecutor(1, "large bodies")
_POLL = queues.RANGES["PollingWaitSeconds"]
_HIDDEN = queues.RANGES["VisibilityTimeout"]


@dataclass(slots=True)
class Admitted:
    """A request whose head was judged: what it asks for, and who asks."""

    call: Call
    caller: Caller
    account: str
    """Whose queues are meant: the AccessKey's; Gantry's own processes name it in the header x-mns-account."""


Page = Callable[[str], Awaitable[Answer]]


@dataclass(frozen=True, slots=True)
class Public:
    """A page that everybody may read."""

    page: Page
    """Shows what is at a path. Raises SmqError, RedisError and StoreUnavailable."""


Admission = Admitted | Public
Handler = Callable[[Admitted, Request[Admission]], Awaitable[Answer]]


@dataclass(frozen=True, slots=True)
class Listing:
    """Which names a list is to have: those with a prefix, behind a marker, and how many at most."""

    prefix: str
    marker: str
    most: int
    with_meta: bool
    """Whether more than the names is wanted."""

    @classmethod
    def read(cls, headers: Mapping[str, str]) -> Listing:
        """What the headers say. Raises SmqError."""
        text = headers.get("x-mns-ret-number", "") or str(_MOST_LISTED)
        if not text.isascii() or not text.isdecimal() or len(text) > 9 or not 1 <= int(text) <= _MOST_LISTED:
            raise SmqError(
                Code.INVALID_ARGUMENT,
                f"x-mns-ret-number is {text[:40]!r}; allowed are whole numbers from 1 to {_MOST_LISTED}.",
            )
        with_meta = headers.get("x-mns-with-meta", "").lower() == "true"
        return cls(headers.get("x-mns-prefix", ""), headers.get("x-mns-marker", ""), int(text), with_meta)


class QueueService:
    """Every operation on queues and their messages."""

    def __init__(self, rights: Rights, limits: QueueLimits, store: Queues, waiting: Waiting, address: str) -> None:
        self._rights, self._limits = rights, limits
        self._store, self._waiting, self._address = store, waiting, address
        self.answered: Counter[tuple[str, str]] = Counter()
        """Requests by operation (none for what was refused before it was known) and result: ok, or an error's code."""
        self._public: dict[str, Page] = {"/healthz": self._health}
        self._handlers: dict[Operation, Handler] = {
            Operation.CREATE_QUEUE: self._create,
            Operation.SET_QUEUE_ATTRIBUTES: self._change,
            Operation.GET_QUEUE_ATTRIBUTES: self._state,
            Operation.LIST_QUEUE: self._list,
            Operation.DELETE_QUEUE: self._remove,
            Operation.SEND_MESSAGE: self._send,
            Operation.RECEIVE_MESSAGE: self._receive,
            Operation.PEEK_MESSAGE: self._peek,
            Operation.CHANGE_MESSAGE_VISIBILITY: self._hide,
            Operation.DELETE_MESSAGE: self._delete,
        }

    def offer(self, handlers: Mapping[Operation, Handler], pages: Mapping[str, Page]) -> None:
        """Carry out more operations, and show more public pages, by their path or by the folder that they are in."""
        self._handlers |= handlers
        self._public |= pages

    def admit(self, request: Request[Admission]) -> Admission:
        """Judge a request by its head. Raises SmqError."""
        target = request.target
        page = self._public.get(target) or self._public.get(target[: target.rfind("/") + 1])
        if page and request.method == "GET":
            return Public(page)
        if not request.headers.get(_VERSION_HEADER):
            raise SmqError(Code.MISSING_VERSION_HEADER, "The header x-mns-version is missing.")
        if request.headers[_VERSION_HEADER] != VERSION:
            raise SmqError(Code.INVALID_VERSION_HEADER, f"The header x-mns-version must be {VERSION}.")
        caller = self._rights.caller(request.method, request.target, request.headers, request.peer)
        request.account = caller.tenant or caller.key_id
        call = read_call(request.method, request.target)
        self._rights.require(caller, call, request.peer)
        if not caller.is_system:
            self._limits.admit_call(caller.tenant)
            if call.operation in CHANGES:
                self._limits.admit_change(caller.tenant)
        account = request.headers.get(_ACCOUNT_HEADER, "") if caller.is_system else caller.tenant
        if not account:
            raise SmqError(Code.INVALID_ARGUMENT, f"Gantry's own key needs the header {_ACCOUNT_HEADER}.")
        return Admitted(call, caller, account)

    async def carry_out(self, request: Request[Admission]) -> Answer:
        """Do what an admitted request asks for. Raises SmqError."""
        admitted = request.admitted
        if admitted is None:
            raise SmqError(Code.INTERNAL_ERROR, "The request was not judged.")
        try:
            if isinstance(admitted, Public):
                return await admitted.page(request.target)
            if len(request.body) > _SMALL and admitted.call.operation not in _WITH_MESSAGES:
                raise SmqError(
                    Code.INVALID_ARGUMENT,
                    f"The body has {len(request.body)} bytes; {admitted.call.operation.value} takes up to {_SMALL}.",
                )
            if digest := request.headers.get("content-md5"):
                await read_body(partial(_require_digest, digest), request.body)
            return await self._handlers[admitted.call.operation](admitted, request)
        except (RedisError, StoreUnavailable) as error:
            raise SmqError(Code.INTERNAL_ERROR, "The store of the service does not answer; try again.") from error

    def note(self, request: Request[Admission], code: Code | None) -> None:
        """Count an answer; `code` is that of an error."""
        admitted = request.admitted
        if not isinstance(admitted, Public):
            operation = admitted.call.operation.value if admitted else ""
            self.answered[operation, code.text if code else "ok"] += 1

    @property
    def trouble(self) -> str:
        """Why requests cannot be answered; empty while they can."""
        return self._rights.trouble

    async def _health(self, _path: str) -> Answer:
        """Whether requests can be judged, and so answered."""
        if trouble := self.trouble:
            return Answer(HTTPStatus.SERVICE_UNAVAILABLE, document("Health", [leaf("Trouble", trouble)]))
        return Answer(HTTPStatus.OK, document("Health", []))

    # Queues

    async def _create(self, admitted: Admitted, request: Request[Admission]) -> Answer:
        name = admitted.call.name
        attributes = queues.with_defaults(queues.read_attributes(request.body))
        most = self._limits.row(admitted.account).smq_queues
        made = await self._store.create(
            admitted.account, name, attributes, most, note=told(self._rights, admitted, request, attributes)
        )
        where = {"Location": f"{self._address}/queues/{name}"}
        return Answer(HTTPStatus.CREATED if made else HTTPStatus.NO_CONTENT, headers=where)

    async def _change(self, admitted: Admitted, request: Request[Admission]) -> Answer:
        attributes = queues.read_attributes(request.body)
        note = told(self._rights, admitted, request, attributes)
        await self._store.change(admitted.account, admitted.call.name, attributes, note=note)
        return Answer(HTTPStatus.NO_CONTENT)

    async def _state(self, admitted: Admitted, _request: Request[Admission]) -> Answer:
        state = await self._store.state(admitted.account, admitted.call.name)
        return Answer(HTTPStatus.OK, queues.state_document(state))

    async def _list(self, admitted: Admitted, request: Request[Admission]) -> Answer:
        listing = Listing.read(request.headers)
        names, marker = await self._store.names(admitted.account, listing.prefix, listing.marker, listing.most)
        states = None
        if listing.with_meta:
            states = {name: await self._store.state(admitted.account, name) for name in names}
        urls = [f"{self._address}/queues/{name}" for name in names]
        return Answer(HTTPStatus.OK, queues.list_document(urls, marker, states))

    async def _remove(self, admitted: Admitted, request: Request[Admission]) -> Answer:
        await self._store.remove(admitted.account, admitted.call.name, note=told(self._rights, admitted, request))
        return Answer(HTTPStatus.NO_CONTENT)

    # Messages

    async def _send(self, admitted: Admitted, request: Request[Admission]) -> Answer:
        drafts, is_batch = await read_body(messages.read_drafts, request.body)
        limits = self._limits.row(admitted.account)
        sent = await self._store.send(
            admitted.account, admitted.call.name, drafts, limits.smq_bytes, limits.smq_messages
        )
        if not is_batch and isinstance(sent[0], SmqError):
            raise sent[0]
        failed = any(isinstance(one, SmqError) for one in sent)
        status = HTTPStatus.INTERNAL_SERVER_ERROR if failed else HTTPStatus.CREATED
        return Answer(status, messages.sent_document(sent, is_batch=is_batch))

    async def _receive(self, admitted: Admitted, _request: Request[Admission]) -> Answer:
        account, call = admitted.account, admitted.call
        most = call.number("numOfMessages", 1, MAX_BATCH, 1)
        seconds = call.number("waitseconds", _POLL.least, _POLL.most, 0) if call.query.get("waitseconds") else None
        found = await self._waiting.receive(
            channel(account, call.name),
            seconds,
            lambda: self._store.receive(account, call.name, most),
            lambda: self._limits.waiting(account),
        )
        return _delivered(found, call)

    async def _peek(self, admitted: Admitted, _request: Request[Admission]) -> Answer:
        call = admitted.call
        most = call.number("numOfMessages", 1, MAX_BATCH, 1)
        return _delivered(await self._store.peek(admitted.account, call.name, most), call)

    async def _hide(self, admitted: Admitted, _request: Request[Admission]) -> Answer:
        call = admitted.call
        if not call.query.get("visibilitytimeout"):
            raise SmqError(Code.MISSING_VISIBILITY_TIMEOUT, "The parameter visibilityTimeout is missing.")
        seconds = call.number("visibilityTimeout", _HIDDEN.least, _HIDDEN.most, 0)
        handle, until_ms = await self._store.hide(admitted.account, call.name, _handle(call), seconds)
        return Answer(HTTPStatus.OK, messages.visibility_document(handle, until_ms))

    async def _delete(self, admitted: Admitted, request: Request[Admission]) -> Answer:
        call = admitted.call
        if request.body.strip():
            handles = messages.read_handles(request.body)
            refused = await self._store.delete(admitted.account, call.name, handles)
            if refused:
                return Answer(HTTPStatus.NOT_FOUND, messages.refused_handles_document(refused))
        else:
            refused = await self._store.delete(admitted.account, call.name, [_handle(call)])
            if refused:
                raise refused[0][1]
        return Answer(HTTPStatus.NO_CONTENT)


def told(
    rights: Rights, admitted: Admitted, request: Request[Admission], detail: Mapping[str, object] | None = None
) -> bytes:
    """What the account's trail is told when an operation changes something."""
    return rights.change(admitted.caller, admitted.call, request.peer, request.id, detail)


def _delivered(deliveries: tuple[Delivery, ...], call: Call) -> Answer:
    if not deliveries:
        raise SmqError(Code.MESSAGE_NOT_EXIST, "There is no message that can be received.")
    return Answer(HTTPStatus.OK, messages.deliveries_document(deliveries, is_batch="numofmessages" in call.query))


async def read_body(read: Callable[[bytes], Content], body: bytes) -> Content:
    """What `read` makes of a body: of a large one in a thread, so that others are answered meanwhile."""
    if len(body) <= _SMALL:
        return read(body)
    return await asyncio.get_running_loop().run_in_executor(_readers, read, body)


def _handle(call: Call) -> str:
    handle = call.query.get("receipthandle")
    if not handle:
        raise SmqError(Code.MISSING_RECEIPT_HANDLE, "The parameter ReceiptHandle is missing.")
    return handle


def _require_digest(given: str, body: bytes) -> None:
    """Content-MD5 is Base64 of the digest, or, as the vendor's SDKs send it, of its hexadecimal form."""
    digest = hashlib.md5(body, usedforsecurity=False)
    try:
        decoded = b64decode(given, validate=True)
    except (binascii.Error, ValueError):
        decoded = b""
    if decoded != digest.digest() and decoded.lower() != digest.hexdigest().encode():
        raise SmqError(Code.INVALID_DIGEST, "The header Content-MD5 is not the digest of the body that came.")
