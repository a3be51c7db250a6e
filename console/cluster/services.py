"""Carrying rights over to a cluster: what ended goes first, then each list that changed, each broker by itself."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping

from cryptography.fernet import InvalidToken
from django.conf import settings
from django.utils import timezone

from brokercore.client import Admin
from brokercore.client.errors import ClientError, NoPermission, RequestNotSupported
from brokercore.policy import PolicyError
from console.celery import app
from console.cluster.brokers import Broker, digest_of
from console.cluster.models import ClusterUser, State, Synchronisation
from console.cluster.wanted import Wanted, wanted
from console.instances import broker
from console.instances.models import Cluster

log = logging.getLogger(__name__)
_OPEN = (State.PENDING, State.ENDING)
_MOST_TEXT = 512


def clusters() -> list[Cluster]:
    """Those whose brokers have access control of their own; the embedded one reads our table."""
    return [] if settings.EMBEDDED_BROKER else list(Cluster.objects.filter(region=settings.REGION).order_by("pk"))


def kick(*, thorough: bool = False) -> None:
    """Ask a worker to carry over what changed, or to compare everything; a lost request is mended by the beat."""
    app.send_task(f"console.cluster.tasks.{'repair' if thorough else 'synchronise'}", retry=False)


def synchronise(cluster: Cluster, *, thorough: bool = False) -> bool:
    """Carry over what changed; `thorough` compares every user with every broker. Returns whether nothing is left to do.

    One caller at a time: the tasks take care of that.
    """
    look, _ = Synchronisation.objects.get_or_create(cluster=cluster)
    targets = wanted(cluster)
    rows = _rows(cluster, targets)
    todo = [row for row in rows if thorough or row.state in _OPEN]
    if not todo and not thorough and not look.error:
        return True
    look.tried_at = timezone.now()
    try:
        admin = broker.admin(cluster)
        addresses = admin.brokers()
        brokers, unread = _read(admin, addresses)
        if not brokers and unread:
            raise next(iter(unread.values()))
        if thorough:
            look.unchecked = [one.name for one in brokers if not one.checks(admin)]
    except ClientError as error:
        look.error = _reason(error)
        look.save()
        return False
    look.error = ""
    for row in sorted(todo, key=lambda row: row.access_key_id in targets):
        target = targets.get(row.access_key_id)
        errors = [f"{name}: {_reason(error)}" for name, error in unread.items()]
        if target is None:
            _take(admin, row, brokers, errors)
            continue
        try:
            _give(admin, row, target, brokers, errors)
        except (InvalidToken, PolicyError) as error:
            # One row that nobody can read keeps no other key waiting.
            log.error("AccessKey %s is not carried over: its row cannot be read: %r", row.access_key_id, error)
            _note(row, ["Its secret or its policies cannot be read."])
    if thorough and not unread:
        look.compared_at, look.brokers = look.tried_at, addresses
    look.save()
    return not any(row.state in _OPEN for row in todo)


def brokers_changed(cluster: Cluster) -> bool:
    """True when the name server knows other brokers than those that were last compared. Raises ClientError."""
    look = Synchronisation.objects.filter(cluster=cluster).first()
    return look is None or look.compared_at is None or look.brokers != broker.admin(cluster).brokers()


def unfinished(cluster: Cluster) -> bool:
    """True when something was not carried over yet."""
    return (
        ClusterUser.objects.filter(cluster=cluster, state__in=_OPEN).exists()
        or Synchronisation.objects.filter(cluster=cluster).exclude(error="").exists()
    )


def _rows(cluster: Cluster, targets: Mapping[str, Wanted]) -> list[ClusterUser]:
    """The register, brought up to date before any broker is touched: what is not in it is nobody's to delete."""
    known = {row.access_key_id: row for row in ClusterUser.objects.filter(cluster=cluster)}
    new = [ClusterUser(cluster=cluster, access_key_id=key) for key in targets.keys() - known.keys()]
    ClusterUser.objects.bulk_create(new, ignore_conflicts=True)
    if new:
        known = {row.access_key_id: row for row in ClusterUser.objects.filter(cluster=cluster)}
    for key, row in known.items():
        target = targets.get(key)
        if target is None and row.state not in (State.ENDING, State.ENDED):
            row.state, row.source = State.ENDING, ""
        elif target is not None and row.source != target.source and row.state != State.PENDING:
            row.state = State.PENDING
        else:
            continue
        row.save(update_fields=["state", "source"])
    return list(known.values())


def _read(admin: Admin, addresses: Mapping[str, str]) -> tuple[list[Broker], dict[str, ClientError]]:
    """Every broker that answers, and why others do not."""
    brokers, unread = [], dict[str, ClientError]()
    for name, address in addresses.items():
        try:
            brokers.append(Broker.read(admin, name, address))
        except ClientError as error:
            unread[name] = error
    return brokers, unread


def _give(admin: Admin, row: ClusterUser, target: Wanted, brokers: Iterable[Broker], errors: list[str]) -> None:
    """User and list of one key on every broker. What fails on one is done on the others, told, and tried again."""
    name, secret = row.access_key_id, target.secret
    if not row.made and (foreign := [one.name for one in brokers if one.is_foreign(name, secret)]):
        row.state = State.REFUSED
        row.error = f"{', '.join(foreign)}: has a user {name} that Gantry did not make; it is left as it is."
        row.save()
        return
    missing = list(brokers)
    if row.state == State.SYNCED and row.source == target.source:
        missing = [one for one in brokers if not one.has(name, secret, row.digest)]
        if not missing and not errors:
            return
        log.warning(
            "AccessKey %s differs on %s", name, ", ".join(one.name for one in missing) or "no broker that answers"
        )
    # Before the first request: a crash must not make a stranger of what we made.
    row.made = True
    row.save(update_fields=["made"])
    translation = target.translation()
    for one in missing:
        try:
            one.give(admin, name, secret, translation.entries)
        except ClientError as error:
            errors.append(f"{one.name}: {_reason(error)}")
    row.account, row.source, row.digest = target.account, target.source, digest_of(translation.entries)
    row.entries, row.narrower = len(translation.entries), list(translation.narrower)
    row.state = State.PENDING if errors else State.SYNCED
    _note(row, errors)


def _take(admin: Admin, row: ClusterUser, brokers: Iterable[Broker], errors: list[str]) -> None:
    """Delete the user of a key that ended from every broker; one that was away comes back with it."""
    ended = row.state == State.ENDED
    for one in brokers if row.made else ():
        try:
            if one.take(admin, row.access_key_id) and ended:
                log.warning("AccessKey %s had ended and was still on %s", row.access_key_id, one.name)
        except ClientError as error:
            errors.append(f"{one.name}: {_reason(error)}")
    if ended and not errors:
        return
    row.state = State.ENDING if errors and row.made and not ended else State.ENDED
    _note(row, errors)


def _note(row: ClusterUser, errors: list[str]) -> None:
    row.error = " ".join(errors)[:_MOST_TEXT]
    if not errors:
        row.synced_at = timezone.now()
    row.save()


def _reason(error: ClientError) -> str:
    if isinstance(error, RequestNotSupported):
        return "These brokers have no ACL 2.0, so nothing is carried over to them."
    if isinstance(error, NoPermission):
        return f"{error.user_message} GANTRY_BROKER_ACCESS_KEY_ID must be a super user of the cluster."[:_MOST_TEXT]
    return error.user_message[:_MOST_TEXT]
