"""The query of a task over a sample event: asked for by a page, made by the pipelines' worker, which has the engine.

The answer lies in the cache under a name of its own for as long as the page waits. Who asks is asked again in the
worker, with the rights of that moment.
"""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Mapping, Sequence
from typing import Any

from django.core.cache import cache
from django.utils.translation import gettext as _
from kombu.exceptions import OperationalError

from analytics.errors import AnalyticsError
from analytics.inflow.task_transforms import SqlTransform
from analytics.inflow.transform import Event, Transformed, TransformFailed
from console.accounts.actor import Actor, acting_later
from console.accounts.models import Role, Tenant, User
from console.celery import app
from console.pipelines import starts
from console.web.errors import Refused
from console.web.languages import gettext_lazy

TRY = "console.inflow.tasks.try_query"
#: How long a query may take, and a page waits: the engine may be busy before it begins. Seconds.
QUERY_S, WAIT_S = 8.0, 12.0
_LOOK_S = 0.05
_AWAY = gettext_lazy("The engine did not answer within {:g} s: it is starting or busy. Try again in a moment.")
_TAKEN = gettext_lazy("Another query of this account is being tried. Try again in a moment.")


def ask(actor: Actor, query: SqlTransform, events: Sequence[Event]) -> Transformed:
    """What the query makes of the events. Raises TransformFailed, where the engine is away or busy too.

    An account has one trial at a time: the engine is everybody's.
    """
    taken = f"inflow-trial-of-{actor.tenant.uid}"
    if not cache.add(taken, "", timeout=WAIT_S + QUERY_S):
        raise TransformFailed(_TAKEN)
    try:
        return _answered(actor, query, events)
    finally:
        cache.delete(taken)


def _answered(actor: Actor, query: SqlTransform, events: Sequence[Event]) -> Transformed:
    name = f"inflow-trial-{uuid.uuid4().hex}"
    told = {
        "name": name,
        "tenant": actor.tenant.pk,
        "user": actor.user.pk if actor.user is not None else None,
        "role": actor.role.pk if actor.role is not None else None,
        "source_ip": actor.source_ip,
        "secure": actor.secure,
        "sql": query.sql,
        "events": list(events),
    }
    try:
        app.send_task(TRY, kwargs={"told": told}, expires=WAIT_S, retry=False)
    except OperationalError as error:
        raise TransformFailed(_AWAY.format(WAIT_S)) from error
    deadline = time.monotonic() + WAIT_S
    while (answer := cache.get(name)) is None:
        if time.monotonic() >= deadline:
            raise TransformFailed(_AWAY.format(WAIT_S))
        time.sleep(_LOOK_S)
    cache.delete(name)
    found = json.loads(answer)
    if "error" in found:
        raise TransformFailed(found["error"])
    return Transformed(found["events"], found["origins"], {int(place): why for place, why in found["failed"].items()})


def answer(told: Mapping[str, Any]) -> None:
    """In the worker: make the query, and leave what came of it for the page."""
    try:
        done = _tried(told)
        found: dict[str, Any] = {"events": done.events, "origins": done.origins, "failed": done.failed}
    except Refused as error:
        found = {"error": error.message}
    except AnalyticsError as error:
        found = {"error": error.user_message}
    cache.set(str(told["name"]), json.dumps(found), timeout=2 * WAIT_S)


def _tried(told: Mapping[str, Any]) -> Transformed:
    from analytics.pipelines.query_trial import Trial, tried

    actor = _actor(told)
    query = SqlTransform.read({"kind": SqlTransform.kind, "sql": told["sql"]})
    tables, decide = starts.readable(actor, query.tables)
    return tried(Trial(actor.tenant.uid, query.sql, tables, decide, QUERY_S), told["events"])


def _actor(told: Mapping[str, Any]) -> Actor:
    """Raises Refused for who was disabled or deleted since."""
    found = acting_later(
        tenant=Tenant.objects.get(pk=told["tenant"]),
        user=User.objects.filter(pk=told["user"]).first(),
        role=Role.objects.filter(pk=told["role"]).first(),
        source_ip=told["source_ip"],
        secure=told["secure"],
    )
    if found is None:
        raise Refused("STARTER_GONE", _("You were disabled or deleted."))
    return found
