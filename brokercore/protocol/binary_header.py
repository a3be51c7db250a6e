"""The ROCKETMQ binary header form (remoting serialize type 1)."""

from __future__ import annotations

import struct

from brokercore.protocol.errors import FrameError

LANGUAGES = (
    "JAVA", "CPP", "DOTNET", "PYTHON", "DELPHI", "ERLANG", "RUBY", "OTHER", "HTTP", "GO", "PHP", "OMS", "RUST",
    "NODE_JS",
)  # fmt: skip
"""Language codes by ordinal."""

_ORDINAL = {name: ordinal for ordinal, name in enumerate(LANGUAGES)}
_FIXED = struct.Struct(">hbhiii")
_KEY = struct.Struct(">h")
_INT = struct.Struct(">i")

Header = tuple[int, str, int, int, int, str | None, dict[str, str]]
"""Code, language, version, opaque, flag, remark, ext."""


def encode(header: Header) -> bytes:
    """Header bytes. A code above 16 bits (the POP family) is cut, as Java does: such requests need JSON."""
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


def decode(header: bytes) -> Header:
    """The fields of a header. Raises FrameError."""
    if len(header) < _FIXED.size + 4:
        raise FrameError(f"binary header of {len(header)} bytes is too short")
    code, ordinal, version, opaque, flag, remark_size = _FIXED.unpack_from(header)
    position = _FIXED.size
    remark, position = _take(header, position, remark_size, "remark")
    section_bytes, position = _number(header, position, _INT)
    if section_bytes != len(header) - position:
        raise FrameError(f"ext section of {section_bytes} bytes does not fill the header")
    ext: dict[str, str] = {}
    while position < len(header):
        size, position = _number(header, position, _KEY)
        key, position = _take(header, position, size, "ext key")
        size, position = _number(header, position, _INT)
        value, position = _take(header, position, size, "ext value")
        ext[key] = value
    language = LANGUAGES[ordinal] if 0 <= ordinal < len(LANGUAGES) else "OTHER"
    return code, language, version, opaque, flag, remark or None, ext


def _number(header: bytes, position: int, form: struct.Struct) -> tuple[int, int]:
    if position + form.size > len(header):
        raise FrameError("binary header ends inside a length")
    return form.unpack_from(header, position)[0], position + form.size


def _take(header: bytes, position: int, size: int, what: str) -> tuple[str, int]:
    end = position + size
    if size < 0 or end > len(header):
        raise FrameError(f"{what} of {size} bytes is longer than the binary header")
    try:
        return header[position:end].decode(), end
    except UnicodeDecodeError:
        raise FrameError(f"{what} in the binary header is not UTF-8") from None
