"""What consumers of every kind have in common: subscriptions, and what runs for them."""

from __future__ import annotations

from brokercore.client.namespace import wrap
from brokercore.client.running_consumer import RunningConsumer
from brokercore.client.selector import MessageSelector, selector_of
from brokercore.protocol.bodies.heartbeat import SubscriptionData


class Subscriber:
    """Subscriptions by physical topic, which may change while the consumer runs."""

    def __init__(self, namespace: str) -> None:
        self.namespace = namespace
        self._subscriptions: dict[str, SubscriptionData] = {}
        self._running: RunningConsumer | None = None

    def start_anew(self) -> None:
        """In a forked child: what runs belongs to the parent, which stays the member of the group."""
        self._running = None

    def unsubscribe(self, topic: str) -> None:
        """Want a topic no longer; its queues are given up soon."""
        self._subscriptions.pop(wrap(self.namespace, topic), None)
        if self._running is not None:
            self._running.resubscribe()

    def _want(self, topic: str, selector: str | MessageSelector) -> None:
        name = wrap(self.namespace, topic)
        self._subscriptions[name] = selector_of(selector).subscription(name)
        if self._running is not None:
            self._running.resubscribe()
