"""How much one tenant may take of this broker: connections, topics, groups, send rate, bytes stored.

See docs/operate/limits.md.

The console publishes the limits with the table of AccessKeys. What a client sends is looked at once, before it is
stored; what the broker moves by itself (timers, ends of transactions, dead letters of POP) is never refused.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Generator, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING

from brokercore.names import group_of, retry_topic
from brokercore.policy.table import DEFAULTS, LimitRow
from brokercore.protocol.codes import ResponseCode
from brokercore.server.errors import Refusal
from brokercore.server.rights.account import BURST_SECONDS, MOST_IN_FLIGHT, MOST_POSITIONS, Account
from brokercore.server.rights.rates import InstanceRates
from brokercore.server.storage.store import OVERHEAD_BYTES, OVERHEAD_FACTOR

if TYPE_CHECKING:
    from brokercore.server.connections.connection import Connection

logger = logging.getLogger(__name__)

SECOND_CHANCE_FACTOR = 2
"""A message that its consumer failed on is stored again above the limit, up to so many times the limit."""

INSTANCE_PREFIX = "MQ_INST_"

RESERVE_PART = 50
"""One part in so many of the store is left free of what is nobody's share: what is on its way is counted late."""

_COUNTED_AT_ONCE = 200
"""Names that are looked at in one step."""

_TRACES_OF = "traces of "
"""No topic is called so: names have no blanks."""


class LimitReached(Refusal):
    """A tenant has taken what it may; the kind says of what."""


class TooManyConnections(LimitReached):
    """The connection is closed once this is said."""


class TenantLimits:
    """The accounts of all tenants at this broker, and whose topic is whose."""

    def __init__(self) -> None:
        self._brokers = 1
        self._default = LimitRow()
        self._own: dict[str, LimitRow] = {}
        self.accounts: dict[str, Account] = {}
        self._owners: dict[str, str] = {}
        self._holders: Mapping[str, str] = {}
        self._of_topic: dict[str, Account] = {}
        self.rates = InstanceRates(self.owner_uid)
        self.tenants: frozenset[str] = frozenset()
        """All that have an AccessKey."""
        self._share = self._common_left = 1 << 62

    # The published table

    def load_tables(self, limits: list[bytes], owners: list[bytes], holders: list[bytes]) -> None:
        """Take over three hashes as Redis answers them; limits that cannot be read leave those of before."""
        try:
            rows = [(uid, LimitRow.decode(row)) for uid, row in texts(limits)]
            self.load(rows, dict(texts(owners)), dict(texts(holders)))
        except (ValueError, TypeError, AttributeError) as error:
            logger.error("the limits of tenants cannot be read, those of before hold: %r", error)

    def load(self, rows: Iterable[tuple[str, LimitRow]], owners: Mapping[str, str], holders: Mapping[str, str]) -> None:
        """Take over limits by tenant, owners of topics without a namespace, and holders of groups by name."""
        own = dict(rows)
        self._default = own.pop(DEFAULTS, LimitRow())
        self._own = own
        self._apply()
        self._owners, self._holders = dict(owners), dict(holders)
        self._of_topic.clear()
        self.rates.forget_topics()

    def share(self, brokers: int) -> None:
        """There are so many brokers in the cluster now."""
        if brokers != self._brokers:
            self._brokers = brokers
            self._apply()
            self.rates.share(brokers)

    def divide(self, most: int, used: int) -> None:
        """The store may hold `most` bytes and holds `used` ones now: keep every account's share of it free for it.

        Half of the store is shares, of equal size; the other half, and what others do not use of theirs beyond it, is
        for who comes first. Called every second; in between what comes is counted.
        """
        uids = self.tenants | {uid for uid, account in self.accounts.items() if uid and account.stored_bytes}
        self._share = most // 2 // max(1, len(uids))
        kept_free = 0
        for uid in uids:
            account = self.account(uid)
            kept_free += max(0, min(self._share, account.most_stored) - account.stored_bytes)
        self._common_left = most - most // RESERVE_PART - used - kept_free

    def account(self, uid: str) -> Account:
        """The account of a tenant."""
        found = self.accounts.get(uid)
        if found is None:
            found = self.accounts[uid] = Account(uid, self.row(uid))
        return found

    def owner(self, topic: str) -> Account:
        """The account whose bytes the messages of a topic are. Nobody's is the account without a uid."""
        found = self._of_topic.get(topic)
        if found is None:
            found = self._of_topic[topic] = self.account(self.owner_uid(topic))
        return found

    def owner_uid(self, topic: str) -> str:
        """The tenant that a topic belongs to; a retry or dead-letter topic belongs to the account of its group."""
        group = group_of(topic)
        if group:
            return self.group_owner_uid(group)
        return self._owners.get(topic) or _of_namespace(topic)

    def group_owner_uid(self, group: str) -> str:
        """The tenant that made a group, which may be one in another tenant's namespace."""
        return self._holders.get(group, "").partition("/")[0] or _of_namespace(group)

    def _apply(self) -> None:
        for account in self.accounts.values():
            account.set_limits(self.row(account.uid))

    def row(self, uid: str) -> LimitRow:
        """What an account may take of this broker."""
        return self._own.get(uid, self._default).shared(self._brokers) if uid else LimitRow()

    # Requests

    def admit(self, account: Account | None, topic: str, messages: int, size: int) -> None:
        """Let a client's message or batch pass, or raise LimitReached; None is the system key, which always passes."""
        if account is None:
            return
        owner = self._of_topic.get(topic) or self.owner(topic)
        if topic[0] == "%":
            self._again(owner, topic)
        else:
            now = time.monotonic()
            latest = now + BURST_SECONDS
            paid, bytes_paid = account.messages_paid_until, account.bytes_paid_until
            if paid > latest or bytes_paid > latest:
                raise _too_fast(account, by_count=paid > latest)
            if owner.stored_bytes >= owner.most_stored:
                raise _full(account, owner, topic)
            if self._common_left <= 0 and owner.stored_bytes >= self._share:
                raise self._crowded(account, owner, topic)
            rates = self.rates.of(topic)
            if rates is not None:
                if rates[0].paid_until > latest:
                    raise rates[0].refusal()
                rates[0].take(messages, now)
            account.messages_paid_until = (paid if paid > now else now) + messages * account.seconds_per_message
            account.bytes_paid_until = (bytes_paid if bytes_paid > now else now) + size * account.seconds_per_byte
        account.messages_in += messages
        account.bytes_in += size
        owner.stored_bytes += size + OVERHEAD_BYTES
        if owner.stored_bytes > self._share:
            self._common_left -= size + OVERHEAD_BYTES

    def admit_traces(self, account: Account | None, size: int) -> None:
        """Let a client's traces pass, which are bytes of its own account, or raise LimitReached."""
        if account is not None:
            self._of_topic[_TRACES_OF + account.uid] = account
            self.admit(account, _TRACES_OF + account.uid, 1, size)

    def traces_full(self, stored: int, most: int) -> LimitReached:
        """What an account is told whose traces take all that they may."""
        return LimitReached(
            ResponseCode.SYSTEM_BUSY,
            f"the message traces of this account take {stored} bytes at this broker; allowed are {most}; the oldest"
            " leave now, try again later",
            kind="traces",
        )

    def more_messages(self, account: Account | None, topic: str, messages: int) -> None:
        """A batch turned out to hold so many messages more than it was let in for: they are paid for afterwards."""
        if account is not None:
            account.messages_in += messages
            account.messages_paid_until += messages * account.seconds_per_message
            if (rates := self.rates.of(topic)) is not None:
                rates[0].take(messages, time.monotonic())
            self._store(self.owner(topic), messages * OVERHEAD_BYTES)

    def admit_again(self, group: str, size: int) -> None:
        """Let a message that a group failed on be stored once more, or raise LimitReached."""
        topic = retry_topic(group)
        owner = self.owner(topic)
        self._again(owner, topic)
        self._store(owner, int(size * OVERHEAD_FACTOR) + OVERHEAD_BYTES)

    def connect(self, connection: Connection, account: Account | None) -> None:
        """A connection now speaks for `account`. Raises TooManyConnections when that has as many as it may."""
        before, connection.account = connection.account, None
        if before is not None:
            before.connections -= 1
        if account is None:
            return
        if account.limits.connections and account.connections >= account.limits.connections:
            raise TooManyConnections(
                ResponseCode.SYSTEM_BUSY,
                f"account {account.uid} has {account.connections} connections to this broker, which is all it may have;"
                " this one is closed",
                kind="connections",
            )
        account.connections += 1
        connection.account = account
        connection.on_close[self] = lambda: self._left(connection)

    def check_count(self, account: Account | None, what: str, names: Iterable[str]) -> Generator[None, None, None]:
        """Raise LimitReached when a tenant that makes one more of `what` (topics, groups) would have too many.

        Goes through the names in small steps, as they are those of all tenants. Who holds `account.making` meanwhile,
        and until the new one is among the names, is the only one who makes one.
        """
        limit: int = getattr(account.limits, what) if account is not None else 0
        if account is None or not limit:
            return
        whose = self.group_owner_uid if what == "groups" else self.owner_uid
        count = 0
        for number, name in enumerate(names, 1):
            count += not group_of(name) and whose(name) == account.uid
            if not number % _COUNTED_AT_ONCE:
                yield
        if count >= limit:
            raise LimitReached(
                ResponseCode.INVALID_PARAMETER,
                f"account {account.uid} has {count} {what}; allowed are {limit}",
                kind=what,
            )

    def add_queues(self, account: Account | None, topic: str, more: int) -> None:
        """Let a client make so many queues for a topic, or raise LimitReached; each takes memory while it is there."""
        if account is None or more <= 0:
            return
        owner = self.owner(topic)
        limit = owner.limits.queues
        if limit and owner.queues + more > limit:
            have = f"account {owner.uid} has {owner.queues} queues" if owner is account else "the owner has queues"
            raise LimitReached(
                ResponseCode.INVALID_PARAMETER, f"{have}; with {more} more allowed are {limit}", kind="queues"
            )
        owner.queues += more

    def add_positions(self, account: Account | None, group: str, more: int) -> None:
        """Let a client make so many more places of a group be kept, or raise LimitReached; None is the system key."""
        if more <= 0:
            return
        owner = self.account(self.group_owner_uid(group))
        if account is not None and owner.positions + more > MOST_POSITIONS:
            who = f"account {owner.uid} keeps" if owner.uid else "groups of no account keep"
            raise LimitReached(
                ResponseCode.SYSTEM_BUSY,
                f"{who} {owner.positions} places of groups in queues; allowed are {MOST_POSITIONS}, and {more} more are"
                " too many; they leave with their group or their topic",
                kind="positions",
                resource=group,
            )
        owner.positions += more

    def note_in_flight(self, group: str, more: int) -> None:
        """So many more messages of a group are in flight, or fewer when negative."""
        self.account(self.group_owner_uid(group)).in_flight += more

    def room_in_flight(self, account: Account | None, group: str) -> int:
        """How many more messages a client may pop for a group; None is the system key, which may always."""
        if account is None:
            return MOST_IN_FLIGHT
        return max(0, MOST_IN_FLIGHT - self.account(self.group_owner_uid(group)).in_flight)

    def too_many_in_flight(self, group: str) -> LimitReached:
        """What a client is told that may pop no more for a group."""
        owner = self.account(self.group_owner_uid(group))
        who = f"groups of account {owner.uid} have" if owner.uid else "groups of no account have"
        return LimitReached(
            ResponseCode.SYSTEM_BUSY,
            f"{who} popped {owner.in_flight} messages that are neither acknowledged nor visible again; allowed are"
            f" {MOST_IN_FLIGHT}; acknowledge some, or try again later",
            kind="in_flight",
            resource=group,
        )

    def _again(self, owner: Account, topic: str) -> None:
        if owner.stored_bytes >= owner.most_stored * SECOND_CHANCE_FACTOR:
            raise _full(owner, owner, topic)
        if self._common_left <= 0 and owner.stored_bytes >= self._share:
            raise self._crowded(owner, owner, topic)

    def _store(self, owner: Account, size: int) -> None:
        owner.stored_bytes += size
        if owner.stored_bytes > self._share:
            self._common_left -= size

    def _crowded(self, account: Account, owner: Account, topic: str) -> LimitReached:
        return _stored_too_much(
            account, owner, topic, f"more than its share of {self._share}, and what is left of the store is others'"
        )

    def _left(self, connection: Connection) -> None:
        account, connection.account = connection.account, None
        if account is not None:
            account.connections -= 1


def texts(table: list[bytes]) -> Iterator[tuple[str, str]]:
    """The fields and values of a hash of texts."""
    words = (word.decode("utf-8", "replace") for word in table)
    return zip(words, words, strict=True)


def _too_fast(account: Account, *, by_count: bool) -> LimitReached:
    limits = account.limits
    what = f"{limits.messages_per_second} messages" if by_count else f"{limits.bytes_per_second} bytes"
    return LimitReached(
        ResponseCode.FLOW_CONTROL,
        f"flow control: account {account.uid} may send {what} a second to this broker; try again later",
        kind="messages_per_second" if by_count else "bytes_per_second",
    )


def _full(account: Account, owner: Account, topic: str) -> LimitReached:
    return _stored_too_much(account, owner, topic, f"allowed are {owner.most_stored}")


def _stored_too_much(account: Account, owner: Account, topic: str, why: str) -> LimitReached:
    """The figures of an account are told to itself; a guest of its topic learns that there is no room."""
    if account is owner:
        told = f"account {owner.uid}, which owns {topic}, stores {owner.stored_bytes} bytes at this broker; {why}"
    else:
        told = "there is no room for further messages of this topic at this broker: its owner stores what it may"
    return LimitReached(
        ResponseCode.SYSTEM_BUSY,
        f"{told}; messages leave after GANTRY_STORE_RETENTION_HOURS, or with their topic",
        kind="stored_bytes",
        resource=topic,
    )


def _of_namespace(name: str) -> str:
    """`42` of `MQ_INST_42_abcdefgh%flights`; "" of a name without a namespace."""
    return name[len(INSTANCE_PREFIX) :].partition("_")[0] if name.startswith(INSTANCE_PREFIX) else ""
