"""What a file says and what a server has, in one form, so that both can be compared."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

ORDER_TYPES = {"normal": 0, "partitionally-ordered": 1, "globally-ordered": 2, "transactional": 4, "delayed": 5}
PERMISSIONS = {"read-write": 6, "read-only": 4, "write-only": 2}
RELATIONS = {"publish": 2, "subscribe": 4, "both": 6}


def word(words: dict[str, int], number: int) -> str:
    """The word for a number, or the number for one that has none."""
    return next((name for name, value in words.items() if value == number), str(number))


@dataclass(frozen=True)
class Grant:
    """The right of an account or a RAM user to a topic."""

    to: str
    kind: str
    """`account` or `user`."""
    relation: int
    where: str = field(default="", compare=False)


@dataclass(frozen=True)
class Topic:
    """A topic; `grants` is None when nothing is said of them."""

    name: str
    order_type: int
    perm: int = 6
    remark: str = ""
    grants: tuple[Grant, ...] | None = None
    where: str = field(default="", compare=False)


@dataclass(frozen=True)
class Group:
    """A group ID."""

    group_id: str
    remark: str = ""
    where: str = field(default="", compare=False)


@dataclass(frozen=True)
class Instance:
    """An instance; what is None is not said, and left alone."""

    name: str
    independent_naming: bool = True
    max_send_tps: int | None = None
    max_receive_tps: int | None = None
    topic_capacity: int | None = None
    cluster: str = ""
    remark: str | None = None
    topics: tuple[Topic, ...] | None = None
    groups: tuple[Group, ...] | None = None
    instance_id: str = field(default="", compare=False)
    where: str = field(default="", compare=False)


@dataclass(frozen=True)
class Policy:
    """A policy of the account's own."""

    name: str
    document: dict[str, Any]
    description: str = ""
    where: str = field(default="", compare=False)


@dataclass(frozen=True)
class State:
    """All of it; what is None is not said, and left alone."""

    instances: tuple[Instance, ...] | None = None
    policies: tuple[Policy, ...] | None = None
