"""A real process of the queue service on a free port, and requests to it that are signed by hand."""

from __future__ import annotations

import http.client
import re
import secrets
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from email.utils import formatdate
from typing import NamedTuple, Protocol, TypeVar
from urllib.parse import urlsplit
from xml.etree import ElementTree

from brokercore.smq.wire.signature import sign, text_to_sign
from tests.support.broker import ServerProcess, eventually
from tests.support.redis_server import RedisServer, redis_server

ACCOUNT = "1234567890123456"
#: Enough for a start on a busy machine, and for what comes at once on any.
PATIENCE_SECONDS = 40.0
_READY = re.compile(r"ready smq=(http://\S+)")


class Closable(Protocol):
    def close(self) -> None: ...


Made = TypeVar("Made", bound=Closable)


class Keys(NamedTuple):
    """An AccessKey pair, with the token of a temporary one."""

    id: str
    secret: str
    token: str = ""


class Reply(NamedTuple):
    """An answer: its status, its headers by their names as sent, and its body."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    def texts(self, name: str) -> list[str]:
        """The texts of all elements of this name."""
        root = ElementTree.fromstring(self.body)
        return [element.text or "" for element in root.iter() if element.tag.rpartition("}")[2] == name]

    def text(self, name: str) -> str:
        """The text of the first element of this name; empty without one."""
        return next(iter(self.texts(name)), "") if self.body else ""

    @property
    def code(self) -> str:
        """The code of an error; empty when it is none."""
        return self.text("Code")


class QueueServiceProcess(ServerProcess):
    """`python -m brokercore.smq` as a child process."""

    module = "brokercore.smq"

    def __init__(self, redis_url: str, **environment: str) -> None:
        super().__init__(redis_url, **environment)
        self.address = ""

    @property
    def port(self) -> int:
        """The port that it listens on."""
        port = urlsplit(self.address).port
        assert port is not None
        return port

    def start(self) -> None:
        """Start, and wait for the ready line; a service that was started before keeps its port."""
        line = self.spawn(GANTRY_SMQ_PORT=str(self.port if self.address else 0))
        found = _READY.match(line)
        if not found:
            self.kill()
            raise AssertionError(f"the queue service did not start: {line}\n{self.log[-3000:]}")
        self.address = found[1]

    def keys(
        self,
        hint: str = "key",
        *actions: str,
        account: str = ACCOUNT,
        resources: tuple[str, ...] = ("*",),
        token: str = "",
        expires_ms: int | None = None,
    ) -> Keys:
        """A new AccessKey that may do `actions` (all of them when none is named), which the service knows."""
        keys = Keys(f"LTAI{hint}{secrets.token_hex(6)}", secrets.token_urlsafe(20), token)
        statement = {"Effect": "Allow", "Action": list(actions) or ["mns:*"], "Resource": list(resources)}
        row = {
            "tenant": account,
            "is_account": not actions,
            "token": token or None,
            "expires_ms": expires_ms,
            "boundary": [f"acs:mns:*:{account}:*"],
            "statements": [statement],
        }
        self.allow(keys.id, keys.secret, row)
        eventually(lambda: self.call("GET", "/queues", keys=keys).code != "SignatureDoesNotMatch", PATIENCE_SECONDS)
        return keys

    @contextmanager
    def client(self, account: str, make: Callable[..., Made]) -> Iterator[Made]:
        """A client of the account's queues or topics with the key that may do everything, as the console has one."""
        with closing(
            make(self.address, self.access_key_id, self.access_key_secret, account=account, timeout_s=40)
        ) as made:
            yield made

    def call(
        self, method: str, target: str, body: bytes = b"", *, keys: Keys, headers: Mapping[str, str] | None = None
    ) -> Reply:
        """Send one signed request on a connection of its own. Raises OSError and http.client.HTTPException."""
        return call(self.port, method, target, body, keys=keys, headers=headers)


def signed(
    method: str, target: str, keys: Keys, more: Mapping[str, str] | None = None, *, body: bytes = b""
) -> dict[str, str]:
    """The headers of a signed request; `more` are signed where the service says so."""
    headers = {"date": formatdate(usegmt=True), "x-mns-version": "2015-06-06"} | dict(more or {})
    if body:
        headers.setdefault("content-type", "text/xml")
    if keys.token:
        headers.setdefault("security-token", keys.token)
    signature = sign(keys.secret, text_to_sign(method, target, headers))
    return headers | {"authorization": f"MNS {keys.id}:{signature}"}


def call(
    port: int,
    method: str,
    target: str,
    body: bytes = b"",
    *,
    keys: Keys,
    headers: Mapping[str, str] | None = None,
    seconds: float = PATIENCE_SECONDS,
) -> Reply:
    """Send one signed request on a connection of its own. Raises OSError and http.client.HTTPException."""
    with closing(http.client.HTTPConnection("127.0.0.1", port, timeout=seconds)) as connection:
        connection.request(method, target, body or None, signed(method, target, keys, headers, body=body))
        answer = connection.getresponse()
        return Reply(answer.status, dict(answer.getheaders()), answer.read())


@contextmanager
def queue_service(redis: RedisServer | None = None, **environment: str) -> Iterator[QueueServiceProcess]:
    """A running service, with a Redis of its own unless one is given. Its log is printed when the test fails."""
    if redis is None:
        with redis_server() as own, queue_service(own, **environment) as service:
            yield service
        return
    service = QueueServiceProcess(redis.url, **environment)
    try:
        service.start()
        yield service
    except BaseException:
        sys.stderr.write(f"--- queue service log\n{service.log[-5000:]}\n")
        raise
    finally:
        service.close()
