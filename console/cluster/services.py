"""Carrying rights over to a cluster: what ended goes first, then each list that changed, each broker by itself."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from cryptography.fernet import InvalidToken
from django.db.models import Q
from django.utils import timezone
from django.utils.translation import gettext as _

from brokercore.client import Admin
from brokercore.client.admin import Capability
from brokercore.client.admin.acl import AclEntry, AclUser, user_subject
from brokercore.client.errors import ClientError, NoPermission, RequestNotSupported, SystemFault
from brokercore.policy import PolicyError
from console.celery import app
from console.cluster.models import ClusterUser, State, Synchronisation
from console.cluster.plain import PlainBroker
from console.cluster.translation import Wanted, digest_of, ordered, wanted
from console.instances import broker
from console.instances.models import AccessControl, Cluster, Origin

log = logging.getLogger(__name__)

_SYNCHRONISE, _REPAIR = "console.cluster.tasks.synchronise", "console.cluster.tasks.repair"
_NORMAL, _ENABLED = "Normal", "enable"
_MOST_DELETIONS = 100
"""Entries that are deleted one by one. Of more, the list is made anew, which for a moment refuses too much."""

_OPEN = (State.PENDING, State.ENDING)
_MOST_TEXT = 512


class AsksNobodyError(ClientError):
    """A broker that keeps neither users nor accounts, or has no access control that is on."""

    def __init__(self, address: str) -> None:
        super().__init__(
            _("These brokers ask nobody who they are, so nothing is copied to them: everyone may do everything there.")
        )
        self.address = address


@dataclass(frozen=True)
class Broker:
    """A broker as it was when it was read: users by name, entries by subject and resource."""

    name: str
    address: str
    users: dict[str, AclUser]
    entries: dict[str, dict[str, AclEntry]]

    @classmethod
    def read(cls, admin: Admin, name: str, address: str) -> Broker:
        """Ask a broker for all. Raises ClientError."""
        entries = {
            subject: {entry.resource: ordered(entry) for entry in acl.entries}
            for subject, acl in admin.acl.lists(address).items()
        }
        return cls(name, address, admin.acl.users(address), entries)

    def checks(self, admin: Admin) -> bool:
        """False for a master that keeps users and lists and asks nobody for them. Raises ClientError."""
        if "/" in self.name:
            return True
        config = admin.brokers.config(self.name)
        return all(config.get(name) == "true" for name in ("authenticationEnabled", "authorizationEnabled"))

    def is_foreign(self, name: str, password: str) -> bool:
        """True for a user that cannot be ours: a super user, or one with another secret than the key's."""
        user = self.users.get(name)
        return user is not None and (user.user_type != _NORMAL or user.password != password)

    def has(self, name: str, password: str, digest: str) -> bool:
        """True when there is nothing to do for a user with this list."""
        there = self.entries.get(user_subject(name), {})
        return (
            self.users.get(name) == AclUser(name, password, _NORMAL, _ENABLED) and digest_of(there.values()) == digest
        )

    def apply_user(self, admin: Admin, name: str, password: str, entries: Iterable[AclEntry]) -> None:
        """Make user and list what they should be. Raises ClientError."""
        user, wanted = self.users.get(name), AclUser(name, password, _NORMAL, _ENABLED)
        if user is None:
            admin.acl.create_user(self.address, wanted)
        elif user != wanted:
            admin.acl.update_user(self.address, wanted)
        self._set_entries(admin, name, entries)

    def delete_user(self, admin: Admin, name: str) -> bool:
        """Delete a user of ours with its list; returns whether it was there. Raises ClientError."""
        user = self.users.get(name)
        if user is None or user.user_type != _NORMAL:
            return False
        admin.acl.delete_user(self.address, name)
        return True

    def _set_entries(self, admin: Admin, name: str, entries: Iterable[AclEntry]) -> None:
        """What must go goes first."""
        subject = user_subject(name)
        there = self.entries.get(subject, {}) if name in self.users else {}
        wanted = {entry.resource: ordered(entry) for entry in entries}
        stale = there.keys() - wanted.keys()
        if there and (not wanted or len(stale) > _MOST_DELETIONS):
            admin.acl.delete_lists(self.address, subject)
            there = {}
        elif stale:
            admin.acl.delete_entries(self.address, subject, sorted(stale))
        changed = [entry for resource, entry in wanted.items() if there.get(resource) != entry]
        if changed:
            admin.acl.set_entries(self.address, subject, changed)


def clusters() -> list[Cluster]:
    """Those to whose brokers rights are carried over, each of which keeps users and lists of its own.

    The embedded ones read our table. Others are told what their row says that they should be: on one that somebody
    added, nothing is made that was not asked for.
    """
    found = Cluster.objects.filter(read_only=False).order_by("pk")
    of_settings = Q(origin=Origin.SETTINGS, access_control=AccessControl.AUTOMATIC)
    told = Q(access_control__in=(AccessControl.ACL2, AccessControl.ACL1))
    return list(found.filter(of_settings | told).exclude(origin=Origin.EMBEDDED))


def carries_over_to(cluster: Cluster) -> bool:
    """Whether rights are carried over to the brokers of this cluster."""
    return any(one.pk == cluster.pk for one in clusters())


def carry_over() -> None:
    """Ask a worker to carry over what changed, where there is a cluster that wants it."""
    if clusters():
        kick()


def kick(*, thorough: bool = False) -> None:
    """Ask a worker to carry over what changed, or to compare everything; a lost request is mended by the beat."""
    app.send_task(_REPAIR if thorough else _SYNCHRONISE, retry=False)


def synchronise(cluster: Cluster, *, thorough: bool = False) -> bool:
    """Carry over what changed; `thorough` compares every user with every broker. Returns whether nothing is left to do.

    One caller at a time: the tasks take care of that.
    """
    look, _unused = Synchronisation.objects.get_or_create(cluster=cluster)
    targets = wanted(cluster)
    rows = _rows(cluster, targets)
    todo = [row for row in rows if thorough or row.state in _OPEN]
    if not todo and not thorough and not look.error:
        return True
    look.tried_at = timezone.now()
    try:
        admin = broker.admin(cluster)
        addresses = admin.brokers.addresses()
        plain = _is_plain(admin, cluster)
        brokers, unread = _read(admin, addresses, PlainBroker if plain else Broker)
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
            _delete(admin, row, brokers, errors)
            continue
        try:
            _apply(admin, row, replace(target, plain=plain), brokers, errors)
        except (InvalidToken, PolicyError) as error:
            # One row that nobody can read keeps no other key waiting.
            log.error("AccessKey %s is not copied: its row cannot be read: %r", row.access_key_id, error)
            _note(row, ["Its secret or its policies cannot be read."])
    if thorough and not unread:
        look.compared_at, look.brokers = look.tried_at, addresses
    look.save()
    return not any(row.state in _OPEN for row in todo)


def brokers_changed(cluster: Cluster) -> bool:
    """True when the name server knows other brokers than those that were last compared. Raises ClientError."""
    look = Synchronisation.objects.filter(cluster=cluster).first()
    return look is None or look.compared_at is None or look.brokers != broker.admin(cluster).brokers.addresses()


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


def _is_plain(admin: Admin, cluster: Cluster) -> bool:
    """Whether the brokers' access control is ACL 1.0. Raises ClientError."""
    if cluster.access_control != AccessControl.AUTOMATIC:
        return cluster.access_control == AccessControl.ACL1
    found: list[bool] = []
    failure: ClientError | None = None
    for address in admin.brokers.cluster().brokers.values():
        try:
            found.append(Capability.ACL_1 in admin.capabilities.at(address))
        except ClientError as error:  # the others are carried over to meanwhile
            failure = error
    if failure is not None and not found:
        raise failure
    return bool(found) and all(found)


def _read(
    admin: Admin, addresses: Mapping[str, str], kind: type[Broker | PlainBroker]
) -> tuple[list[Broker | PlainBroker], dict[str, ClientError]]:
    """Every broker that answers, and why others do not."""
    brokers: list[Broker | PlainBroker] = []
    unread = dict[str, ClientError]()
    for name, address in addresses.items():
        try:
            brokers.append(kind.read(admin, name, address))
        except (SystemFault, RequestNotSupported) as error:
            # How a broker says that it keeps no users differs from version to version.
            open_to_all = not admin.capabilities.at(address) & {Capability.ACL_1, Capability.ACL_2}
            unread[name] = AsksNobodyError(address) if open_to_all else error
        except ClientError as error:
            unread[name] = error
    return brokers, unread


def _apply(
    admin: Admin,
    row: ClusterUser,
    target: Wanted,
    brokers: Iterable[Broker | PlainBroker],
    errors: list[str],
) -> None:
    """User and list of one key on every broker. What fails on one is done on the others, told, and tried again."""
    name, secret = row.access_key_id, target.secret
    if not row.made and (foreign := [one.name for one in brokers if one.is_foreign(name, secret)]):
        row.state = State.REFUSED
        row.error = f"{', '.join(foreign)}: has a user {name} that Gantry did not create; it stays as it is."
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
            one.apply_user(admin, name, secret, translation.entries)
        except ClientError as error:
            errors.append(f"{one.name}: {_reason(error)}")
    row.account, row.source, row.digest = target.account, target.source, digest_of(translation.entries)
    row.entries, row.narrower = len(translation.entries), list(translation.narrower)
    row.state = State.PENDING if errors else State.SYNCED
    _note(row, errors)


def _delete(admin: Admin, row: ClusterUser, brokers: Iterable[Broker | PlainBroker], errors: list[str]) -> None:
    """Delete the user of a key that ended from every broker; one that was away comes back with it."""
    ended = row.state == State.ENDED
    for one in brokers if row.made else ():
        try:
            if one.delete_user(admin, row.access_key_id) and ended:
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
    if isinstance(error, NoPermission):
        return f"{error.user_message} The account that the cluster is reached with must be a super user."[:_MOST_TEXT]
    return error.user_message[:_MOST_TEXT]
