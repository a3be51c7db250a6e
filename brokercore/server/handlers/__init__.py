"""Handlers by concern; each module has its own table from request code to handler."""

from __future__ import annotations

from typing import Any

from brokercore.server.handlers import (
    batch_ack,
    clients,
    configuration,
    groups,
    locks,
    maintenance,
    messages,
    nameserver,
    offsets,
    pop,
    pull,
    recall,
    relay,
    reply,
    retry,
    runtime,
    send,
    stats,
    topics,
    transaction,
)

HANDLERS: dict[int, Any] = {}
for _module in (
    batch_ack, clients, configuration, groups, locks, maintenance, messages, nameserver, offsets, pop, pull, recall,
    relay, reply, retry, runtime, send, stats, topics, transaction,
):  # fmt: skip
    HANDLERS.update(_module.HANDLERS)
