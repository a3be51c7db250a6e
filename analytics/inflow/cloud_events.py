"""Events as requests to an endpoint: CloudEvents over HTTP, or the built body alone.

    structured      the event as JSON (application/cloudevents+json): its attributes, and its data
    binary          its attributes in headers (`ce-id`, `ce-type`, …), its data as the body
    body            what the fields build as the body, and nothing else

The data of a CloudEvent is that of the event where the body is the whole event, else what the fields build: JSON where
it is JSON, else a text. A batch is a JSON array of CloudEvents, or of bodies that are JSON; there is none in binary
mode. See https://github.com/cloudevents/spec (HTTP Protocol Binding 1.0.2, JSON Format).

The message of a request has the headers as its properties, and as its `unique_id` what the header
`x-gantry-request-id` says: the same for an event and a body, however often they are sent.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import quote

from analytics.inflow.fields import EventRejected, Fields, Message, Method
from analytics.inflow.templates import json_of

STRUCTURED, BINARY, BODY = "structured", "binary", "body"
MODES = (STRUCTURED, BINARY, BODY)
JSON, EVENT, EVENTS, TEXT = (
    "application/json",
    "application/cloudevents+json",
    "application/cloudevents-batch+json",
    "text/plain; charset=utf-8",
)
CONTENT_TYPE = "content-type"
MEDIA_TYPE = re.compile(r"[A-Za-z0-9!#$&^_.+-]{1,64}/[A-Za-z0-9!#$&^_.+-]{1,64}( *; *[\x21-\x7e]{1,64}){0,4}")
"""A media type, with parameters."""
_OF_JSON = re.compile(r"(?i)[^/;]+/(?:[^/;]+\+)?json *(?:;.*)?")
_REQUIRED = ("id", "source", "type")
_DATA = ("data", "data_base64", "datacontenttype")
#: Digits of the id of a request.
_ID = 32
_NAME = re.compile(r"[a-z0-9]{1,64}")
#: Bytes of an attribute in a header: servers take 8 KiB of one at least.
_LONGEST_HEADER = 4096
#: What the binding lets stand in a header as it is: visible ASCII but for the quote and the percent sign.
_PLAIN = "!#$&'()*+,-./:;<=>?@[\\]^_`{|}~"


class Requests:
    """Builds requests of events. Unchangeable, and safe in threads."""

    def __init__(self, fields: Fields, mode: str, content_type: str = "", *, in_batches: bool = False) -> None:
        self._fields, self._mode, self._content_type, self._in_batches = fields, mode, content_type, in_batches
        self._is_whole = fields.to_document()["body"]["method"] == Method.COMPLETE_DATA

    @property
    def content_type(self) -> str:
        """Of a batch."""
        return EVENTS if self._mode == STRUCTURED else self._content_type or JSON

    def build(self, event: Mapping[str, Any], text: bytes | None = None) -> Message:
        """The request of an event, whose `text` is its JSON where that is known. Raises EventRejected."""
        built = self._fields.build(event, text)
        try:
            headers, body = self._dressed(event, built.body)
        except ValueError as error:  # what JSON cannot hold
            raise EventRejected("body", str(error)) from None
        return Message(body, headers, None, None, _id(event, body))

    def whole(self, messages: Sequence[Message]) -> Message:
        """The request of several events; where requests have one event, of the one that there is."""
        return array_of(messages, self.content_type) if self._in_batches else messages[0]

    def _dressed(self, event: Mapping[str, Any], built: bytes) -> tuple[dict[str, str], bytes]:
        if self._mode == BODY:
            if self._in_batches and not _is_json(built):
                raise EventRejected("body", "a batch is a JSON array, and this body is no JSON")
            return {CONTENT_TYPE: self._content_type or JSON}, built
        attributes = _attributes(event)
        data = _data(event) if self._is_whole else _built(built, self._content_type)
        return _structured(attributes, data) if self._mode == STRUCTURED else _binary(attributes, data)


def array_of(messages: Sequence[Message], content_type: str) -> Message:
    """Requests whose bodies are JSON as one."""
    body = b"[" + b",".join(one.body for one in messages) + b"]"
    name = hashlib.sha256("".join(str(one.unique_id) for one in messages).encode()).hexdigest()[:_ID]
    return Message(body, {CONTENT_TYPE: content_type}, None, None, name)


def _id(event: Mapping[str, Any], body: bytes) -> str:
    """Of what a transform has made several of one event the bodies differ."""
    told = f"{event.get('source')}\n{event.get('id')}\n".encode(errors="replace")
    return hashlib.sha256(told + body).hexdigest()[:_ID]


def _attributes(event: Mapping[str, Any]) -> dict[str, Any]:
    """All but the data: texts, whole numbers and Booleans. Raises EventRejected for what is no CloudEvent."""
    found: dict[str, Any] = {"specversion": "1.0"}
    for name, value in event.items():
        if name in _DATA or value is None:
            continue
        if not _NAME.fullmatch(name):
            raise EventRejected("", f"A CloudEvent's attribute has a name of small letters and digits, not {_s(name)}")
        if not isinstance(value, str | bool | int):
            raise EventRejected("", f"A CloudEvent's attribute is a text, a whole number, true or false; {name} is not")
        found[name] = value
    for name in _REQUIRED:
        if not isinstance(found.get(name), str) or not found[name]:
            raise EventRejected("", f"A CloudEvent has {', '.join(_REQUIRED)}, and this event has no {name}")
    return found


def _data(event: Mapping[str, Any]) -> tuple[str, Any]:
    """The media type and the data of an event as it is: bytes where it has such; empty and None for none."""
    kind = event.get("datacontenttype")
    if kind is not None and (not isinstance(kind, str) or not MEDIA_TYPE.fullmatch(kind)):
        raise EventRejected("", "The event's datacontenttype is no media type")
    if event.get("data_base64") is not None:
        try:
            return kind or "application/octet-stream", base64.b64decode(event["data_base64"], validate=True)
        except (ValueError, TypeError):
            raise EventRejected("", "The event's data_base64 is no Base64") from None
    if "data" not in event:
        return "", None
    return kind or JSON, event["data"]


def _built(body: bytes, content_type: str) -> tuple[str, Any]:
    kind = content_type or (JSON if _is_json(body) else TEXT)
    if not _OF_JSON.fullmatch(kind):
        return kind, body.decode()
    try:
        return kind, json.loads(body)
    except (ValueError, RecursionError):
        raise EventRejected("body", f"it is to be {kind[:60]}, and is no JSON") from None


def _structured(attributes: Mapping[str, Any], data: tuple[str, Any]) -> tuple[dict[str, str], bytes]:
    kind, content = data
    event: dict[str, Any] = dict(attributes)
    if kind:
        event["datacontenttype"] = kind
        if isinstance(content, bytes):
            event["data_base64"] = base64.b64encode(content).decode()
        else:
            event["data"] = content
    return {CONTENT_TYPE: EVENT}, _utf8(json_of(event))


def _binary(attributes: Mapping[str, Any], data: tuple[str, Any]) -> tuple[dict[str, str], bytes]:
    kind, content = data
    headers = {f"ce-{name}": _header(name, value) for name, value in attributes.items()}
    if not kind:
        return headers, b""
    if isinstance(content, str) and not _OF_JSON.fullmatch(kind):
        content = _utf8(content)
    return headers | {CONTENT_TYPE: kind}, content if isinstance(content, bytes) else _utf8(json_of(content))


def _header(name: str, value: str | bool | int) -> str:
    text = value if isinstance(value, str) else json.dumps(value)
    written = quote(text.encode(errors="replace"), safe=_PLAIN)
    if len(written) > _LONGEST_HEADER:
        raise EventRejected("", f"The event's {name} has more than {_LONGEST_HEADER:,} bytes, which no header has")
    return written


def _is_json(body: bytes) -> bool:
    try:
        json.loads(body)
    except (ValueError, RecursionError):
        return False
    return True


def _utf8(text: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError:
        raise EventRejected("body", "a text has half of a surrogate pair, which UTF-8 cannot write") from None


def _s(name: str) -> str:
    return json.dumps(name)[:60]
