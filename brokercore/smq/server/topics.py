"""What each operation on topics, on subscriptions and on the account itself does."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Mapping
from contextlib import nullcontext
from http import HTTPStatus
from weakref import WeakValueDictionary

from brokercore.smq.server.http import Answer, Request
from brokercore.smq.server.limits import QueueLimits
from brokercore.smq.server.outgoing import PushError
from brokercore.smq.server.pushing import Pushing
from brokercore.smq.server.rights import Rights
from brokercore.smq.server.service import Admission, Admitted, Handler, Listing, read_body, told
from brokercore.smq.storage.topics import Topics
from brokercore.smq.wire import subscriptions, topics
from brokercore.smq.wire.errors import Code, SmqError
from brokercore.smq.wire.requests import Call, Operation
from brokercore.smq.wire.subscriptions import Subscription

#: Bytes of a message from which on an account has so few publishes under way: each may become a hundred messages.
_LARGE, _LARGE_AT_ONCE = 16 << 10, 2


class TopicService:
    """Every operation on topics."""

    def __init__(self, rights: Rights, limits: QueueLimits, store: Topics, pushing: Pushing, address: str) -> None:
        self._rights, self._limits, self._store = rights, limits, store
        self._pushing, self._address = pushing, address
        self._turns: WeakValueDictionary[str, asyncio.Semaphore] = WeakValueDictionary()
        self.handlers: Mapping[Operation, Handler] = {
            Operation.CREATE_TOPIC: self._create,
            Operation.SET_TOPIC_ATTRIBUTES: self._change,
            Operation.GET_TOPIC_ATTRIBUTES: self._state,
            Operation.LIST_TOPIC: self._list,
            Operation.DELETE_TOPIC: self._remove,
            Operation.PUBLISH_MESSAGE: self._publish,
            Operation.SUBSCRIBE: self._subscribe,
            Operation.SET_SUBSCRIPTION_ATTRIBUTES: self._resubscribe,
            Operation.GET_SUBSCRIPTION_ATTRIBUTES: self._subscription,
            Operation.LIST_SUBSCRIPTION_BY_TOPIC: self._subscriptions,
            Operation.UNSUBSCRIBE: self._unsubscribe,
            Operation.GET_ACCOUNT_ATTRIBUTES: self._account,
            Operation.SET_ACCOUNT_ATTRIBUTES: self._set_account,
            Operation.OPEN_SERVICE: self._open,
        }

    # Topics

    async def _create(self, admitted: Admitted, request: Request[Admission]) -> Answer:
        name = admitted.call.name
        attributes = topics.with_defaults(topics.read_attributes(request.body))
        most = self._limits.row(admitted.account).smq_queues
        made = await self._store.create(
            admitted.account, name, attributes, most, note=told(self._rights, admitted, request, attributes)
        )
        where = {"Location": self._url(name)}
        return Answer(HTTPStatus.CREATED if made else HTTPStatus.NO_CONTENT, headers=where)

    async def _change(self, admitted: Admitted, request: Request[Admission]) -> Answer:
        attributes = topics.read_attributes(request.body)
        note = told(self._rights, admitted, request, attributes)
        await self._store.change(admitted.account, admitted.call.name, attributes, note=note)
        return Answer(HTTPStatus.NO_CONTENT)

    async def _state(self, admitted: Admitted, _request: Request[Admission]) -> Answer:
        state = await self._store.state(admitted.account, admitted.call.name)
        return Answer(HTTPStatus.OK, topics.state_document(state))

    async def _list(self, admitted: Admitted, request: Request[Admission]) -> Answer:
        listing = Listing.read(request.headers)
        names, marker = await self._store.names(admitted.account, listing.prefix, listing.marker, listing.most)
        states = None
        if listing.with_meta:
            states = {name: await self._store.state(admitted.account, name) for name in names}
        return Answer(HTTPStatus.OK, topics.list_document(map(self._url, names), marker, states))

    async def _remove(self, admitted: Admitted, request: Request[Admission]) -> Answer:
        await self._store.remove(admitted.account, admitted.call.name, note=told(self._rights, admitted, request))
        return Answer(HTTPStatus.NO_CONTENT)

    async def _publish(self, admitted: Admitted, request: Request[Admission]) -> Answer:
        publication = await read_body(topics.read_publication, request.body)
        turn = self._turns.setdefault(admitted.account, asyncio.Semaphore(_LARGE_AT_ONCE))
        async with turn if len(publication.body) > _LARGE else nullcontext():
            return await self._bring(admitted, publication)

    async def _bring(self, admitted: Admitted, publication: topics.Publication) -> Answer:
        limits = self._limits.row(admitted.account)
        published = await self._store.publish(
            admitted.account,
            admitted.call.name,
            publication,
            limits.smq_bytes,
            limits.smq_messages,
        )
        if published.waiting:
            self._pushing.wake()
        return Answer(HTTPStatus.CREATED, topics.published_document(published.id, published.digest))

    # Subscriptions

    async def _subscribe(self, admitted: Admitted, request: Request[Admission]) -> Answer:
        account, call = admitted.account, admitted.call
        wanted = subscriptions.read_subscription(request.body, os.urandom(8).hex().upper(), int(time.time()))
        if wanted.queue:
            self._require_own_queue(admitted, wanted, request.peer)
        else:
            try:
                await self._pushing.receivers.require_reachable(account, wanted.endpoint)
            except PushError as error:
                raise SmqError(Code.ENDPOINT_INVALID, str(error)) from error
        note = told(self._rights, admitted, request, {"endpoint": wanted.endpoint})
        made = await self._store.subscribe(account, call.name, call.subscription, wanted, note=note)
        where = {"Location": self._url(call.name, call.subscription)}
        return Answer(HTTPStatus.CREATED if made else HTTPStatus.NO_CONTENT, headers=where)

    def _require_own_queue(self, admitted: Admitted, wanted: Subscription, peer: str) -> None:
        """A queue of the same account, which who subscribes may send to: a topic gives nobody a right."""
        if subscriptions.account_of(wanted.endpoint) != admitted.account:
            raise SmqError(
                Code.ENDPOINT_INVALID,
                f"Endpoint {wanted.endpoint[:200]!r} is a queue of another account; this is {admitted.account}.",
            )
        self._rights.require(admitted.caller, Call(Operation.SEND_MESSAGE, wanted.queue), peer)

    async def _resubscribe(self, admitted: Admitted, request: Request[Admission]) -> Answer:
        call = admitted.call
        changes = subscriptions.read_change(request.body)
        note = told(self._rights, admitted, request, changes)
        await self._store.resubscribe(admitted.account, call.name, call.subscription, changes, note=note)
        return Answer(HTTPStatus.NO_CONTENT)

    async def _subscription(self, admitted: Admitted, _request: Request[Admission]) -> Answer:
        call = admitted.call
        state = await self._store.subscription(admitted.account, call.name, call.subscription)
        return Answer(HTTPStatus.OK, subscriptions.state_document(state))

    async def _subscriptions(self, admitted: Admitted, request: Request[Admission]) -> Answer:
        listing, topic = Listing.read(request.headers), admitted.call.name
        found, marker = await self._store.subscriptions(
            admitted.account, topic, listing.prefix, listing.marker, listing.most
        )
        urls = {self._url(topic, state.name): state for state in found}
        return Answer(HTTPStatus.OK, subscriptions.list_document(urls, marker, with_meta=listing.with_meta))

    async def _unsubscribe(self, admitted: Admitted, request: Request[Admission]) -> Answer:
        call, note = admitted.call, told(self._rights, admitted, request)
        await self._store.unsubscribe(admitted.account, call.name, call.subscription, note=note)
        return Answer(HTTPStatus.NO_CONTENT)

    # The account

    async def _account(self, admitted: Admitted, _request: Request[Admission]) -> Answer:
        return Answer(HTTPStatus.OK, topics.account_document(await self._store.bucket(admitted.account)))

    async def _set_account(self, admitted: Admitted, request: Request[Admission]) -> Answer:
        bucket = topics.read_account(request.body)
        if bucket is not None:
            await self._store.set_bucket(admitted.account, bucket)
        return Answer(HTTPStatus.NO_CONTENT)

    async def _open(self, admitted: Admitted, _request: Request[Admission]) -> Answer:
        return Answer(HTTPStatus.OK, topics.order_document(await self._store.order(admitted.account)))

    def _url(self, topic: str, subscription: str = "") -> str:
        url = f"{self._address}/topics/{topic}"
        return f"{url}/subscriptions/{subscription}" if subscription else url
