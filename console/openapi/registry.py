"""Operations are declared once; validation, routing, documents, the API Tool and the RPC style come from it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from pydantic import BaseModel, ConfigDict

from console.accounts.actor import Actor
from console.accounts.models import Organization, ResourceSet


class Parameters(BaseModel):
    """Base of every operation's parameters: names as on the wire, unknown ones are signed but ignored."""

    model_config = ConfigDict(
        extra="ignore", str_strip_whitespace=True, str_max_length=4096, populate_by_name=True, frozen=True
    )


class Result(BaseModel):
    """Base of what operations return: names as on the wire."""

    model_config = ConfigDict(extra="forbid")


@dataclass(frozen=True)
class Scope:
    """What the `x-acs-…` headers narrow a call to; None is no restriction."""

    organization: Organization | None = None
    resource_set: ResourceSet | None = None


@dataclass(frozen=True)
class Call:
    """One call of an operation: who calls, narrowed to what."""

    actor: Actor
    scope: Scope = field(default_factory=Scope)


Handler = Callable[[Call, Any], Any]


@dataclass(frozen=True)
class Operation:
    """One operation under `/json/<path>`."""

    path: str
    service: str
    summary: str
    handler: Handler
    description: str = ""
    """Rules and remarks for the documentation, in Markdown."""
    parameters: type[Parameters] = Parameters
    result: Any = None
    """Type of `data`: a Result, a list of them, text; None when there is none."""
    paged: bool = False
    """The handler returns an envelope.Page, whose entries are `result`."""
    changes: bool = False
    errors: tuple[str, ...] = ()
    """Symbols beyond those that every operation can answer."""
    rpc: str = ""
    """Action of the public cloud's RPC style (version 2019-02-14) that has the same meaning, or empty."""
    region_required: bool = True
    limit: str = ""
    """Which limit of calls a minute counts it (`throttle.LIMITS`), or empty."""
    any_case: bool = False
    """Its parameters have names of mixed case: the signature may also be made in an order that ignores case."""
    extension: bool = False
    """Not one of the vendor's operations."""


OPERATIONS: dict[str, Operation] = {}


def operation(path: str, *, service: str, summary: str, **declared: Any) -> Callable[[Handler], Handler]:
    """Register the handler of `/json/<path>`; `declared` are further fields of Operation.

    Raises ValueError when the path is taken.
    """

    def register(handler: Handler) -> Handler:
        if path in OPERATIONS:
            raise ValueError(f"operation {path} is declared twice")
        OPERATIONS[path] = Operation(path, service, summary, handler, **declared)
        return handler

    return register
