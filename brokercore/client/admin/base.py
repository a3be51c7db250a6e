"""What all subjects of the admin client share: the connections, the routes, asking every master."""

from __future__ import annotations

import ssl
from collections.abc import Callable, Iterable, Mapping
from typing import TypeVar

from brokercore.client.errors import BadResponse, BrokerError, ClientError
from brokercore.client.routes import Routes
from brokercore.client.session import Call, Credentials, Session
from brokercore.protocol.bodies.route import MASTER
from brokercore.protocol.codes import RequestCode
from brokercore.protocol.command import Command
from brokercore.protocol.errors import ProtocolError
from brokercore.protocol.fastjson import read_object

T = TypeVar("T")

_KEEP_ROUTES_S = 1.0
"""An administrator is to see at once that a broker has gone or come back; one request for a page is enough."""


class Base:
    """The session with its connections and tries, and the routes; `timeout_ms` is for each request."""

    def __init__(
        self,
        namesrv: str,
        credentials: Credentials | None,
        *,
        timeout_ms: int = 3000,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self.session = Session(namesrv, credentials, timeout_ms=timeout_ms, tls=tls)
        self.routes = Routes(self.session, keep_s=_KEEP_ROUTES_S)

    def masters(self) -> dict[str, str]:
        """Address of every master of the cluster, by broker name."""
        brokers = self.routes.cluster().brokers
        return {name: data.addresses[MASTER] for name, data in brokers.items() if MASTER in data.addresses}

    def ask(
        self, brokers: Iterable[str], code: RequestCode, ext: Mapping[str, str] | None = None, body: bytes = b""
    ) -> dict[str, Command]:
        """The same request to brokers at these addresses, all at once: answers by address. Raises the first error."""
        addresses = list(brokers)
        answers = self.session.call_each([Call(address, code, dict(ext or {}), body) for address in addresses])
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
