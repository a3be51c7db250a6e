"""Writes of change tracking tasks and their consumer groups on behalf of a user, each written down."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TypedDict, Unpack

from django.contrib.auth.hashers import check_password, make_password
from django.db import IntegrityError, transaction
from django.db.models import F, QuerySet
from django.utils import timezone
from django.utils.translation import gettext as _

from analytics import lake
from analytics.inflow import source as sources
from analytics.inflow.changes import CaptureFailed
from console.accounts.actor import Actor
from console.accounts.crypto import encrypt
from console.audit import record as audit
from console.rights import limits
from console.tracking import access, addresses
from console.tracking.models import ConsumerGroup, Kind, State, Tls, TrackingTask
from console.web.errors import Refused

_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")
_GROUP_NAME = re.compile(r"[A-Za-z0-9_.-]{1,64}")
_LONGEST_PASSWORD, _LONGEST_CA, _MOST_PATTERNS = 256, 64 * 1024, 100
MOST_DAYS = 365
#: A task that is not captured has none.
_NO_FIGURES: dict[str, None] = dict.fromkeys(("rate", "lag_bytes", "lag_ms", "normal_at"))
#: What says where a password is sent: with a change of it the password is typed again.
_TO_WHOM = ("host", "port", "user", "tls", "ca")


class Values(TypedDict, total=False):
    """What a user says of a task; in a change what is left out stays."""

    host: str
    port: int
    database: str
    user: str
    password: str
    tables: Sequence[str]
    tls: Tls
    ca: str
    snapshot: bool
    retention_days: int


def create(*, actor: Actor, name: str, kind: Kind, **values: Unpack[Values]) -> TrackingTask:
    """A task that begins at once. Raises Refused for what cannot be one, and where the account has too many."""
    _require_name(name)
    if not lake.is_folder():
        raise Refused("LAKE_REMOTE", _("Change tracking keeps its logs in a folder; the lake is in object storage."))
    task = TrackingTask(tenant=actor.tenant, name=name, kind=kind, creator=actor.name[:150])
    _fill(task, values)
    if not values.get("password"):
        raise Refused("PASSWORD_MISSING", _("The account's password is missing."), "password")
    addresses_are_allowed(task)
    try:
        with transaction.atomic():
            limits.check_tracking_tasks(actor.tenant)
            task.save()
            _record(actor, "create", task, _told(task))
    except IntegrityError as error:
        raise Refused(
            "NAME_TAKEN", _("There is a change tracking task %(name)s already.") % {"name": name}, "name"
        ) from error
    return task


@transaction.atomic
def change(*, actor: Actor, task: TrackingTask, name: str = "", **values: Unpack[Values]) -> None:
    """Change a task; an open capture begins anew where it was. Its database stays the one it is.

    Raises Refused for what cannot be, and without the password where another one would get to know it.
    """
    locked = _locked(task)
    before = {field: getattr(locked, field) for field in _TO_WHOM}
    if values.get("database", locked.database) != locked.database:
        raise Refused("DATABASE_FIXED", _("The database of a task cannot be changed; create another task."), "database")
    if name and name != locked.name:
        _require_name(name)
        locked.name = name
    _fill(locked, values)
    if not values.get("password") and before != {field: getattr(locked, field) for field in _TO_WHOM}:
        raise Refused("PASSWORD_MISSING", _("Type the password again: it would be sent to another server."), "password")
    addresses_are_allowed(locked)
    locked.revision += 1
    if locked.state == State.FAILED:
        locked.state = State.STARTING
    fields = [
        *("name", "host", "port", "user", "password_encrypted", "tables", "tls", "ca", "snapshot", "retention_days"),
        *("revision", "state"),
    ]
    try:
        with transaction.atomic():
            locked.save(update_fields=fields)
    except IntegrityError as error:
        raise Refused(
            "NAME_TAKEN", _("There is a change tracking task %(name)s already.") % {"name": name}, "name"
        ) from error
    _record(actor, "update", locked, _told(locked))


def test(
    *, actor: Actor, kind: Kind, task: TrackingTask | None = None, **values: Unpack[Values]
) -> list[CaptureFailed]:
    """Connect, and look for all that keeps a capture from working; nothing is wrong when it is empty.

    Without a password that of `task` is taken, for the server that it is for. Raises Refused for what cannot be.
    """
    tried = TrackingTask(tenant=actor.tenant, name="test", kind=kind)
    if task is not None:
        tried.task_id = task.task_id
    _fill(tried, values)
    if not values.get("password"):
        if task is None or any(getattr(tried, field) != getattr(task, field) for field in (*_TO_WHOM, "kind")):
            raise Refused("PASSWORD_MISSING", _("The account's password is missing."), "password")
        tried.password_encrypted = task.password_encrypted
    try:
        source = addresses.source_of(tried)
        found = sources.check(source, tried.patterns, (task.position or None) if task else None)
    except CaptureFailed as failure:
        found = [failure]
    detail = {"host": tried.host, "port": tried.port, "found": [one.code for one in found]}
    audit.record(actor, "tracking.task.test", task.task_id if task else "*", detail=detail)
    return found


@transaction.atomic
def pause(*, actor: Actor, task: TrackingTask) -> None:
    """Stop capturing. What PostgreSQL keeps for the task it goes on keeping. Raises Refused when it is paused."""
    if not _running(task).update(state=State.PAUSED, worker="", heartbeat_at=None, **_NO_FIGURES):
        raise Refused("TASK_STATE", _("%(task)s is paused already.") % {"task": task.name})
    _record(actor, "pause", task)


@transaction.atomic
def resume(*, actor: Actor, task: TrackingTask, anew: bool = False) -> None:
    """Capture again from where it was, or try again at once. Nothing happens to what is normal.

    `anew` forgets where it was, for a log of the database that is lost: it begins with the rows that are there if the
    task says so, else with what changes from now on; events that are kept stay.
    """
    locked = _locked(task)
    if locked.state == State.NORMAL and not anew:
        raise Refused("TASK_STATE", _("%(task)s is not paused.") % {"task": task.name})
    locked.state, locked.revision = State.STARTING, locked.revision + 1
    fields = ["state", "revision"]
    if anew:
        locked.position, locked.begins_anew = "", True
        fields += ["position", "begins_anew"]
    locked.save(update_fields=fields)
    _record(actor, "resume", locked, {"anew": anew})


@transaction.atomic
def delete(*, actor: Actor, task: TrackingTask) -> None:
    """Delete a task with its log and its groups, and what it has made in the database, where that can be reached.

    Raises Refused while something reads by one of its groups.
    """
    locked = _locked(task)
    held = locked.groups.exclude(holder="").first()
    if held is not None:
        raise Refused(
            "GROUP_HELD",
            _("%(holder_name)s reads by the consumer group %(held)s; delete it first.")
            % {"holder_name": held.read_by, "held": held.name},
        )
    locked.groups.all().delete()
    TrackingTask.objects.filter(pk=locked.pk).update(
        state=State.DELETING, deleted_at=timezone.now(), revision=F("revision") + 1
    )
    _record(actor, "delete", locked)


def create_group(*, actor: Actor, task: TrackingTask, name: str, account: str, password: str) -> ConsumerGroup:
    """A consumer group with its account. Raises Refused for what cannot be one, and a name that is taken."""
    if not _GROUP_NAME.fullmatch(name):
        raise Refused("NAME_INVALID", _("A name has 1 to 64 letters, digits, points, hyphens and underscores."), "name")
    if not _GROUP_NAME.fullmatch(account):
        raise Refused(
            "ACCOUNT_INVALID", _("An account has 1 to 64 letters, digits, points, hyphens and underscores."), "account"
        )
    if not 8 <= len(password) <= _LONGEST_PASSWORD:
        raise Refused(
            "PASSWORD_INVALID",
            _("A password has 8 to %(longest_password)s characters.") % {"longest_password": _LONGEST_PASSWORD},
            "password",
        )
    hashed = make_password(password)
    try:
        with transaction.atomic():
            group = ConsumerGroup.objects.create(task=task, name=name, account=account, password_hash=hashed)
            _record(actor, "create_group", task, {"group": name, "account": account})
    except IntegrityError as error:
        raise Refused(
            "NAME_TAKEN",
            _("%(task)s has a consumer group %(name)s already.") % {"task": task.name, "name": name},
            "name",
        ) from error
    return group


@transaction.atomic
def delete_group(*, actor: Actor, task: TrackingTask, group: ConsumerGroup) -> None:
    """Delete a consumer group. Raises Refused while something reads by it."""
    if not ConsumerGroup.objects.filter(pk=group.pk, holder="").delete()[0]:
        group.refresh_from_db()
        raise Refused(
            "GROUP_HELD",
            _("%(holder_name)s reads by the consumer group %(group)s.")
            % {"holder_name": group.read_by, "group": group.name},
        )
    _record(actor, "delete_group", task, {"group": group.name})


def require_password(*, group: ConsumerGroup, account: str, password: str) -> None:
    """Raise Refused unless they are the group's; it does not tell which of them is wrong."""
    # Both are looked at, so that the time tells nothing either.
    if not (check_password(password, group.password_hash) & (account == group.account)):
        raise Refused(
            "GROUP_PASSWORD",
            _("Account or password of the consumer group %(group)s is wrong.") % {"group": group.name},
            "password",
        )


def hold_group(*, group: ConsumerGroup, holder: str, name: str) -> None:
    """Let one client have the group: `holder` is its key, `name` what it is called. Raises Refused for a second one.

    Who has it already has it.
    """
    free = ConsumerGroup.objects.filter(pk=group.pk, holder__in=("", holder))
    if not free.update(holder=holder, holder_name=name[:128]):
        group.refresh_from_db()
        raise Refused(
            "GROUP_HELD",
            _("%(holder_name)s reads by the consumer group %(group)s; a group has one client only.")
            % {"holder_name": group.read_by or _("Another client"), "group": group.name},
            "group",
        )


def release_group(*, group: ConsumerGroup, holder: str) -> None:
    """Let another client have the group; nothing happens where `holder` has it not."""
    same = ConsumerGroup.objects.filter(pk=group.pk, holder=holder)
    same.update(holder="", holder_name="", read_up_to=None, lost_at=None)


def note_reached(*, holder: str, sequence: int) -> None:
    """The holder of a group is done with the event of this number and all before; nothing happens to who holds none."""
    ConsumerGroup.objects.filter(holder=holder).update(read_up_to=sequence, lost_at=None)


def addresses_are_allowed(task: TrackingTask) -> None:
    """Raise Refused for a host where no capture may go; one that is not known now may be later."""
    try:
        addresses.judged(task.host)
    except CaptureFailed:
        return


def _fill(task: TrackingTask, values: Values) -> None:
    """Put what was said into the task. Raises Refused."""
    task.host = values.get("host", task.host).strip()
    task.port = values.get("port", task.port)
    task.user = values.get("user", task.user)
    task.database = values.get("database", task.database)
    task.tls = values.get("tls", Tls(task.tls))
    task.ca = values.get("ca", task.ca).strip()
    task.snapshot = values.get("snapshot", task.snapshot)
    task.retention_days = values.get("retention_days", task.retention_days)
    if "tables" in values:
        task.tables = "\n".join(values["tables"])
    if password := values.get("password"):
        if len(password) > _LONGEST_PASSWORD or "\0" in password:
            raise Refused(
                "PASSWORD_INVALID",
                _("A password has 1 to %(longest_password)s characters.") % {"longest_password": _LONGEST_PASSWORD},
                "password",
            )
        task.password_encrypted = encrypt(password)
    _require(task)


def _require(task: TrackingTask) -> None:
    addresses.require_host(task.host)
    if task.port is None or not 1 <= task.port <= 65_535:
        raise Refused("PORT_INVALID", _("A port is a number from 1 to 65,535."), "port")
    if not task.user or len(task.user) > 80 or "\0" in task.user:
        raise Refused("USER_INVALID", _("An account of the database has 1 to 80 characters."), "user")
    is_postgres = task.kind == Kind.POSTGRESQL
    if is_postgres != bool(task.database) or len(task.database) > 63 or "\0" in task.database:
        text = (
            _("A database of %(kind)s has 1 to 63 characters.")
            if is_postgres
            else _("A database of %(kind)s is named in the patterns of tables.")
        )
        raise Refused("DATABASE_INVALID", text % {"kind": Kind(task.kind).label}, "database")
    if not 1 <= task.retention_days <= MOST_DAYS:
        raise Refused(
            "DAYS_INVALID",
            _("Events are kept for 1 to %(most_days)s days.") % {"most_days": MOST_DAYS},
            "retention_days",
        )
    if len(task.ca) > _LONGEST_CA or (task.ca and "-----BEGIN CERTIFICATE-----" not in task.ca):
        raise Refused("CA_INVALID", _("Authorities are certificates in PEM, of 64 KiB at most."), "ca")
    if len(task.patterns) > _MOST_PATTERNS:
        raise Refused(
            "TABLES_INVALID",
            _("A task has %(most_patterns)s patterns of tables at most.") % {"most_patterns": _MOST_PATTERNS},
            "tables",
        )
    try:
        sources.require_patterns("postgresql" if is_postgres else "mysql", task.patterns)
    except ValueError as error:
        raise Refused("TABLES_INVALID", str(error), "tables") from error


def _require_name(name: str) -> None:
    if not _NAME.fullmatch(name):
        raise Refused("NAME_INVALID", _("A name has 1 to 64 letters, digits, hyphens and underscores."), "name")


def _running(task: TrackingTask) -> QuerySet[TrackingTask]:
    return TrackingTask.objects.filter(pk=task.pk).exclude(state__in=(State.PAUSED, State.DELETING))


def _locked(task: TrackingTask) -> TrackingTask:
    """The task as it is now, which nobody changes until the transaction ends. Raises Refused when it is gone."""
    found = TrackingTask.objects.select_for_update(of=("self",)).select_related("tenant").filter(pk=task.pk)
    locked = found.exclude(state=State.DELETING).first()
    if locked is None:
        raise access.no_task(task.task_id)
    return locked


def _told(task: TrackingTask) -> dict[str, object]:
    names = ("name", "kind", "host", "port", "database", "user", "tls", "snapshot", "retention_days")
    return {name: getattr(task, name) for name in names} | {"tables": task.patterns}


def _record(actor: Actor, verb: str, task: TrackingTask, detail: dict[str, object] | None = None) -> None:
    audit.record(actor, f"tracking.task.{verb}", task.task_id, detail={"name": task.name} | (detail or {}))
