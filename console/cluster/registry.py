"""Writes of the rows of clusters: added, changed and removed by the platform's administrator. No broker is touched.

Without an actor it is the command line (`manage.py cluster`).
"""

from __future__ import annotations

import re
import ssl
from dataclasses import dataclass, fields, replace
from typing import Any

from django.conf import settings
from django.db import IntegrityError, transaction
from django.db.models import ProtectedError
from django.utils.translation import gettext as _

from brokercore.client.session import parse_name_servers
from brokercore.names import DEFAULT_CLUSTER
from console.accounts.actor import Actor
from console.accounts.crypto import decrypt, encrypt
from console.audit import record as audit
from console.instances import broker
from console.instances import services as instances
from console.instances.models import AccessControl, Cluster, Instance, Origin
from console.metrics.store import Store
from console.web import regions
from console.web.after_commit import after_commit
from console.web.errors import Refused

_FIELD = "BIZ_FIELD_CHECK_INVALID"
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9._-]{0,63}")
_ADDRESS = re.compile(r"(?P<host>[A-Za-z0-9._-]{1,253}|\[[0-9A-Fa-f:.]{2,45}\]):(?P<port>\d{1,5})")
_NAMED = 10


@dataclass(frozen=True)
class Wanted:
    """What the page of a cluster may say. An empty secret or key keeps the one that is stored."""

    namesrv: str = ""
    access_key_id: str = ""
    access_key_secret: str = ""
    tls: bool = False
    authority: str = ""
    certificate: str = ""
    key: str = ""
    proxy: str = ""
    access_control: str = AccessControl.NONE
    read_only: bool = False
    region: str = ""
    """Of the cluster and its instances; empty: that of before, or the default."""


#: What the settings say of the clusters that they name, and no page changes.
OF_SETTINGS = frozenset(
    {"namesrv", "access_key_id", "access_key_secret", "tls", "authority", "certificate", "key", "region"}
)


def draft(wanted: Wanted, cluster: Cluster | None = None) -> Cluster:
    """The row as it would be, not saved: to be tried. Raises Refused for what makes no sense."""
    wanted = _checked(wanted, cluster)
    found = Cluster(region=regions.default()) if cluster is None else Cluster.objects.get(pk=cluster.pk)
    if wanted.region and wanted.region != found.region:
        found.region = _other_region(found, wanted.region)
    if not found.from_settings:
        found.namesrv, found.tls = wanted.namesrv, wanted.tls
        found.authority, found.certificate = wanted.authority, wanted.certificate
        found.access_key_id = wanted.access_key_id
        found.secret_encrypted = _kept(wanted.access_key_secret, found.secret_encrypted, when=wanted.access_key_id)
        found.key_encrypted = _kept(wanted.key, found.key_encrypted, when=wanted.certificate)
        _check_tls(found)
    found.proxy, found.read_only = wanted.proxy, wanted.read_only
    if not found.embedded:
        found.access_control = wanted.access_control
    return found


@transaction.atomic
def add(*, actor: Actor | None, name: str, wanted: Wanted) -> Cluster:
    """Add a cluster beside the others. Raises Refused."""
    cluster = draft(wanted)
    cluster.name = _checked_name(name)
    try:
        with transaction.atomic():
            cluster.save()
    except IntegrityError as error:
        raise Refused(
            "BIZ_CLUSTER_EXISTED", _("There is already a cluster %(cluster)s.") % {"cluster": cluster.name}, "name"
        ) from error
    _record(actor, "create", cluster.name, _described(cluster))
    return cluster


@transaction.atomic
def change(*, actor: Actor | None, cluster: Cluster, wanted: Wanted) -> Cluster:
    """Change how a cluster is reached and what may be done there; its name stays. Raises Refused.

    Instances go with their cluster to another region, which changes nothing on its brokers.
    """
    Cluster.objects.select_for_update().get(pk=cluster.pk)
    changed = draft(wanted, cluster)
    changed.save()
    instances.follow_cluster(changed)
    _record(actor, "update", changed.name, _described(changed))
    return changed


@transaction.atomic
def remove(*, actor: Actor | None, cluster: Cluster) -> None:
    """Forget a cluster on which nobody has an instance; its brokers stay as they are. Raises Refused."""
    in_use = Origin.EMBEDDED if settings.EMBEDDED_BROKER else Origin.SETTINGS
    if cluster.origin == in_use:
        text = (
            _("The cluster %(cluster)s cannot be removed: it is the embedded one.")
            if cluster.embedded
            else _("The cluster %(cluster)s cannot be removed: GANTRY_NAMESRV names it.")
        )
        raise Refused("BIZ_CLUSTER_IN_USE", text % {"cluster": cluster.name})
    held = Instance.objects.filter(cluster=cluster).select_related("tenant").order_by("tenant__name", "name")
    if number := held.count():
        names = ", ".join(
            _("%(name)s of %(account)s") % {"name": one.name, "account": one.tenant.name} for one in held[:_NAMED]
        )
        text = (
            _("The cluster %(cluster)s has instances: %(names)s and %(number)s more.")
            if number > _NAMED
            else _("The cluster %(cluster)s has instances: %(names)s.")
        )
        raise Refused("BIZ_CLUSTER_IN_USE", text % {"cluster": cluster.name, "names": names, "number": number - _NAMED})
    name = cluster.name
    try:
        cluster.delete()
    except ProtectedError as error:  # an instance that came in this moment
        raise Refused("BIZ_CLUSTER_IN_USE", _("The cluster %(name)s has instances.") % {"name": name}) from error
    _record(actor, "delete", name, {})
    after_commit(Store(name).forget)


def wanted_of(cluster: Cluster) -> Wanted:
    """What a cluster's form begins with; no secret is shown again."""
    values: dict[str, Any] = {one.name: getattr(cluster, one.name, "") for one in fields(Wanted)}
    return Wanted(**values)


def _checked(wanted: Wanted, cluster: Cluster | None) -> Wanted:
    proxy = wanted.proxy.strip()
    if proxy:
        _check_address(proxy, "proxy", _("The proxy is host:port, such as 10.0.0.5:9876; %(text)s is not."))
    if wanted.access_control not in AccessControl.values:
        raise Refused(
            _FIELD,
            _("Access control is one of %(values)s.") % {"values": ", ".join(AccessControl.values)},
            "access_control",
        )
    if cluster is not None and cluster.from_settings:
        return replace(wanted, proxy=proxy)
    servers = parse_name_servers(wanted.namesrv)
    if not servers:
        raise Refused(_FIELD, _("Write the name servers as host:port, several separated by ;."), "namesrv")
    for server in servers:
        _check_address(server, "namesrv", _("A name server is host:port, such as 10.0.0.5:9876; %(text)s is not."))
    for other in Cluster.objects.all():
        if cluster is not None and other.pk == cluster.pk:
            continue
        if shared := set(servers) & set(parse_name_servers(other.namesrv)):
            raise Refused(
                _FIELD,
                _("%(shared)s is a name server of the cluster %(other)s already.")
                % {"shared": min(shared), "other": other.name},
                "namesrv",
            )
    key_id, before = wanted.access_key_id.strip(), cluster.access_key_id if cluster else ""
    if key_id and not wanted.access_key_secret and key_id != before:
        raise Refused(_FIELD, _("Write the secret of this AccessKey as well."), "access_key_secret")
    if wanted.access_key_secret and not key_id:
        raise Refused(_FIELD, _("Write the AccessKey that this secret belongs to."), "access_key_id")
    return replace(wanted, namesrv=";".join(servers), access_key_id=key_id, proxy=proxy)


def _other_region(cluster: Cluster, region: str) -> str:
    if cluster.from_settings:
        message = _("The cluster %(cluster)s is of the settings, and so of the first region, %(region)s.") % {
            "cluster": cluster.name,
            "region": cluster.region,
        }
        raise Refused(_FIELD, message, "region")
    return regions.checked(region)


def _check_address(text: str, field: str, refusal: str) -> None:
    found = _ADDRESS.fullmatch(text)
    if found is None or not 1 <= int(found["port"]) <= 65535:
        raise Refused(_FIELD, refusal % {"text": text[:80]}, field)


def _checked_name(name: str) -> str:
    name = name.strip()
    if not _NAME.fullmatch(name):
        raise Refused(_FIELD, _("A name begins with a letter and has up to 64 letters, digits, dots, - and _."), "name")
    if name == DEFAULT_CLUSTER:
        raise Refused(
            _FIELD,
            _("%(default_cluster)s is the name of the first cluster.") % {"default_cluster": DEFAULT_CLUSTER},
            "name",
        )
    return name


def _check_tls(cluster: Cluster) -> None:
    """The certificates belong together; without TLS there are none."""
    given = {"authority": cluster.authority, "certificate": cluster.certificate, "key": cluster.key_encrypted}
    if not cluster.tls and any(given.values()):
        field = next(name for name, value in given.items() if value)
        raise Refused(_FIELD, _("Certificates are of use with TLS only."), field)
    if cluster.certificate and not cluster.key_encrypted:
        raise Refused(_FIELD, _("Write the private key of this certificate as well."), "key")
    if cluster.key_encrypted and not cluster.certificate:
        raise Refused(_FIELD, _("Write the certificate that this private key belongs to."), "certificate")
    try:
        broker.context(cluster.authority)
    except (OSError, ValueError) as error:
        raise Refused(_FIELD, _("This is no certificate in PEM."), "authority") from error
    if cluster.certificate:
        try:
            broker.context(cluster.authority, cluster.certificate, decrypt(cluster.key_encrypted))
        except (ssl.SSLError, OSError, ValueError) as error:
            raise Refused(
                _FIELD,
                _("Certificate and private key do not belong together, or are no PEM without a password."),
                "key",
            ) from error


def _kept(given: str, before: str, *, when: str) -> str:
    """The secret as it is stored: the one that is given, or the one of before while there is what it belongs to."""
    return encrypt(given) if given else before if when else ""


def _record(actor: Actor | None, verb: str, name: str, detail: dict[str, object]) -> None:
    """Without an actor it was the command line."""
    action = f"platform.cluster.{verb}"
    if actor is None:
        audit.record_command(action, name, detail=detail)
    else:
        audit.record(actor, action, name, detail=detail)


def _described(cluster: Cluster) -> dict[str, object]:
    """What the audit trail says of a cluster; no secret is in it."""
    return {
        "namesrv": cluster.namesrv,
        "access_key_id": cluster.access_key_id,
        "tls": cluster.tls,
        "proxy": cluster.proxy,
        "access_control": cluster.access_control,
        "read_only": cluster.read_only,
        **({"region": cluster.region} if regions.are_several() else {}),
    }
