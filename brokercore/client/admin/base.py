"""What all subjects of the admin client share: the connections, the routes, asking every master."""

from __future__ import annotations

import ssl
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Generic, TypeVar

from brokercore.client.errors import (
    BadResponse,
    BrokerError,
    BrokerUnreachable,
    ClientError,
    GroupNotExist,
    RequestNotSupported,
    SystemFault,
    TopicNotExist,
)
from brokercore.client.routes import Routes
from brokercore.client.session import Call, Credentials, Permit, Session
from brokercore.protocol.bodies.route import MASTER, BrokerData
from brokercore.protocol.bodies.stats import latest_ms
from brokercore.protocol.codes import RequestCode
from brokercore.protocol.command import Command
from brokercore.protocol.errors import ProtocolError
from brokercore.protocol.fastjson import read_object

T = TypeVar("T")

LARGE_MS = 10_000
"""How long an answer may take that tells of all topics or groups: brokers make it beside their other work."""

_KEEP_ROUTES_S = 1.0
"""An administrator is to see at once that a broker has gone or come back; one request for a page is enough."""


_LACK_KEPT_S = 600.0
"""For so long a broker is not asked again what it did not know: it may be a newer one by then."""


@dataclass(frozen=True)
class OneOfMany(Generic[T]):
    """How the settings of one name are asked for. Brokers of 4.9 do not know `code`, and tell those of all names.

    `field` is where the request names it; a broker without it answers `unknown`.
    """

    code: RequestCode
    field: str
    one: Callable[[bytes], T]
    unknown: type[BrokerError]
    all_code: RequestCode
    all: Callable[[bytes], Mapping[str, T]]


class Base:
    """The session with its connections and tries, and the routes; `timeout_ms` is for each request."""

    def __init__(
        self,
        namesrv: str,
        credentials: Credentials | None,
        *,
        timeout_ms: int = 3000,
        tls: ssl.SSLContext | None = None,
        permit: Permit | None = None,
    ) -> None:
        self.session = Session(namesrv, credentials, timeout_ms=timeout_ms, tls=tls, permit=permit)
        self.routes = Routes(self.session, keep_s=_KEEP_ROUTES_S)
        self._lacks: dict[tuple[str, int], float] = {}

    def masters(self) -> dict[str, str]:
        """Address of every master of the cluster, by broker name.

        Raises BrokerUnreachable when one is away of which a slave is there: without it all that is told of the cluster
        would be too little.
        """
        return _present(self.routes.cluster().brokers.values())

    def masters_of(self, topic: str) -> dict[str, str]:
        """Address of each master that has queues of the topic, by broker name. Raises as `masters`, TopicNotExist."""
        route = self.routes.route(topic)
        with_queues = {queue.broker_name for queue in route.queues}
        return _present(broker for broker in route.brokers if broker.broker_name in with_queues)

    def ask(
        self,
        brokers: Iterable[str],
        code: int,
        ext: Mapping[str, str] | None = None,
        body: bytes = b"",
        *,
        timeout_ms: int | None = None,
    ) -> dict[str, Command]:
        """The same request to brokers at these addresses, all at once: answers by address. Raises the first error."""
        addresses = list(brokers)
        calls = [Call(address, code, dict(ext or {}), body) for address in addresses]
        answers = self.session.call_each(calls, timeout_ms=timeout_ms)
        return dict(zip(addresses, answers, strict=True))

    def ask_where_known(
        self, brokers: Iterable[str], code: RequestCode, ext: Mapping[str, str], unknown: type[BrokerError]
    ) -> dict[str, Command]:
        """As `ask`, but a broker that answers `unknown` is left out, unless all do: then that error is raised."""
        addresses = list(brokers)
        results = self.session.call_all([Call(address, code, dict(ext)) for address in addresses])
        answers: dict[str, Command] = {}
        missing: BrokerError | None = None
        for address, result in zip(addresses, results, strict=True):
            if isinstance(result, unknown):
                missing = result
            elif isinstance(result, ClientError):
                raise result
            else:
                answers[address] = result
        if not answers and missing is not None:
            raise missing
        return answers

    def lacks(self, address: str, code: int) -> bool:
        """Whether the broker at `address` said lately that it does not know a request."""
        found = self._lacks.get((address, code))
        return found is not None and time.monotonic() - found < _LACK_KEPT_S

    def ask_or_lack(self, brokers: Iterable[str], code: int, ext: Mapping[str, str]) -> dict[str, Command | None]:
        """As `ask`, with None for brokers that do not know the request; they are not asked for a while."""
        addresses = list(brokers)
        asked = [address for address in addresses if not self.lacks(address, code)]
        results = self.session.call_all([Call(address, code, dict(ext)) for address in asked])
        answers: dict[str, Command | None] = dict.fromkeys(addresses)
        for address, result in zip(asked, results, strict=True):
            if isinstance(result, RequestNotSupported):
                self._lacks[address, code] = time.monotonic()
            elif isinstance(result, ClientError):
                raise result
            else:
                answers[address] = result
        return answers

    def settings_of(self, brokers: Iterable[str], name: str, way: OneOfMany[T]) -> T:
        """The settings of a topic or group, of the first broker that has it. Raises `way.unknown` when none has."""
        addresses = list(brokers)
        old = [address for address in addresses if self.lacks(address, way.code)]
        new = [address for address in addresses if address not in old]
        missing: ClientError | None = None
        found: T | None = None
        results = self.session.call_all([Call(address, way.code, {way.field: name, "lo": "true"}) for address in new])
        for address, result in zip(new, results, strict=True):
            if isinstance(result, RequestNotSupported):
                self._lacks[address, way.code] = time.monotonic()
                old.append(address)
            elif isinstance(result, way.unknown) or _tells_of_none(result, way.field):
                missing = way.unknown(way.unknown.code, f"there is no {way.field} {name}", address)
            elif isinstance(result, ClientError):
                raise result
            elif found is None:
                found = read(way.one, result.body, address)
        for address, answer in self.ask(old, way.all_code, timeout_ms=LARGE_MS).items():
            there = read(way.all, answer.body, address)
            if name in there:
                found = there[name] if found is None else found
            else:
                missing = way.unknown(way.unknown.code, f"there is no {way.field} {name}", address)
        if found is None:
            raise missing or way.unknown(way.unknown.code, f"there is no broker with {way.field} {name}", "the cluster")
        return found


def _present(brokers: Iterable[BrokerData]) -> dict[str, str]:
    found = {}
    for broker in brokers:
        if MASTER not in broker.addresses:
            raise BrokerUnreachable(broker.broker_name, "its master is away, and its slave takes no changes")
        found[broker.broker_name] = broker.addresses[MASTER]
    return found


def _tells_of_none(result: Command | ClientError, field: str) -> bool:
    """Brokers of 5.1 say with the code of a fault that they do not have a group."""
    return isinstance(result, SystemFault) and result.text.startswith(f"No {field} in this broker")


def latest_by_name(base: Base, code: int, ext: Mapping[str, Mapping[str, str]]) -> dict[str, int]:
    """Ask every master the same of many names, `ext` by name: the latest store time in the answers (epoch ms).

    Names that no master knows are left out. Raises ClientError for any other failure.
    """
    wanted = [(name, address) for address in base.masters().values() for name in ext]
    results = base.session.call_all([Call(address, code, dict(ext[name])) for name, address in wanted])
    found: dict[str, int] = {}
    for (name, _), result in zip(wanted, results, strict=True):
        if isinstance(result, TopicNotExist | GroupNotExist):
            continue
        if isinstance(result, ClientError):
            raise result
        found[name] = max(found.get(name, 0), latest_ms(result.body))
    return found


def read(parse: Callable[[bytes], T], body: bytes, address: str) -> T:
    """Parse a body. Raises BadResponse."""
    try:
        return parse(body)
    except (ProtocolError, TypeError, ValueError) as error:
        raise BadResponse(address, str(error)) from error


def read_names(body: bytes, member: str, address: str) -> list[str]:
    """A list of names in a JSON body (`{"topicList": […]}`), sorted. Raises BadResponse."""
    names = read(read_object, body, address).get(member) if body else None
    return sorted({str(name) for name in names}) if isinstance(names, list) else []
