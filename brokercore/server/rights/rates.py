"""How many messages a second the clients of an instance may send and receive here (docs/operate/limits.md, "Rates").

An instance is what a namespace names, or for a bare name the one instance without namespace that its account has. Each
rate is a token bucket, kept as the moment (monotonic seconds) until which what passed is paid for.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable

from brokercore.names import group_of
from brokercore.policy.table import RateRow
from brokercore.protocol.codes import ResponseCode
from brokercore.server.errors import Refusal
from brokercore.server.rights.account import BURST_SECONDS

logger = logging.getLogger(__name__)


class TooFast(Refusal):
    """An instance has sent or received what it may this second."""


class Rate:
    """One of an instance's two rates: what of it this broker has, and how much of that was used."""

    __slots__ = ("_limit", "_share", "count", "held_back", "instance", "paid_until", "seconds_each", "what")

    def __init__(self, instance: str, what: str) -> None:
        self.instance, self.what = instance, what
        """What clients do: `send` or `receive`."""
        self._limit = self._share = self.count = 0
        self.held_back = 0
        """How often a client had to wait, or was refused."""
        self.paid_until = self.seconds_each = 0.0

    def set_limit(self, limit: int, share: int) -> None:
        """From now on clients may do so much a second, `share` of it here; 0 is no limit. What is owed beyond the
        burst by another limit is forgiven."""
        if (limit, share) == (self._limit, self._share):
            return
        self._limit, self._share = limit, share
        self.seconds_each = 1 / share if share else 0.0
        self.paid_until = min(self.paid_until, time.monotonic() + BURST_SECONDS)

    def take(self, messages: int, now: float) -> None:
        """So many messages passed."""
        self.count += messages
        paid = self.paid_until
        self.paid_until = (paid if paid > now else now) + messages * self.seconds_each

    def seconds_to_wait(self) -> float:
        """How long it takes until the next message may pass; 0 when it may now."""
        return max(0.0, self.paid_until - BURST_SECONDS - time.monotonic())

    def refusal(self) -> TooFast:
        """What a client is told while nothing may pass."""
        self.held_back += 1
        used = round((self.paid_until - time.monotonic()) * self._share)
        here = "" if self._share == self._limit else f", {self._share} of them at this broker"
        return TooFast(
            ResponseCode.FLOW_CONTROL,
            f"flow control: instance {self.instance} may {self.what} {self._limit} messages a second{here}, and has"
            f" used {used} of {self._share}; try again later",
            kind=f"instance_{self.what}_tps",
            resource=self.instance,
        )


class InstanceRates:
    """The rates of all instances that have limits, and whose topic is whose."""

    def __init__(self, owner_uid: Callable[[str], str]) -> None:
        """`owner_uid` tells the account of a topic."""
        self._owner_uid = owner_uid
        self._brokers = 1
        self._table: list[bytes] = []
        self._rows: dict[str, RateRow] = {}
        self._rates: dict[str, tuple[Rate, Rate]] = {}
        self._of_topic: dict[str, tuple[Rate, Rate] | None] = {}

    def load_table(self, table: list[bytes]) -> None:
        """Take over a hash as Redis answers it; rows that cannot be read are left out."""
        if sorted(table) == self._table:
            return
        self._table = sorted(table)
        rows: dict[str, RateRow] = {}
        for name, row in zip(table[::2], table[1::2], strict=True):
            try:
                rows[name.decode()] = RateRow.decode(row)
            except (ValueError, KeyError, TypeError, AttributeError) as error:
                logger.error("the rates of instance %r cannot be read, they have no limit: %r", name, error)
        self._rows = rows
        self.forget_topics()
        self._apply()

    def forget_topics(self) -> None:
        """A topic may belong to another instance now."""
        self._of_topic.clear()

    def bare_instance(self, uid: str) -> str:
        """The account's instance without a namespace, "" when it has none."""
        row = self._rows.get(uid)
        return row.instance if row is not None and uid else ""

    def share(self, brokers: int) -> None:
        """There are so many brokers in the cluster now."""
        self._brokers = brokers
        self._apply()

    def of(self, topic: str) -> tuple[Rate, Rate] | None:
        """The rates of sending to a topic, and of receiving from it; None when there is no limit."""
        try:
            return self._of_topic[topic]
        except KeyError:
            found = self._of_topic[topic] = self._rates.get(self._key(topic))
            return found

    def items(self) -> list[tuple[Rate, Rate]]:
        """The rates of sending and receiving of every instance that has limits."""
        return list(self._rates.values())

    def _key(self, topic: str) -> str:
        namespace, mark, _ = (group_of(topic) or topic).partition("%")
        return namespace if mark else self._owner_uid(topic)

    def _apply(self) -> None:
        for name in self._rates.keys() - self._rows.keys():
            del self._rates[name]
        for name, row in self._rows.items():
            known = self._rates.get(name)
            if known is None or known[0].instance != row.instance:
                known = self._rates[name] = Rate(row.instance, "send"), Rate(row.instance, "receive")
            here = row.shared(self._brokers)
            known[0].set_limit(row.sent, here.sent)
            known[1].set_limit(row.received, here.received)
