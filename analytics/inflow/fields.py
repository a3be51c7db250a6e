"""What of an event becomes the body, the properties, the key and the tag of a message.

Each of the four is built by a method; `METHODS` says which is offered where. The document that tells them is JSON:

    {"body": {"method": "complete_data"},
     "properties": {"method": "template",
                    "parameters": {"all": "$.data.userProperties", "table": "$.data.tableName"},
                    "template": "{\\"EB_SYS_EMBED_OBJECT\\": \\"${all}\\", \\"sourceTable\\": \\"${table}\\"}"},
     "key": {"method": "data_extraction", "path": "$.data.primaryKey"},
     "tag": {"method": "fixed_value", "value": "change"}}

Values become texts as `templates` says: text as it is, numbers, true and false in their JSON form, objects and arrays
as compact JSON. Where a value is missing, or null:

- The body is not built, and the event is rejected; so is one whose body is empty, which no broker takes. Only in a JSON
  template, outside of quotes, null is written as `null`.
- A key, a tag or a property is not set. A key or a tag that is blank, or an empty property, is not set either.

The properties are a JSON object: of Data Extraction the object at the path, each entry a property; of a template its
entries, each a text template. The entry `EB_SYS_EMBED_OBJECT` consists of one parameter, whose value is an object: each
of its entries is a property, unless the template has one of that name. Names that the message service itself uses are
refused, with one exception: the entry `UNIQ_KEY` of a template becomes no property but the message's `unique_id`.

An event whose values no message can hold is rejected: texts that are no UTF-8, control characters where they would be
read as something else, or more bytes than are allowed. Nothing is cut off.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from enum import StrEnum
from typing import Any, NamedTuple

from analytics.errors import AnalyticsError
from analytics.inflow.paths import MISSING, Path
from analytics.inflow.templates import NAME, NoValueError, Template, json_of, object_of, text_of
from brokercore.client import KEYS, SYSTEM_NAMES, TAGS, UNIQUE_KEY

EMBED = "EB_SYS_EMBED_OBJECT"
"""The entry of a template of properties whose value is an object of properties."""

MAX_BODY = 4 * 1024 * 1024
"""Largest body in bytes that brokers take."""

MAX_FIXED = 64 * 1024
"""Largest fixed body in bytes."""

MAX_KEY, MAX_TAG, MAX_UNIQUE_ID, MAX_NAME = 4096, 256, 256, 128
"""Longest key, tag, unique id and name of a property in bytes."""

MAX_PROPERTIES, MAX_PROPERTIES_SIZE = 128, 16 * 1024
"""Most properties of a message, and their size in bytes, as a proxy of RocketMQ 5.x takes them. With the longest key
and tag this leaves room for what clients and brokers add: all together have 32,767 bytes."""

MAX_PARAMETERS = 100
"""Most parameters of a template."""

_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")
_SEPARATOR = re.compile(r"[\x01\x02]")
_SHOWN = 60


class Method(StrEnum):
    """How a part of a message is built."""

    NOT_SPECIFIED = "not_specified"
    COMPLETE_DATA = "complete_data"
    DATA_EXTRACTION = "data_extraction"
    FIXED_VALUE = "fixed_value"
    TEMPLATE = "template"

    @property
    def label(self) -> str:
        """As the pages call it: Not Specified, Complete Data, …"""
        return self.value.replace("_", " ").title()


METHODS: Mapping[str, tuple[Method, ...]] = {
    "body": (Method.COMPLETE_DATA, Method.DATA_EXTRACTION, Method.FIXED_VALUE, Method.TEMPLATE),
    "properties": (Method.NOT_SPECIFIED, Method.DATA_EXTRACTION, Method.TEMPLATE),
    "key": (Method.NOT_SPECIFIED, Method.DATA_EXTRACTION, Method.FIXED_VALUE, Method.TEMPLATE),
    "tag": (Method.NOT_SPECIFIED, Method.DATA_EXTRACTION, Method.FIXED_VALUE, Method.TEMPLATE),
}
"""Which methods are offered for which part, in the order of the pages."""

INPUTS: Mapping[Method, tuple[str, ...]] = {
    Method.NOT_SPECIFIED: (),
    Method.COMPLETE_DATA: (),
    Method.DATA_EXTRACTION: ("path",),
    Method.FIXED_VALUE: ("value",),
    Method.TEMPLATE: ("parameters", "template"),
}
"""What each method is told beside its name."""


class FieldsError(AnalyticsError):
    """The document is wrong. The message says where and what is allowed; `field` is the place, such as `key.path`."""

    def __init__(self, field: str, reason: str) -> None:
        super().__init__(f"{field}: {reason}." if field else f"{reason}.")
        self.field = field


class EventRejected(AnalyticsError):  # noqa: N818
    """No message can be built from the event. `field` is body, properties, key or tag, or empty for the whole event.

    The message names paths and parameters, and no value of the event.
    """

    def __init__(self, field: str, reason: str) -> None:
        super().__init__(f"{field}: {reason}." if field else f"{reason}.")
        self.field = field


class Message(NamedTuple):
    """What is sent. `None` is what is not set; RocketMQ reads a key with spaces as several keys.

    `unique_id` is the id that the message had where the event comes from, if a template says so (UNIQ_KEY).
    """

    body: bytes
    properties: dict[str, str]
    key: str | None
    tag: str | None
    unique_id: str | None = None


#: Makes a part of an event's message. Raises ValueError with why it cannot.
_Text = Callable[[dict[str, Any]], str | None]
_Entries = Callable[[dict[str, Any]], dict[str, str]]


class Fields:
    """Builds messages from events. Made by `compile`; unchangeable, and safe in threads."""

    __slots__ = ("_body", "_document", "_is_whole", "_key", "_properties", "_tag")

    def __init__(self, document: Mapping[str, Mapping[str, Any]]) -> None:
        """Of a document that `compile` has read. Raises FieldsError."""
        self._document = document
        self._body = _body(document["body"])
        self._is_whole = document["body"]["method"] == Method.COMPLETE_DATA
        self._properties = _properties(document["properties"])
        self._key = _text("key", document["key"], MAX_KEY, _check_key)
        self._tag = _text("tag", document["tag"], MAX_TAG, _check_tag)

    @classmethod
    def compile(cls, document: Mapping[str, Any]) -> Fields:
        """The builder that a document tells; parts that it has not are not specified. Raises FieldsError."""
        if not isinstance(document, Mapping):
            raise FieldsError("", f"The fields are an object of {', '.join(METHODS)}")
        for part in document:
            if part not in METHODS:
                raise FieldsError(_shown(part), f"there is no such field; there are {', '.join(METHODS)}")
        return cls({part: _read(part, document.get(part)) for part in METHODS})

    def to_document(self) -> dict[str, Any]:
        """The document, for `compile` and as JSON: every part has its method, and what it is told."""
        return {
            part: {name: dict(value) if isinstance(value, Mapping) else str(value) for name, value in told.items()}
            for part, told in self._document.items()
        }

    def build(self, event: Mapping[str, Any], text: bytes | None = None) -> Message:
        """The message of an event, whose `text` is its JSON where that is known. Raises EventRejected."""
        if not isinstance(event, dict):
            raise EventRejected("", "An event is an object")
        part = "body"
        try:
            body = self._body(event) if text is None or not self._is_whole else _checked(text)
            part = "properties"
            properties = self._properties(event)
            unique_id = properties.pop(UNIQUE_KEY, None)
            part = "key"
            key = self._key(event)
            part = "tag"
            tag = self._tag(event)
        except ValueError as error:
            raise EventRejected(part, str(error)) from None
        return Message(body, properties, key, tag, unique_id)


def _shown(value: object) -> str:
    text = value if isinstance(value, str) else type(value).__name__
    text = _CONTROL.sub("?", text).encode(errors="replace").decode()
    return text if len(text) <= _SHOWN else text[:_SHOWN] + "…"


def _read(part: str, found: Any) -> dict[str, Any]:
    """The method of a part and what it is told, of the right types. Raises FieldsError."""
    offered = ", ".join(METHODS[part])
    if found is None:
        if Method.NOT_SPECIFIED not in METHODS[part]:
            raise FieldsError(part, f"a method is needed; there are {offered}")
        return {"method": Method.NOT_SPECIFIED}
    if not isinstance(found, Mapping):
        raise FieldsError(part, 'this is an object with a method, such as {"method": "template", …}')
    name = found.get("method")
    if not isinstance(name, str) or name not in METHODS[part]:
        known = f"{Method(name).label} is not offered here" if name in list(Method) else "this is no method"
        raise FieldsError(f"{part}.method", f"{known}; there are {offered}")
    method = Method(name)
    for told in found:
        if told not in ("method", *INPUTS[method]):
            wanted = " and ".join(INPUTS[method]) or "nothing else"
            raise FieldsError(f"{part}.{_shown(told)}", f"{method.label} is told {wanted}")
    read: dict[str, Any] = {"method": method}
    for told in INPUTS[method]:
        value = found.get(told)
        if told == "parameters":
            read[told] = _read_parameters(f"{part}.{told}", value)
        elif not isinstance(value, str) or not value.strip():
            raise FieldsError(f"{part}.{told}", f"{method.label} needs a text here")
        else:
            read[told] = value.strip() if told == "path" else value
    return read


def _read_parameters(field: str, found: Any) -> dict[str, str]:
    if not isinstance(found, Mapping):
        raise FieldsError(field, 'this is an object of names and paths, such as {"table": "$.data.tableName"}')
    if len(found) > MAX_PARAMETERS:
        raise FieldsError(field, f"there are {len(found):,} parameters; at most {MAX_PARAMETERS} are allowed")
    for name, path in found.items():
        if not isinstance(name, str) or not NAME.fullmatch(name):
            raise FieldsError(f"{field}.{_shown(name)}", "a name has 1 to 64 letters, digits, dots, _ and -")
        if not isinstance(path, str):
            raise FieldsError(f"{field}.{name}", "this is a path, such as $.data.tableName")
    return {name: path.strip() for name, path in found.items()}


def _path(field: str, text: str) -> Path:
    try:
        return Path.compile(text)
    except ValueError as error:
        raise FieldsError(field, str(error)) from None


class _Filled:
    """Templates and the paths of their parameters, for one part."""

    def __init__(self, part: str, told: Mapping[str, Any]) -> None:
        self.field = f"{part}.template"
        self.text: str = told["template"]
        self.paths = {name: _path(f"{part}.parameters.{name}", text) for name, text in told["parameters"].items()}

    def whole(self) -> Template:
        """The template as one."""
        try:
            return Template.compile(self.text, self.paths)
        except ValueError as error:
            raise FieldsError(self.field, str(error)) from None

    def values(self, event: dict[str, Any], names: frozenset[str]) -> dict[str, object]:
        """The values of these parameters."""
        return {name: self.paths[name].find(event) for name in names}


def _body(told: Mapping[str, Any]) -> Callable[[dict[str, Any]], bytes]:
    make: Callable[[dict[str, Any]], str]
    match told["method"]:
        case Method.COMPLETE_DATA:
            make = json_of
        case Method.FIXED_VALUE:
            value: str = told["value"]
            _check_fixed("body", value, MAX_FIXED, lambda _: None)
            make = lambda _: value  # noqa: E731
        case Method.DATA_EXTRACTION:
            make = _extracted_body(_path("body.path", told["path"]))
        case _:
            filled = _Filled("body", told)
            template = filled.whole()
            make = lambda event: template.fill(filled.values(event, template.names), MAX_BODY)  # noqa: E731

    return lambda event: _checked(_utf8(make(event)))


def _checked(body: bytes) -> bytes:
    if not body:
        raise ValueError("the body is empty")
    if len(body) > MAX_BODY:
        raise ValueError(f"the body has {len(body):,} bytes; at most {MAX_BODY:,} are allowed")
    return body


def _extracted_body(path: Path) -> Callable[[dict[str, Any]], str]:
    def make(event: dict[str, Any]) -> str:
        value = path.find(event)
        if value is MISSING or value is None:
            raise NoValueError(f"the event has {'null' if value is None else 'nothing'} at {path.text}")
        return text_of(value)

    return make


def _utf8(text: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError:
        raise ValueError("a text has half of a surrogate pair, which UTF-8 cannot write") from None


def _text(part: str, told: Mapping[str, Any], most: int, check: Callable[[str], None]) -> _Text:
    """What makes a key or a tag."""
    make: _Text
    match told["method"]:
        case Method.NOT_SPECIFIED:
            return lambda _: None
        case Method.FIXED_VALUE:
            value: str = told["value"]
            _check_fixed(part, value, most, check)
            return lambda _: value
        case Method.DATA_EXTRACTION:
            path = _path(f"{part}.path", told["path"])
            make = lambda event: _optional(path.find(event))  # noqa: E731
        case _:
            filled = _Filled(part, told)
            make = _optional_template(filled, filled.whole(), most)

    def build(event: dict[str, Any]) -> str | None:
        text = make(event)
        if text is None or not text.strip():
            return None
        _check_size(text, most)
        check(text)
        return text

    return build


def _optional(value: object) -> str | None:
    return None if value is MISSING or value is None else text_of(value)


def _optional_template(filled: _Filled, template: Template, most: int) -> _Text:
    def make(event: dict[str, Any]) -> str | None:
        try:
            return template.fill(filled.values(event, template.names), most)
        except NoValueError:
            return None

    return make


def _check_fixed(part: str, value: str, most: int, check: Callable[[str], None]) -> None:
    try:
        _check_size(value, most)
        check(value)
    except ValueError as error:
        raise FieldsError(f"{part}.value", str(error)) from None


def _check_size(text: str, most: int) -> None:
    if len(text) <= most and text.isascii():
        return
    size = len(_utf8(text))
    if size > most:
        raise ValueError(f"it has {size:,} bytes; at most {most:,} are allowed")


def _check_key(text: str) -> None:
    if _CONTROL.search(text):
        raise ValueError("a key has no control characters, such as the end of a line")


def _check_tag(text: str) -> None:
    # Subscriptions join tags by ||.
    if "|" in text or _CONTROL.search(text):
        raise ValueError("a tag has no | and no control characters, such as the end of a line")


def _check_name(name: str) -> None:
    """Raises ValueError for a name that no property of a user may have."""
    if name in (KEYS, TAGS):
        raise ValueError(f"{name} is no property; the field {'key' if name == KEYS else 'tag'} sets it")
    if name in SYSTEM_NAMES:
        raise ValueError(f"the property {name} is the message service's own")
    if not name.strip() or _CONTROL.search(name):
        raise ValueError("the name of a property is blank or has control characters")
    if len(_utf8(name)) > MAX_NAME:
        raise ValueError(f"the name of the property {_shown(name)} is longer than {MAX_NAME} bytes")


def _check_value(name: str, value: str) -> None:
    if _SEPARATOR.search(value):
        raise ValueError(f"the property {_shown(name)} has U+0001 or U+0002, which separate properties")


def _properties(told: Mapping[str, Any]) -> _Entries:
    make: _Entries
    match told["method"]:
        case Method.NOT_SPECIFIED:
            return lambda _: {}
        case Method.DATA_EXTRACTION:
            path = _path("properties.path", told["path"])
            make = lambda event: _embedded(path.find(event), f"what the event has at {path.text}")  # noqa: E731
        case _:
            make = _templates_of_properties(_Filled("properties", told))

    def build(event: dict[str, Any]) -> dict[str, str]:
        properties = make(event)
        if len(properties) > MAX_PROPERTIES:
            raise ValueError(f"there are {len(properties):,} properties; at most {MAX_PROPERTIES} are allowed")
        size = sum(len(_utf8(name)) + len(_utf8(value)) + 2 for name, value in properties.items())
        if size > MAX_PROPERTIES_SIZE:
            raise ValueError(f"the properties have {size:,} bytes; at most {MAX_PROPERTIES_SIZE:,} are allowed")
        return properties

    return build


def _embedded(value: object, words: str) -> dict[str, str]:
    """The entries of an object as properties. Raises ValueError."""
    if value is MISSING or value is None:
        return {}
    if not isinstance(value, dict):
        raise ValueError(f"{words} must be an object, of which each entry is a property")
    properties: dict[str, str] = {}
    for name, item in value.items():
        text = _optional(item)
        if text:
            _check_name(name)
            _check_value(name, text)
            properties[name] = text
    return properties


def _templates_of_properties(filled: _Filled) -> _Entries:
    embedded: str | None = None
    templates: dict[str, Template] = {}
    try:
        for name, item in object_of(filled.text, filled.paths):
            if name in templates or (name == EMBED and embedded):
                raise ValueError(f"the name {_shown(name)} stands twice")
            if not isinstance(item, str | bool):
                raise ValueError(f"{_shown(name)} must be a text, a number, true or false")
            template = Template.compile_text(text_of(item), filled.paths)
            if name == EMBED:
                embedded = template.only
                if embedded is None:
                    raise ValueError(f"{EMBED} is one parameter, such as ${{all}}, and nothing else")
                continue
            if name != UNIQUE_KEY:
                _check_name(name)
            if "${" in name:
                raise ValueError("the name of a property has no parameters; they stand in its value")
            _check_value(name, "" if template.names else template.text)
            templates[name] = template
    except ValueError as error:
        raise FieldsError(filled.field, str(error)) from None
    names = frozenset[str]().union(*(template.names for template in templates.values()), {embedded} if embedded else ())

    def make(event: dict[str, Any]) -> dict[str, str]:
        values = filled.values(event, names)
        properties = _embedded(values[embedded], f"the value for ${{{embedded}}}") if embedded else {}
        for name, template in templates.items():
            try:
                text = template.fill(values, MAX_PROPERTIES_SIZE)
            except NoValueError:
                continue
            if name == UNIQUE_KEY:
                _check_size(text, MAX_UNIQUE_ID)
                _check_key(text)
            _check_value(name, text)
            if text:
                properties[name] = text
        return properties

    return make
