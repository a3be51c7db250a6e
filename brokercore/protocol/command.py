"""One request or response: its header (JSON or ROCKETMQ form), its ext fields and its body."""

from __future__ import annotations

import struct
from dataclasses import dataclass, field
from typing import Any

import orjson

from brokercore.protocol import binary_header
from brokercore.protocol.binary_header import LANGUAGES
from brokercore.protocol.errors import FrameError
from brokercore.protocol.frame import Frame

VERSION = 479
"""Version ordinal of RocketMQ 5.3.3. Clients refuse SQL filters when a broker answers with less than 232."""

JSON, ROCKETMQ = 0, 1
"""Header forms, the top byte of the header word."""

RESPONSE_FLAG, ONEWAY_FLAG = 1, 2

_WORDS = struct.Struct(">II")
_INT32_MIN, _INT32_MAX = -(2**31), 2**31 - 1


@dataclass(slots=True)
class Command:
    """A request or a response.

    `ext` are the fields of the custom header, all values text; `opaque` matches a response to its request;
    `serialize` is the header form on the wire (0 JSON, 1 ROCKETMQ).
    """

    code: int
    opaque: int = 0
    flag: int = 0
    language: str = "PYTHON"
    version: int = VERSION
    remark: str | None = None
    ext: dict[str, str] = field(default_factory=dict)
    body: bytes = b""
    serialize: int = JSON

    @property
    def is_response(self) -> bool:
        """True for an answer."""
        return bool(self.flag & RESPONSE_FLAG)

    @property
    def is_oneway(self) -> bool:
        """True for a request that must not be answered."""
        return bool(self.flag & ONEWAY_FLAG)

    def encode(self) -> bytes:
        """The whole frame, length word included."""
        header = self._header()
        size = len(header)
        word = (self.serialize << 24) | size
        return b"".join((_WORDS.pack(4 + size + len(self.body), word), header, self.body))

    def encode_head(self, body_size: int) -> bytes:
        """The frame up to its body: for a body of `body_size` bytes that is written apart, without a copy."""
        header = self._header()
        size = len(header)
        return _WORDS.pack(4 + size + body_size, (self.serialize << 24) | size) + header

    def response(
        self, code: int, remark: str | None = None, ext: dict[str, str] | None = None, body: bytes = b""
    ) -> Command:
        """The answer to this request. It is JSON, which every peer reads whatever it sent itself."""
        return Command(code, self.opaque, RESPONSE_FLAG, remark=remark, ext=ext or {}, body=body)

    def _header(self) -> bytes:
        if self.serialize == ROCKETMQ:
            return binary_header.encode(
                (self.code, self.language, self.version, self.opaque, self.flag, self.remark, self.ext)
            )
        header: dict[str, Any] = {
            "code": self.code,
            "extFields": self.ext,
            "flag": self.flag,
            "language": self.language,
            "opaque": self.opaque,
            "serializeTypeCurrentRPC": "JSON",
            "version": self.version,
        }
        if self.remark is not None:
            header["remark"] = self.remark
        return orjson.dumps(header)


def decode(frame: Frame, max_header: int = (1 << 24) - 1) -> Command:
    """Read one frame (without its length word).

    Raises FrameError when it is not a command, or when its header is longer than `max_header` bytes.
    """
    if len(frame) < 4:
        raise FrameError(f"a frame of {len(frame)} bytes has no header word")
    serialize = frame[0]
    end = 4 + int.from_bytes(frame[1:4], "big")
    if end > len(frame):
        raise FrameError(f"header of {end - 4} bytes is longer than its frame of {len(frame)} bytes")
    if end > max_header:
        raise FrameError(f"header of {end - 4} bytes is longer than {max_header} bytes")
    if serialize == JSON:
        return _decode_json(frame[4:end], bytes(frame[end:]))
    if serialize == ROCKETMQ:
        code, language, version, opaque, flag, remark, ext = binary_header.decode(bytes(frame[4:end]))
        return Command(code, opaque, flag, language, version, remark, ext, bytes(frame[end:]), ROCKETMQ)
    raise FrameError(f"header form {serialize} is neither 0 (JSON) nor 1 (ROCKETMQ)")


def _decode_json(header: Frame, body: bytes) -> Command:
    try:
        fields = orjson.loads(header)
    except orjson.JSONDecodeError as error:
        raise FrameError(f"header is not JSON: {error}") from error
    if type(fields) is not dict:
        raise FrameError("header is not a JSON object")
    get = fields.get
    code, opaque, flag, version = get("code"), get("opaque"), get("flag"), get("version")
    if not (type(code) is int and type(opaque) is int and type(flag) is int and type(version) is int):
        code, opaque, flag, version = (_integer(fields, name) for name in ("code", "opaque", "flag", "version"))
    if not (_INT32_MIN <= opaque <= _INT32_MAX and _INT32_MIN <= code <= _INT32_MAX):
        raise FrameError("header field code or opaque is outside 32 bits")
    ext = get("extFields")
    if ext is None:
        ext = {}
    elif type(ext) is not dict:
        raise FrameError("header field extFields is not an object")
    else:
        for value in ext.values():
            if type(value) is not str:
                ext = {key: _text(item) for key, item in ext.items() if item is not None}
                break
    remark = get("remark")
    if remark is not None and type(remark) is not str:
        remark = _text(remark)
    return Command(code, opaque, flag, _language(get("language")), version, remark, ext, body)


def _integer(fields: dict[str, Any], name: str) -> int:
    value = fields.get(name)
    if value is None:
        return 0
    if isinstance(value, str):
        try:
            return int(value)
        except ValueError:
            raise FrameError(f"header field {name} is not a number: {value[:40]!r}") from None
    if type(value) is not int:
        raise FrameError(f"header field {name} is not a number")
    return value


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return value
    if isinstance(value, int | float):
        return str(value)
    return orjson.dumps(value).decode()


def _language(value: Any) -> str:
    if type(value) is str:
        return value
    if type(value) is int and 0 <= value < len(LANGUAGES):
        return LANGUAGES[value]
    return "OTHER"
