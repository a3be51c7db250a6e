"""Sends a notification with a temporary key of the tenant's role; producers and keys are kept per process.

A cluster of one's own knows no temporary keys. There the console's key sends, after the same checks of the role.
"""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.utils import timezone

from brokercore.client import Credentials, Message, Producer
from brokercore.client.errors import NoPermission
from console.accounts import services as accounts
from console.accounts.credentials import find_key
from console.accounts.models import Role
from console.instances import broker
from console.instances.models import Cluster
from console.outbox.models import Notification
from console.outbox.routing import SERVICE, Destination

#: Name under which the query service assumes the role.
SESSION_NAME = "async-sql"
#: Keys are drawn anew this long before they end, so that no send fails over an old one.
_RENEW_BEFORE = timedelta(minutes=5)
#: Brokers read the table of keys twice a second: for this long a fresh key may still be unknown to them.
_KEY_SPREADS_S = 2.0
_RETRY_S = 0.1
#: Connections are dear to open, so producers stay; the least used ones are closed.
_PRODUCERS = 64


@dataclass(frozen=True, slots=True)
class _Key:
    credentials: Credentials | None
    expires_at: datetime
    drawn: float


_lock = threading.Lock()
_keys: dict[int, _Key] = {}
_producers: OrderedDict[tuple[broker.Reach, str, str, str], Producer] = OrderedDict()


def send(destination: Destination, notification: Notification) -> str:
    """Send and wait for the broker's acknowledgement; returns the message id. Raises ClientError."""
    cluster = destination.cluster
    key = _key_of(destination.role) if cluster.embedded else _own_key(cluster)
    producer = _producer(destination, key.credentials)
    message = Message(
        topic=destination.topic,
        body=notification.body.encode(),
        tags=notification.tag,
        keys=notification.key,
    )
    while True:
        try:
            return producer.send(message).message_id
        except NoPermission:
            if time.monotonic() - key.drawn > _KEY_SPREADS_S:
                _forget(destination.role)
                raise
            time.sleep(_RETRY_S)


def _key_of(role: Role) -> _Key:
    with _lock:
        key = _keys.get(role.pk)
        if key is None or key.expires_at - _RENEW_BEFORE < timezone.now() or not _is_usable(key):
            drawn = accounts.assume_role_as_service(role, SERVICE, SESSION_NAME)
            credentials = Credentials(drawn.access_key_id, drawn.access_key_secret, drawn.security_token)
            expires_at = drawn.expires_at or timezone.now() + accounts.ROLE_SESSION
            key = _keys[role.pk] = _Key(credentials, expires_at, time.monotonic())
        return key


def _forget(role: Role) -> None:
    """Draw another key for the next attempt: one drawn while Redis took no writes is never known to any broker."""
    with _lock:
        _keys.pop(role.pk, None)


def _own_key(cluster: Cluster) -> _Key:
    """Known to the brokers for long, so that a refusal is final."""
    return _Key(broker.credentials_of(cluster), timezone.now(), drawn=-_KEY_SPREADS_S)


def _is_usable(key: _Key) -> bool:
    """False when the session was ended on the role's page: then another one begins, if the role still lets it."""
    return key.credentials is not None and find_key(key.credentials.access_key_id) is not None


def _producer(destination: Destination, credentials: Credentials | None) -> Producer:
    cluster = destination.cluster
    key_id = credentials.access_key_id if credentials is not None else ""
    name = (broker.reach_of(cluster), destination.namespace, destination.group, key_id)
    with _lock:
        producer = _producers.get(name)
        if producer is None:
            producer = _producers[name] = Producer(
                cluster.namesrv,
                credentials,
                destination.group,
                namespace=destination.namespace,
                tls=broker.tls_of(cluster),
                permit=broker.permit_of(cluster),
            )
            while len(_producers) > _PRODUCERS:
                _producers.popitem(last=False)[1].close()
        _producers.move_to_end(name)
        return producer
