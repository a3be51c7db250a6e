"""The producer: synchronous, asynchronous, one-way, ordered and transactional sends."""

from __future__ import annotations

import itertools
import logging
import ssl
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Self

from brokercore.client.credentials import Credentials
from brokercore.client.errors import (
    BrokerError,
    BrokerUnreachable,
    ClientClosed,
    ClientError,
    NoPermission,
    RequestTimeout,
)
from brokercore.client.fork import restart_after_fork
from brokercore.client.identity import new_client_id
from brokercore.client.messages import Message, SendResult, TransactionState
from brokercore.client.namespace import wrap
from brokercore.client.routes import Routes
from brokercore.client.sending import Prepared, prepare, read_send, send_call
from brokercore.client.session import Session
from brokercore.client.transactions import TransactionCheck, TransactionMembership
from brokercore.protocol.codes import ResponseCode
from brokercore.protocol.command import Command
from brokercore.protocol.ids import java_string_hash
from brokercore.protocol.message_queue import MessageQueue

log = logging.getLogger(__name__)

SendCallback = Callable[[SendResult | None, ClientError | None], None]

_TRY_ANOTHER_QUEUE = frozenset(
    {
        ResponseCode.SYSTEM_ERROR,
        ResponseCode.SYSTEM_BUSY,
        ResponseCode.SERVICE_NOT_AVAILABLE,
        ResponseCode.TOPIC_NOT_EXIST,
        ResponseCode.NO_BUYER_ID,
        ResponseCode.NOT_IN_CURRENT_UNIT,
        ResponseCode.GO_AWAY,
    }
)
"""Java retries NO_PERMISSION as well; here a refusal is final."""

_CALLBACK_THREADS = 4


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
    ) -> None:
        self.group = wrap(namespace, group)
        self.namespace = namespace
        self._timeout_ms = timeout_ms
        self._tries = retries + 1
        self._session = Session(namesrv, credentials, timeout_ms=timeout_ms, tls=tls)
        self._routes = Routes(self._session)
        self._turn = itertools.count()
        self._check = transaction_check
        self._lock = threading.Lock()
        self._membership: TransactionMembership | None = None
        self._callbacks: ThreadPoolExecutor | None = None
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
        if membership is not None:
            membership.stop()
        if callbacks is not None:
            callbacks.shutdown(wait=True)
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
        return self._send(prepared, timeout_ms or self._timeout_ms, self._tries)

    def send_ordered(self, message: Message, sharding_key: str, *, timeout_ms: int | None = None) -> SendResult:
        """Send to the queue of a sharding key: messages of one key keep their order. There are no further tries.

        The queue is abs(Java hash of the key) mod number of queues, as ons-client chooses it.
        """
        prepared = prepare(message, self.namespace, self.group, sharding_key=sharding_key)
        queues = self._routes.write_queues(prepared.topic)
        queue = queues[queue_of_key(sharding_key, len(queues))] if queues else self._no_queue(prepared.topic)
        return self._send_to(queue, prepared, timeout_ms or self._timeout_ms)

    def send_oneway(self, message: Message) -> str:
        """Send without waiting for an answer; returns the message id. Whether it arrives is not known."""
        prepared = prepare(message, self.namespace, self.group)
        queue = self._choose(prepared.topic, ())
        self._session.oneway(send_call(prepared, self.group, queue, self._routes.address(queue.broker_name)))
        return prepared.message_id

    def send_async(self, message: Message, callback: SendCallback) -> str:
        """Send and return the message id at once; `callback(result, None)` or `callback(None, error)` follows.

        Callbacks run in threads of the producer. Raises what can be known before sending.
        """
        prepared = prepare(message, self.namespace, self.group)
        queue = self._choose(prepared.topic, ())
        address = self._routes.address(queue.broker_name)
        executor = self._executor()
        future = self._session.submit(send_call(prepared, self.group, queue, address), self._timeout_ms)
        future.add_done_callback(lambda done: executor.submit(self._finish, done, prepared, queue, address, callback))
        return prepared.message_id

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
            self._members().end(result, topic, address, state)
        return result

    def send_half(self, message: Message) -> SendResult:
        """Only the first phase: the broker asks `transaction_check` whether to deliver the message."""
        return self._send_half(message)[0]

    def _send_half(self, message: Message) -> tuple[SendResult, str, str]:
        prepared = prepare(message, self.namespace, self.group, half=True)
        queue = self._choose(prepared.topic, ())
        address = self._routes.address(queue.broker_name)
        self._members().join(address)
        return self._send_to(queue, prepared, self._timeout_ms), prepared.topic, address

    def _send(self, prepared: Prepared, timeout_ms: int, tries: int) -> SendResult:
        deadline = time.monotonic() + timeout_ms / 1000
        tried: list[MessageQueue] = []
        while True:
            queue = self._choose(prepared.topic, tried)
            left_ms = int((deadline - time.monotonic()) * 1000)
            try:
                return self._send_to(queue, prepared, max(left_ms, 1))
            except ClientError as error:
                tried.append(queue)
                if len(tried) >= tries or time.monotonic() >= deadline or not _worth_another(error):
                    raise
                log.info("> %s queue %d: %s; trying another queue", queue.broker_name, queue.queue_id, error)
                self._routes.forget_all()

    def _send_to(self, queue: MessageQueue, prepared: Prepared, timeout_ms: int) -> SendResult:
        address = self._routes.address(queue.broker_name)
        call = send_call(prepared, self.group, queue, address)
        response = self._session.wait(self._session.submit(call, timeout_ms), address, timeout_ms)
        return read_send(response, prepared, queue, address)

    def _finish(
        self, done: Future[Command], prepared: Prepared, queue: MessageQueue, address: str, callback: SendCallback
    ) -> None:
        result: SendResult | None = None
        failure: ClientError | None = None
        try:
            try:
                result = read_send(done.result(), prepared, queue, address)
            except ClientError as error:
                if self._tries == 1 or not _worth_another(error):
                    raise
                result = self._send(prepared, self._timeout_ms, self._tries - 1)
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

    def _choose(self, topic: str, tried: list[MessageQueue] | tuple[()]) -> MessageQueue:
        """The next queue in turn, on a broker that was not tried yet when there is one."""
        queues = self._routes.write_queues(topic)
        brokers = {queue.broker_name for queue in tried}
        fresh = (
            [queue for queue in queues if queue.broker_name not in brokers]
            or [queue for queue in queues if queue not in tried]
            or queues
        )
        return fresh[next(self._turn) % len(fresh)] if fresh else self._no_queue(topic)

    def _no_queue(self, topic: str) -> MessageQueue:
        text = f"topic {topic} has no queue that may be written to"
        raise NoPermission(ResponseCode.NO_PERMISSION, text, ",".join(self._session.name_servers))

    def _members(self) -> TransactionMembership:
        with self._lock:
            if self._membership is None:
                if self._check is None:
                    raise ClientError("Transactional messages need a producer with transaction_check.")
                client_id = new_client_id(self._session.name_servers[0])
                self._membership = TransactionMembership(
                    self._session, client_id, self.group, self.namespace, self._check
                )
            return self._membership

    def _executor(self) -> ThreadPoolExecutor:
        """Where callbacks run; counts one more unfinished send."""
        with self._lock:
            if self._closed:
                raise ClientClosed("The producer is closed.")
            if self._callbacks is None:
                self._callbacks = ThreadPoolExecutor(_CALLBACK_THREADS, f"callbacks of {self.group}")
            self._unfinished += 1
            return self._callbacks


def queue_of_key(sharding_key: str, queues: int) -> int:
    """Number of the queue that a sharding key belongs to, among `queues`."""
    value = abs(java_string_hash(sharding_key))
    # Java's Math.abs leaves the smallest int negative; ons-client takes 0 then.
    return 0 if value == 2**31 else value % queues


def _worth_another(error: ClientError) -> bool:
    if isinstance(error, BrokerError):
        return error.code in _TRY_ANOTHER_QUEUE
    return isinstance(error, BrokerUnreachable | RequestTimeout)
