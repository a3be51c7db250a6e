"""What a consumer wants of a topic: by tag, or by properties (SQL92)."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Literal

from brokercore.protocol.bodies.heartbeat import SubscriptionData


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
        """A condition on the properties of messages, as `floor BETWEEN 5 AND 9 AND city = 'Bern'` (docs/broker.md).

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
