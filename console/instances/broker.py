"""The broker clients of this process: one admin client and one producer a cluster, made when first needed."""

from __future__ import annotations

import ssl
import threading
from functools import cache

from django.conf import settings

from brokercore.client import Admin, Credentials, MessageView, Producer, TransactionState
from console.instances.models import Cluster

CONSOLE_GROUP = "GANTRY_CONSOLE"
"""The producer group of the console itself."""

_lock = threading.Lock()
_admins: dict[str, Admin] = {}
_producers: dict[str, Producer] = {}


def system_credentials() -> Credentials:
    """The key with which console, Celery and Spark speak to the broker (GANTRY_BROKER_ACCESS_KEY_…)."""
    return Credentials(settings.BROKER_ACCESS_KEY_ID, settings.BROKER_ACCESS_KEY_SECRET)


@cache
def client_tls() -> ssl.SSLContext | None:
    """How the console's own clients check brokers that want TLS (GANTRY_BROKER_CA); None for plain connections."""
    return ssl.create_default_context(cafile=settings.BROKER_CA) if settings.BROKER_CA else None


def admin(cluster: Cluster) -> Admin:
    """The admin client of a cluster; thread-safe, reconnects by itself."""
    with _lock:
        if cluster.namesrv not in _admins:
            _admins[cluster.namesrv] = Admin(cluster.namesrv, system_credentials(), tls=client_tls())
        return _admins[cluster.namesrv]


def producer(cluster: Cluster) -> Producer:
    """The console's own producer, for test messages and resends; thread-safe."""
    with _lock:
        if cluster.namesrv not in _producers:
            _producers[cluster.namesrv] = Producer(
                cluster.namesrv, system_credentials(), CONSOLE_GROUP, transaction_check=_commit, tls=client_tls()
            )
        return _producers[cluster.namesrv]


def _commit(message: MessageView) -> TransactionState:
    """A test message was meant to be delivered, so a commit that got lost is said again."""
    return TransactionState.COMMIT
