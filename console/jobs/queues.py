"""Whether the queues of a text are there, and hide what a job has received until it is committed.

Only the account's queues here can be looked at before the start; the engine looks at each one when the job starts.
"""

from __future__ import annotations

from dataclasses import replace

from django.utils.translation import gettext as _

from analytics.pipelines.plan import Plan, Source
from brokercore.smq.client import QueueServiceUnavailable
from console.accounts.actor import Actor
from console.jobs.compiler.planning import Checked
from console.jobs.compiler.words import TextRefused
from console.outbox.queues import is_own
from console.queues import access, queries
from console.web.errors import Refused

RECEIVE, LOOK = "mns:ReceiveMessage", "mns:GetQueueAttributes"


def looked_at(actor: Actor, checked: Checked) -> Checked:
    """With what is wrong with the queues: refused for the account's own, told for those that a key is given to."""
    if checked.plan is None:
        return checked
    refusals: list[TextRefused] = []
    warnings = list(checked.warnings)
    for source in _queues(checked.plan):
        try:
            sentence = _problem(actor, source, checked.plan)
        except QueueServiceUnavailable:
            sentence, is_refused = (
                _("the queue service does not answer, so its queue is looked at when the job starts"),
                False,
            )
        else:
            is_refused = _is_without_key(source)
        if not sentence:
            continue
        line, column = checked.places[source.name.lower()]
        told = _("table %(source)s: %(sentence)s.") % {"source": source.name, "sentence": sentence}
        if is_refused:
            refusals.append(TextRefused(line, column, told))
        else:
            warnings.append(
                _("Line %(line)s, column %(column)s: %(told)s") % {"line": line, "column": column, "told": told}
            )
    plan = None if refusals else checked.plan
    return replace(checked, plan=plan, refusals=tuple(refusals), warnings=tuple(warnings))


def require(actor: Actor, plan: Plan) -> None:
    """Raise Refused when a queue of the account's own does not fit the plan, and when it cannot be looked at."""
    for source in _queues(plan):
        if not _is_without_key(source):
            continue
        try:
            sentence = _problem(actor, source, plan)
        except QueueServiceUnavailable as error:
            raise Refused("QUEUE_SERVICE_UNAVAILABLE", str(error)) from error
        if sentence:
            raise Refused(
                "QUEUE_DOES_NOT_FIT",
                _("Table %(source)s: %(sentence)s.") % {"source": source.name, "sentence": sentence},
            )


def _queues(plan: Plan) -> list[Source]:
    """The sources that read queues, which may be the account's here."""
    return [source for source in plan.sources if source.connector == "mns"]


def _is_without_key(source: Source) -> bool:
    return "accessKeyId" not in source.options


def _problem(actor: Actor, source: Source, plan: Plan) -> str:
    """What is wrong with a queue; nothing for one that is not here, or that the actor may not look at."""
    name = str(source.options["queueName"])
    if _is_without_key(source):
        decision = actor.decide(RECEIVE, access.resource(actor.tenant, RECEIVE, name), owner=actor.tenant)
        if not decision.allowed:
            return decision.reason
    elif not is_own(actor.tenant, str(source.options["endpoint"])) or not access.may(actor, LOOK, name):
        return ""
    try:
        hidden_s = queries.queue(actor.tenant, name).attributes["VisibilityTimeout"]
    except Refused as refused:
        return refused.message.rstrip(".") if _is_without_key(source) else ""
    interval_ms = plan.settings.checkpoint_interval_ms
    if hidden_s * 1000 > interval_ms:
        return ""
    return _(
        "the queue %(name)s hides a received message for %(hidden_s)s s (VisibilityTimeout), and "
        "checkpoints are %(interval_ms)s s apart: it would be delivered again before it is "
        "committed; make the one longer or the other shorter"
    ) % {"name": name, "hidden_s": hidden_s, "interval_ms": f"{interval_ms / 1000:g}"}
