"""What a consumer wants of a topic: by tag, or by properties (SQL92); and what every consumer has."""

from __future__ import annotations

import ssl
import time
from dataclasses import dataclass
from typing import ClassVar, Literal, Self

from brokercore.client.errors import ClientClosed
from brokercore.client.routes import Routes
from brokercore.client.running_consumer import RunningConsumer
from brokercore.client.session import Credentials, Session
from brokercore.client.threads import restart_after_fork
from brokercore.names import wrap
from brokercore.protocol.bodies.clients import RunningInfo, SubscriptionData


@dataclass(frozen=True, slots=True)
class MessageSelector:
    """A filter that the broker applies; made by `by_tag` or `by_sql`."""

    expression: str = "*"
    kind: Literal["TAG", "SQL92"] = "TAG"

    @classmethod
    def by_tag(cls, expression: str) -> MessageSelector:
        """`*`, `tagA`, or `tagA || tagB`."""
        return cls(expression or "*")

    @classmethod
    def by_sql(cls, expression: str) -> MessageSelector:
        """A condition on the properties of messages, as `floor BETWEEN 5 AND 9 AND city = 'Bern'`.

        See docs/operate/broker.md.

        The broker checks it when the consumer starts. Apache RocketMQ needs `enablePropertyFilter=true`.
        """
        return cls(expression, "SQL92")

    def subscription(self, topic: str) -> SubscriptionData:
        """The subscription of a topic, as of now. Raises SubscriptionError for malformed tags."""
        now = int(time.time() * 1000)
        if self.kind == "TAG":
            return SubscriptionData.of_tags(topic, self.expression, now)
        return SubscriptionData(topic, self.expression, now, self.kind)


def selector_of(filter_: str | MessageSelector) -> MessageSelector:
    """A text is a tag expression."""
    return MessageSelector.by_tag(filter_) if isinstance(filter_, str) else filter_


class Subscriber:
    """What the two kinds of consumers share: their session, and subscriptions that may change while they run.

    Subscriptions are kept by physical topic; `KIND` is what errors call the consumer.
    """

    KIND: ClassVar[str]

    def __init__(
        self,
        namesrv: str,
        credentials: Credentials | None,
        group: str,
        *,
        namespace: str,
        timeout_ms: int,
        tls: ssl.SSLContext | None,
    ) -> None:
        self.group = wrap(namespace, group)
        self.namespace = namespace
        self.client_id = ""
        self._session = Session(namesrv, credentials, timeout_ms=timeout_ms, tls=tls)
        self._routes = Routes(self._session)
        self._subscriptions: dict[str, SubscriptionData] = {}
        self._running: RunningConsumer | None = None
        restart_after_fork(self)

    def __enter__(self) -> Self:
        return self

    def start_anew(self) -> None:
        """In a forked child: what runs belongs to the parent, which stays the member of the group."""
        self._running = None

    def unsubscribe(self, topic: str) -> None:
        """Want a topic no longer; its queues are given up soon."""
        self._subscriptions.pop(wrap(self.namespace, topic), None)
        if self._running is not None:
            self._running.resubscribe()

    def running_info(self) -> RunningInfo:
        """What this consumer tells a console of itself. Raises ClientClosed unless it runs."""
        return self._require().info()

    def _require(self) -> RunningConsumer:
        running = self._running
        if running is None:
            raise ClientClosed(f"The {self.KIND} does not run.")
        return running

    def _want(self, topic: str, selector: str | MessageSelector) -> None:
        name = wrap(self.namespace, topic)
        self._subscriptions[name] = selector_of(selector).subscription(name)
        if self._running is not None:
            self._running.resubscribe()
