"""The push consumer: long polls, a handler, retries by the broker, load shared by the group."""

from __future__ import annotations

import ssl
import time
from pathlib import Path
from typing import Literal, Self

from brokercore.client.consumption import Handler
from brokercore.client.credentials import Credentials
from brokercore.client.errors import ClientClosed, ClientError
from brokercore.client.identity import new_client_id
from brokercore.client.namespace import RETRY_PREFIX, wrap
from brokercore.client.routes import Routes
from brokercore.client.running_consumer import ConsumerSettings, RunningConsumer
from brokercore.client.session import Session
from brokercore.protocol.bodies.clients import RunningInfo
from brokercore.protocol.bodies.heartbeat import CLUSTERING, CONSUME_PASSIVELY, SubscriptionData


class PushConsumer:
    """Consumes for a group; a context manager. Make and start it in the process that consumes, not before a fork.

    `model`: CLUSTERING shares the queues among the clients of the group, the broker keeps the offsets and delivers
    again what failed, up to `max_reconsume_times`, then as a dead letter. BROADCASTING gives every client every
    message; offsets are kept in `offset_file`. `threads` run the handler at the same time.
    """

    def __init__(
        self,
        namesrv: str,
        credentials: Credentials | None,
        group: str,
        *,
        namespace: str = "",
        model: Literal["CLUSTERING", "BROADCASTING"] = "CLUSTERING",
        max_reconsume_times: int = 16,
        threads: int = 4,
        consume_from: Literal["CONSUME_FROM_LAST_OFFSET", "CONSUME_FROM_FIRST_OFFSET"] = "CONSUME_FROM_LAST_OFFSET",
        offset_file: Path | None = None,
        timeout_ms: int = 3000,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self.group = wrap(namespace, group)
        self.namespace = namespace
        self._model = model
        self._max_reconsume_times = max_reconsume_times
        self._threads = threads
        self._consume_from = consume_from
        self._offset_file = offset_file
        self._session = Session(namesrv, credentials, timeout_ms=timeout_ms, tls=tls)
        self._routes = Routes(self._session)
        self._subscriptions: dict[str, SubscriptionData] = {}
        self._handler: Handler | None = None
        self._running: RunningConsumer | None = None
        self._started_ms = 0
        self.client_id = ""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.shutdown()

    def subscribe(self, topic: str, expression: str = "*") -> Self:
        """Want the messages of a topic with these tags: `*`, `tagA`, `tagA || tagB`. Raises SubscriptionError.

        All clients of a group must have the same subscriptions.
        """
        name = wrap(self.namespace, topic)
        self._subscriptions[name] = SubscriptionData.of_tags(name, expression, int(time.time() * 1000))
        if self._running is not None:
            self._running.resubscribe()
        return self

    def on_message(self, handler: Handler) -> Handler:
        """Set the handler; also a decorator. It runs in several threads; what it raises counts as RECONSUME_LATER."""
        self._handler = handler
        return handler

    def start(self) -> Self:
        """Join the group and begin to consume. Raises ClientError when brokers refuse or cannot be reached."""
        if self._handler is None or not self._subscriptions:
            raise ClientError("A push consumer needs a subscription and a handler before it starts.")
        if self._running is not None:
            raise ClientError("The push consumer was started already.")
        if self._model == CLUSTERING:
            retry = RETRY_PREFIX + self.group
            self._subscriptions[retry] = SubscriptionData.of_tags(retry, "*", int(time.time() * 1000))
        self.client_id = new_client_id(self._session.name_servers[0])
        self._started_ms = int(time.time() * 1000)
        settings = ConsumerSettings(
            self.group,
            self.namespace,
            self._model,
            self._max_reconsume_times,
            self._threads,
            self._consume_from,
            self._offset_file,
            self.client_id,
        )
        self._running = RunningConsumer(
            self._session,
            self._routes,
            settings,
            subscriptions=self._subscriptions,
            handler=self._handler,
            running_info=self.running_info,
        )
        try:
            self._running.start()
        except ClientError:
            self.shutdown()
            raise
        return self

    def shutdown(self, timeout_s: float = 10.0) -> None:
        """Stop: handlers that run may end (at most `timeout_s`), offsets are committed, the group is left."""
        running, self._running = self._running, None
        if running is not None:
            running.stop(timeout_s)
        self._session.close()

    def running_info(self) -> RunningInfo:
        """What this consumer tells a console of itself. Raises ClientClosed unless it runs."""
        running = self._running
        if running is None:
            raise ClientClosed("The push consumer does not run.")
        return RunningInfo(
            properties={
                "PROP_CONSUME_TYPE": CONSUME_PASSIVELY,
                "PROP_CLIENT_VERSION": "V5_3_3",
                "PROP_CONSUMER_START_TIMESTAMP": str(self._started_ms),
                "PROP_NAMESERVER_ADDR": ";".join(self._session.name_servers),
                "PROP_CONSUMEORDERLY": "false",
                "PROP_THREADPOOL_CORE_SIZE": str(self._threads),
                "consumerGroup": self.group,
                "messageModel": self._model,
                "consumeFromWhere": self._consume_from,
                "maxReconsumeTimes": str(self._max_reconsume_times),
                "clientLanguage": "PYTHON",
            },
            subscriptions=list(self._subscriptions.values()),
            queues={item.queue: item.info() for item in running.owned()},
            status=running.meter.status(),
        )
