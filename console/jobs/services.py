"""Jobs on behalf of a user: what is wrong with a text, saving one without its secrets, and deploying it."""

from __future__ import annotations

from collections.abc import Collection
from contextlib import suppress
from dataclasses import replace
from secrets import token_hex

from django.db import transaction
from django.utils.translation import gettext as _

from analytics.pipelines.plan import SECRET
from console.accounts.actor import Actor
from console.catalog import queries as catalog
from console.jobs import access, queues
from console.jobs.compiler.planning import Checked, check
from console.jobs.compiler.rows import Catalog, CatalogTable
from console.jobs.compiler.scopes import listed as names_of
from console.jobs.compiler.values import Listed
from console.jobs.compiler.words import Text, TextRefused, tokens_of
from console.pipelines import access as secrets
from console.pipelines import event_logs, groups, queries, room, starts
from console.pipelines import services as pipelines
from console.pipelines.models import Kind, Pipeline, Savepoint, StartFrom, Variable, Version
from console.web.errors import Refused


def look(*, actor: Actor, text: str) -> Checked:
    """What a text would do, with the variables, tables and queues that the actor has, and the secrets that it may use.

    Nothing is saved. What is refused tells no name of a secret or a variable that the actor may not list.
    """
    variables = dict(Variable.objects.filter(tenant=actor.tenant).values_list("name", "value"))
    checked = check(
        text,
        variables=variables,
        secrets=secrets.usable_secrets(actor, {*SECRET.findall(text)}),
        listed=_listed(actor, variables),
        catalog=_catalog(actor),
        holder=actor.tenant.uid,
    )
    return _with_groups(actor, queues.looked_at(actor, checked))


@transaction.atomic
def create(*, actor: Actor, name: str, text: str = "") -> Pipeline:
    """A new job with its draft. Raises Refused for the name, and TextRefused as `save_draft` does."""
    job = pipelines.create(actor=actor, name=name)
    if text:
        save_draft(actor=actor, pipeline=job, text=text)
    return job


@transaction.atomic
def save_draft(*, actor: Actor, pipeline: Pipeline, text: str) -> Checked:
    """Keep a draft, right or wrong; secrets that stand in it become secrets of the account, and names in the draft.

    Raises TextRefused for one with a text or a comment that is not closed: secrets cannot be told behind it. Raises
    PermissionDenied where a secret stands in it and the actor may save none; then the draft is not kept either.
    """
    tokens_of(Text(text))
    checked = look(actor=actor, text=text)
    _keep_secrets(actor, checked)
    pipelines.save_draft(actor=actor, pipeline=pipeline, draft=checked.text)
    return checked


@transaction.atomic
def deploy(*, actor: Actor, pipeline: Pipeline, text: str) -> Version:
    """A new version of the text, for which the actor may use every secret that is there already and that it names.

    Raises TextRefused with the first thing that is wrong with it, and PermissionDenied as `save_draft` does.
    """
    if pipeline.kind != Kind.JOB:
        raise Refused(
            "NO_JOB", _("%(pipeline)s is not a SQL job; change its form instead.") % {"pipeline": pipeline.name}
        )
    checked = look(actor=actor, text=text)
    if checked.plan is None:
        with suppress(Refused):  # which has no line; what counts is that the attempt is recorded
            secrets.require_secrets(actor, checked.refused_secrets)
        raise checked.refusals[0]
    _keep_secrets(actor, checked)
    return pipelines.deploy(actor=actor, pipeline=pipeline, text=checked.text, plan=checked.plan)


def delete(*, actor: Actor, pipeline: Pipeline) -> None:
    """Delete the job with its versions, savepoints, samples and log. Raises Refused while it runs."""
    pipelines.delete(actor=actor, pipeline=pipeline)


def start(
    *,
    actor: Actor,
    pipeline: Pipeline,
    start_from: StartFrom = StartFrom.CHECKPOINT,
    savepoint: Savepoint | None = None,
) -> None:
    """Ask for a start, if the actor may use all secrets, read and write all that the plan does, and its queues fit it.

    The groups by which it reads have to be no other pipeline's.

    Raises Refused, where the lake is full too, and PermissionDenied.
    """
    room.require_for_start(actor.tenant)
    plan = starts.plan_of(pipeline, pipeline.version)
    starts.secrets_of(actor, plan)
    starts.given(actor, plan)
    queues.require(actor, plan)
    with transaction.atomic():
        groups.require_free(actor, plan, event_logs.holder_of(pipeline))
        pipelines.start(
            actor=actor, pipeline=pipeline, start_from=start_from, savepoint=savepoint, judged=pipeline.version
        )


def stop(*, actor: Actor, pipeline: Pipeline, with_savepoint: bool = False) -> None:
    """Ask for a stop. Raises Refused when it does not run, and for a savepoint without room in the lake."""
    if with_savepoint:
        room.require_for_savepoint(pipeline)
    pipelines.stop(actor=actor, pipeline=pipeline, with_savepoint=with_savepoint)


def _with_groups(actor: Actor, checked: Checked) -> Checked:
    """With a refusal for each table whose group an inflow task reads by: it never is free while the task is there.

    Those of other jobs are asked at the start.
    """
    if checked.plan is None:
        return checked
    refusals = tuple(
        TextRefused(
            *checked.places[found.source.name.lower()],
            _("table %(name)s: %(sentence)s.") % {"name": found.source.name, "sentence": found.sentence},
        )
        for found in groups.taken(actor, checked.plan, None, Kind.INFLOW)
    )
    return replace(checked, plan=None, refusals=refusals) if refusals else checked


def _keep_secrets(actor: Actor, checked: Checked) -> None:
    for secret in checked.found_secrets:
        access.require_right(actor, access.PUT_SECRET, secret.name, "job-secret")
        pipelines.set_secret(actor=actor, name=secret.name, value=secret.value)


def _listed(actor: Actor, variables: Collection[str]) -> Listed:
    """The names that the actor may list; new secrets of who may not list them have names that nobody guesses."""
    listed = Listed(variables=variables if access.may_list(actor, "job-variable") else ())
    if access.may_list(actor, "job-secret"):
        return replace(listed, secrets={*queries.secrets(actor.tenant).values_list("name", flat=True)})
    return replace(listed, mark=f"_{token_hex(4)}")


def _catalog(actor: Actor) -> Catalog:
    """The tables that the actor may query; without a schema the one table of the name, where there are not two."""
    readable = catalog.readable_schemas(actor)
    known = {
        (schema.lower(), table.name.lower()): CatalogTable(
            schema, table.name, names_of(column["name"] for column in table.columns) if table.columns else None
        )
        for schema in readable
        for table in readable[schema]
    }

    def find(schema: str, table: str) -> CatalogTable | None:
        if schema:
            return known.get((schema.lower(), table.lower()))
        found = [place for (_unused, name), place in known.items() if name == table.lower()]
        return found[0] if len(found) == 1 else None

    return find
