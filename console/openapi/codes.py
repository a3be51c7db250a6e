"""Every error symbol of the management API with its number and its fixed text (docs/management-api.md)."""

from __future__ import annotations

from typing import NamedTuple


class Code(NamedTuple):
    """`code` and `message` of the envelope."""

    code: int
    message: str


FIELD = "BIZ_FIELD_CHECK_INVALID"
SYSTEM = "ONS_SYSTEM_ERROR"
INVOKE = "ONS_INVOKE_ERROR"
SIGNATURE = "AUTH_SIGNATURE_INVALID"
PERMISSION = "AUTH_PERMISSION_DENIED"

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
    "EMPOWER_OWNER_CHECK_ERROR": Code(403, "not the owner of the topic"),
    SIGNATURE: Code(401, "authentication failed"),
    PERMISSION: Code(403, "permission denied"),
    "BIZ_INSTANCE_NOT_FOUND": Code(404, "unknown instance"),
    "BIZ_INSTANCE_EXISTED": Code(409, "instance name exists"),
    "BIZ_INSTANCE_DEFAULT_EXISTED": Code(409, "an instance without namespace exists"),
    "BIZ_INSTANCE_QUOTA_EXCEEDED": Code(409, "too many instances"),
    "BIZ_INSTANCE_NOT_EMPTY": Code(409, "instance not empty"),
    "BIZ_TOPIC_QUOTA_EXCEEDED": Code(409, "too many topics"),
    "BIZ_CLUSTER_NOT_FOUND": Code(404, "unknown cluster"),
    "EMPOWER_NOT_FOUND": Code(404, "unknown grant"),
    "BIZ_TASK_NOT_FOUND": Code(404, "unknown query task"),
    "BIZ_THROTTLED": Code(429, "too many requests"),
}
