"""The operations of the management API, a module a service. Importing this package declares all of them."""

from __future__ import annotations

from console.openapi.operations import (
    consumers,
    dead_letters,
    extensions,
    grants,
    groups,
    instances,
    messages,
    regions,
    sql,
    sql_data,
    topics,
    trends,
    tunnel,
)
from console.openapi.registry import OPERATIONS

__all__ = [
    "OPERATIONS",
    "consumers",
    "dead_letters",
    "extensions",
    "grants",
    "groups",
    "instances",
    "messages",
    "regions",
    "sql",
    "sql_data",
    "topics",
    "trends",
    "tunnel",
]
