"""Names of the keys that the queue service keeps in Redis.

`lua/_head.lua` says what lies in those of a queue, `lua/topics/_head.lua` in those of a topic. An account's keys begin
with `smq:<account>`, and the names of queues, topics and subscriptions have no colons.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

ACCOUNTS = "smq::accounts"
"""Set: all accounts that have ever had a queue or a topic."""

ALL_HELD = "smq::held"
"""Hash: messages and bytes that all accounts hold together, and `most`, which is what they may (`Queues.count`)."""

PLACES_BYTES = 400
"""What a message takes in Redis beside its own bytes, about; the scripts count with it (`lua/_head.lua`)."""

LANES = "smq::lanes"
"""Sorted set: subscriptions of all accounts to which something is to be pushed."""

SIGNING = "smq::signing"
"""Text: the key that pushes are signed with, encrypted."""

CERTIFICATES = "smq::certificates"
"""Hash: name of a certificate -> the certificate, for every key that pushes were signed with."""

_REMEMBERED = 2048
"""Queues whose keys are not put together again for each request."""

_SUFFIXES = ("", ":ready", ":delayed", ":hidden", ":bodies", ":states", ":ages")


@lru_cache(_REMEMBERED)
def of_queue(account: str, name: str) -> Sequence[str]:
    """All keys that the scripts of a queue get, in their order."""
    return (*(f"smq:{account}:{name}{suffix}" for suffix in _SUFFIXES), held(account), names(account))


def held(account: str) -> str:
    """Hash: messages and bytes that an account's queues and waiting notifications hold, and its own attributes."""
    return f"smq:{account}"


def names(account: str) -> str:
    """Sorted set: names of the account's queues."""
    return f"smq:{account}::names"


def channel(account: str, name: str) -> str:
    """The channel on which those who wait at a queue are told of messages."""
    return f"smq:{account}:{name}:news"


def topics(account: str) -> str:
    """Sorted set: names of the account's topics."""
    return f"smq:{account}::topics"


def of_topic(account: str, name: str) -> list[str]:
    """All keys that the scripts of a topic get first, in their order."""
    topic = f"smq:{account}::topics:{name}"
    return [topic, f"{topic}:subscriptions", f"{topic}:results", held(account), LANES]


def into_queue(account: str, name: str) -> Sequence[str]:
    """The keys of a queue that a delivery into it changes."""
    return of_queue(account, name)[: len(_SUFFIXES)]


def of_lane(account: str, topic: str, subscription: str) -> list[str]:
    """The keys of what is to be pushed for a subscription."""
    lane = f"smq:{account}::topics:{topic}:{subscription}"
    return [f"{lane}:due", f"{lane}:pushed", f"{lane}:bodies", f"{lane}:tries"]


def pushed(account: str) -> str:
    """Sorted set: what is pushed for the account now."""
    return f"smq:{account}::pushed"
