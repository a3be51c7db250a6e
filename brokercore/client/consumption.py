"""Messages through the handler: what it says, and handing back to the broker what failed."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from brokercore.client.errors import ClientError
from brokercore.client.messages import ConsumeResult, MessageView
from brokercore.client.meter import ConsumeMeter
from brokercore.client.process_queue import ProcessQueue
from brokercore.client.routes import Routes
from brokercore.client.scheduler import Scheduler
from brokercore.client.session import Call, Session
from brokercore.protocol.codes import RequestCode
from brokercore.protocol.errors import ProtocolError
from brokercore.protocol.message import StoredMessage

log = logging.getLogger(__name__)

Handler = Callable[[MessageView], ConsumeResult]

SEND_BACK_TIMEOUT_MS = 5_000
CONSUME_AGAIN_S = 5.0
"""When the broker does not take a failed message back, it is consumed here again after this time."""


class Consumption:
    """Runs the handler in `threads` threads. What fails goes back to the broker, which delivers it again later."""

    def __init__(
        self,
        *,
        session: Session,
        routes: Routes,
        scheduler: Scheduler,
        meter: ConsumeMeter,
        group: str,
        namespace: str,
        broadcasting: bool,
        max_reconsume_times: int,
        threads: int,
        handler: Handler,
    ) -> None:
        self._session = session
        self._routes = routes
        self._scheduler = scheduler
        self._meter = meter
        self._group = group
        self._namespace = namespace
        self._broadcasting = broadcasting
        self._max_reconsume_times = max_reconsume_times
        self._handler = handler
        self._executor = ThreadPoolExecutor(threads, f"consume {group}")
        self._idle = threading.Condition()
        self._running = 0

    def deliver(self, item: ProcessQueue, message: StoredMessage) -> None:
        """Put a message in line for the handler."""
        try:
            self._executor.submit(self._consume, item, message)
        except RuntimeError:
            log.debug("message %s came while shutting down", message.unique_id)

    def stop(self, timeout_s: float) -> bool:
        """Start no more messages and wait for those in the handler; False when some still run after `timeout_s`."""
        self._executor.shutdown(wait=False, cancel_futures=True)
        with self._idle:
            return self._idle.wait_for(lambda: self._running == 0, timeout_s)

    def handle(self, message: StoredMessage, broker_name: str) -> ConsumeResult:
        """The handler's word on a message. Raises what the handler raises, DecompressionError."""
        return self._handler(MessageView.of(message, broker_name, self._namespace))

    def _consume(self, item: ProcessQueue, message: StoredMessage) -> None:
        if item.dropped:
            return
        with self._idle:
            self._running += 1
        try:
            success = self._run_handler(item, message)
            if not item.dropped:
                self._settle(item, message, success)
        finally:
            with self._idle:
                self._running -= 1
                self._idle.notify_all()

    def _run_handler(self, item: ProcessQueue, message: StoredMessage) -> bool:
        begun = time.monotonic()
        success = False
        try:
            success = self.handle(message, item.queue.broker_name) is ConsumeResult.SUCCESS
        except ProtocolError as error:
            log.warning("message %s cannot be read: %s", message.unique_id, error)
        except Exception:
            log.exception("the handler of %s failed on message %s", self._group, message.unique_id)
        self._meter.consumed(item.queue.topic, success, (time.monotonic() - begun) * 1000)
        return success

    def _settle(self, item: ProcessQueue, message: StoredMessage, success: bool) -> None:
        if not success and self._broadcasting:
            log.warning("message %s failed; broadcasting does not deliver it again", message.unique_id)
        elif not success:
            try:
                self._send_back(item.queue.broker_name, message)
            except ClientError as error:
                log.warning("message %s is consumed here again: %s", message.unique_id, error)
                message.reconsume_times += 1
                self._scheduler.call(lambda: self.deliver(item, message), CONSUME_AGAIN_S)
                return
        item.finish(message.queue_offset)

    def _send_back(self, broker_name: str, message: StoredMessage) -> None:
        """CONSUMER_SEND_MSG_BACK with level 0: the broker chooses the delay, and the dead letters after the last."""
        ext = {
            "offset": str(message.physical_offset),
            "group": self._group,
            "delayLevel": "0",
            "originMsgId": message.unique_id,
            "originTopic": message.topic,
            "unitMode": "false",
            "maxReconsumeTimes": str(self._max_reconsume_times),
            "bname": broker_name,
        }
        call = Call(self._routes.address(broker_name), RequestCode.CONSUMER_SEND_MSG_BACK, ext)
        self._session.call_once(call, timeout_ms=SEND_BACK_TIMEOUT_MS)
