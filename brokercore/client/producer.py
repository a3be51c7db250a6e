"""The producer: synchronous, asynchronous, one-way, ordered, batch and transactional sends, requests and replies."""

from __future__ import annotations

import logging
import ssl
import threading
import time
import uuid
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeout
from dataclasses import replace
from typing import Self

from brokercore.client.errors import ClientClosed, ClientError, InvalidMessage, RequestTimeout
from brokercore.client.membership import ProducerMembership
from brokercore.client.messages import Message, MessageView, SendResult, TransactionState
from brokercore.client.routes import Routes
from brokercore.client.sending import Prepared, Sender, batch_results, prepare, prepare_batch
from brokercore.client.session import Call, Credentials, Permit, Session, new_client_id
from brokercore.client.threads import Workers, restart_after_fork
from brokercore.names import REPLY_SUFFIX, unwrap, wrap
from brokercore.protocol import properties as names
from brokercore.protocol.codes import RequestCode, ResponseCode
from brokercore.protocol.command import Command
from brokercore.protocol.errors import ProtocolError
from brokercore.protocol.ids import parse_offset_message_id
from brokercore.protocol.message import StoredMessage, decode_stored
from brokercore.protocol.message_queue import MessageQueue
from brokercore.protocol.properties import decode_properties

log = logging.getLogger(__name__)

SendCallback = Callable[[SendResult | None, ClientError | None], None]
TransactionCheck = Callable[[MessageView], TransactionState]

_CALLBACK_THREADS = 4
_MOST_UNFINISHED = 10_000
"""Asynchronous sends under way at a time, as many as Java allows by default."""

_GOODBYE_MS = 2_000

REPLY = "reply"
"""Value of MSG_TYPE that makes a message a reply."""


class Producer:
    """Sends messages of one producer group; a context manager, safe in threads and over forks.

    `namespace` is the instance id of a namespaced instance. `timeout_ms` bounds a send with its tries; `retries`
    further tries go to other queues, at once, after a broken connection or a code that may pass elsewhere.
    A message may be stored twice when an answer was lost: consumers must be idempotent, as with Java.
    """

    def __init__(
        self,
        namesrv: str,
        credentials: Credentials | None,
        group: str,
        *,
        namespace: str = "",
        timeout_ms: int = 3000,
        retries: int = 2,
        transaction_check: TransactionCheck | None = None,
        tls: ssl.SSLContext | None = None,
        permit: Permit | None = None,
    ) -> None:
        self.group = wrap(namespace, group)
        self.namespace = namespace
        self._timeout_ms = timeout_ms
        self._session = Session(namesrv, credentials, timeout_ms=timeout_ms, tls=tls, permit=permit)
        self._routes = Routes(self._session)
        self._sender = Sender(self._session, self._routes, self.group, retries + 1)
        self._requests = Requests(self._session, namespace)
        self._transactions = (
            Transactions(self._session, self.group, namespace, transaction_check) if transaction_check else None
        )
        self._lock = threading.Lock()
        self._membership: ProducerMembership | None = None
        self._callbacks: Workers | None = None
        self._unfinished = 0
        self._finished = threading.Condition(self._lock)
        self._closed = False
        restart_after_fork(self)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close, once asynchronous sends under way have called back. Can be called again."""
        with self._lock:
            self._closed = True
            self._finished.wait_for(lambda: not self._unfinished, 2 * self._timeout_ms / 1000)
            callbacks, membership = self._callbacks, self._membership
        if callbacks is not None:
            callbacks.stop(self._timeout_ms / 1000, finish=True)
        self._session.hurry(_GOODBYE_MS)
        if membership is not None:
            membership.leave()
        self._session.close()

    def start_anew(self) -> None:
        """In a forked child: threads of the parent are left behind."""
        self._lock = threading.Lock()
        self._finished = threading.Condition(self._lock)
        self._unfinished = 0
        self._membership = None
        self._callbacks = None

    def send(self, message: Message, *, timeout_ms: int | None = None) -> SendResult:
        """Send and wait until the broker stored it.

        Raises InvalidMessage, NoPermission, TopicNotExist and other BrokerErrors, BrokerUnreachable, RequestTimeout.
        """
        prepared = prepare(message, self.namespace, self.group)
        return self._sender.send(prepared, timeout_ms or self._timeout_ms)

    def send_batch(self, messages: Sequence[Message], *, timeout_ms: int | None = None) -> list[SendResult]:
        """Send messages of one topic in one request, at most 4 MiB; they lie in one queue, one behind the other.

        Raises InvalidMessage for more than one topic or delayed messages, and what send() raises; then none is stored.
        """
        if not messages:
            return []
        batch, ids = prepare_batch(messages, self.namespace, self.group)
        return batch_results(self._sender.send(batch, timeout_ms or self._timeout_ms), ids)

    def send_ordered(self, message: Message, sharding_key: str, *, timeout_ms: int | None = None) -> SendResult:
        """Send to the queue of a sharding key: messages of one key keep their order. There are no further tries.

        The queue is abs(Java hash of the key) mod number of queues, as ons-client chooses it.
        """
        prepared = prepare(message, self.namespace, self.group, sharding_key=sharding_key)
        queue = self._sender.queue_of_key(prepared.topic, sharding_key)
        return self._sender.send_to(queue, prepared, timeout_ms or self._timeout_ms)

    def send_oneway(self, message: Message) -> str:
        """Send without waiting for an answer; returns the message id. Whether it arrives is not known."""
        prepared = prepare(message, self.namespace, self.group)
        self._sender.oneway(prepared)
        return prepared.message_id

    def send_async(self, message: Message, callback: SendCallback) -> str:
        """Send and return the message id at once; `callback(result, None)` or `callback(None, error)` follows.

        Callbacks run in threads of the producer. With 10,000 sends under way it waits for one of them to end. Raises
        what can be known before sending, RequestTimeout when none ended within the producer's `timeout_ms`.
        """
        prepared = prepare(message, self.namespace, self.group)
        queue = self._sender.choose(prepared.topic)
        address = self._routes.address(queue.broker_name)
        workers = self._workers()
        future = self._sender.submit(queue, prepared, address, self._timeout_ms)
        future.add_done_callback(
            lambda done: self._call_back_in(workers, lambda: self._finish(done, prepared, queue, address, callback))
        )
        return prepared.message_id

    def request(self, message: Message, *, timeout_ms: int | None = None) -> MessageView:
        """Send a question and wait for the message that answers it, at most `timeout_ms`.

        Raises what send() raises, and RequestTimeout when no reply came.
        """
        wait_ms = timeout_ms or self._timeout_ms
        deadline = time.monotonic() + wait_ms / 1000
        members = self._members()
        properties, future = self._requests.ask(members.client_id, wait_ms)
        try:
            prepared = prepare(message, self.namespace, self.group, extra=properties)
            members.join(self._routes.masters(prepared.topic).values())
            sent = self._sender.send(prepared, wait_ms)
            return future.result(max(0.0, deadline - time.monotonic()))
        except FutureTimeout:
            raise RequestTimeout(self._routes.address(sent.queue.broker_name), wait_ms) from None
        finally:
            self._requests.forget(properties)

    def reply(self, question: MessageView, body: bytes, *, timeout_ms: int | None = None) -> None:
        """Answer a message that was sent by request(); its sender gets the reply at once, or not at all.

        Raises InvalidMessage when the message is no request, BrokerError when its sender does not wait any more.
        """
        topic, properties = reply_properties(question)
        prepared = prepare(Message(topic, body), "", self.group, extra=properties)
        prepared = replace(prepared, code=RequestCode.SEND_REPLY_MESSAGE_V2)
        queue = MessageQueue(topic, question.queue.broker_name, 0)  # that broker knows who asked
        self._sender.send_to(queue, prepared, timeout_ms or self._timeout_ms)

    def recall(self, result: SendResult, *, timeout_ms: int | None = None) -> None:
        """Take back a message with a delivery time before that time comes (RECALL_MESSAGE).

        Raises InvalidMessage for a message that cannot be recalled, BrokerError when the broker refuses: too late, or
        an Apache RocketMQ without `recallMessageEnable=true`.
        """
        if not result.recall_handle:
            raise InvalidMessage(f"Message {result.message_id} has no delivery time: it cannot be recalled.")
        ext = {
            "producerGroup": self.group,
            "topic": result.queue.topic,
            "recallHandle": result.recall_handle,
            "bname": result.queue.broker_name,
        }
        call = Call(self._routes.address(result.queue.broker_name), RequestCode.RECALL_MESSAGE, ext)
        self._session.call(call, timeout_ms=timeout_ms or self._timeout_ms)

    def send_transaction(self, message: Message, execute: Callable[[Message, str], TransactionState]) -> SendResult:
        """Send a half message, run `execute(message, message_id)`, then commit or roll back as it says.

        When `execute` raises, the message is rolled back and the exception goes on. On UNKNOWN the broker asks
        `transaction_check` later; a producer without one is refused with ClientError.
        """
        result, topic, address = self._send_half(message)
        state = TransactionState.ROLLBACK
        try:
            state = execute(message, result.message_id)
        finally:
            self._checked().end(result, topic, address, state)
        return result

    def send_half(self, message: Message) -> SendResult:
        """Only the first phase: the broker asks `transaction_check` whether to deliver the message."""
        return self._send_half(message)[0]

    def _send_half(self, message: Message) -> tuple[SendResult, str, str]:
        self._checked()
        prepared = prepare(message, self.namespace, self.group, half=True)
        members = self._members()  # the broker asks on a connection that it knows
        result = self._sender.send(prepared, self._timeout_ms, before=lambda address: members.join([address]))
        return result, prepared.topic, self._routes.address(result.queue.broker_name)

    def _call_back_in(self, workers: Workers, work: Callable[[], None]) -> None:
        if not workers.submit(work):
            log.warning("an answer came after the producer of %s was closed; its callback is not called", self.group)

    def _finish(
        self, done: Future[Command], prepared: Prepared, queue: MessageQueue, address: str, callback: SendCallback
    ) -> None:
        result: SendResult | None = None
        failure: ClientError | None = None
        try:
            result = self._sender.finish(done, prepared, queue, address, self._timeout_ms)
        except ClientError as error:
            failure = error
        try:
            callback(result, failure)
        except Exception:
            log.exception("the callback of message %s failed", prepared.message_id)
        finally:
            with self._lock:
                self._unfinished -= 1
                self._finished.notify_all()

    def _checked(self) -> Transactions:
        if self._transactions is None:
            raise ClientError("Transactional messages need a producer with transaction_check.")
        return self._transactions

    def _members(self) -> ProducerMembership:
        with self._lock:
            if self._closed:
                raise ClientClosed("The producer is closed.")
            if self._membership is None:
                client_id = new_client_id(self._session.name_servers[0])
                self._membership = ProducerMembership(self._session, client_id, self.group)
            return self._membership

    def _workers(self) -> Workers:
        """Where callbacks run; counts one more unfinished send."""
        with self._lock:
            if self._closed:
                raise ClientClosed("The producer is closed.")
            if self._callbacks is None:
                self._callbacks = Workers(_CALLBACK_THREADS, f"callbacks of {self.group}")
            # A callback that sends is one of the unfinished itself, and must not wait for them.
            if not self._callbacks.is_current() and not self._finished.wait_for(
                lambda: self._unfinished < _MOST_UNFINISHED, self._timeout_ms / 1000
            ):
                raise RequestTimeout(f"{_MOST_UNFINISHED} asynchronous sends", self._timeout_ms)
            self._unfinished += 1
            return self._callbacks


class Transactions:
    """Ends transactions, and answers CHECK_TRANSACTION_STATE of the brokers that know the group."""

    def __init__(self, session: Session, group: str, namespace: str, check: TransactionCheck) -> None:
        self._session = session
        self._group = group
        self._namespace = namespace
        self._check = check
        session.handle(RequestCode.CHECK_TRANSACTION_STATE, self._on_check)

    def end(self, result: SendResult, topic: str, address: str, state: TransactionState) -> None:
        """Tell the broker how the local transaction of a half message ended. Raises BrokerUnreachable."""
        ext = {
            "topic": topic,
            "msgId": result.message_id,
            "tranStateTableOffset": str(result.queue_offset),
            "commitLogOffset": str(parse_offset_message_id(result.offset_message_id)[2]),
            "transactionId": result.transaction_id or result.message_id,
            "fromTransactionCheck": "false",
            "bname": result.queue.broker_name,
        }
        self._end(address, ext, state)

    def _on_check(self, address: str, command: Command) -> None:
        try:
            stored = decode_stored(command.body)[0]
            view = MessageView.of(stored, command.ext.get("bname", ""), self._namespace)
        except (ProtocolError, IndexError) as error:
            log.warning("< %s asks about a transaction with a broken message: %s", address, error)
            return
        try:
            state = self._check(view)
        except Exception:
            log.exception("the check of transaction %s failed; the broker will ask again", view.message_id)
            state = TransactionState.UNKNOWN
        ext = {
            "topic": stored.topic,
            "msgId": stored.unique_id,
            "tranStateTableOffset": command.ext.get("tranStateTableOffset", "0"),
            "commitLogOffset": command.ext.get("commitLogOffset", "0"),
            "transactionId": stored.properties.get(names.TRANSACTION_ID, stored.unique_id),
            "fromTransactionCheck": "true",
            "bname": command.ext.get("bname", ""),
        }
        self._end(address, ext, state)

    def _end(self, address: str, ext: dict[str, str], state: TransactionState) -> None:
        ext |= {"producerGroup": self._group, "commitOrRollback": str(state.value)}
        self._session.oneway(Call(address, RequestCode.END_TRANSACTION, ext))


class Requests:
    """Replies by correlation id, as the broker pushes them (PUSH_REPLY_MESSAGE_TO_CLIENT)."""

    def __init__(self, session: Session, namespace: str) -> None:
        self._namespace = namespace
        self._waiting: dict[str, Future[MessageView]] = {}
        session.handle(RequestCode.PUSH_REPLY_MESSAGE_TO_CLIENT, self._on_reply)

    def ask(self, client_id: str, timeout_ms: int) -> tuple[dict[str, str], Future[MessageView]]:
        """The properties that make a message a question, and the future of its reply. Call `forget` at the end."""
        correlation_id = str(uuid.uuid4())
        future: Future[MessageView] = Future()
        self._waiting[correlation_id] = future
        properties = {
            names.CORRELATION_ID: correlation_id,
            names.REPLY_TO_CLIENT: client_id,
            names.TIME_TO_LIVE: str(timeout_ms),
        }
        return properties, future

    def forget(self, properties: dict[str, str]) -> None:
        """The question is over."""
        self._waiting.pop(properties[names.CORRELATION_ID], None)

    def _on_reply(self, address: str, command: Command) -> Command:
        try:
            reply = _reply(command, self._namespace)
        except (ProtocolError, ValueError) as error:
            log.warning("< %s a reply cannot be read: %s", address, error)
            return command.response(ResponseCode.SYSTEM_ERROR, f"the reply cannot be read: {error}")
        waiting = self._waiting.pop(reply.properties.get(names.CORRELATION_ID, ""), None)
        if waiting is None:
            log.info("< %s reply %s came too late", address, reply.message_id)
        else:
            waiting.set_result(reply)
        return command.response(ResponseCode.SUCCESS)


def reply_properties(question: MessageView) -> tuple[str, dict[str, str]]:
    """Topic and properties of the reply to a question. Raises InvalidMessage when the message is none."""
    wanted = (names.CLUSTER, names.CORRELATION_ID, names.REPLY_TO_CLIENT, names.TIME_TO_LIVE)
    cluster, *values = (question.properties.get(name, "") for name in wanted)
    if not cluster or not all(values[:2]):
        raise InvalidMessage(f"Message {question.message_id} is no request: nobody waits for a reply to it.")
    properties = dict(zip(wanted[1:], values, strict=True)) | {names.MESSAGE_TYPE: REPLY}
    return cluster + REPLY_SUFFIX, properties


def _reply(command: Command, namespace: str) -> MessageView:
    ext = command.ext
    stored = StoredMessage(
        topic=unwrap(namespace, ext.get("topic", "")),
        body=command.body,
        properties=decode_properties(ext.get("properties", "")),
        sys_flag=int(ext.get("sysFlag") or 0),
        born_timestamp=int(ext.get("bornTimestamp") or 0),
        store_timestamp=int(ext.get("storeTimestamp") or time.time() * 1000),
    )
    return MessageView.of(stored)
