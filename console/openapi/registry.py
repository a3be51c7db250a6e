"""Operations are declared once; validation, routing and documentation come from the declaration."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel, ConfigDict

from console.accounts.actor import Actor


class Parameters(BaseModel):
    """Base of every operation's parameters: names as on the wire, unknown ones are signed but ignored."""

    model_config = ConfigDict(extra="ignore", str_strip_whitespace=True, str_max_length=4096)


Handler = Callable[[Actor, Any], Any]


@dataclass(frozen=True)
class Operation:
    """One operation under `/json/<path>`."""

    path: str
    service: str
    summary: str
    parameters: type[Parameters]
    handler: Handler
    region_required: bool = True


OPERATIONS: dict[str, Operation] = {}


def operation(
    path: str, *, service: str, summary: str, parameters: type[Parameters] = Parameters, region_required: bool = True
) -> Callable[[Handler], Handler]:
    """Register the handler of `/json/<path>`. Raises ValueError when the path is taken."""

    def register(handler: Handler) -> Handler:
        if path in OPERATIONS:
            raise ValueError(f"operation {path} is declared twice")
        OPERATIONS[path] = Operation(path, service, summary, parameters, handler, region_required)
        return handler

    return register
