"""Thousands of topics and groups on a broker, by requests of hundreds."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import orjson

from brokercore.client import Admin, GroupConfig, TopicConfig
from brokercore.client.session import Call
from brokercore.protocol.codes import RequestCode

_AT_ONCE = 500
_TIMEOUT_MS = 120_000


def create_topics(admin: Admin, names: Iterable[str], queues: int) -> None:
    """Topics on the one broker there is."""
    rows = [TopicConfig(name, queues, queues).to_dict() for name in names]
    _tell(admin, RequestCode.UPDATE_AND_CREATE_TOPIC_LIST, "topicConfigList", rows)


def create_groups(admin: Admin, names: Iterable[str]) -> None:
    """Groups on the one broker there is."""
    rows = [GroupConfig(name).to_dict() for name in names]
    _tell(admin, RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST, "groupConfigList", rows)


def _tell(admin: Admin, code: RequestCode, member: str, rows: Sequence[dict[str, Any]]) -> None:
    ((_, address),) = admin.brokers.masters().items()
    for start in range(0, len(rows), _AT_ONCE):
        body = orjson.dumps({member: rows[start : start + _AT_ONCE]})
        admin.session.call(Call(address, code, {}, body), timeout_ms=_TIMEOUT_MS)
