"""The way in for gRPC calls: a signature that is right, the line it came on, and what all calls share."""

from __future__ import annotations

import asyncio
import hmac
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING, cast

import grpc

from brokercore.protocol.codes import ResponseCode
from brokercore.protocol.grpc.messaging_pb2 import Code
from brokercore.protocol.signature import is_date
from brokercore.server.dispatch import Dispatcher
from brokercore.server.errors import Refusal
from brokercore.server.grpc.call import Call, Fault, InnerConnection
from brokercore.server.grpc.listener import Line, Lines
from brokercore.server.grpc.sessions import Renewals, Sessions
from brokercore.server.rights.authentication import Caller, Security, unproven
from brokercore.server.rights.limits import TooManyConnections

if TYPE_CHECKING:
    from brokercore.protocol.command import Command
    from brokercore.server.broker import Broker
    from brokercore.server.connections.connection import Connection

CLIENT_ID, LANGUAGE, NAMESPACE = "x-mq-client-id", "x-mq-language", "x-mq-namespace"
MAX_CLIENT_ID = 255

AUTHORIZATION, DATE_TIME, SESSION_TOKEN = "authorization", "x-mq-date-time", "x-mq-session-token"
ALGORITHM = "MQv2-HMAC-SHA1"

MOST_HOURS = 24
"""How far a date may be off. The Java and Python clients write their local time and call it UTC: that is up to 14 h."""

_DATE_FORMAT = "%Y%m%dT%H%M%SZ"

ANSWER_SECONDS = 1.0
"""How long a line that is closed has for its last answer."""


class InnerDispatcher(Dispatcher):
    """Takes requests whose caller is known: the signature of the call was checked when it began."""

    def __init__(self, broker: Broker) -> None:
        super().__init__(broker)
        self._authenticate = _known_caller


def _known_caller(connection: Connection, _command: Command) -> Caller:
    return cast(InnerConnection, connection).caller  # nothing else is given to this dispatcher


class Service:
    """The broker, how its handlers are asked, the lines and the clients. Handlers of calls get it first of all."""

    def __init__(self, broker: Broker) -> None:
        self.broker = broker
        self.dispatch = InnerDispatcher(broker)
        self.lines = Lines(broker)
        self.sessions = Sessions(self.dispatch)
        self.renewals = Renewals(broker, self.sessions.is_online)
        self.port = 0
        """The port that clients dial."""

    def open(self, context: grpc.aio.ServicerContext) -> Call:
        """The call that begins. Raises Fault, and Refusal when the account has no connection left."""
        line = self.lines.by_port.get(_port(context.peer()))
        if line is None:
            raise Fault(Code.UNAUTHORIZED, "calls come through the port that GANTRY_GRPC_PORT names")
        metadata = {name: value for name, value in context.invocation_metadata() or () if isinstance(value, str)}
        try:
            caller = authenticate(self.broker.security, metadata, line.peer[0])
            _vouch(self.broker, line, caller)
        except (Fault, Refusal) as error:
            _note(self.broker, line, metadata, error)
            raise
        client_id = metadata.get(CLIENT_ID, "").strip()
        if not client_id or len(client_id) > MAX_CLIENT_ID:
            raise Fault(Code.CLIENT_ID_REQUIRED, f"{CLIENT_ID} is missing, or longer than {MAX_CLIENT_ID} characters")
        call = Call(self.broker, self.dispatch, caller, line, client_id)
        call.speaks(metadata.get(LANGUAGE, ""))
        call.space = metadata.get(NAMESPACE, "")
        call.seconds_left = context.time_remaining()
        return call


def authenticate(security: Security, metadata: Mapping[str, str], address: str) -> Caller:
    """The caller of a gRPC call from this address. Raises Fault (UNAUTHORIZED) and StoreUnavailable.

    The call is signed as docs/use/grpc.md says ("Signature"), by HMAC-SHA1 with the AccessKey's secret. The protocol
    has the date signed and nothing else; so nothing but a date of the one documented form is taken for one. The texts
    that the same secret signs at other doors never have it (`protocol.signature`).
    """
    try:
        return _authenticate(security, metadata, address)
    except Refusal as refusal:
        if refusal.code != ResponseCode.NO_PERMISSION:
            raise
        raise Fault(Code.UNAUTHORIZED, refusal.remark) from refusal


def _authenticate(security: Security, metadata: Mapping[str, str], address: str) -> Caller:
    given = metadata.get(AUTHORIZATION)
    if not given:
        raise Fault(Code.UNAUTHORIZED, "the call is not signed: an AccessKey is required")
    algorithm, _, rest = given.partition(" ")
    parts = dict(_pair(item) for item in rest.split(","))
    key_id, signature = parts.get("Credential", "").partition("/")[0], parts.get("Signature", "")
    date = metadata.get(DATE_TIME, "")
    if algorithm != ALGORITHM or not key_id or not signature or not date:
        raise Fault(
            Code.UNAUTHORIZED, f"the authorization is not '{ALGORITHM} Credential=…, SignedHeaders=…, Signature=…'"
        )
    _check_date(date)
    caller = security.candidate(key_id)
    expected = hmac.digest(caller.secret.encode(), date.encode(), "sha1").hex()
    if not hmac.compare_digest(expected.encode(), signature.lower().encode()) or not caller.key_id:
        raise unproven(caller, key_id)
    security.accept(caller, metadata.get(SESSION_TOKEN, ""), address)
    return caller


def key_id_of(metadata: Mapping[str, str]) -> str:
    """The AccessKey that a call names, whoever makes it; "" when it names none."""
    parts = dict(_pair(item) for item in metadata.get(AUTHORIZATION, "").partition(" ")[2].split(","))
    return parts.get("Credential", "").partition("/")[0]


def _pair(item: str) -> tuple[str, str]:
    name, _, value = item.strip().partition("=")
    return name, value


def _check_date(date: str) -> None:
    """A signature that somebody wrote down is of no use a day later, and one of another protocol is of none at all."""
    signed = _moment(date)
    if signed is None:
        sentence = f"the call is dated {date[:40]!r}; a date has the form 20260131T120000Z, in UTC"
        raise Fault(Code.UNAUTHORIZED, sentence)
    if abs((datetime.now(UTC) - signed).total_seconds()) > MOST_HOURS * 3600:
        raise Fault(Code.UNAUTHORIZED, f"the call is dated {date}; allowed are {MOST_HOURS} hours around now, in UTC")


def _moment(date: str) -> datetime | None:
    if not is_date(date):
        return None
    try:
        return datetime.strptime(date, _DATE_FORMAT).replace(tzinfo=UTC)
    except ValueError:  # the 31st of February
        return None


def _note(broker: Broker, line: Line, metadata: Mapping[str, str], error: Fault | Refusal) -> None:
    """Have a call that did not begin in the log, the figures and the audit trail."""
    key_id = key_id_of(metadata)
    told = error if isinstance(error, Refusal) else error.__cause__
    if not isinstance(told, Refusal) or not told.kind:
        if isinstance(error, Refusal):
            return  # an outage
        kind = "wrong_signature" if key_id else "unsigned"
        told = Refusal(ResponseCode.NO_PERMISSION, error.sentence, kind=kind)
    broker.refusals.note_call(line, "gRPC call", key_id, told)


def _vouch(broker: Broker, line: Line, caller: Caller) -> None:
    """The line is no stranger's any more, and counts as a connection of the account. Raises TooManyConnections."""
    if line.stranger:
        broker.gate.known(line)
    if caller.account is line.account:
        return
    try:
        broker.limits.connect(line, caller.account)
    except TooManyConnections:
        asyncio.get_running_loop().call_later(ANSWER_SECONDS, line.close)  # once this is said
        raise


def _port(peer: str) -> int:
    """The port of `ipv4:127.0.0.1:43210`."""
    port = peer.rpartition(":")[2]
    return int(port) if port.isdecimal() else -1
