"""Partitions of a table are its folders: `day=2026-01-15/carrier=AA/`."""

from __future__ import annotations

from urllib.parse import quote, unquote

from analytics import lake
from console.catalog.models import ExternalTable

#: What Hive writes for null in a folder's name.
_NULL = "__HIVE_DEFAULT_PARTITION__"
MOST = 10_000


def names(table: ExternalTable) -> list[str]:
    """`day=2026-01-15/carrier=AA` of every folder that holds files, sorted; MOST at the most. Raises LakeError."""
    base = len(table.location.rstrip("/")) + 1
    depth = len(table.partitions)
    wanted = [name.lower() for name in table.partitions]
    found: set[str] = set()
    for file in lake.files(table.location):
        parts = file.location[base:].split("/")[:depth]
        keys = [part.partition("=")[0].lower() for part in parts]
        if keys == wanted:
            found.add("/".join(parts))
    return sorted(found)[:MOST]


def values(name: str) -> list[str | None]:
    """The values of a partition's columns, as its name gives them."""
    written = [part.partition("=")[2] for part in name.split("/")]
    return [None if value == _NULL else unquote(value) for value in written]


def folder(table: ExternalTable, given: list[str]) -> str:
    """The folder of the partition with these values, as Spark names it."""
    parts = [f"{name}={quote(value, safe=' -_.,+@()')}" for name, value in zip(table.partitions, given, strict=True)]
    return table.location + "".join(f"{part}/" for part in parts)
