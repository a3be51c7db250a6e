"""Who sends a request, and what the table of AccessKeys lets them do (docs/operate/broker.md, "Permissions")."""

from __future__ import annotations

import asyncio
import hmac
import logging
import secrets
import time
from binascii import b2a_base64
from collections import deque
from collections.abc import Callable, Iterable
from itertools import chain, islice, takewhile
from operator import itemgetter
from time import perf_counter
from typing import Protocol

from cryptography.fernet import Fernet, InvalidToken

from brokercore.policy import Context, Grantee, PolicyError, Statement, decide, mq_resource, rows_in_steps
from brokercore.policy.table import HOLDERS, KEYS, LIMITS, OWNERS, RATES, USED, VERSION, KeyRow, Used
from brokercore.protocol.codes import ResponseCode
from brokercore.protocol.command import Command
from brokercore.protocol.signature import (
    ACCESS_KEY,
    DATE_LENGTH,
    SECURITY_TOKEN,
    SIGNATURE,
    hmac_states,
    is_of_remoting,
    verify,
)
from brokercore.server.connections.connection import Connection
from brokercore.server.connections.fairness import SLICE_SECONDS
from brokercore.server.errors import RedisError, Refusal, SettingsError, StoreUnavailable
from brokercore.server.rights.account import Account
from brokercore.server.rights.limits import TenantLimits, texts
from brokercore.server.settings import Settings
from brokercore.server.storage.redis_connection import RedisConnection

logger = logging.getLogger(__name__)

CHECK_SECONDS = 0.25
"""How often the table's version is looked at: a change holds at the latest this much later."""

CHECK_TIMEOUT = 2.0
_MAX_DECISIONS = 10_000
_MAX_ORDERS = 2_000
_MAX_FIELDS = 100
"""Header fields of a request: what is remembered of them must stay small."""
_MAX_NAME = 300
"""Characters of a name up to which decisions about it are remembered."""

PUBLISH = "mq:PUB"
_MOST_ASKED, _LONGEST_ASKED = 200, 0.005
"""Names that are asked for, and seconds that they are asked for so long, to find one topic that a key may publish to;
who publishes to another is asked before."""

_ANY_TOPIC = " "
"""No topic is called so."""

_Getter = Callable[[dict[str, str]], tuple[str, ...]]

AGAIN_SECONDS = 60.0
"""How long a key that was told is not told again."""

_TIMEOUT = 2.0


class Caller:
    """One AccessKey: its secret, its rights and the decisions made so far."""

    def __init__(
        self, key_id: str, secret: str, grantee: Grantee | None, row: KeyRow, account: Account | None = None
    ) -> None:
        self.key_id, self.secret, self.grantee = key_id, secret, grantee
        self.tenant = row.tenant
        self.account = account
        """What the tenant has taken of this broker; None of the system key, which no limit holds for."""
        self.name = row.principal or key_id
        self.token, self.expires_ms = row.token, row.expires_ms
        self._inner, self._outer = hmac_states(secret)
        rows = (*grantee.statements, *grantee.grants, *grantee.delegated) if grantee else ()
        self.conditional = any(statement.conditions for statement in rows)
        self.noted = grantee is None or self.token is not None  # the console asks about neither
        self.passed: set[tuple[int | str | None, ...]] = set()
        """Requests that passed before, by code and every name in them; filled by the permission table."""
        self._decisions: dict[tuple[str, str], bool] = {}

    @property
    def is_system(self) -> bool:
        """True for the credentials of Gantry's own processes, which may do everything."""
        return self.grantee is None

    def check_session(self, token: str) -> None:
        """Raise Refusal when a temporary AccessKey comes without its token, or after its end."""
        if self.token is not None and not hmac.compare_digest(token.encode(), self.token.encode()):
            raise _denied(f"the security token of AccessKey {self.key_id[:64]} is missing or wrong", "wrong_token")
        if self.expires_ms is not None and self.expires_ms <= time.time() * 1000:
            raise _denied(f"the security token of AccessKey {self.key_id[:64]} has expired", "expired")

    def forget(self) -> None:
        """Decide anew what was decided before: a group has got another holder."""
        self.passed.clear()
        self._decisions.clear()

    def remember(self, request: tuple[int | str | None, ...]) -> None:
        """This kind of request passes until the table of AccessKeys changes this key."""
        if any(type(word) is str and len(word) > _MAX_NAME for word in request):
            return
        if len(self.passed) >= _MAX_DECISIONS:
            self.passed.clear()
        self.passed.add(request)

    def digest(self, fields: bytes, body: bytes) -> bytes:
        """HMAC-SHA1 of the signed fields and the body, in Base64."""
        inner = self._inner.copy()
        inner.update(fields)
        if body:
            inner.update(body)
        outer = self._outer.copy()
        outer.update(inner.digest())
        return b2a_base64(outer.digest(), newline=False)

    def publishes_somewhere(self, connection: Connection) -> bool:
        """True when there is a topic, or may be one, that the key may publish to.

        Asked are the names that its statements and its account's boundary stand for, each `*` taken as one letter.
        """
        grantee = self.grantee
        if grantee is None:
            return True
        known = self._decisions.get((PUBLISH, _ANY_TOPIC))
        if known is None or self.conditional:
            rows = (*grantee.statements, *grantee.grants)
            patterns = {pattern for row in rows if row.allow for pattern in row.resources} | set(grantee.boundary)
            patterns |= {pattern for row in grantee.delegated for pattern in row.resources}
            names = {pattern.rpartition(":")[2].replace("*", "a").replace("?", "a") for pattern in patterns}
            until = perf_counter() + _LONGEST_ASKED
            bare = (place.rpartition(":")[2] for place, uid in grantee.owners.items() if uid == grantee.account)
            asked = takewhile(lambda _: perf_counter() < until, islice(chain(names, bare), _MOST_ASKED))
            known = any(allowed for (action, _), allowed in self._decisions.items() if action == PUBLISH) or any(
                self.may(PUBLISH, name, connection) for name in asked
            )
            if not self.conditional and (known or perf_counter() < until):
                self._decisions[PUBLISH, _ANY_TOPIC] = known
        return known

    def allows(self, action: str, resource: str, context: Context) -> bool:
        """True when the key may do `action` on the resource of this full name."""
        if self.grantee is None:
            return True
        known = None if self.conditional else self._decisions.get((action, resource))
        if known is None:
            known = decide(self.grantee, action, resource, context).allowed
            if not self.conditional and len(resource) <= _MAX_NAME:
                if len(self._decisions) >= _MAX_DECISIONS:
                    self._decisions.clear()
                self._decisions[action, resource] = known
        return known

    def may(self, action: str, name: str, connection: Connection) -> bool:
        """True when the key may do `action`, over this connection, on the topic, group or instance of this name."""
        if self.grantee is None:
            return True
        if self.conditional:
            return decide(self.grantee, action, mq_resource(name), _circumstances(connection)).allowed
        known = self._decisions.get((action, name))
        if known is None:
            known = decide(self.grantee, action, mq_resource(name), _circumstances(connection)).allowed
            if len(self._decisions) >= _MAX_DECISIONS:
                self._decisions.clear()
            if len(name) <= _MAX_NAME:
                self._decisions[action, name] = known
        return known


def _circumstances(connection: Connection) -> Context:
    """What conditions of policies ask about."""
    return Context(connection.peer[0], secure_transport=connection.secure)


class Security:
    """The AccessKey table, kept up to date, and the check of every request's signature."""

    def __init__(
        self, settings: Settings, redis: RedisConnection, limits: TenantLimits, channel: str = "broker"
    ) -> None:
        if not settings.system_access_key_id or not settings.system_access_key_secret:
            raise SettingsError("GANTRY_BROKER_ACCESS_KEY_ID and GANTRY_BROKER_ACCESS_KEY_SECRET must be set.")
        try:
            self._fernet = Fernet(settings.master_key)
        except ValueError as error:
            raise SettingsError("GANTRY_MASTER_KEY is not a Fernet key (32 bytes in URL-safe Base64).") from error
        self._redis, self._limits = redis, limits
        self._uses = KeyUses(redis, channel)
        self._system = Caller(
            settings.system_access_key_id, settings.system_access_key_secret, None, KeyRow("", principal="system")
        )
        self._nobody = Caller("", secrets.token_hex(15), Grantee("nobody", (), (), ()), KeyRow(""))
        self._callers: dict[str, Caller] = {}
        self._tenants: frozenset[str] = frozenset()
        self._rows: dict[str, tuple[bytes, Caller]] = {}
        self._holders: dict[str, str] = {}
        self._owners: dict[str, str] = {}
        self._version: bytes | None = None
        self._refreshing = asyncio.Lock()
        self._loaded = False
        self._trouble = "it has not been read yet"
        self._orders: dict[tuple[str, ...], _Getter] = {}
        self.on_changed: Callable[[], None] = lambda: None
        """Called when the table was read anew: what was allowed may be refused now."""

    # Requests

    def authenticate(self, connection: Connection, command: Command) -> Caller:
        """The caller of a request. Raises Refusal when it is unsigned, unknown, expired or wrongly signed."""
        ext = command.ext
        key_id = ext.get(ACCESS_KEY)
        if key_id is None:
            raise _denied("the request is not signed: an AccessKey is required", "unsigned")
        caller = self._callers.get(key_id) if self._loaded else None
        if caller is None:
            caller = self.candidate(key_id)
        if not self._signed_by(caller, command):
            raise unproven(caller, key_id)
        if caller.token is not None or caller.expires_ms is not None:
            caller.check_session(ext.get(SECURITY_TOKEN, ""))
        if not caller.noted:
            self._uses.note(caller, connection.peer[0])
        return caller

    def current(self, caller: Caller) -> Caller:
        """The caller of an earlier request with the rights of now. Raises Refusal when its AccessKey is gone."""
        return caller if caller.is_system else self.find(caller.key_id)

    def find(self, key_id: str) -> Caller:
        """The holder of an AccessKey that was shown to be theirs before. Raises Refusal and StoreUnavailable."""
        if key_id == self._system.key_id:
            return self._system
        if not self._loaded:
            raise StoreUnavailable(self.trouble)
        known = self._callers.get(key_id)
        if known is None:
            raise _denied(f"the AccessKey {key_id[:64]} does not exist or is disabled", "unknown_key")
        return known

    def candidate(self, key_id: str) -> Caller:
        """Whoever a signature is to be held against: nobody, whose secret nobody knows, when there is no such key.

        So that a key which exists is refused no sooner, and no later, than one which does not. Raises StoreUnavailable.
        """
        if key_id == self._system.key_id:
            return self._system
        if not self._loaded:
            raise StoreUnavailable(self.trouble)
        return self._callers.get(key_id) or self._nobody

    def named(self, key_id: str) -> Caller | None:
        """Whose AccessKey this is, whoever uses it; None for the system's and for unknown ones."""
        return self._callers.get(key_id)

    def accept(self, caller: Caller, token: str, address: str) -> None:
        """What is left to do once a signature was found right elsewhere. Raises Refusal."""
        caller.check_session(token)
        if not caller.noted:
            self._uses.note(caller, address)

    def _signed_by(self, caller: Caller, command: Command) -> bool:
        ext = command.ext
        given = ext.get(SIGNATURE)
        if not given or not given.isascii():
            return False
        fields = "".join(self._signed_values(ext))
        if hmac.compare_digest(caller.digest(fields.encode(), command.body), given.encode()):
            # Asked here first, since it is asked of every request: nearly none is as short as a date.
            if len(fields) > DATE_LENGTH and caller.key_id and fields.startswith(caller.key_id):
                return True
            return is_of_remoting(fields, command.body, caller.key_id)
        return verify(command.code, ext, command.body, caller.secret) and bool(caller.key_id)

    def _signed_values(self, ext: dict[str, str]) -> tuple[str, ...]:
        """The values to sign, ordered by key. Requests of one kind share their keys: the order is worked out once."""
        names = tuple(ext)
        getter = self._orders.get(names)
        if getter is None:
            if len(names) > _MAX_FIELDS:
                raise _denied(f"the request has {len(names)} header fields; allowed are {_MAX_FIELDS}", "malformed")
            ordered = sorted(name for name in names if name != SIGNATURE)
            getter = itemgetter(*ordered) if len(ordered) > 1 else _pick(ordered)
            if len(self._orders) >= _MAX_ORDERS:
                self._orders.clear()
            self._orders[names] = getter
        return getter(ext)

    # Table

    async def watch(self) -> None:
        """Keep the table up to date until cancelled."""
        while True:
            await self.refresh()
            await self._uses.write()
            await asyncio.sleep(CHECK_SECONDS)

    @property
    def trouble(self) -> str:
        """Why the table of AccessKeys is not known; empty while it is."""
        return "" if self._loaded else f"the table of AccessKeys cannot be read ({self._trouble})"

    @property
    def tenants(self) -> frozenset[str]:
        """Accounts that have an AccessKey."""
        return self._tenants

    async def refresh(self) -> None:
        """Look at the table's version, and read the table again when it changed."""
        async with self._refreshing:
            await self._refresh()

    async def _refresh(self) -> None:
        tables: list[list[bytes]] = []
        try:
            async with asyncio.timeout(CHECK_TIMEOUT):
                version = await self._redis.call("GET", VERSION)
                if version != self._version or not self._loaded:
                    names = (KEYS, HOLDERS, OWNERS, LIMITS, RATES)
                    tables = await self._redis.call_many([("HGETALL", name) for name in names])
        except (StoreUnavailable, RedisError, TimeoutError) as error:
            reason = str(error) or "Redis does not answer"
            if self._loaded or self._trouble != reason:
                logger.error("the table of AccessKeys cannot be read, only the system key works: %s", reason)
            self._loaded, self._trouble = False, reason
            return
        if tables:
            keys, holders, owners, limits, rates = tables
            self._load_holders(holders)
            self._load_owners(owners)
            self._limits.load_tables(limits, owners, holders)
            self._limits.rates.load_table(rates)
            await self._load_keys(keys)
            self._version = version
            self.on_changed()
        self._loaded = True

    def _load_holders(self, table: list[bytes]) -> None:
        """All callers share one mapping, so that a table of many groups and many keys stays small."""
        holders = {mq_resource(name): holder for name, holder in texts(table)}
        if holders == self._holders:
            return
        self._holders.clear()
        self._holders.update(holders)
        for caller in self._callers.values():
            caller.forget()

    def _load_owners(self, table: list[bytes]) -> None:
        """As `_load_holders`; only those decide anew whose account has got or lost a topic."""
        owners = {mq_resource(name): uid for name, uid in texts(table)}
        concerned = {uid for _, uid in owners.items() ^ self._owners.items()}
        if not concerned:
            return
        self._owners.clear()
        self._owners.update(owners)
        for caller in self._callers.values():
            if caller.tenant in concerned:
                caller.forget()

    async def _load_keys(self, table: list[bytes]) -> None:
        """Read the rows that changed, in slices; all of them hold from one moment on."""
        rows: dict[str, tuple[bytes, Caller]] = {}
        work = _Slices()
        for name, row in zip(table[::2], table[1::2], strict=True):
            key_id = name.decode("utf-8", "replace")
            known = self._rows.get(key_id)
            if known is not None and known[0] == row:
                rows[key_id] = known
                continue
            try:
                rows[key_id] = row, await self._caller(key_id, KeyRow.decode(row), work)
            except (ValueError, KeyError, TypeError, AttributeError, InvalidToken, PolicyError) as error:
                logger.error("AccessKey %s is left out: its row cannot be read: %r", key_id, error)
        self._rows = rows
        self._callers = {key_id: caller for key_id, (_, caller) in rows.items()}
        self._tenants = frozenset(caller.tenant for caller in self._callers.values() if caller.tenant)

    async def _caller(self, key_id: str, row: KeyRow, work: _Slices) -> Caller:
        secret = self._fernet.decrypt(row.secret.encode()).decode()
        grantee = Grantee(
            row.principal or key_id,
            tuple(row.boundary),
            await work.through(rows_in_steps(row.statements)),
            await work.through(rows_in_steps(row.grants)),
            await work.through(rows_in_steps(row.delegated)),
            self._holders,
            row.tenant,
            row.is_account,
            row.region,
            self._owners,
        )
        return Caller(key_id, secret, grantee, row, self._limits.account(row.tenant))


class _Slices:
    """Lets others have the loop between the rows of a table."""

    def __init__(self) -> None:
        self._until = perf_counter() + SLICE_SECONDS

    async def through(self, steps: Iterable[tuple[Statement, ...]]) -> tuple[Statement, ...]:
        """All that the steps give."""
        found: list[Statement] = []
        for some in steps:
            found += some
            if perf_counter() >= self._until:
                await asyncio.sleep(0)
                self._until = perf_counter() + SLICE_SECONDS
        return tuple(found)


def unproven(candidate: Caller, key_id: str) -> Refusal:
    """The one refusal of a signature that proves nothing. Which AccessKeys there are is nobody's business."""
    reason = (
        f"AccessKey {key_id[:64]} is unknown or disabled, or the signature of this request is not made with its secret"
    )
    return _denied(reason, "wrong_signature" if candidate.key_id else "unknown_key")


def _denied(reason: str, kind: str) -> Refusal:
    return Refusal(ResponseCode.NO_PERMISSION, reason, kind=kind)


def _pick(names: list[str]) -> _Getter:
    return lambda ext: tuple(ext[name] for name in names)


class Noted(Protocol):
    """What is remembered about a caller."""

    key_id: str
    noted: bool


class KeyUses:
    """The uses that Redis does not have yet, and the keys that are not noted again for a while.

    Whoever replaces a key wants to know whether the old one is still in use, and from where: the console shows it. A
    key is told at its first request and then at most once a minute, so that a request costs one look at `noted`.
    """

    def __init__(self, redis: RedisConnection, channel: str) -> None:
        self._redis, self._channel = redis, channel
        self._fresh: list[tuple[str, str]] = []
        self._resting: deque[tuple[float, Noted]] = deque()

    def note(self, caller: Noted, address: str) -> None:
        """A request of `caller` came from `address`; nothing is sent yet."""
        caller.noted = True
        now = time.time()
        self._fresh.append((caller.key_id, Used(int(now * 1000), self._channel, address).encode()))
        self._resting.append((now, caller))

    async def write(self) -> None:
        """Send what is new. That Redis does not answer is logged: the next use is told again in a minute."""
        before = time.time() - AGAIN_SECONDS
        while self._resting and self._resting[0][0] < before:
            self._resting.popleft()[1].noted = False
        if not self._fresh:
            return
        fresh, self._fresh = self._fresh, []
        try:
            async with asyncio.timeout(_TIMEOUT):
                await self._redis.call("HSET", USED, *(word for pair in fresh for word in pair))
        except (StoreUnavailable, RedisError, TimeoutError) as error:
            logger.warning("the last use of %d AccessKeys was not stored: %s", len(fresh), error)
