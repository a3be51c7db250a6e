"""Every error symbol of the management API with its number and its fixed text (docs/management-api.md)."""

from __future__ import annotations

from typing import NamedTuple


class Code(NamedTuple):
    """`code` and `message` of the envelope; `fallback` is the vendor's nearest symbol, of a symbol that is our own."""

    code: int
    message: str
    fallback: str = ""


FIELD = "BIZ_FIELD_CHECK_INVALID"
SYSTEM = "ONS_SYSTEM_ERROR"
INVOKE = "ONS_INVOKE_ERROR"
SIGNATURE = "AUTH_SIGNATURE_INVALID"
PERMISSION = "AUTH_PERMISSION_DENIED"
THROTTLED = "BIZ_THROTTLED"
_OWNER = "EMPOWER_OWNER_CHECK_ERROR"

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
    "BIZ_TUNNEL_SWITCH_BLOCKED": Code(409, "traffic on the cluster", INVOKE),
    "EMPOWER_NOT_FOUND": Code(404, "unknown grant", FIELD),
    "BIZ_TASK_NOT_FOUND": Code(404, "unknown query task", FIELD),
    "BIZ_STATEMENT_REFUSED": Code(400, "statement refused", FIELD),
    "BIZ_SCHEMA_NOT_FOUND": Code(404, "unknown schema", FIELD),
    "BIZ_TABLE_NOT_FOUND": Code(404, "unknown table", FIELD),
    "BIZ_RESULT_NOT_FOUND": Code(404, "no result", FIELD),
    THROTTLED: Code(429, "too many requests", INVOKE),
}


def told(symbol: str, *, strict: bool) -> str:
    """The symbol that the caller is told: with `strict` only symbols that the vendor has."""
    return (strict and CODES[symbol].fallback) or symbol
