"""Requests and responses on the wire: frames are cut out of a stream of bytes, and each of them is one command.

A frame is a length word, then that many bytes; the limit is checked before they are read. A command has a header (JSON
or ROCKETMQ form) with its ext fields, and a body.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass, field
from typing import Any

import orjson

from brokercore.protocol.errors import FrameError

MAX_FRAME = 16 * 1024 * 1024
"""Largest frame in bytes, counted after the length word (com.rocketmq.remoting.frameMaxLength)."""

MIN_FRAME = 4
"""A frame has at least its header word."""

_COPIED_FRAME = 16 * 1024
"""Up to so many bytes a copy costs less than a view, and does not hold what came with it."""

_SMALL_PIECE = 4096

Frame = bytes | memoryview

LANGUAGES = (
    "JAVA", "CPP", "DOTNET", "PYTHON", "DELPHI", "ERLANG", "RUBY", "OTHER", "HTTP", "GO", "PHP", "OMS", "RUST",
    "NODE_JS",
)  # fmt: skip
"""Language codes by ordinal."""

VERSION = 479
"""Version ordinal of RocketMQ 5.3.3. Clients refuse SQL filters when a broker answers with less than 232."""

JSON, ROCKETMQ = 0, 1
"""Header forms, the top byte of the header word."""

RESPONSE_FLAG, ONEWAY_FLAG = 1, 2

_WORDS = struct.Struct(">II")
_INT32_MIN, _INT32_MAX = -(2**31), 2**31 - 1
_ORDINAL = {name: ordinal for ordinal, name in enumerate(LANGUAGES)}
_FIXED = struct.Struct(">hbhiii")
_KEY = struct.Struct(">h")
_INT = struct.Struct(">i")

BinaryHeader = tuple[int, str, int, int, int, str | None, dict[str, str]]
"""Code, language, version, opaque, flag, remark, ext."""


class FrameReader:
    """Cuts the byte stream of one connection into frames.

    A frame is handed out without its length word, as `command.decode` takes it; a large one as a view of what was read.
    """

    __slots__ = ("_awaited", "_pieces", "limit", "pending")

    def __init__(self, limit: int = MAX_FRAME) -> None:
        self._pieces: list[bytes | bytearray] = []
        self._awaited = 0
        self.pending = 0
        """Bytes of a frame that is not complete yet."""
        self.limit = limit
        """Largest frame in bytes; it may change between two calls of `feed`."""

    def feed(self, data: bytes) -> list[Frame]:
        """Take what the socket gave and return the frames that are complete.

        Raises FrameError when a length word is below 4 or above the limit; the reader is of no use after that.
        """
        if self._pieces:
            self._keep(data)
            self.pending += len(data)
            if self.pending < self._awaited:
                return []
            data = b"".join(self._pieces)
            self._pieces = []
        frames: list[Frame] = []
        position, size = 0, len(data)
        self._awaited = 4
        while size - position >= 4:
            end = position + 4 + self._length(data, position)
            if end > size:
                self._awaited = end - position
                break
            begin = position + 4
            frames.append(data[begin:end] if end - begin <= _COPIED_FRAME else memoryview(data)[begin:end])
            position = end
        self.pending = size - position
        if self.pending:
            self._pieces.append(data[position:] if position else data)
        return frames

    def _keep(self, data: bytes) -> None:
        """Add to the frame that is not complete: small pieces to each other, since each alone takes more memory."""
        last = self._pieces[-1]
        if len(data) >= _SMALL_PIECE:
            self._pieces.append(data)
        elif type(last) is bytearray:
            last += data
        else:
            self._pieces.append(bytearray(data))

    def _length(self, data: bytes, position: int) -> int:
        length = int.from_bytes(data[position : position + 4], "big")
        if length < MIN_FRAME or length > self.limit:
            raise FrameError(f"frame length {length} is outside {MIN_FRAME}..{self.limit} bytes")
        return length


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
            return encode_binary(
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
        code, language, version, opaque, flag, remark, ext = decode_binary(bytes(frame[4:end]))
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


def encode_binary(header: BinaryHeader) -> bytes:
    """Header bytes of the ROCKETMQ form (remoting serialize type 1).

    A code above 16 bits (the POP family) is cut, as Java does: such requests need JSON.
    """
    code, language, version, opaque, flag, remark, ext = header
    text = (remark or "").encode()
    short_code = ((code + 0x8000) & 0xFFFF) - 0x8000
    parts = [_FIXED.pack(short_code, _ORDINAL.get(language, 7), version, opaque, flag, len(text)), text]
    fields: list[bytes] = []
    for key, value in ext.items():
        key_bytes, value_bytes = key.encode(), value.encode()
        fields += (_KEY.pack(len(key_bytes)), key_bytes, _INT.pack(len(value_bytes)), value_bytes)
    section = b"".join(fields)
    return b"".join((*parts, _INT.pack(len(section)), section))


def decode_binary(header: bytes) -> BinaryHeader:
    """The fields of a header of the ROCKETMQ form. Raises FrameError."""
    if len(header) < _FIXED.size + 4:
        raise FrameError(f"binary header of {len(header)} bytes is too short")
    code, ordinal, version, opaque, flag, remark_size = _FIXED.unpack_from(header)
    position = _FIXED.size
    remark, position = _read_text(header, position, remark_size, "remark")
    section_bytes, position = _read_number(header, position, _INT)
    if section_bytes != len(header) - position:
        raise FrameError(f"ext section of {section_bytes} bytes does not fill the header")
    ext: dict[str, str] = {}
    while position < len(header):
        size, position = _read_number(header, position, _KEY)
        key, position = _read_text(header, position, size, "ext key")
        size, position = _read_number(header, position, _INT)
        value, position = _read_text(header, position, size, "ext value")
        ext[key] = value
    language = LANGUAGES[ordinal] if 0 <= ordinal < len(LANGUAGES) else "OTHER"
    return code, language, version, opaque, flag, remark or None, ext


def _read_number(header: bytes, position: int, form: struct.Struct) -> tuple[int, int]:
    if position + form.size > len(header):
        raise FrameError("binary header ends inside a length")
    return form.unpack_from(header, position)[0], position + form.size


def _read_text(header: bytes, position: int, size: int, what: str) -> tuple[str, int]:
    end = position + size
    if size < 0 or end > len(header):
        raise FrameError(f"{what} of {size} bytes is longer than the binary header")
    try:
        return header[position:end].decode(), end
    except UnicodeDecodeError:
        raise FrameError(f"{what} in the binary header is not UTF-8") from None
