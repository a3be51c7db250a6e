"""Handlers by concern; each module has its own table from request code to handler."""

from __future__ import annotations

from typing import Any

from brokercore.server.handlers import (
    clients,
    groups,
    messages,
    nameserver,
    offsets,
    pop,
    producers,
    pull,
    retry,
    runtime,
    send,
    stats,
    topics,
)

HANDLERS: dict[int, Any] = {}
for _module in (
    clients, groups, messages, nameserver, offsets, pop, producers, pull, retry, runtime, send, stats, topics,
):  # fmt: skip
    HANDLERS.update(_module.HANDLERS)
