"""Notifications and events to queues: which queue service is meant, whether the sender may, and the send.

A queue of the account's own at the embedded service is written to in the account's name, once the one permission
decision has let the author of the task send there. A queue service elsewhere must be on the platform's list.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Callable
from contextlib import closing
from typing import TypeVar

from django.conf import settings
from django.utils.translation import gettext as _

from brokercore.policy import mns_resource
from brokercore.smq.client import QueueClient
from brokercore.smq.wire.errors import Code, SmqError
from console.accounts.actor import Actor
from console.accounts.models import Tenant
from console.outbox.models import Notification
from console.outbox.routing import UndeliverableError
from console.web.provided import Provided

Client = TypeVar("Client", bound=QueueClient)
SEND = "mns:SendMessage"
#: What can be over by the next attempt. All else that a queue service refuses it will refuse again.
PASSING = frozenset({Code.INTERNAL_ERROR, Code.QPS_LIMIT_EXCEEDED, Code.TIME_EXPIRED})
#: The vendor's own names for its service; with the account's id and the region before it, this installation is meant.
_VENDOR = "aliyuncs.com"
_ADDRESS = re.compile(r"(?:(?P<scheme>https?)://)?(?P<host>[^:/\s@?#]+)(?::(?P<port>\d{1,5}))?/?", re.IGNORECASE)
_NAMED = re.compile(
    r"(?P<account>[^.]+)\.mns\.(?P<region>[^.]+?)(?:-internal)?(?:-vpc)?(?:\.(?P<rest>.+))?", re.IGNORECASE
)

#: Who has asked for a notification, with the rights of now; None for who was disabled or deleted since.
author_of = Provided[Callable[[Notification], Actor | None]](f"{__name__}.author_of", "console.sql")


def resource_of(tenant: Tenant, queue: str) -> str:
    """What the messages of a queue are called in policies."""
    return mns_resource(tenant.uid, f"/queues/{queue}/messages")


def address_of(tenant: Tenant) -> str:
    """The address of an account's queues, as hints and clients write it."""
    return f"http://{tenant.uid}.mns.{settings.REGION}.{settings.ENDPOINT_HOST}:{settings.SMQ_PORT}"


def own_service(tenant: Tenant, kind: type[Client]) -> Client:
    """The embedded service, as Gantry itself in the account's name; close it.

    Gantry's own key may do everything there: who calls has asked for the decision before.
    """
    return kind(
        settings.SMQ_ADDRESS, settings.BROKER_ACCESS_KEY_ID, settings.BROKER_ACCESS_KEY_SECRET, account=tenant.uid
    )


def send(notification: Notification) -> str:
    """Send and wait for the acknowledgement; returns the message's id.

    The body is Base64, which the vendor's Java and Python SDKs take apart by themselves. Raises UndeliverableError,
    QueueServiceUnavailable, and SmqError for what may be over by the next attempt.
    """
    return _send(_service(notification), notification)


def send_event(notification: Notification) -> str:
    """Send what happened to a file to a queue of the account; as `send`, but the account itself is the author."""
    return _send(own_service(notification.tenant, QueueClient), notification)


def _send(service: QueueClient, notification: Notification) -> str:
    with closing(service) as client:
        try:
            return client.send(notification.queue, base64.b64encode(notification.body.encode())).id
        except SmqError as error:
            # Gantry's own key may do everything: here only an account whose queues are full is denied.
            is_full = error.code is Code.ACCESS_DENIED and bool(client.account)
            if error.code in PASSING or is_full:
                raise
            raise UndeliverableError(
                _("The queue service refused the message for %(queue)r: %(code)s. %(message)s")
                % {"queue": notification.queue, "code": error.code.text, "message": error.message}
            ) from error


def _service(notification: Notification) -> QueueClient:
    """The service at which the queue is, if it may be written to there. Raises UndeliverableError."""
    for option, value in (("mq-topic", notification.queue), ("mq-endpoint", notification.endpoint)):
        if not value:
            raise UndeliverableError(_("%(option)s is missing in the hint.") % {"option": option})
    outside = _outside(notification.tenant, notification.endpoint)
    author = author_of.get()(notification)
    if author is None:
        raise UndeliverableError(_("Nobody may send for this task: its author was disabled or deleted."))
    decision = author.decide(SEND, resource_of(notification.tenant, notification.queue), owner=notification.tenant)
    if not decision.allowed:
        raise UndeliverableError(
            _("%(author)s may not send to queue %(queue)s: %(reason)s.")
            % {"author": author.name, "queue": notification.queue, "reason": decision.reason}
        )
    if outside:
        return QueueClient(outside, settings.SMQ_ACCESS_KEY_ID, settings.SMQ_ACCESS_KEY_SECRET)
    return own_service(notification.tenant, QueueClient)


def _outside(tenant: Tenant, endpoint: str) -> str:
    """The address of a listed queue service elsewhere; empty for the account's own. Raises UndeliverableError."""
    address = _ADDRESS.fullmatch(endpoint.strip())
    if address is None:
        raise UndeliverableError(
            _("mq-endpoint %(endpoint)r is not an address of the form http://<account id>.mns.<region>.host:port.")
            % {"endpoint": endpoint}
        )
    if listed := {_plain(one): one for one in settings.SMQ_ENDPOINTS}.get(_plain(endpoint)):
        return listed
    host: str | None = address["host"]
    if named := _NAMED.fullmatch(address["host"]):
        if named["account"] != tenant.uid:
            raise UndeliverableError(
                _("mq-endpoint %(endpoint)r names another account than %(uid)s.")
                % {"endpoint": endpoint, "uid": tenant.uid}
            )
        if named["region"].lower() != settings.REGION.lower():
            raise UndeliverableError(
                _("mq-endpoint %(endpoint)r is not in the query service's region %(region)s.")
                % {"endpoint": endpoint, "region": settings.REGION}
            )
        host = named["rest"]
    if not _is_here(host, address["port"], by_name=named is not None):
        raise UndeliverableError(
            _(
                "mq-endpoint %(endpoint)r is neither this installation's queue service, %(tenant)s, nor "
                "one that the platform's administrator allows."
            )
            % {"endpoint": endpoint, "tenant": address_of(tenant)}
        )
    return ""


def is_own(tenant: Tenant, endpoint: str) -> bool:
    """Whether an endpoint is that of the account's own queues here."""
    try:
        return not _outside(tenant, endpoint)
    except UndeliverableError:
        return False


def _is_here(host: str | None, port: str | None, *, by_name: bool) -> bool:
    """True when host and port, as far as given, are the embedded service's."""
    hosts = {settings.ENDPOINT_HOST.lower(), settings.HOST, "127.0.0.1", "localhost"}
    if by_name:
        hosts.add(_VENDOR)
    return (host is None or host.lower() in hosts) and port in (None, str(settings.SMQ_PORT))


def _plain(address: str) -> str:
    """An address such that two of the same are equal texts."""
    text = address.strip().rstrip("/").lower()
    return text if "://" in text else f"http://{text}"
