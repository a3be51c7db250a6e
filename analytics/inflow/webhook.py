"""What a webhook takes, and the event that a request becomes.

    {"specversion": "1.0", "id": …, "source": "webhook/<task>", "type": "webhook:Request", "time": …,
     "datacontenttype": "application/json",
     "data": {"method": "POST", "path": "/orders", "query": {"dry": "1", "tag": ["a", "b"]},
              "headers": {"content-type": "application/json", …}, "body": {…}, "bodyEncoding": "json"}}

The body of a JSON content type is that JSON; of `text/…`, XML, forms and JavaScript it is a text, where it is one in
the charset that the content type names (UTF-8 without one); anything else is base64. `bodyEncoding` says which. Names
of headers are in small letters. Headers that tell a secret are left out.
"""

from __future__ import annotations

import hmac
import json
import re
from base64 import b64encode
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.message import Message
from ipaddress import ip_address, ip_network
from typing import Any

from analytics.charsets import is_charset
from analytics.errors import AnalyticsError
from brokercore.addresses import Network

MOST_BODY_BYTES = 1 << 20
"""Of a request."""
METHODS = ("POST", "PUT", "PATCH", "DELETE", "GET")
SIGNATURE = "x-gantry-signature"
"""The usual header of a signature: `sha256=` and the HMAC-SHA256 of the body in hexadecimal."""
_MOST_NETWORKS = 100
_HEADER = re.compile(r"[a-z0-9-]{1,64}")
#: Never in an event: each tells who sends, or lets others send.
_SECRET_HEADERS = frozenset(
    {
        "authorization", "proxy-authorization", "cookie", "set-cookie", "x-api-key", "api-key", "x-auth-token",
        "x-access-token", "x-csrf-token", "x-csrftoken", "x-gitlab-token", "x-amz-security-token",
    }
)  # fmt: skip
_TEXTS = re.compile(r"text/.+|application/(?:(?:.+\+)?xml|x-www-form-urlencoded|javascript)")
_JSONS = re.compile(r"application/(?:.+\+)?json")


class WebhookError(AnalyticsError):
    """A webhook is told something wrong; `part` is `methods`, `networks` or `signature`."""

    def __init__(self, part: str, reason: str) -> None:
        super().__init__(reason)
        self.part = part


class BodyRefused(AnalyticsError):  # noqa: N818
    """A request's body is not what its content type says."""


@dataclass(frozen=True, slots=True)
class Webhook:
    """Which requests a webhook takes."""

    methods: tuple[str, ...] = ("POST",)
    #: From where; empty: from everywhere.
    networks: tuple[Network, ...] = ()
    #: The header that has to have the signature; empty: none is asked for.
    signature: str = ""

    @classmethod
    def read(cls, told: Mapping[str, Any]) -> Webhook:
        """Of a document's `methods`, `networks` and `signature`. Raises WebhookError."""
        methods = _texts(told, "methods") or ["POST"]
        if not set(methods) <= set(METHODS):
            raise WebhookError("methods", f"it is a list of {', '.join(METHODS)}")
        networks = _texts(told, "networks")
        if len(networks) > _MOST_NETWORKS:
            raise WebhookError("networks", f"it has at most {_MOST_NETWORKS} networks")
        signature = told.get("signature") or ""
        if not isinstance(signature, str) or (signature and not _HEADER.fullmatch(signature.lower())):
            raise WebhookError("signature", f"it is the name of a header, such as {SIGNATURE}")
        if signature.lower() in _SECRET_HEADERS:
            raise WebhookError("signature", f"a signature has a header of its own, such as {SIGNATURE}")
        return cls(tuple(dict.fromkeys(methods)), _networks(networks), signature.lower())

    def to_document(self) -> dict[str, Any]:
        """What `read` reads."""
        return {
            "methods": list(self.methods),
            "networks": [str(network) for network in self.networks],
            "signature": self.signature,
        }

    def admits(self, address: str) -> bool:
        """Whether requests may come from an address."""
        if not self.networks:
            return True
        try:
            found = ip_address(address.partition("%")[0])
        except ValueError:
            return False
        found = getattr(found, "ipv4_mapped", None) or found
        return any(found in network for network in self.networks)


@dataclass(frozen=True, slots=True)
class Request:
    """An HTTP request to a webhook. `path` is what of it comes behind the webhook's own; names of headers are small."""

    method: str
    path: str
    query: Sequence[tuple[str, str]]
    headers: Mapping[str, str]
    body: bytes = field(repr=False)

    @property
    def deduplication(self) -> str:
        """What tells a request that is sent again: `Idempotency-Key`, or source and ID of a CloudEvent; or empty."""
        if key := self.headers.get("idempotency-key", ""):
            return f"key {key}"
        identity = self.headers.get("ce-id", "")
        return f"ce {self.headers.get('ce-source', '')} {identity}" if identity else ""


def signed(body: bytes, key: str) -> str:
    """The signature of a body."""
    return f"sha256={hmac.new(key.encode(), body, 'sha256').hexdigest()}"


def is_signed(body: bytes, key: str, signature: str) -> bool:
    """Whether it is, in a time that tells nothing."""
    return hmac.compare_digest(signed(body, key).encode(), signature.strip().lower().encode())


def event_of(request: Request, *, identity: str, task: str, at: datetime, hidden: Iterable[str] = ()) -> bytes:
    """The event of a request, as the log has it; the headers of `hidden` are left out too. Raises BodyRefused."""
    left_out = _SECRET_HEADERS | set(hidden)
    body, encoding = _body(request)
    event = {
        "specversion": "1.0",
        "id": identity,
        "source": f"webhook/{task}",
        "type": "webhook:Request",
        "time": f"{at.astimezone(UTC):%Y-%m-%dT%H:%M:%S.%f}"[:-3] + "Z",
        "datacontenttype": "application/json",
        "data": {
            "method": request.method,
            "path": request.path,
            "query": _query(request.query),
            "headers": {name: value for name, value in request.headers.items() if name not in left_out},
            "body": body,
            "bodyEncoding": encoding,
        },
    }
    try:
        return json.dumps(event, ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode()
    except (ValueError, RecursionError):  # half a character, written as \ud800; 1e999
        raise BodyRefused("The body is JSON with a text that is none, or a number that is too large.") from None


def _body(request: Request) -> tuple[Any, str]:
    told = Message()
    told["content-type"] = request.headers.get("content-type", "") or "application/octet-stream"
    kind = told.get_content_type()
    if not request.body:
        return None, "json"
    if _JSONS.fullmatch(kind):
        try:
            return json.loads(request.body, parse_constant=_no_constant), "json"
        except (ValueError, RecursionError):
            raise BodyRefused(f"The content type is {kind}, but the body is no JSON.") from None
    charset = str(told.get_content_charset() or "utf-8")
    if _TEXTS.fullmatch(kind) and is_charset(charset):
        try:
            return request.body.decode(charset), "text"
        except ValueError:
            pass
    return b64encode(request.body).decode(), "base64"


def _no_constant(name: str) -> None:
    raise ValueError(f"{name} is no JSON")


def _query(pairs: Iterable[tuple[str, str]]) -> dict[str, str | list[str]]:
    found: dict[str, list[str]] = {}
    for name, value in pairs:
        found.setdefault(name, []).append(value)
    return {name: values[0] if len(values) == 1 else values for name, values in found.items()}


def _texts(told: Mapping[str, Any], part: str) -> list[str]:
    found = told.get(part)
    if found is None:
        return []
    if not isinstance(found, list | tuple) or not all(isinstance(one, str) for one in found):
        raise WebhookError(part, "it is a list of texts")
    return list(found)


def _networks(texts: Iterable[str]) -> tuple[Network, ...]:
    found = []
    for text in texts:
        try:
            found.append(ip_network(text.strip(), strict=False))
        except ValueError:
            raise WebhookError(
                "networks", f"{text.strip()[:60]!r} is no network, such as 203.0.113.0/24 or 203.0.113.7"
            ) from None
    return tuple(dict.fromkeys(found))
