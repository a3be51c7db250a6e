"""The clients behind gRPC calls: what each said of itself, how it is told something, and which messages it works on.

Messages that a push consumer works on stay invisible while it is there (`auto_renew`).
"""

from __future__ import annotations

import asyncio
import logging
import secrets
import time
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, NamedTuple

import orjson

from brokercore.protocol.bodies.clients import CONSUME_POP, ConsumerData, Heartbeat
from brokercore.protocol.codes import RequestCode, ResponseCode
from brokercore.protocol.command import Command
from brokercore.protocol.grpc.messaging_pb2 import (
    Code,
    PrintThreadStackTraceCommand,
    RecoverOrphanedTransactionCommand,
    Settings,
    TelemetryCommand,
    VerifyMessageCommand,
)
from brokercore.protocol.message import StoredMessage, decode_stored
from brokercore.server.errors import Refusal
from brokercore.server.grpc.call import Call, Fault, InnerConnection, check
from brokercore.server.grpc.messages import build_message, transaction_id
from brokercore.server.rights.permissions import PUBLISH
from brokercore.server.storage.offsets import Place

if TYPE_CHECKING:
    from brokercore.server.broker import Broker
    from brokercore.server.connections.connection import Dispatch

logger = logging.getLogger(__name__)

SessionKey = tuple[str, str]
"""AccessKey and client id: a client id alone is whatever a client says."""

MOST_PER_KEY = 1000
IDLE_SECONDS = 120
MOST_UNSENT = 1000
"""Commands that wait for a client to read them; what comes above that is not told."""

_RESULTS = {
    Code.OK: "CR_SUCCESS",
    Code.FAILED_TO_CONSUME_MESSAGE: "CR_LATER",
    Code.MESSAGE_CORRUPTED: "CR_RETURN_NULL",
}

Outbox = asyncio.Queue[TelemetryCommand]

RENEWED_MS = 60_000
"""How long a message is invisible at a time."""

AHEAD_MS = 20_000
"""It is renewed when it would be visible within this time."""

LOOK_SECONDS = 5.0
LONGEST_MS = 3 * 3600 * 1000
"""A consumer that has not finished by then has lost the message."""

GONE_MS = 1000
"""A message whose consumer went is visible this much later."""


class Session(InnerConnection):
    """One client. In the tables of producers and consumers it stands as the connection that it registered on."""

    def __init__(self, call: Call, dispatch: Dispatch) -> None:
        super().__init__(call.broker, dispatch, call.caller, call.came_on)
        self.client_id, self.language = call.client_id, call.language
        self.settings: Settings | None = None
        self.topics: list[str] = []
        """What it produces for: half messages of these topics are asked about here."""
        self.space = ""
        self.outbox: Outbox | None = None
        self._answers: dict[str, asyncio.Future[TelemetryCommand]] = {}

    def seen(self, call: Call) -> None:
        """The client calls again, perhaps from elsewhere or with new rights."""
        self.caller, self.peer, self.host_bytes, self.secure = call.caller, call.peer, call.host_bytes, call.secure
        self.last_seen = time.monotonic()

    async def register(self, *consumers: ConsumerData, without_subscriptions: bool = False) -> None:
        """Say to the broker what the client is, as heartbeats of remoting clients do. Raises Fault."""
        beat = Heartbeat(self.client_id, self.topics, list(consumers), without_subscriptions=without_subscriptions)
        check(await self.ask(RequestCode.HEART_BEAT, {}, beat.to_json()))

    async def produces(self, topics: Iterable[str]) -> None:
        """The client produces for these topics too, as far as it may. Raises Fault."""
        new = [topic for topic in topics if topic not in self.topics]
        self.topics += [topic for topic in new if self.caller.may(PUBLISH, topic, self)]
        await self.register()

    def tell(self, command: TelemetryCommand) -> bool:
        """Send a command to the client; False when it does not listen."""
        if self.outbox is None or self.outbox.full():
            return False
        self.outbox.put_nowait(command)
        return True

    def answered(self, nonce: str, command: TelemetryCommand) -> None:
        """The client answers a command."""
        future = self._answers.pop(nonce, None)
        if future is not None and not future.done():
            future.set_result(command)

    # What the broker tells and asks

    def push(self, code: int, ext: dict[str, str], body: bytes = b"") -> None:
        """Of what the broker tells clients, gRPC clients know the question about a half message."""
        if code == RequestCode.CHECK_TRANSACTION_STATE:
            self.tell(self._question(decode_stored(body)[0], ext))

    def _question(self, half: StoredMessage, ext: dict[str, str]) -> TelemetryCommand:
        number = transaction_id(half.offset_message_id, ext["tranStateTableOffset"])
        message = build_message(half, self.space)
        question = RecoverOrphanedTransactionCommand(message=message, transaction_id=number)
        return TelemetryCommand(recover_orphaned_transaction_command=question)

    async def request(self, code: int, ext: dict[str, str], body: bytes = b"", *, seconds: float) -> Command:
        if code == RequestCode.GET_CONSUMER_RUNNING_INFO:
            stacks = await self._stacks(seconds) if ext.get("jstackEnable") == "true" else ""
            return Command(ResponseCode.SUCCESS, body=self._running_info(stacks))
        if code == RequestCode.CONSUME_MESSAGE_DIRECTLY:
            return await self._verify(decode_stored(body)[0], seconds)
        return await super().request(code, ext, body, seconds=seconds)

    async def _stacks(self, seconds: float) -> str:
        nonce = secrets.token_hex(8)
        question = TelemetryCommand(print_thread_stack_trace_command=PrintThreadStackTraceCommand(nonce=nonce))
        return (await self._asked(nonce, question, seconds)).thread_stack_trace.thread_stack_trace

    async def _verify(self, message: StoredMessage, seconds: float) -> Command:
        nonce, began = secrets.token_hex(8), time.monotonic()
        command = VerifyMessageCommand(nonce=nonce, message=build_message(message, self.space))
        answer = await self._asked(nonce, TelemetryCommand(verify_message_command=command), seconds)
        if answer.status.code == Code.VERIFY_FIFO_MESSAGE_UNSUPPORTED:
            raise Refusal(ResponseCode.SYSTEM_ERROR, f"client {self.client_id} consumes in order: it takes no message")
        result = {
            "autoCommit": True,
            "consumeResult": _RESULTS.get(answer.status.code, "CR_THROW_EXCEPTION"),
            "order": False,
            "remark": answer.status.message,
            "spentTimeMills": int(1000 * (time.monotonic() - began)),
        }
        return Command(ResponseCode.SUCCESS, body=orjson.dumps(result))

    async def _asked(self, nonce: str, question: TelemetryCommand, seconds: float) -> TelemetryCommand:
        future: asyncio.Future[TelemetryCommand] = asyncio.get_running_loop().create_future()
        self._answers[nonce] = future
        try:
            if not self.tell(question):
                raise TimeoutError
            async with asyncio.timeout(seconds):
                return await future
        finally:
            self._answers.pop(nonce, None)

    def _running_info(self, stacks: str) -> bytes:
        agent = self.settings.user_agent if self.settings else None
        properties = {
            "PROP_CLIENT_VERSION": agent.version if agent else "",
            "PROP_CONSUME_TYPE": CONSUME_POP,
            "PROP_NAMESERVER_ADDR": "",
        }
        info = {"jstack": stacks, "mqPopTable": {}, "mqTable": {}, "properties": properties, "statusTable": {}}
        return orjson.dumps(info | {"subscriptionSet": [], "userConsumerInfo": {}})


class Sessions:
    """All clients by AccessKey and client id."""

    def __init__(self, dispatch: Dispatch) -> None:
        self._dispatch = dispatch
        self._by_key: dict[str, dict[str, Session]] = {}

    def find(self, call: Call) -> Session | None:
        """The client of a call, None when it has not said what it is."""
        found = self._by_key.get(call.caller.key_id, {}).get(call.client_id)
        if found is not None:
            found.seen(call)
        return found

    def open(self, call: Call) -> Session:
        """The client of a call, made when it is new. Raises Fault when its AccessKey has too many."""
        found = self.find(call)
        if found is not None:
            return found
        clients = self._by_key.setdefault(call.caller.key_id, {})
        if len(clients) >= MOST_PER_KEY:
            raise Fault(Code.TOO_MANY_REQUESTS, f"AccessKey {call.caller.key_id} has {MOST_PER_KEY} clients online")
        session = clients[call.client_id] = Session(call, self._dispatch)
        return session

    def is_online(self, key: SessionKey) -> bool:
        """Whether the client is there."""
        return key[1] in self._by_key.get(key[0], {})

    def end(self, session: Session) -> None:
        """A client has gone: it leaves all groups."""
        clients = self._by_key.get(session.caller.key_id, {})
        if clients.get(session.client_id) is session:
            del clients[session.client_id]
            if not clients:
                del self._by_key[session.caller.key_id]
        session.close()

    def expire(self) -> None:
        """Forget clients whose heartbeats stopped."""
        oldest = time.monotonic() - IDLE_SECONDS
        for clients in list(self._by_key.values()):
            for session in [session for session in clients.values() if session.last_seen < oldest]:
                self.end(session)


class _Held(NamedTuple):
    """A delivery that one client works on."""

    place: Place
    offset: int
    popped_ms: int


class Renewals:
    """Deliveries by client. What was acknowledged, or given a new handle, drops out by itself."""

    def __init__(self, broker: Broker, is_online: Callable[[SessionKey], bool]) -> None:
        self._broker, self._is_online = broker, is_online
        self._held: dict[SessionKey, set[_Held]] = {}

    def add(self, client: SessionKey, place: Place, offset: int, popped_ms: int) -> None:
        """A client was given a message."""
        self._held.setdefault(client, set()).add(_Held(place, offset, popped_ms))

    def give_back(self, place: Place, offset: int, popped_ms: int) -> None:
        """A message did not reach its client: others get it soon. Raises StoreUnavailable."""
        now_ms = int(time.time() * 1000)
        flights = self._broker.flights
        state = flights.find(place)
        flight = state.flights.get(offset) if state else None
        if flight is None or flight.acknowledged:
            return
        if flight.popped_ms == popped_ms and flight.visible_ms > now_ms + GONE_MS:
            flights.extend(place, offset, now_ms + GONE_MS)
            self._wake(place)

    async def run(self) -> None:
        """Look after them until cancelled."""
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            try:
                self.look()
            except Refusal as refusal:
                logger.warning("messages in work are not renewed now: %s", refusal.remark)

    def look(self) -> None:
        """Renew what would be visible soon. Raises StoreUnavailable."""
        now_ms = int(time.time() * 1000)
        for client, held in list(self._held.items()):
            online = self._is_online(client)
            for delivery in list(held):
                if not self._renew(delivery, now_ms, online=online):
                    held.discard(delivery)
            if not held:
                del self._held[client]

    def _renew(self, held: _Held, now_ms: int, *, online: bool) -> bool:
        """False when there is nothing left to look after."""
        flights = self._broker.flights
        state = flights.find(held.place)
        flight = state.flights.get(held.offset) if state else None
        if flight is None or flight.acknowledged or flight.popped_ms != held.popped_ms:
            return False
        if now_ms - held.popped_ms > LONGEST_MS:
            return False
        if not online:
            self.give_back(*held)
            return False
        if flight.visible_ms < now_ms + AHEAD_MS:
            flights.extend(held.place, held.offset, now_ms + RENEWED_MS)
        return True

    def _wake(self, place: Place) -> None:
        """Those who wait for the queue look when the message is visible."""
        topic = self._broker.topics.get(place[1])
        if topic is not None:
            self._broker.waiting.wake(topic.queues[place[2]])
