"""Topics and groups without a namespace that clients make: the console decides, as it does on its page, and keeps them.

A bare name is unique across all accounts, and belongs to whom the console's database says. So the broker makes none by
itself: it asks, and the console makes it, on all brokers, in the account's instance without a namespace
(docs/operate/broker.md, "Names without a namespace").
"""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from brokercore.policy.table import WANTED, Answer, Wanted, answer_key
from brokercore.protocol.codes import ResponseCode
from brokercore.server.errors import Refusal
from brokercore.server.rights import permissions
from brokercore.server.rights.authentication import Caller

if TYPE_CHECKING:
    from brokercore.server.broker import Broker
    from brokercore.server.connections.connection import Connection

ANSWER_SECONDS = 4.0
"""How long the console has: tools wait for five seconds."""

_LATE_SECONDS = 60.0
"""So long a name is taken for one that is being made after the console was late with it."""
_LOOK_SECONDS = 0.05
_MOST_WANTED = 1000

_CODES = {
    "permission": ResponseCode.NO_PERMISSION,
    "refused": ResponseCode.INVALID_PARAMETER,
    "busy": ResponseCode.SYSTEM_BUSY,
}


def is_bare(name: str) -> bool:
    """Whether a name has neither a namespace nor the prefix of a group's own topic."""
    return bool(name) and "%" not in name


async def let_make(
    broker: Broker, connection: Connection, caller: Caller, *, kind: str, name: str, config: Mapping[str, Any]
) -> bool:
    """Whether the console has just made the topic or group (`kind`) of this name for the caller's account.

    False where that needs nobody: the caller may change it. Raises Refusal when the caller may neither, and
    StoreUnavailable.
    """
    create, update = f"mq:Create{kind.title()}", f"mq:Update{kind.title()}"
    known = (broker.topics if kind == "topic" else broker.groups).get(name) is not None
    wanted = update if known else create
    if caller.is_system or caller.may(wanted, name, connection):
        return False
    instance = broker.limits.rates.bare_instance(caller.tenant)
    if caller.account is None or not instance:
        raise permissions.denied(caller, (create, update), name)  # whether others have it is not told
    if known:
        # The console may have made it this moment, for a request to another broker.
        await broker.security.refresh()
        if broker.security.current(caller).may(wanted, name, connection):
            return False
        if caller.account.late.get((kind, name), 0.0) > time.monotonic():
            raise Refusal(ResponseCode.SYSTEM_BUSY, f"{name} is being made; try again later")
    if known or not caller.may(create, instance, connection):
        raise permissions.denied(caller, (create, update), name)
    async with caller.account.making:
        await _ask(broker, connection, caller, caller.account.late, kind=kind, name=name, config=config)
    await broker.security.refresh()
    return True


async def _ask(
    broker: Broker,
    connection: Connection,
    caller: Caller,
    late: dict[tuple[str, str], float],
    *,
    kind: str,
    name: str,
    config: Mapping[str, Any],
) -> None:
    number, redis = secrets.token_hex(16), broker.store.reader
    deadline_ms = int((time.time() + ANSWER_SECONDS) * 1000)
    row = Wanted(
        number, kind, name, caller.key_id, connection.peer[0], connection.secure, deadline_ms, dict(config)
    ).encode()
    await redis.call_many([("LPUSH", WANTED, row), ("LTRIM", WANTED, 0, _MOST_WANTED - 1)])
    while time.time() * 1000 < deadline_ms:
        found = await redis.call("GETDEL", answer_key(number))
        if found is not None:
            answer = Answer.decode(found)
            if answer.kind:
                code = _CODES.get(answer.kind, ResponseCode.SYSTEM_ERROR)
                raise Refusal(code, answer.remark, kind="permission" if answer.kind == "permission" else "")
            return
        await asyncio.sleep(_LOOK_SECONDS)
    now = time.monotonic()
    for past in [one for one, until in late.items() if until <= now]:
        del late[past]
    if len(late) < _MOST_WANTED:
        late[kind, name] = now + _LATE_SECONDS
    raise Refusal(
        ResponseCode.SYSTEM_BUSY,
        f"the console, which keeps names without a namespace, does not answer: {name} was not made; try again later",
    )
