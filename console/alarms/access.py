"""The first line of every view of alarms, and what the management API asks in its place.

Rights are `cms:<Operation>`, as of CloudMonitor, on `acs:cms:*:<account>:alarm/<rule>` and `…:recipient/<recipient>`.
"""

from __future__ import annotations

from django.core.exceptions import PermissionDenied
from django.http import Http404

from console.accounts.access import require
from console.accounts.actor import Actor, service_resource
from console.accounts.models import Tenant
from console.alarms import queries, services
from console.alarms.models import Alarm, Recipient, Rule

QUERY = "cms:QueryAlarm"
PUT, DELETE = "cms:PutAlarmRule", "cms:DeleteAlarmRule"
ACKNOWLEDGE = "cms:AcknowledgeAlarm"
PUT_RECIPIENT, DELETE_RECIPIENT = "cms:PutAlarmRecipient", "cms:DeleteAlarmRecipient"


def alarms(actor: Actor, action: str) -> Tenant:
    """The actor's account, if the actor may do `action` with all of its rules and alarms."""
    return _required(actor, action, "alarm/*")


def recipients(actor: Actor, action: str) -> Tenant:
    """The actor's account, if the actor may do `action` with all who are told."""
    return _required(actor, action, "recipient/*")


def rule(actor: Actor, number: int, action: str) -> Rule:
    """The rule of the actor's account, if the actor may do `action` with it; a missing right is 403 either way."""
    found = queries.rule(_required(actor, action, f"alarm/{number}"), number)
    if found is None:
        raise Http404("no such alarm rule")
    return found


def may_see(actor: Actor, found: Rule) -> bool:
    """Whether the actor may see by itself what the rule watches, as who makes such a rule must."""
    try:
        services.require_sight(actor, found.watched, found.instance)
    except PermissionDenied:
        return False
    return True


def alarm(actor: Actor, number: int, action: str) -> Alarm:
    """The alarm of the actor's account, if the actor may do `action` with all of them."""
    found = queries.alarm(alarms(actor, action), number)
    if found is None:
        raise Http404("no such alarm")
    return found


def recipient(actor: Actor, number: int, action: str) -> Recipient:
    """Who is told, of the actor's account, if the actor may do `action` with it."""
    found = queries.recipient(_required(actor, action, f"recipient/{number}"), number)
    if found is None:
        raise Http404("no such recipient of alarms")
    return found


def may(actor: Actor, action: str, what: str = "alarm/*") -> bool:
    """What a page leaves out for who may not do it; the act itself asks again."""
    owner = actor.tenant
    return actor.decide(action, service_resource("cms", owner, what), owner=owner).allowed


def _required(actor: Actor, action: str, what: str) -> Tenant:
    owner = actor.tenant
    require(actor, action, service_resource("cms", owner, what), owner=owner)
    return owner
