"""What the `transform` of a task's document says, by its kind.

expression  `expression` in the `language` jmespath (without it) or jsonata (`analytics.inflow.expressions`)
function    `url`, where it is called (`analytics.inflow.http_function`)
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

from analytics.inflow import parts
from analytics.inflow.expressions import BATCH_S, Expression, Language
from analytics.inflow.http_function import HttpFunction
from analytics.inflow.parts import TaskError
from analytics.inflow.transform import Transform, TransformFailed
from brokercore.addresses import Network


class TaskTransform(Protocol):
    """The transform of a task."""

    kind: ClassVar[str]

    @property
    def place(self) -> str:
        """The place in the document of what is wrong with it, or with what it makes."""

    def to_document(self) -> dict[str, Any]:
        """All of it."""

    def made(self, function_key: bytes, networks: Collection[Network]) -> Transform:
        """What does it, to be closed by its user; what a function gets is signed with the key.

        Raises TransformFailed.
        """


@dataclass(frozen=True)
class ExpressionTransform:
    """An expression."""

    kind: ClassVar[str] = "expression"
    place: ClassVar[str] = "transform.expression"
    language: Language
    expression: str

    @classmethod
    def read(cls, found: Mapping[str, Any]) -> ExpressionTransform:
        """Raises TaskError; whether it is an expression only its process tells."""
        parts.known("a transform of the kind expression", found, ("kind", "language", "expression"), "transform.")
        language = Language(parts.choice(found, "language", [str(one) for one in Language], "transform."))
        read = cls(language, parts.text(found, "expression", "transform."))
        with _told_at(cls.place):
            read.opened()
        return read

    def to_document(self) -> dict[str, Any]:
        """All of it."""
        return {"kind": self.kind, "language": str(self.language), "expression": self.expression}

    def opened(self, *, batch_s: int = BATCH_S) -> Expression:
        """To be closed by its user. Raises TransformFailed."""
        return Expression(self.expression, self.language, batch_s=batch_s)

    def made(self, function_key: bytes, networks: Collection[Network]) -> Transform:
        """The same."""
        return self.opened()


@dataclass(frozen=True)
class FunctionTransform:
    """A function behind HTTP."""

    kind: ClassVar[str] = "function"
    place: ClassVar[str] = "transform.url"
    url: str

    @classmethod
    def read(cls, found: Mapping[str, Any]) -> FunctionTransform:
        """Raises TaskError."""
        parts.known("a transform of the kind function", found, ("kind", "url"), "transform.")
        read = cls(parts.text(found, "url", "transform."))
        with _told_at(cls.place):
            read.made(b"-", ())
        return read

    def to_document(self) -> dict[str, Any]:
        """All of it."""
        return {"kind": self.kind, "url": self.url}

    def made(self, function_key: bytes, networks: Collection[Network]) -> Transform:
        """The function."""
        return HttpFunction(self.url, function_key, networks=networks)


_TRANSFORMS: dict[str, Callable[[Mapping[str, Any]], TaskTransform]] = {
    "expression": ExpressionTransform.read,
    "function": FunctionTransform.read,
}


def read(found: Any) -> TaskTransform | None:
    """The transform of a document, if it has one. Raises TaskError."""
    if found is None:
        return None
    if not isinstance(found, Mapping) or found.get("kind") not in list(_TRANSFORMS):
        raise TaskError("transform.kind", f"it is {' or '.join(_TRANSFORMS)}")
    return _TRANSFORMS[found["kind"]](found)


@contextmanager
def _told_at(place: str) -> Iterator[None]:
    try:
        yield
    except TransformFailed as error:
        raise TaskError(place, error.user_message) from None
