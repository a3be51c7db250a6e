"""XML as the service speaks it: small trees without attributes, entities or a document type."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from xml.parsers import expat

from brokercore.smq.wire.errors import Code, SmqError

NAMESPACE = "http://mns.aliyuncs.com/doc/v1/"
#: Of errors: the vendor's Java SDK reads them in this namespace only, and all else in any.
ERROR_NAMESPACE = "http://mns.aliyuncs.com/doc/v1"
_DEPTH = 8
#: Elements of a request: a batch of 16 messages with the most properties that a message may have.
_ELEMENTS = 8_000
#: Bytes that are read at a time, and of the longest tag: many attributes cost far more than as much text.
_PIECE, _LONGEST_TAG = 16 << 10, 64 << 10
_HEAD = '<?xml version="1.0" encoding="UTF-8"?>\n'


@dataclass(slots=True)
class Element:
    """An element: its name without a prefix, its text, and the elements in it."""

    name: str
    text: str = ""
    children: list[Element] = field(default_factory=list)

    def find(self, name: str) -> Element | None:
        """The first child of this name."""
        for child in self.children:
            if child.name == name:
                return child
        return None

    def text_of(self, name: str) -> str | None:
        """The text of the first child of this name; None without one."""
        child = self.find(name)
        return None if child is None else child.text


def read(body: bytes, *roots: str, elements: int = _ELEMENTS) -> Element:
    """The tree of a body, whose root must be one of `roots` where any are named. Raises SmqError."""
    root = _Reader(elements).read(body)
    if roots and root.name not in roots:
        raise SmqError(
            Code.INVALID_ARGUMENT, f"The body's root is {root.name[:50]!r}; allowed is {' or '.join(roots)}."
        )
    return root


class _Reader:
    def __init__(self, most: int) -> None:
        self._most = most
        self._open: list[Element] = []
        self._root: Element | None = None
        self._count = 0
        self._pieces: list[str] = []

    def read(self, body: bytes) -> Element:
        parser = expat.ParserCreate()
        parser.buffer_text = True
        parser.StartElementHandler = self._start
        parser.EndElementHandler = self._end
        parser.CharacterDataHandler = self._pieces.append
        parser.StartDoctypeDeclHandler = self._refuse_doctype
        try:
            for begin in range(0, len(body), _PIECE):
                parser.Parse(body[begin : begin + _PIECE])
                if begin - parser.CurrentByteIndex > _LONGEST_TAG:
                    raise SmqError(Code.MALFORMED_XML, f"The body has a tag of more than {_LONGEST_TAG} bytes.")
            parser.Parse(b"", True)
        except expat.ExpatError as error:
            where = f"line {error.lineno}, column {error.offset + 1}"
            raise SmqError(
                Code.MALFORMED_XML, f"The body is not valid XML: {expat.ErrorString(error.code)} at {where}."
            ) from None
        except (LookupError, ValueError):  # of the codec that the body's first line names
            raise SmqError(Code.MALFORMED_XML, "The body's encoding is not known here; use UTF-8.") from None
        if self._root is None:
            raise SmqError(Code.MALFORMED_XML, "The body is empty; it must be XML.")
        return self._root

    def _start(self, name: str, _attributes: dict[str, str]) -> None:
        self._count += 1
        if self._count > self._most or len(self._open) >= _DEPTH:
            raise SmqError(
                Code.INVALID_ARGUMENT, f"The body may have {self._most} elements, nested {_DEPTH} deep, and has more."
            )
        element = Element(name.rpartition(":")[2])
        if self._open:
            self._open[-1].children.append(element)
        elif self._root is None:
            self._root = element
        self._open.append(element)
        self._pieces.clear()

    def _end(self, _name: str) -> None:
        element = self._open.pop()
        if not element.children:
            element.text = "".join(self._pieces)
        self._pieces.clear()

    def _refuse_doctype(self, *_: object) -> None:
        raise SmqError(Code.MALFORMED_XML, "The body must not have a document type.")


def escape(text: str) -> str:
    """A text as it stands between two tags.

    What XML 1.0 cannot hold at all is never stored; a carriage return would come back as a line feed.
    """
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;").replace("\r", "&#13;")


def leaf(name: str, value: object) -> str:
    """An element with a text."""
    return f"<{name}>{escape(str(value))}</{name}>"


def branch(name: str, children: Iterable[str]) -> str:
    """An element with elements in it."""
    return f"<{name}>{''.join(children)}</{name}>"


def document(name: str, children: Iterable[str], namespace: str = NAMESPACE) -> bytes:
    """A whole answer, in the service's namespace."""
    return f'{_HEAD}<{name} xmlns="{namespace}">{"".join(children)}</{name}>'.encode()
