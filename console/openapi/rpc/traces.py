"""Traces of messages in the public cloud's two steps: a query is begun and gets an ID, and its result is asked for.

What is told is what clients say in RMQ_SYS_TRACE_TOPIC (`console.messaging.trace`). It is looked up when the result is
asked for, so that what clients say later is in it too; between the two steps only the question is kept.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Any

from django.core.cache import cache
from pydantic import Field

from brokercore.client import Admin
from brokercore.client.admin.traces import TraceRecord
from console.accounts.models import Tenant
from console.instances import broker
from console.messaging import queries, trace
from console.messaging.queries import Source
from console.messaging.records import MessageRecord
from console.openapi import throttle
from console.openapi.operations import lookup
from console.openapi.registry import Begin, Call, End, Parameters
from console.topics.models import Topic
from console.web.errors import Refused

#: A query is known for so long after it was begun.
KEPT_S = 86_400
#: Of a key: so many of its newest messages are told.
MOST_MESSAGES = 16
_TRANSACTIONS = {"ROLLBACK_MESSAGE": "SEND_ROLLBACK", "UNKNOW": "SEND_UNKNOWN"}


class _Begun(Parameters):
    Topic: str = Field(min_length=1)
    InstanceId: str = Field(min_length=1)
    BeginTime: Begin
    EndTime: End


class ByMessageId(_Begun):
    """Parameters of OnsTraceQueryByMsgId; the range is that of the time of sending."""

    MsgId: str = Field(min_length=1, max_length=128)


class ByMessageKey(_Begun):
    """Parameters of OnsTraceQueryByMsgKey; the range is that of the time of sending."""

    MsgKey: str = Field(min_length=1, max_length=1024)


class OfResult(Parameters):
    """Parameters of OnsTraceGetResult; instance and topic are those of the query, whatever is given."""

    QueryId: str = Field(min_length=1, max_length=64)
    InstanceId: str = ""
    Topic: str = ""


def query_by_id(call: Call, given: Mapping[str, str]) -> dict[str, Any]:
    """Begin a query for one message. Raises Refused, PermissionDenied."""
    asked = ByMessageId.model_validate(dict(given))
    return _begin(call, asked, MsgId=asked.MsgId)


def query_by_key(call: Call, given: Mapping[str, str]) -> dict[str, Any]:
    """Begin a query for the messages with a key. Raises Refused, PermissionDenied."""
    asked = ByMessageKey.model_validate(dict(given))
    return _begin(call, asked, MsgKey=asked.MsgKey)


def result(call: Call, given: Mapping[str, str]) -> dict[str, Any]:
    """What became of the messages of a query. Raises Refused for a query that is not the caller's, PermissionDenied."""
    throttle.check_call("query", call.actor)
    asked = OfResult.model_validate(dict(given))
    kept = cache.get(_key(call, asked.QueryId))
    if kept is None:
        raise Refused(
            "BIZ_TASK_NOT_FOUND", "There is no trace query with this ID, or it is older than a day.", "QueryId"
        )
    topic = _topic(call, kept["InstanceId"], kept["Topic"])
    tenant, admin = call.actor.tenant, broker.admin(topic.instance.cluster)
    told = [_told(admin, topic, tenant, message) for message in _messages(topic, kept)]
    return {
        "TraceData": {
            **{name: kept[name] for name in ("InstanceId", "Topic", "MsgId", "MsgKey", "CreateTime") if name in kept},
            "QueryId": asked.QueryId,
            "UserId": tenant.uid,
            "Status": "finish",
            "UpdateTime": _now_ms(),
            "TraceList": {"TraceMapDo": told},
        }
    }


ACTIONS = {
    "OnsTraceQueryByMsgId": query_by_id,
    "OnsTraceQueryByMsgKey": query_by_key,
    "OnsTraceGetResult": result,
}


def _begin(call: Call, asked: _Begun, **what: str) -> dict[str, Any]:
    if asked.EndTime < asked.BeginTime:
        raise Refused("BIZ_FIELD_CHECK_INVALID", "EndTime is before BeginTime.", "EndTime")
    _topic(call, asked.InstanceId, asked.Topic)
    query_id = secrets.token_hex(16)
    kept = {**asked.model_dump(), **what, "CreateTime": _now_ms()}
    cache.set(_key(call, query_id), kept, timeout=KEPT_S)
    return {"QueryId": query_id}


def _key(call: Call, query_id: str) -> str:
    return f"trace-query:{call.actor.tenant.uid}:{query_id}"


def _topic(call: Call, instance_id: str, name: str) -> Topic:
    return lookup.topic(call, instance_id, name, "mq:QueryMessage")


def _messages(topic: Topic, kept: Mapping[str, Any]) -> Iterator[MessageRecord]:
    """Those that the topic still has, each once: a retry of a producer may have stored one twice."""
    source = Source.of_topic(topic)
    found = (
        queries.find_by_id(source, kept["MsgId"]) if "MsgId" in kept else queries.find_by_key(source, kept["MsgKey"])
    )
    once = {one.message_id: one for one in found if kept["BeginTime"] <= one.born_at_ms <= kept["EndTime"]}
    return islice(once.values(), MOST_MESSAGES)


def _told(admin: Admin, topic: Topic, tenant: Tenant, message: MessageRecord) -> dict[str, Any]:
    """TraceMapDo: the sending, and beneath it each group with its attempts."""
    records = trace.records_of(admin, topic, message.message_id, tenant)
    sent = next((one for one in records if one.kind == "Pub"), None)
    groups: dict[str, list[dict[str, Any]]] = {}
    for begun, end in trace.attempts(records):
        groups.setdefault(begun.group, []).append(_attempt(begun, end))
    cost = trace.number_of(sent, "cost_ms") if sent is not None else None
    return {
        "MsgId": message.message_id,
        "MsgKey": " ".join(message.keys),
        "Tag": message.tag,
        "Topic": topic.name,
        "PubGroupName": sent.group if sent is not None else "",
        "PubTime": sent.time_ms if sent is not None else message.born_at_ms,
        "BornHost": sent.client_host if sent is not None else message.born_host,
        **({} if cost is None else {"CostTime": cost}),
        "Status": _sending(records, sent),
        "SubList": {"SubMapDo": [_group(name, attempts) for name, attempts in groups.items()]},
    }


def _sending(records: list[TraceRecord], sent: TraceRecord | None) -> str:
    for one in records:
        if one.kind == "EndTransaction" and (state := _TRANSACTIONS.get(one.fields.get("state", ""))):
            return state
    return "SEND_FAILED" if sent is not None and sent.succeeded is False else "SEND_SUCCESS"


def _group(name: str, attempts: list[dict[str, Any]]) -> dict[str, Any]:
    counts = [one["Status"] for one in attempts]
    return {
        "SubGroupName": name,
        "SuccessCount": counts.count("CONSUME_SUCCESS"),
        "FailCount": counts.count("CONSUME_FAILED"),
        "ClientList": {"SubClientInfoDo": attempts},
    }


def _attempt(begun: TraceRecord, end: TraceRecord | None) -> dict[str, Any]:
    cost = trace.number_of(end, "cost_ms") if end is not None else None
    return {
        "SubGroupName": begun.group,
        "SubTime": begun.time_ms,
        "ClientHost": begun.client_host,
        "ReconsumeTimes": trace.number_of(begun, "retry_times") or 0,
        **({} if cost is None else {"CostTime": cost}),
        "Status": _ended(end),
    }


def _ended(end: TraceRecord | None) -> str:
    if end is None:
        return "CONSUME_NOT_RETURN"
    return "CONSUME_FAILED" if end.succeeded is False else "CONSUME_SUCCESS"


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
