"""What a definition asks for, as plain data."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Named:
    """A table's name, with its schema when one is written."""

    table: str
    schema: str | None = None


@dataclass(frozen=True, slots=True)
class Column:
    """A column; `type` is Spark's name of it."""

    name: str
    type: str
    comment: str = ""


@dataclass(frozen=True, slots=True)
class CreateSchema:
    """`create schema s [comment] [location]`."""

    schema: str
    if_not_exists: bool = False
    comment: str = ""
    location: str = ""


@dataclass(frozen=True, slots=True)
class DropSchema:
    """`drop schema s [restrict|cascade]`."""

    schema: str
    if_exists: bool = False
    cascade: bool = False


@dataclass(frozen=True, slots=True)
class CreateTable:
    """`create [external] table`: `format` is parquet, orc, json or csv, `options` those of Spark's reader."""

    table: Named
    columns: tuple[Column, ...] = ()
    #: Names of the columns that folders give; they are the last of `columns` then, or named without types.
    partitions: tuple[str, ...] = ()
    external: bool = False
    if_not_exists: bool = False
    format: str = "parquet"
    options: dict[str, str] = field(default_factory=dict)
    properties: dict[str, str] = field(default_factory=dict)
    comment: str = ""
    location: str = ""


@dataclass(frozen=True, slots=True)
class CreateTableLike:
    """`create table t like other [location]`."""

    table: Named
    other: Named
    external: bool = False
    if_not_exists: bool = False
    location: str = ""


@dataclass(frozen=True, slots=True)
class DropTable:
    """`drop table [if exists] t`."""

    table: Named
    if_exists: bool = False


@dataclass(frozen=True, slots=True)
class RenameTable:
    """`alter table t rename to u`."""

    table: Named
    new: Named


@dataclass(frozen=True, slots=True)
class AddColumns:
    """`alter table t add columns (…)`."""

    table: Named
    columns: tuple[Column, ...]


@dataclass(frozen=True, slots=True)
class AddPartition:
    """`alter table t add [if not exists] partition (day = '…') [location '…']`."""

    table: Named
    partition: tuple[tuple[str, str], ...]
    location: str = ""


@dataclass(frozen=True, slots=True)
class SetLocation:
    """`alter table t set location '…'`."""

    table: Named
    location: str


@dataclass(frozen=True, slots=True)
class SetProperties:
    """`alter table t set tblproperties (…)`, `alter table t set comment '…'`."""

    table: Named
    properties: dict[str, str]


@dataclass(frozen=True, slots=True)
class RepairTable:
    """`msck repair table t`, `refresh table t`: look at the table's folder again."""

    table: Named


@dataclass(frozen=True, slots=True)
class TruncateTable:
    """`truncate table t`, for managed ones."""

    table: Named


Definition = (
    CreateSchema
    | DropSchema
    | CreateTable
    | CreateTableLike
    | DropTable
    | RenameTable
    | AddColumns
    | AddPartition
    | SetLocation
    | SetProperties
    | RepairTable
    | TruncateTable
)
