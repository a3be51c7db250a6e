"""Which queue a message goes to, and further tries on others."""

from __future__ import annotations

import itertools
import logging
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future

from brokercore.client.errors import BrokerError, BrokerUnreachable, ClientError, NoPermission, RequestTimeout
from brokercore.client.faults import Faults
from brokercore.client.messages import SendResult
from brokercore.client.routes import Routes
from brokercore.client.sending import Prepared, read_send, send_call
from brokercore.client.session import Session
from brokercore.protocol.codes import ResponseCode
from brokercore.protocol.command import Command
from brokercore.protocol.ids import java_string_hash
from brokercore.protocol.message_queue import MessageQueue

log = logging.getLogger(__name__)

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


class Sender:
    """Sends prepared messages of a producer group. Methods raise ClientError."""

    def __init__(self, session: Session, routes: Routes, group: str, tries: int) -> None:
        self._session = session
        self._routes = routes
        self._group = group
        self._tries = tries
        self._turn = itertools.count()
        self._faults = Faults()

    def send(
        self,
        prepared: Prepared,
        timeout_ms: int,
        tries: int | None = None,
        before: Callable[[str], None] | None = None,
    ) -> SendResult:
        """Send within `timeout_ms`, with further tries on other queues; `before` gets the address of each first."""
        deadline = time.monotonic() + timeout_ms / 1000
        tried: list[MessageQueue] = []
        while True:
            queue = self.choose(prepared.topic, tried)
            left_ms = int((deadline - time.monotonic()) * 1000)
            try:
                if before is not None:
                    before(self._routes.address(queue.broker_name))
                return self.send_to(queue, prepared, max(left_ms, 1))
            except ClientError as error:
                tried.append(queue)
                late = time.monotonic() >= deadline
                if len(tried) >= (tries or self._tries) or late or not worth_another(error):
                    raise
                log.info("> %s queue %d: %s; trying another queue", queue.broker_name, queue.queue_id, error)
                self._routes.forget_all()

    def send_to(self, queue: MessageQueue, prepared: Prepared, timeout_ms: int) -> SendResult:
        """Send to this queue, once."""
        address = self._routes.address(queue.broker_name)
        answer = self.submit(queue, prepared, address, timeout_ms)
        try:
            return self.result(self._session.wait(answer, address, timeout_ms), prepared, queue, address)
        except ClientError as error:
            self._noted(queue, error)
            raise

    def submit(self, queue: MessageQueue, prepared: Prepared, address: str, timeout_ms: int) -> Future[Command]:
        """Send without waiting."""
        return self._session.submit(send_call(prepared, self._group, queue, address), timeout_ms)

    def finish(
        self, done: Future[Command], prepared: Prepared, queue: MessageQueue, address: str, timeout_ms: int
    ) -> SendResult:
        """The result of what was submitted; when it failed in a way that may pass, of further tries."""
        try:
            return self.result(done.result(), prepared, queue, address)
        except ClientError as error:
            self._noted(queue, error)
            if self._tries == 1 or not worth_another(error):
                raise
            return self.send(prepared, timeout_ms, self._tries - 1)

    def oneway(self, prepared: Prepared) -> None:
        """Send without an answer."""
        queue = self.choose(prepared.topic)
        self._session.oneway(send_call(prepared, self._group, queue, self._routes.address(queue.broker_name)))

    def result(self, response: Command, prepared: Prepared, queue: MessageQueue, address: str) -> SendResult:
        """Read an answer."""
        result = read_send(response, prepared, queue, address)
        self._faults.worked(queue.broker_name)
        return result

    def choose(self, topic: str, tried: Sequence[MessageQueue] = ()) -> MessageQueue:
        """The next queue in turn, on a broker that was not tried yet and has not failed lately, when there is one."""
        queues = self._routes.write_queues(topic)
        brokers = {queue.broker_name for queue in tried}
        fresh = (
            [queue for queue in queues if queue.broker_name not in brokers]
            or [queue for queue in queues if queue not in tried]
            or queues
        )
        usable = self._faults.usable(fresh)
        return usable[next(self._turn) % len(usable)] if usable else self._no_queue(topic)

    def queue_of_key(self, topic: str, sharding_key: str) -> MessageQueue:
        """The queue that a sharding key belongs to."""
        queues = self._routes.write_queues(topic)
        return queues[queue_of_key(sharding_key, len(queues))] if queues else self._no_queue(topic)

    def _noted(self, queue: MessageQueue, error: ClientError) -> None:
        if worth_another(error):
            self._faults.failed(queue.broker_name, error)

    def _no_queue(self, topic: str) -> MessageQueue:
        text = f"topic {topic} has no queue that may be written to"
        raise NoPermission(ResponseCode.NO_PERMISSION, text, ",".join(self._session.name_servers))


def queue_of_key(sharding_key: str, queues: int) -> int:
    """Number of the queue that a sharding key belongs to, among `queues`."""
    value = abs(java_string_hash(sharding_key))
    # Java's Math.abs leaves the smallest int negative; ons-client takes 0 then.
    return 0 if value == 2**31 else value % queues


def worth_another(error: ClientError) -> bool:
    """Whether the same message may be taken by another queue."""
    if isinstance(error, BrokerError):
        return error.code in _TRY_ANOTHER_QUEUE
    return isinstance(error, BrokerUnreachable | RequestTimeout)
