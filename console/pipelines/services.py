"""Writes of pipelines on behalf of a user: drafts, versions, start and stop, secrets and variables."""

from __future__ import annotations

import re
from collections.abc import Iterable

from django.db import IntegrityError, transaction
from django.db.models import Max
from django.utils import timezone
from django.utils.translation import gettext as _

from analytics.pipelines.plan import Plan
from console.accounts.actor import Actor, requester
from console.accounts.crypto import decrypt, encrypt
from console.accounts.models import Tenant
from console.audit import record as audit
from console.celery import app
from console.pipelines import access, queries, removal, suspects
from console.pipelines.fitting import misfit
from console.pipelines.models import BUSY, Event, Kind, Pipeline, Savepoint, Secret, StartFrom, State, Variable, Version
from console.rights import limits
from console.web.after_commit import after_commit
from console.web.errors import Refused

#: Characters of a name, by what it is the name of.
LONGEST_NAME = {Kind.JOB: 64, Kind.INFLOW: 127}
_NAME = re.compile(r"[A-Za-z0-9_-]+")
_SECRET_NAME = re.compile(r"[A-Za-z0-9_.-]{1,128}")
_VARIABLE_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_-]{0,63}")
_LONGEST_VALUE = 16 * 1024
#: Tasks, by name: they stand above.
_LOOK = "console.pipelines.tasks.look"
_REMOVE_SAVEPOINT = "console.pipelines.tasks.remove_savepoint"
#: What keeps state over the rows of a stream, which another text does not fit.


def create(*, actor: Actor, name: str, draft: str = "", kind: Kind = Kind.JOB) -> Pipeline:
    """A new draft. Raises Refused for a name that is taken or cannot be one, and where the account has too many."""
    if not _NAME.fullmatch(name) or len(name) > LONGEST_NAME[kind]:
        raise Refused(
            "NAME_INVALID",
            _("A name has 1 to %(longest_name)s letters, digits, hyphens and underscores.")
            % {"longest_name": LONGEST_NAME[kind]},
            "name",
        )
    try:
        with transaction.atomic():
            limits.check_jobs(actor.tenant)
            pipeline = Pipeline.objects.create(
                tenant=actor.tenant, name=name, draft=draft, kind=kind, **requester(actor)
            )
            _record(actor, "create", pipeline)
    except IntegrityError as error:
        raise Refused("NAME_TAKEN", _("There is a pipeline %(name)s already.") % {"name": name}, "name") from error
    return pipeline


@transaction.atomic
def save_draft(*, actor: Actor, pipeline: Pipeline, draft: str) -> None:
    """Keep what is being written; what runs stays as it is. The text has no secrets (`console.jobs`)."""
    Pipeline.objects.filter(pk=pipeline.pk).update(draft=draft)
    _record(actor, "save", pipeline)


@transaction.atomic
def deploy(*, actor: Actor, pipeline: Pipeline, text: str, plan: Plan) -> Version:
    """A new version of the text; the next start runs it. One that is the deployed one's equal is that one."""
    locked = _locked(pipeline)
    stored = plan.to_json()
    if locked.version is not None and (locked.version.text, locked.version.plan) == (text, stored):
        return locked.version
    last = Version.objects.filter(pipeline=locked).aggregate(last=Max("number"))["last"] or 0
    version = Version.objects.create(pipeline=locked, number=last + 1, text=text, plan=stored, author=actor.name[:150])
    state = State.STOPPED if locked.state == State.DRAFT else locked.state
    Pipeline.objects.filter(pk=locked.pk).update(version=version, draft=text, state=state)
    Event.objects.create(pipeline=locked, kind="deployed", fence=locked.fence, version=version.number)
    _record(actor, "deploy", pipeline, {"version": version.number})
    return version


@transaction.atomic
def start(
    *,
    actor: Actor,
    pipeline: Pipeline,
    start_from: StartFrom = StartFrom.CHECKPOINT,
    savepoint: Savepoint | None = None,
    judged: Version | None = None,
) -> None:
    """Ask for a start of the deployed version; from now on the pipeline runs with the rights of the actor.

    `judged` is the version that was looked at for that. Raises Refused when another one was deployed meanwhile,
    without a version, while it runs, without the savepoint, where the state does not fit the plan, and
    where as many of the account run as may.
    """
    locked = _locked(pipeline)
    if locked.version is None:
        raise Refused(
            "NOT_DEPLOYED", _("%(locked)s has no version yet; deploy its draft first.") % {"locked": locked.name}
        )
    if judged is not None and judged.pk != locked.version.pk:
        raise Refused(
            "DEPLOYED_MEANWHILE",
            _("Version %(number)s of %(locked)s was deployed in the meantime. Review it, then start again.")
            % {"number": locked.version.number, "locked": locked.name},
        )
    if locked.state in BUSY:
        raise Refused(
            "PIPELINE_BUSY",
            _("%(locked)s is %(state)s; stop it first.")
            % {"locked": locked.name, "state": State(locked.state).label.lower()},
        )
    if (start_from == StartFrom.SAVEPOINT) != (savepoint is not None):
        raise Refused("SAVEPOINT_MISSING", _("Name a savepoint when you start from one, and only then."), "savepoint")
    if savepoint is not None and not locked.savepoints.filter(pk=savepoint.pk).exists():
        raise Refused(
            "SAVEPOINT_OF_ANOTHER", _("The savepoint is not one of %(locked)s.") % {"locked": locked.name}, "savepoint"
        )
    if start_from != StartFrom.NOTHING and (reason := _misfit(locked, savepoint)):
        raise Refused("STATE_DOES_NOT_FIT", reason, "start_from")
    limits.check_running_jobs(actor.tenant)
    now, deaths = timezone.now(), suspects.deaths_at_start(locked)
    is_suspect = deaths >= suspects.SUSPECT_AFTER  # it waits for an empty worker, from now on
    Pipeline.objects.filter(pk=locked.pk).update(
        state=State.STARTING, started_version=locked.version, start_from=start_from, savepoint=savepoint,
        stop_with_savepoint=False, worker="", heartbeat_at=None, due_at=now if is_suspect else None, failures=0,
        losses=0, deaths=deaths, restarts=0, started_at=now, running_at=None, ended_at=None, reason="", line=None,
        halted=False, start_again=False, **requester(actor),
    )  # fmt: skip
    detail: dict[str, object] = {"version": locked.version.number, "from": str(start_from)}
    Event.objects.create(
        pipeline=locked, kind=State.STARTING, fence=locked.fence, version=locked.version.number,
        sentence=suspects.APART if is_suspect else "",
    )  # fmt: skip
    _record(actor, "start", pipeline, detail)
    after_commit(hand_over)


@transaction.atomic
def restart(*, actor: Actor, pipeline: Pipeline, start_from: StartFrom = StartFrom.CHECKPOINT) -> None:
    """Let the deployed version run in the place of what runs, with the rights of the actor; else as `start` does.

    What runs stops first, and writes what it has begun. Raises Refused as `start` does.
    """
    locked = _locked(pipeline)
    if locked.state not in BUSY:
        start(actor=actor, pipeline=pipeline, start_from=start_from)
        return
    if start_from != StartFrom.NOTHING and (reason := _misfit(locked, None)):
        raise Refused("STATE_DOES_NOT_FIT", reason, "start_from")
    changes: dict[str, object] = {"start_from": start_from, "savepoint": None, **requester(actor)}
    found = Pipeline.objects.filter(pk=locked.pk)
    if not locked.worker:
        found.update(state=State.STARTING, started_version=locked.version, start_again=False, **changes)
    else:
        found.update(state=State.STOPPING, stop_with_savepoint=False, start_again=True, **changes)
        Event.objects.create(pipeline=locked, kind=State.STOPPING, sentence="It goes on with the new version.")
    number = locked.version.number if locked.version else None
    _record(actor, "start", pipeline, {"version": number, "from": str(start_from)})
    after_commit(hand_over)


@transaction.atomic
def stop(*, actor: Actor, pipeline: Pipeline, with_savepoint: bool = False) -> None:
    """Ask for a stop; one that no worker holds has stopped at once. Raises Refused when it does not run, or is gone."""
    # Locked, so that no worker gives it back between the look and the change: then nobody would carry out the stop.
    locked = _locked(pipeline)
    same = Pipeline.objects.filter(pk=locked.pk)
    changes = {"stop_with_savepoint": with_savepoint, "start_again": False}
    if locked.state in BUSY and not locked.worker:
        # Nobody holds it: there is nothing that could be saved, and nobody who would answer.
        same.update(state=State.STOPPED, ended_at=timezone.now(), due_at=None, **changes)
        Event.objects.create(pipeline=locked, kind=State.STOPPED)
    elif locked.state in (State.STARTING, State.RUNNING):
        same.update(state=State.STOPPING, **changes)
        Event.objects.create(pipeline=locked, kind=State.STOPPING)
    elif locked.state == State.STOPPING:
        same.update(start_again=False)
    else:
        raise Refused("PIPELINE_NOT_RUNNING", _("%(pipeline)s does not run.") % {"pipeline": pipeline.name})
    _record(actor, "stop", pipeline, {"with_savepoint": with_savepoint})
    after_commit(hand_over)


def hand_over() -> None:
    """Tell the workers to look at once; they look every second by themselves, so a lost message costs no more."""
    app.send_task(_LOOK, retry=False)


@transaction.atomic
def delete(*, actor: Actor, pipeline: Pipeline, stops: bool = False) -> None:
    """Delete the pipeline with its versions, its samples, its log and its state in the lake.

    One that runs is refused (Refused), or with `stops` stopped: it is there for nobody from now on, writes what it has
    begun, and is removed then.
    """
    locked = _locked(pipeline)
    if locked.state in BUSY and not stops:
        raise Refused("PIPELINE_BUSY", _("%(pipeline)s runs; stop it first.") % {"pipeline": pipeline.name})
    _record(actor, "delete", pipeline)
    if locked.state in BUSY and locked.worker:
        changes: dict[str, object] = {"stop_with_savepoint": False, "start_again": False}
        Pipeline.objects.filter(pk=locked.pk).update(state=State.STOPPING, deleted_at=timezone.now(), **changes)
        after_commit(hand_over)
    else:
        removal.remove(pipeline)


@transaction.atomic
def delete_savepoint(*, actor: Actor, pipeline: Pipeline, savepoint: Savepoint) -> None:
    """Delete one savepoint with its files. Raises Refused for one that is gone, and while a start from it is under way.

    What runs has a copy of its own, whichever savepoint it began from.
    """
    locked = _locked(pipeline)
    if locked.state in BUSY and locked.savepoint_id == savepoint.pk:
        raise Refused(
            "SAVEPOINT_IN_USE",
            _(
                "%(locked)s is about to start from the savepoint %(savepoint)s; delete it once the job "
                "runs, or has stopped."
            )
            % {"locked": locked.name, "savepoint": savepoint.name},
        )
    if not locked.savepoints.filter(pk=savepoint.pk).delete()[0]:
        raise Refused(
            "SAVEPOINT_NOT_FOUND",
            _("%(locked)s has no savepoint %(savepoint)s any more.")
            % {"locked": locked.name, "savepoint": savepoint.name},
            "savepoint",
        )
    Event.objects.create(pipeline=locked, kind="savepoint deleted", sentence=savepoint.folder, fence=locked.fence)
    _record(actor, "delete_savepoint", locked, {"savepoint": savepoint.name})
    after_commit(
        app.send_task,
        _REMOVE_SAVEPOINT,
        [queries.location_of(pipeline), savepoint.name, pipeline.tenant_id],
        retry=False,
    )


@transaction.atomic
def set_secret(*, actor: Actor, name: str, value: str) -> None:
    """Save a secret, or its new value. Raises Refused for what cannot be one."""
    if not _SECRET_NAME.fullmatch(name):
        raise Refused(
            "NAME_INVALID", _("A secret's name has 1 to 128 letters, digits, points, hyphens and underscores."), "name"
        )
    _require_value(value)
    Secret.objects.update_or_create(tenant=actor.tenant, name=name, defaults={"value_encrypted": encrypt(value)})
    audit.record(actor, "pipelines.secret.set", name)


@transaction.atomic
def delete_secret(*, actor: Actor, name: str) -> None:
    """Delete a secret. Raises Refused for one that there is not."""
    if not Secret.objects.filter(tenant=actor.tenant, name=name).delete()[0]:
        raise Refused("SECRET_NOT_FOUND", _("There is no secret %(name)s.") % {"name": name}, "name")
    audit.record(actor, "pipelines.secret.delete", name)


@transaction.atomic
def set_variable(*, actor: Actor, name: str, value: str) -> None:
    """Save a variable, or its new value; versions that are deployed keep the old one. Raises Refused."""
    if not _VARIABLE_NAME.fullmatch(name) or name == "secret_values":
        raise Refused(
            "NAME_INVALID",
            _("A variable's name has 1 to 64 letters, digits, hyphens and underscores, a letter first."),
            "name",
        )
    _require_value(value)
    Variable.objects.update_or_create(tenant=actor.tenant, name=name, defaults={"value": value})
    audit.record(actor, "pipelines.variable.set", name)


@transaction.atomic
def delete_variable(*, actor: Actor, name: str) -> None:
    """Delete a variable; versions that are deployed keep its value. Raises Refused for one that there is not."""
    if not Variable.objects.filter(tenant=actor.tenant, name=name).delete()[0]:
        raise Refused("VARIABLE_NOT_FOUND", _("There is no variable %(name)s.") % {"name": name}, "name")
    audit.record(actor, "pipelines.variable.delete", name)


def secret_values(tenant: Tenant, names: Iterable[str]) -> dict[str, str]:
    """The values for a start, whose rights were asked for. Raises Refused, which names the first that there is not."""
    wanted = list(names)
    found = {
        secret.name: decrypt(secret.value_encrypted) for secret in Secret.objects.filter(tenant=tenant, name__in=wanted)
    }
    for name in wanted:
        if name not in found:
            raise access.no_secret(name)
    return found


def _locked(pipeline: Pipeline) -> Pipeline:
    """The pipeline as it is now, which nobody changes until the transaction ends. Raises Refused when it is gone."""
    there = Pipeline.objects.filter(pk=pipeline.pk, deleted_at=None)
    found = there.select_for_update(of=("self",)).select_related("version").first()
    if found is None:
        raise Refused(
            "JOB_NOT_FOUND", _("There is no job %(pipeline)s any more.") % {"pipeline": pipeline.name}, "name"
        )
    return found


def _require_value(value: str) -> None:
    if not value or len(value) > _LONGEST_VALUE:
        raise Refused(
            "VALUE_INVALID",
            _("A value has 1 to %(longest_value)s characters.") % {"longest_value": _LONGEST_VALUE},
            "value",
        )


def _misfit(pipeline: Pipeline, savepoint: Savepoint | None) -> str:
    """Why the state of what ran before does not fit the deployed version; empty when it does, or when there is none."""
    ran = savepoint.version if savepoint is not None else _last_that_ran(pipeline)
    if ran is None or pipeline.version is None or ran.pk == pipeline.version.pk:
        return ""
    return misfit(Plan.from_json(ran.plan), Plan.from_json(pipeline.version.plan))


def _last_that_ran(pipeline: Pipeline) -> Version | None:
    number = pipeline.events.filter(kind=State.RUNNING).values_list("version", flat=True).first()
    return pipeline.versions.filter(number=number).first() if number else None


def _record(actor: Actor, verb: str, pipeline: Pipeline, detail: dict[str, object] | None = None) -> None:
    audit.record(actor, f"pipelines.{pipeline.kind}.{verb}", pipeline.name, detail=detail or {})
