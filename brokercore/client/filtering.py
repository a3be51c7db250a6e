"""Filters of subscriptions, for who reads messages without subscribing: the broker's own grammars."""

from __future__ import annotations

from time import perf_counter

from brokercore.protocol.errors import SubscriptionError
from brokercore.protocol.filters import parse_tags
from brokercore.protocol.message import StoredMessage
from brokercore.protocol.sql92 import Look, parse_sql92


class MessageFilter:
    """What a tag expression (`tagA || tagB`) and an SQL92 expression let through, each where it is not empty."""

    def __init__(self, tags: str = "", sql: str = "") -> None:
        """Raises ValueError with what is wrong."""
        try:
            self._tags = parse_tags(tags.strip())
            self._sql = parse_sql92(sql) if sql.strip() else None
        except SubscriptionError as error:
            raise ValueError(str(error)) from error

    def passes(self, message: StoredMessage, seconds: float) -> bool | None:
        """Whether a message passes; None where that takes longer than so many seconds to tell."""
        if not self._tags.matches(message.tags):
            return False
        if self._sql is None:
            return True
        return self._sql.go_on(Look(message.properties), perf_counter() + seconds)
