"""One message through the handler, and handing it back to the broker when it failed."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable

from brokercore.client.messages import ConsumeResult, MessageView
from brokercore.client.meter import ConsumeMeter
from brokercore.client.process_queue import ProcessQueue
from brokercore.client.routes import Routes
from brokercore.client.session import Call, Session
from brokercore.protocol.codes import RequestCode
from brokercore.protocol.errors import ProtocolError
from brokercore.protocol.message import StoredMessage

log = logging.getLogger(__name__)

Handler = Callable[[MessageView], ConsumeResult]

SEND_BACK_TIMEOUT_MS = 5_000
BROKER_CHOOSES, DEAD_LETTER = 0, -1
"""Delay levels of CONSUMER_SEND_MSG_BACK: the next retry level, or no more retries."""


class Handling:
    """The handler of a group with what belongs around it; `max_reconsume_times` goes to the broker."""

    def __init__(
        self,
        *,
        session: Session,
        routes: Routes,
        meter: ConsumeMeter,
        group: str,
        namespace: str,
        max_reconsume_times: int,
        handler: Handler,
    ) -> None:
        self.group = group
        self.max_reconsume_times = max_reconsume_times
        self._session = session
        self._routes = routes
        self._meter = meter
        self._namespace = namespace
        self._handler = handler

    def handle(self, message: StoredMessage, broker_name: str) -> ConsumeResult:
        """The handler's word on a message. Raises what the handler raises, DecompressionError."""
        return self._handler(MessageView.of(message, broker_name, self._namespace))

    def succeeds(self, item: ProcessQueue, message: StoredMessage) -> bool:
        """Run the handler; what it raises is logged and counts as a failure."""
        begun = time.monotonic()
        success = False
        try:
            success = self.handle(message, item.queue.broker_name) is ConsumeResult.SUCCESS
        except ProtocolError as error:
            log.warning("message %s cannot be read: %s", message.unique_id, error)
        except Exception:
            log.exception("the handler of %s failed on message %s", self.group, message.unique_id)
        self._meter.consumed(item.queue.topic, success, (time.monotonic() - begun) * 1000)
        return success

    def send_back(self, broker_name: str, message: StoredMessage, level: int = BROKER_CHOOSES) -> None:
        """CONSUMER_SEND_MSG_BACK: the broker delivers it again later, or keeps it as a dead letter.

        Raises ClientError.
        """
        ext = {
            "offset": str(message.physical_offset),
            "group": self.group,
            "delayLevel": str(level),
            "originMsgId": message.unique_id,
            "originTopic": message.topic,
            "unitMode": "false",
            "maxReconsumeTimes": str(self.max_reconsume_times),
            "bname": broker_name,
        }
        call = Call(self._routes.address(broker_name), RequestCode.CONSUMER_SEND_MSG_BACK, ext)
        self._session.call_once(call, timeout_ms=SEND_BACK_TIMEOUT_MS)
