"""The broker clients of this process: one admin client and one producer a cluster, made when first needed.

Each cluster is reached with its own account and its own TLS. What is changed on its page is used from the next request
on; clients of before are closed once others are used more.
"""

from __future__ import annotations

import logging
import ssl
import tempfile
import threading
from collections import OrderedDict
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import Generic, NamedTuple, Protocol, TypeVar

from cryptography.fernet import InvalidToken
from django.conf import settings
from django.db import Error, close_old_connections
from django.utils.translation import gettext as _

from brokercore.client import Admin, Credentials, MessageView, Producer, TransactionState
from brokercore.client.errors import ClientError
from brokercore.client.reading import is_reading
from brokercore.client.session import Call, Permit, parse_name_servers
from console.accounts.crypto import decrypt
from console.instances.models import Cluster, Origin
from console.web.errors import Refused

log = logging.getLogger(__name__)

CONSOLE_GROUP = "GANTRY_CONSOLE"
"""The producer group of the console itself."""

READ_ONLY = "BIZ_CLUSTER_READ_ONLY"
_MOST_CLIENTS = 64


class UnusableError(ClientError):
    """What the row of a cluster says of account or certificates cannot be used."""


class Reach(NamedTuple):
    """How a cluster is reached: whatever differs in this is another client. `number` tells clusters apart."""

    number: int | None
    name: str
    namesrv: str
    access_key_id: str
    secret_encrypted: str
    tls: bool
    authority: str
    certificate: str
    key_encrypted: str
    read_only: bool


class _Closable(Protocol):
    def close(self) -> None: ...


_Client = TypeVar("_Client", bound=_Closable)


class _Clients(Generic[_Client]):
    """Clients by cluster; the least used ones are closed."""

    def __init__(self, make: Callable[[Cluster], _Client]) -> None:
        self._make = make
        self._lock = threading.Lock()
        self._made: OrderedDict[Reach, _Client] = OrderedDict()

    def of(self, cluster: Cluster) -> _Client:
        reach = reach_of(cluster)
        with self._lock:
            found = self._made.get(reach)
            if found is None:
                found = self._made[reach] = self._make(cluster)
                while len(self._made) > _MOST_CLIENTS:
                    self._made.popitem(last=False)[1].close()
            self._made.move_to_end(reach)
            return found


def reach_of(cluster: Cluster) -> Reach:
    """What a client of the cluster is made from."""
    tls, authority, key, secret = cluster.tls, cluster.authority, cluster.access_key_id, cluster.secret_encrypted
    if cluster.from_settings:
        tls, authority = bool(settings.BROKER_CA), settings.BROKER_CA
        key, secret = settings.BROKER_ACCESS_KEY_ID, settings.BROKER_ACCESS_KEY_SECRET
    return Reach(
        cluster.pk,
        cluster.name,
        cluster.namesrv,
        key,
        secret,
        tls,
        authority,
        cluster.certificate,
        cluster.key_encrypted,
        cluster.read_only,
    )


def system_credentials() -> Credentials:
    """The account of the brokers that the settings name (GANTRY_BROKER_ACCESS_KEY_…)."""
    return Credentials(settings.BROKER_ACCESS_KEY_ID, settings.BROKER_ACCESS_KEY_SECRET)


def credentials_of(cluster: Cluster) -> Credentials | None:
    """The account with which console, workers and Spark speak to a cluster, if it has one. Raises UnusableError."""
    if cluster.from_settings:
        return system_credentials()
    if not cluster.access_key_id:
        return None
    return Credentials(cluster.access_key_id, _read(cluster, cluster.secret_encrypted))


def trust_of(cluster: Cluster) -> str:
    """How Spark checks the brokers (`analytics.sources.trust`): by the PEM of who signs their certificates, or by what
    this "system" trusts; empty for plain connections."""
    if cluster.from_settings:
        return Path(settings.BROKER_CA).read_text() if settings.BROKER_CA else ""
    return (cluster.authority or "system") if cluster.tls else ""


def tls_of(cluster: Cluster) -> ssl.SSLContext | None:
    """How the console's own clients check brokers that want TLS; None for plain connections. Raises UnusableError."""
    try:
        if cluster.from_settings:
            return settings_tls()
        if not cluster.tls:
            return None
        if not cluster.certificate:
            return _context(cluster.authority)
        return context(cluster.authority, cluster.certificate, _read(cluster, cluster.key_encrypted))
    except (OSError, ValueError) as error:
        raise UnusableError(
            _("The certificates of the cluster %(cluster)s cannot be used: %(error)s.")
            % {"cluster": cluster.name, "error": error}
        ) from error


def _read(cluster: Cluster, token: str) -> str:
    try:
        return decrypt(token)
    except InvalidToken as error:
        message = _(
            "The secret of the cluster %(cluster)s was stored with another GANTRY_MASTER_KEY; write it again."
        ) % {"cluster": cluster.name}
        raise UnusableError(message) from error


def settings_tls() -> ssl.SSLContext | None:
    """How the brokers of the settings are checked (GANTRY_BROKER_CA); None for plain connections. Raises OSError."""
    return _context(Path(settings.BROKER_CA).read_text()) if settings.BROKER_CA else None


@lru_cache(maxsize=_MOST_CLIENTS)
def _context(authority: str) -> ssl.SSLContext:
    return context(authority)


def context(authority: str, certificate: str = "", key: str = "") -> ssl.SSLContext:
    """A context that checks servers against `authority` and shows them `certificate`, if any; all are PEM.

    Raises OSError, of which ssl.SSLError is one.
    """
    made = ssl.create_default_context(cadata=authority or None)
    if certificate:
        # OpenSSL reads a chain and its key from files alone.
        with tempfile.TemporaryDirectory() as folder:
            chain = Path(folder, "client.pem")
            chain.touch(mode=0o600)
            chain.write_text(f"{certificate}\n{key}\n")
            made.load_cert_chain(chain)
    return made


def permit_of(cluster: Cluster) -> Permit:
    """What refuses every request that changes something on a read-only cluster.

    All that the console sends to brokers goes through a session with this: there is no other way to them.
    """
    if not cluster.read_only:
        return _all_permitted
    name = cluster.name

    def permit(call: Call) -> None:
        if not is_reading(call):
            raise read_only(name)

    return permit


def _all_permitted(call: Call) -> None:
    """The cluster may be changed."""


def read_only(name: str) -> Refused:
    """The refusal of what would change a read-only cluster."""
    return Refused(
        READ_ONLY, _("The cluster %(name)s is read-only: the console changes nothing there.") % {"name": name}
    )


def require_writable(cluster: Cluster) -> None:
    """Raise Refused for a read-only cluster: for what changes brokers later, or in another process."""
    if cluster.read_only:
        raise read_only(cluster.name)


def new_admin(cluster: Cluster, *, timeout_ms: int = 3000) -> Admin:
    """An admin client of its own, which the caller closes. Raises UnusableError."""
    return Admin(
        cluster.namesrv,
        credentials_of(cluster),
        timeout_ms=timeout_ms,
        tls=tls_of(cluster),
        permit=permit_of(cluster),
    )


def admin(cluster: Cluster) -> Admin:
    """The admin client of a cluster; thread-safe, reconnects by itself."""
    return _admins.of(cluster)


def producer(cluster: Cluster) -> Producer:
    """The console's own producer, for test messages and resends; thread-safe."""
    return _producers.of(cluster)


def added_addresses() -> set[str]:
    """Where name servers and brokers of the clusters that were added are, for the SQL engine. Raises nothing."""
    found: set[str] = set()
    try:
        for cluster in Cluster.objects.filter(origin=Origin.ADDED):
            found |= addresses_of(cluster)
    except Error as error:
        log.warning("the database does not tell which clusters there are, so the SQL engine reaches none: %s", error)
    finally:
        close_old_connections()
    return found


def addresses_of(cluster: Cluster) -> set[str]:
    """`host:port` of a cluster's name servers, and of the brokers that these know now, if they answer."""
    addresses = set(parse_name_servers(cluster.namesrv))
    try:
        with new_admin(cluster) as client:
            addresses.update(client.brokers.addresses().values())
    except ClientError as error:
        log.warning("%s does not tell its brokers, so the SQL engine does not reach them: %s", cluster.name, error)
    return addresses


def _new_producer(cluster: Cluster) -> Producer:
    return Producer(
        cluster.namesrv,
        credentials_of(cluster),
        CONSOLE_GROUP,
        transaction_check=_commit,
        tls=tls_of(cluster),
        permit=permit_of(cluster),
    )


def _commit(message: MessageView) -> TransactionState:
    """A test message was meant to be delivered, so a commit that got lost is said again."""
    return TransactionState.COMMIT


_admins = _Clients(new_admin)
_producers = _Clients(_new_producer)
