"""The one shape of every answer of the management API."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple, Protocol, TypeVar

import orjson
from django.conf import settings
from django.db.models import QuerySet
from django.http import HttpResponse

from console.web.errors import Refused

FIELD = "BIZ_FIELD_CHECK_INVALID"
SYSTEM = "ONS_SYSTEM_ERROR"
INVOKE = "ONS_INVOKE_ERROR"
SIGNATURE = "AUTH_SIGNATURE_INVALID"
PERMISSION = "AUTH_PERMISSION_DENIED"
THROTTLED = "BIZ_THROTTLED"
_OWNER = "EMPOWER_OWNER_CHECK_ERROR"

T_co = TypeVar("T_co", covariant=True)


class Code(NamedTuple):
    """`code` and `message` of the envelope; `fallback` is the vendor's nearest symbol, of a symbol that is our own."""

    code: int
    message: str
    fallback: str = ""


CODES: dict[str, Code] = {
    SYSTEM: Code(500, "system error"),
    "ONS_SERVICE_UNSUPPORTED": Code(501, "operation not supported in this region"),
    INVOKE: Code(502, "the call failed"),
    FIELD: Code(400, "parameter check failed"),
    "BIZ_TOPIC_NOT_FOUND": Code(404, "unknown topic"),
    "BIZ_SUBSCRIPTION_NOT_FOUND": Code(404, "unknown group ID"),
    "BIZ_PUBLISHER_EXISTED": Code(409, "group ID exists"),
    "BIZ_SUBSCRIPTION_EXISTED": Code(409, "group ID exists"),
    "BIZ_CONSUMER_NOT_ONLINE": Code(409, "consumer not online"),
    "BIZ_NO_MESSAGE": Code(404, "no message found"),
    "BIZ_REGION_NOT_FOUND": Code(404, "unknown region"),
    "BIZ_TOPIC_EXISTED": Code(409, "topic exists"),
    "BIZ_PRODUCER_ID_BELONG_TO_OTHER_USER": Code(409, "group ID belongs to another user"),
    "BIZ_CONSUMER_ID_BELONG_TO_OTHER_USER": Code(403, "group ID belongs to another user"),
    "BIZ_PUBLISH_INFO_NOT_FOUND": Code(404, "unknown group ID"),
    "EMPOWER_EXIST_ERROR": Code(409, "grant exists"),
    _OWNER: Code(403, "not the owner of the topic"),
    SIGNATURE: Code(401, "authentication failed", FIELD),
    PERMISSION: Code(403, "permission denied", _OWNER),
    "BIZ_INSTANCE_NOT_FOUND": Code(404, "unknown instance", FIELD),
    "BIZ_INSTANCE_EXISTED": Code(409, "instance name exists", FIELD),
    "BIZ_INSTANCE_DEFAULT_EXISTED": Code(409, "an instance without namespace exists", FIELD),
    "BIZ_INSTANCE_QUOTA_EXCEEDED": Code(409, "too many instances", FIELD),
    "BIZ_INSTANCE_NOT_EMPTY": Code(409, "instance not empty", FIELD),
    "BIZ_TOPIC_QUOTA_EXCEEDED": Code(409, "too many topics", FIELD),
    "BIZ_SUBSCRIPTION_QUOTA_EXCEEDED": Code(409, "too many group IDs", FIELD),
    "BIZ_CLUSTER_NOT_FOUND": Code(404, "unknown cluster", FIELD),
    "BIZ_CLUSTER_EXISTED": Code(409, "the cluster exists already", FIELD),
    "BIZ_CLUSTER_IN_USE": Code(409, "the cluster is in use", FIELD),
    "BIZ_CLUSTER_READ_ONLY": Code(409, "the cluster is read-only", FIELD),
    "BIZ_ACCOUNT_NOT_FOUND": Code(404, "unknown account", FIELD),
    "BIZ_ADOPTION_RUN_NOT_FOUND": Code(404, "unknown run", FIELD),
    "BIZ_TUNNEL_SWITCH_BLOCKED": Code(409, "traffic on the cluster", INVOKE),
    "EMPOWER_NOT_FOUND": Code(404, "unknown grant", FIELD),
    "BIZ_TASK_NOT_FOUND": Code(404, "unknown query task", FIELD),
    "BIZ_STATEMENT_REFUSED": Code(400, "statement refused", FIELD),
    "BIZ_SCHEMA_NOT_FOUND": Code(404, "unknown schema", FIELD),
    "BIZ_TABLE_NOT_FOUND": Code(404, "unknown table", FIELD),
    "BIZ_RESULT_NOT_FOUND": Code(404, "no result", FIELD),
    "BIZ_QUEUE_NOT_FOUND": Code(404, "unknown queue", FIELD),
    "BIZ_QUEUE_EXISTED": Code(409, "queue exists", FIELD),
    "BIZ_QUEUE_QUOTA_EXCEEDED": Code(409, "too many queues or messages", FIELD),
    "BIZ_BUCKET_NOT_FOUND": Code(404, "unknown bucket", FIELD),
    "BIZ_BUCKET_EXISTED": Code(409, "bucket exists", FIELD),
    "BIZ_RULE_NOT_FOUND": Code(404, "unknown rule", FIELD),
    "BIZ_RULE_EXISTED": Code(409, "rule exists", FIELD),
    "BIZ_RULE_QUOTA_EXCEEDED": Code(409, "too many rules", FIELD),
    "BIZ_QUEUE_TOPIC_NOT_FOUND": Code(404, "unknown topic of queues", FIELD),
    "BIZ_QUEUE_TOPIC_EXISTED": Code(409, "topic of queues exists", FIELD),
    "BIZ_QUEUE_SUBSCRIPTION_NOT_FOUND": Code(404, "unknown subscription", FIELD),
    "BIZ_QUEUE_SUBSCRIPTION_EXISTED": Code(409, "subscription exists", FIELD),
    "BIZ_JOB_NOT_FOUND": Code(404, "unknown job", FIELD),
    "BIZ_JOB_EXISTED": Code(409, "job exists", FIELD),
    "BIZ_JOB_TEXT_REFUSED": Code(400, "text refused", FIELD),
    "BIZ_JOB_STATE_INVALID": Code(409, "not in this state of the job", FIELD),
    "BIZ_JOB_QUOTA_EXCEEDED": Code(409, "too many jobs", FIELD),
    "BIZ_INFLOW_TASK_NOT_FOUND": Code(404, "unknown inflow task", FIELD),
    "BIZ_INFLOW_TASK_EXISTED": Code(409, "inflow task exists", FIELD),
    "BIZ_INFLOW_TASK_REFUSED": Code(400, "document refused", FIELD),
    "BIZ_INFLOW_TASK_STATE_INVALID": Code(409, "not in this state of the inflow task", FIELD),
    "BIZ_LAKE_QUOTA_EXCEEDED": Code(409, "no room in the lake", FIELD),
    "BIZ_VERSION_NOT_FOUND": Code(404, "unknown version", FIELD),
    "BIZ_SAVEPOINT_NOT_FOUND": Code(404, "unknown savepoint", FIELD),
    "BIZ_SECRET_NOT_FOUND": Code(404, "unknown secret", FIELD),
    "BIZ_VARIABLE_NOT_FOUND": Code(404, "unknown variable", FIELD),
    "BIZ_ALARM_NOT_FOUND": Code(404, "unknown alarm, rule or recipient", FIELD),
    "BIZ_ALARM_STATE_INVALID": Code(409, "it has ended, or is still needed", FIELD),
    "BIZ_ALARM_QUOTA_EXCEEDED": Code(409, "too many alarm rules or recipients", FIELD),
    "BIZ_TRACKING_TASK_NOT_FOUND": Code(404, "unknown change tracking task", FIELD),
    "BIZ_TRACKING_TASK_EXISTED": Code(409, "task or consumer group exists", FIELD),
    "BIZ_TRACKING_TASK_STATE_INVALID": Code(409, "not in this state of the task", FIELD),
    "BIZ_TRACKING_TASK_QUOTA_EXCEEDED": Code(409, "too many change tracking tasks", FIELD),
    "BIZ_CONSUMER_GROUP_NOT_FOUND": Code(404, "unknown consumer group", FIELD),
    THROTTLED: Code(429, "too many requests", INVOKE),
}


def told(symbol: str, *, strict: bool) -> str:
    """The symbol that the caller is told: with `strict` only symbols that the vendor has."""
    return (strict and CODES[symbol].fallback) or symbol


class Paging(Protocol):
    """Parameters of a paged list: which page, from 1, and how many entries it has."""

    @property
    def currentPage(self) -> int: ...  # noqa: N802  as on the wire
    @property
    def pageSize(self) -> int: ...  # noqa: N802


class Sliceable(Protocol[T_co]):
    """A list, or a query of the database."""

    def __getitem__(self, part: slice, /) -> Iterable[T_co]: ...


@dataclass(frozen=True)
class Page:
    """One page of a paged list: `entries` of page `number` (from 1), `size` a page, `total` in all."""

    entries: Sequence[Any]
    number: int
    size: int
    total: int

    @classmethod
    def of(cls, asked: Paging, entries: Sequence[Any], total: int) -> Page:
        """These entries as the page that was asked for."""
        return cls(entries, asked.currentPage, asked.pageSize, total)


def page_of(asked: Paging, found: QuerySet[Any], tell: Callable[[Any], Any]) -> Page:
    """The page that was asked for of a query, each row as `tell` tells it."""
    return Page.of(asked, [tell(one) for one in cut(asked, found)], found.count())


def cut(asked: Paging, found: Sliceable[T_co]) -> list[T_co]:
    """What of a whole list, or of a query, stands on the page that was asked for."""
    start = (asked.currentPage - 1) * asked.pageSize
    return list(found[start : start + asked.pageSize])


def milliseconds(moment: datetime) -> int:
    """A time as operations tell it: whole milliseconds since the epoch."""
    return int(moment.timestamp() * 1000)


def success(data: Any, request_id: str) -> HttpResponse:
    """Code 200 with `data`, or with the entries and the numbers of a Page."""
    page = data if isinstance(data, Page) else Page([], 0, 0, 0)
    return _json(
        {
            "success": True,
            "code": 200,
            "status": "SUCCESS",
            "message": "operation success",
            "data": page.entries if data is page else data,
            "currentPage": page.number,
            "pageSize": page.size,
            "total": page.total,
            "dynamicCode": "",
            "dynamicMessage": "",
            "requestId": request_id,
            "helpUrl": None,
        }
    )


def failure(symbol: str, detail: str, request_id: str, *, status: int = 200) -> HttpResponse:
    """The symbol stands in `status` and `dynamicCode`; the transport status stays 200, so that old callers parse.

    GANTRY_API_STRICT_CODES answers the vendor's nearest symbol where the symbol is our own.
    """
    symbol = told(symbol, strict=settings.API_STRICT_CODES)
    code = CODES[symbol]
    return _json(
        {
            "success": False,
            "code": code.code,
            "status": symbol,
            "message": code.message,
            "data": None,
            "currentPage": 0,
            "pageSize": 0,
            "total": 0,
            "dynamicCode": symbol,
            "dynamicMessage": detail,
            "requestId": request_id,
            "helpUrl": None,
        },
        status,
    )


def _json(fields: dict[str, Any], status: int = 200) -> HttpResponse:
    return HttpResponse(orjson.dumps(fields), content_type="application/json", status=status)


@contextmanager
def in_symbols(symbols: Mapping[str, str]) -> Iterator[None]:
    """Raise each refusal again under the symbol that the API has for it: the table's, else that of a wrong field."""
    try:
        yield
    except Refused as refused:
        raise Refused(symbols.get(refused.symbol, FIELD), refused.message, refused.field) from refused
