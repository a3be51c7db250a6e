"""The queue service as the console meets it: in the name of one account, its refusals as ours.

The console signs with Gantry's own key, which may do everything: whoever calls here has asked `access` before.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager

from django.utils.translation import gettext as _

from brokercore.smq.client import QueueClient, QueueServiceUnavailable
from brokercore.smq.topic_client import TopicClient
from brokercore.smq.wire.errors import Code, SmqError
from console.accounts.models import Tenant
from console.outbox.queues import Client, own_service
from console.web.errors import Refused
from console.web.languages import gettext_lazy

FIELD = "BIZ_FIELD_CHECK_INVALID"
NOT_FOUND = "BIZ_QUEUE_NOT_FOUND"
GONE = "BIZ_NO_MESSAGE"
TOPIC_NOT_FOUND = "BIZ_QUEUE_TOPIC_NOT_FOUND"
SUBSCRIPTION_NOT_FOUND = "BIZ_QUEUE_SUBSCRIPTION_NOT_FOUND"
_SYMBOLS = {
    Code.QUEUE_NOT_EXIST: NOT_FOUND,
    Code.QUEUE_ALREADY_EXIST: "BIZ_QUEUE_EXISTED",
    Code.MESSAGE_NOT_EXIST: GONE,
    Code.ACCESS_DENIED: "BIZ_QUEUE_QUOTA_EXCEEDED",
    Code.QPS_LIMIT_EXCEEDED: "BIZ_THROTTLED",
    Code.INVALID_ARGUMENT: FIELD,
    Code.MALFORMED_XML: FIELD,
    Code.INVALID_QUEUE_NAME: FIELD,
    Code.QUEUE_NAME_LENGTH_ERROR: FIELD,
    Code.RECEIPT_HANDLE_ERROR: FIELD,
    Code.TOPIC_NOT_EXIST: TOPIC_NOT_FOUND,
    Code.TOPIC_ALREADY_EXIST: "BIZ_QUEUE_TOPIC_EXISTED",
    Code.SUBSCRIPTION_NOT_EXIST: SUBSCRIPTION_NOT_FOUND,
    Code.SUBSCRIPTION_ALREADY_EXIST: "BIZ_QUEUE_SUBSCRIPTION_EXISTED",
    Code.TOPIC_NAME_INVALID: FIELD,
    Code.TOPIC_NAME_LENGTH_ERROR: FIELD,
    Code.SUBSCRIPTION_NAME_INVALID: FIELD,
    Code.SUBSCRIPTION_NAME_LENGTH_ERROR: FIELD,
    Code.ENDPOINT_INVALID: FIELD,
}
#: The field of a form that a refusal is about.
_FIELDS = {
    Code.INVALID_QUEUE_NAME: "name",
    Code.QUEUE_NAME_LENGTH_ERROR: "name",
    Code.QUEUE_ALREADY_EXIST: "name",
    Code.TOPIC_NAME_INVALID: "name",
    Code.TOPIC_NAME_LENGTH_ERROR: "name",
    Code.TOPIC_ALREADY_EXIST: "name",
    Code.SUBSCRIPTION_NAME_INVALID: "name",
    Code.SUBSCRIPTION_NAME_LENGTH_ERROR: "name",
    Code.SUBSCRIPTION_ALREADY_EXIST: "name",
    Code.ENDPOINT_INVALID: "receiver",
    Code.MALFORMED_XML: "body",
    Code.RECEIPT_HANDLE_ERROR: "handle",
    Code.MESSAGE_NOT_EXIST: "handle",
}
_UNREADABLE = gettext_lazy(
    "The body has characters that XML cannot carry, such as control characters; send it as Base64."
)


@contextmanager
def queues_of(tenant: Tenant) -> Iterator[QueueClient]:
    """The client of an account's queues. Raises Refused and QueueServiceUnavailable."""
    with _client_of(tenant, QueueClient) as client:
        yield client


@contextmanager
def topics_of(tenant: Tenant) -> Iterator[TopicClient]:
    """The client of an account's topics. Raises Refused and QueueServiceUnavailable."""
    with _client_of(tenant, TopicClient) as client:
        yield client


@contextmanager
def _client_of(tenant: Tenant, kind: type[Client]) -> Iterator[Client]:
    with closing(own_service(tenant, kind)) as client:
        try:
            yield client
        except SmqError as error:
            raise refusal(error) from error


def refusal(error: SmqError) -> Exception:
    """What the service refuses, as a rule that the caller broke; what only we can have done wrong is an outage."""
    if error.code not in _SYMBOLS:
        return QueueServiceUnavailable(
            _("The queue service refused the console: %(code)s, %(message)s")
            % {"code": error.code.text, "message": error.message}
        )
    message = _UNREADABLE if error.code is Code.MALFORMED_XML else error.message
    return Refused(_SYMBOLS[error.code], message, _FIELDS.get(error.code, ""))
