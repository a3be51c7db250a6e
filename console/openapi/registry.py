"""Operations are declared once; validation, routing, documents, the API Tool and the RPC style come from it."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from console.accounts.actor import Actor
from console.accounts.organizations import Scope

INTEGER_MAX, LONG_MAX = 2**31 - 1, 2**63 - 1

NOTHING: dict[str, Any] = {}


class Parameters(BaseModel):
    """Base of every operation's parameters: names as on the wire, unknown ones are signed but ignored."""

    model_config = ConfigDict(
        extra="ignore", str_strip_whitespace=True, str_max_length=4096, populate_by_name=True, frozen=True
    )


class Result(BaseModel):
    """Base of what operations return: names as on the wire."""

    model_config = ConfigDict(extra="forbid")


@dataclass(frozen=True)
class Call:
    """One call of an operation: who calls, narrowed to what."""

    actor: Actor
    scope: Scope = field(default_factory=Scope)
    region: str = ""
    """The region asked for, which is there: instances of others are not found. Empty for operations that need none."""


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
    needs: tuple[str, ...] = ()
    """Actions that every caller needs on something at least, of `a|b` one; empty: it is open to everybody."""
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

    @property
    def is_regional(self) -> bool:
        """Whether its answer depends on the region: it lists, makes or needs clusters or instances.

        Queues, statements, jobs, buckets, alarms and the audit trail are of the account, whatever the region.
        """
        return self.path in _REGIONAL_LISTS or not _OF_A_REGION.isdisjoint(self.parameters.model_fields)


_OF_A_REGION = {"instanceId", "InstanceId", "cluster"}
_REGIONAL_LISTS = {"cluster/list", "instance/list"}


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


def whole_number(value: object) -> object:
    """The number that a text stands for; pydantic alone would also take 1.0, 1_000 and true."""
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    text = str(value).strip()
    if not re.fullmatch(r"-?[0-9]{1,19}", text):
        raise ValueError("it is a whole number")
    return int(text)


def _number_or_nothing(value: object) -> object:
    return None if value is None or value == "" else whole_number(value)


def truth(value: object) -> object:
    """`true` or `false` in any case; pydantic alone would also take 1, yes and on."""
    text = str(value).strip().lower()
    if text not in ("true", "false"):
        raise ValueError("allowed are true and false")
    return text == "true"


Boolean = Annotated[bool, BeforeValidator(truth)]
Choice = BeforeValidator(whole_number)
"""Stands behind a Literal of numbers, and behind the bounds of a number, so that the schema tells the bounds."""
OrNothing = BeforeValidator(_number_or_nothing)
Positive = Annotated[int, Field(ge=1, le=INTEGER_MAX), Choice]
OptionalPositive = Annotated[Annotated[int, Field(ge=1, le=INTEGER_MAX)] | None, OrNothing]
Uid = Annotated[int, Field(ge=1, le=LONG_MAX), Choice]
OptionalUid = Annotated[Annotated[int, Field(ge=1, le=LONG_MAX)] | None, OrNothing]
Millis = Annotated[int, Field(ge=0, le=LONG_MAX), Choice]
OptionalMillis = Annotated[Annotated[int, Field(ge=0, le=LONG_MAX)] | None, OrNothing]
Text = Annotated[str, Field(min_length=1, max_length=256)]
"""A text that must be given."""
Remark = Annotated[str, Field(max_length=256, description="A description of at most 256 characters.")]

InstanceId = Annotated[
    str,
    Field(
        max_length=64,
        description="ID of the instance. It may be left out for the instance without namespace.",
        examples=["MQ_INST_1234567890123456_AbCdEf12"],
    ),
]
NeededInstanceId = Annotated[
    str,
    Field(
        min_length=1,
        max_length=64,
        description="ID of the instance.",
        examples=["MQ_INST_1234567890123456_AbCdEf12"],
    ),
]
TopicName = Annotated[
    str, Field(min_length=1, max_length=127, description="Name of the topic, without namespace.", examples=["orders"])
]
GroupId = Annotated[
    str, Field(min_length=1, max_length=255, description="The group ID, without namespace.", examples=["GID_orders"])
]
MessageId = Annotated[
    str,
    Field(
        min_length=1,
        max_length=128,
        description="ID of the message: the one in the SDK's SendResult, or the broker's offset ID.",
        examples=["0A0000010001189F0000000000000007"],
    ),
]
Begin = Annotated[Millis, Field(description="Start of the range, milliseconds since the epoch, inclusive.")]
End = Annotated[Millis, Field(description="End of the range, milliseconds since the epoch, inclusive.")]
ListPage = Annotated[Positive, Field(description="The page, from 1.")]
ListSize = Annotated[int, Field(ge=1, le=100, description="Entries a page, 1 to 100."), Choice]
"""Of lists; of one that says what its entries are, the description is its own."""
PageNumber = Annotated[int, Field(ge=1, le=50, description="The page, 1 to 50."), Choice]
PageSize = Annotated[int, Field(ge=5, le=50, description="Messages a page, 5 to 50."), Choice]
TaskId = Annotated[
    str, Field(max_length=64, description="Left out at the first call; then the one of the previous answer.")
]


class Paged(Parameters):
    """Parameters of a list that has no others."""

    currentPage: ListPage = 1  # noqa: N815  as on the wire
    pageSize: ListSize = 20  # noqa: N815


class Nothing(Result):
    """An object without fields: the operation has no result."""
