"""The signature of a gRPC call: metadata `authorization` over `x-mq-date-time`, by HMAC-SHA1 with the AccessKey secret.

`MQv2-HMAC-SHA1 Credential=<AccessKey>[/…], SignedHeaders=x-mq-date-time, Signature=<hex>`; a temporary key also sends
`x-mq-session-token`. The signature covers the date alone, as the protocol has it: TLS protects the rest. So nothing but
a date of the one documented form is taken for one: the texts that other doors sign never are (`protocol.signature`).
"""

from __future__ import annotations

import hmac
from collections.abc import Mapping
from datetime import UTC, datetime

from brokercore.protocol.codes import ResponseCode
from brokercore.protocol.grpc.messaging_pb2 import Code
from brokercore.protocol.signature import is_date
from brokercore.server.errors import Refusal
from brokercore.server.grpc.status import Fault
from brokercore.server.security import Caller, Security, unproven

AUTHORIZATION, DATE_TIME, SESSION_TOKEN = "authorization", "x-mq-date-time", "x-mq-session-token"
ALGORITHM = "MQv2-HMAC-SHA1"

MOST_HOURS = 24
"""How far a date may be off. The Java and Python clients write their local time and call it UTC: that is up to 14 h."""

_DATE_FORMAT = "%Y%m%dT%H%M%SZ"


def authenticate(security: Security, metadata: Mapping[str, str], address: str) -> Caller:
    """The caller of a gRPC call from this address. Raises Fault (UNAUTHORIZED) and StoreUnavailable."""
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
