"""The push consumer: long polls, a handler, retries by the broker, load shared by the group."""

from __future__ import annotations

import ssl
from pathlib import Path
from typing import Literal, Self

from brokercore.client.consumption import ConcurrentConsumption, ConsumeMeter, Handler, Handling, OrderedConsumption
from brokercore.client.errors import ClientError
from brokercore.client.running_consumer import ConsumerSettings, RunningConsumer
from brokercore.client.session import Credentials, new_client_id
from brokercore.client.subscriber import MessageSelector, Subscriber
from brokercore.client.threads import Periodic, Scheduler
from brokercore.names import retry_topic
from brokercore.protocol.bodies.clients import BROADCASTING, CLUSTERING, CONSUME_PASSIVELY

ConsumeFrom = Literal["CONSUME_FROM_LAST_OFFSET", "CONSUME_FROM_FIRST_OFFSET", "CONSUME_FROM_TIMESTAMP"]

_CONCURRENT_RETRIES = 16
_LOOK_FOR_LATE_S = 15.0


class PushConsumer(Subscriber):
    """Consumes for a group; a context manager. Make and start it in the process that consumes, not before a fork.

    `model`: CLUSTERING shares the queues among the clients of the group, the broker keeps the offsets and delivers
    again what failed, up to `max_reconsume_times` (16), then as a dead letter. BROADCASTING gives every client every
    message; offsets are kept in `offset_file`. `threads` run the handler at the same time.

    `ordered`: one message of a queue at a time, in its order; one that fails holds up its queue and is consumed again
    after `suspend_s`, without end unless `max_reconsume_times` is given.

    `consume_from`: where a group without offsets begins; CONSUME_FROM_TIMESTAMP begins at `consume_timestamp_ms`
    (epoch ms, default half an hour ago). A message that is in the handler for more than `consume_timeout_s` counts as
    failed and is delivered again; its thread goes on until the handler returns.
    """

    KIND = "push consumer"

    def __init__(
        self,
        namesrv: str,
        credentials: Credentials | None,
        group: str,
        *,
        namespace: str = "",
        model: Literal["CLUSTERING", "BROADCASTING"] = "CLUSTERING",
        ordered: bool = False,
        suspend_s: float = 1.0,
        max_reconsume_times: int | None = None,
        threads: int = 4,
        consume_timeout_s: float = 15 * 60,
        consume_from: ConsumeFrom = "CONSUME_FROM_LAST_OFFSET",
        consume_timestamp_ms: int | None = None,
        offset_file: Path | None = None,
        timeout_ms: int = 3000,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        super().__init__(namesrv, credentials, group, namespace=namespace, timeout_ms=timeout_ms, tls=tls)
        self._model = model
        self._ordered = ordered
        self._suspend_s = suspend_s
        retries = -1 if ordered else _CONCURRENT_RETRIES
        self._max_reconsume_times = retries if max_reconsume_times is None else max_reconsume_times
        self._threads = threads
        self._consume_timeout_s = consume_timeout_s
        self._consume_from = consume_from
        self._consume_timestamp_ms = consume_timestamp_ms
        self._offset_file = offset_file
        self._handler: Handler | None = None

    def __exit__(self, *_: object) -> None:
        self.shutdown()

    def subscribe(self, topic: str, selector: str | MessageSelector = "*") -> Self:
        """Want the messages of a topic that pass: tags (`*`, `tagA`, `tagA || tagB`) or MessageSelector.by_sql.

        All clients of a group must have the same subscriptions. Raises SubscriptionError for malformed tags.
        """
        self._want(topic, selector)
        return self

    def on_message(self, handler: Handler) -> Handler:
        """Set the handler; also a decorator. It runs in several threads; what it raises counts as RECONSUME_LATER."""
        self._handler = handler
        return handler

    def start(self) -> Self:
        """Join the group and begin to consume.

        Raises ClientError when brokers refuse or cannot be reached, SubscriptionInvalid for a filter they do not take.
        """
        if self._handler is None or not self._subscriptions:
            raise ClientError("A push consumer needs a subscription and a handler before it starts.")
        if self._running is not None:
            raise ClientError("The push consumer was started already.")
        if self._model == CLUSTERING:
            retry = retry_topic(self.group)
            self._subscriptions[retry] = MessageSelector().subscription(retry)
        self.client_id = new_client_id(self._session.name_servers[0])
        self._running = self._assemble(self._handler)
        try:
            self._running.start()
        except ClientError:
            self.shutdown()
            raise
        return self

    def shutdown(self, timeout_s: float = 10.0) -> None:
        """Stop: handlers that run may end (at most `timeout_s`), offsets are committed, the group is left.

        Can be called again. A broker that is gone holds it up for a few seconds.
        """
        running, self._running = self._running, None
        if running is not None:
            running.stop(timeout_s)
        self._session.close()

    def _assemble(self, handler: Handler) -> RunningConsumer:
        meter, scheduler = ConsumeMeter(), Scheduler(f"pull {self.group}")
        handling = Handling(
            session=self._session,
            routes=self._routes,
            meter=meter,
            group=self.group,
            namespace=self.namespace,
            max_reconsume_times=self._max_reconsume_times,
            handler=handler,
        )
        deliveries, jobs = self._deliveries(handling, scheduler)
        settings = ConsumerSettings(
            self.group,
            self._model,
            CONSUME_PASSIVELY,
            self._consume_from,
            self.client_id,
            self._consume_timestamp_ms,
            self._offset_file,
            self._ordered,
        )
        return RunningConsumer(
            self._session,
            self._routes,
            settings,
            subscriptions=self._subscriptions,
            scheduler=scheduler,
            deliveries=deliveries,
            meter=meter,
            handle=handling.handle,
            properties={
                "PROP_CONSUMEORDERLY": "true" if self._ordered else "false",
                "PROP_THREADPOOL_CORE_SIZE": str(self._threads),
                "maxReconsumeTimes": str(self._max_reconsume_times),
            },
            jobs=jobs,
        )

    def _deliveries(
        self, handling: Handling, scheduler: Scheduler
    ) -> tuple[ConcurrentConsumption | OrderedConsumption, list[Periodic]]:
        broadcasting = self._model == BROADCASTING
        if self._ordered:
            ordered = OrderedConsumption(
                handling, scheduler, threads=self._threads, suspend_s=self._suspend_s, locks=not broadcasting
            )
            return ordered, []
        concurrent = ConcurrentConsumption(
            handling,
            scheduler,
            broadcasting=broadcasting,
            threads=self._threads,
            timeout_s=self._consume_timeout_s,
        )
        interval_s = min(_LOOK_FOR_LATE_S, self._consume_timeout_s / 2)
        return concurrent, [Periodic(f"timeouts {self.group}", interval_s, concurrent.expire)]
