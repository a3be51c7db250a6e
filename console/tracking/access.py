"""The first line of every view of change tracking, and what the management API asks in its place.

Rights are `dts:<Operation>` on `acs:dts:*:<account>:tracking/<task ID>`. Rows of a database stand in events, so that
to see them is a right of its own.
"""

from __future__ import annotations

from django.http import Http404
from django.utils.translation import gettext as _

from console.accounts.access import require
from console.accounts.actor import Actor, service_resource
from console.accounts.http import Request
from console.accounts.models import Tenant
from console.tracking import queries
from console.tracking.models import ConsumerGroup, TrackingTask
from console.web import missing
from console.web.errors import Refused

QUERY, CREATE, UPDATE = "dts:QueryTrackingTask", "dts:CreateTrackingTask", "dts:UpdateTrackingTask"
DELETE, PAUSE, RESUME = "dts:DeleteTrackingTask", "dts:PauseTrackingTask", "dts:ResumeTrackingTask"
EVENTS = "dts:QueryTrackingEvents"
CREATE_GROUP, DELETE_GROUP = "dts:CreateConsumerGroup", "dts:DeleteConsumerGroup"
NOT_FOUND, GROUP_NOT_FOUND = "TASK_NOT_FOUND", "GROUP_NOT_FOUND"


def tasks(request: Request, action: str) -> Tenant:
    """The actor's account, if the actor may do `action` there: of all tasks, or of one that is not there yet."""
    return require_right(request.actor, action, "*")


def task(request: Request, task_id: str, action: str) -> TrackingTask:
    """The task of the actor's account, if the actor may do `action` on it.

    A missing right is 403, also for an ID that no task has.
    """
    with missing.page_of(_("change tracking task"), NOT_FOUND):
        return require_task(request.actor, action, task_id)


def group(request: Request, task_id: str, name: str, action: str) -> tuple[TrackingTask, ConsumerGroup]:
    """The task and its consumer group, if the actor may do `action` on the task."""
    found = task(request, task_id, action)
    group = queries.group(found, name)
    if group is None:
        raise Http404("no such consumer group")
    return found, group


def require_task(actor: Actor, action: str, task_id: str) -> TrackingTask:
    """The task. Raises PermissionDenied with the decision's sentence, and Refused for one that there is not."""
    found = queries.task(require_right(actor, action, task_id), task_id)
    if found is None:
        raise no_task(task_id)
    return found


def require_right(actor: Actor, action: str, task_id: str) -> Tenant:
    """The actor's account. Raises PermissionDenied with the decision's sentence unless it may do `action`."""
    owner = actor.tenant
    require(actor, action, resource(owner, task_id), owner=owner)
    return owner


def may(actor: Actor, action: str, task_id: str = "*") -> bool:
    """What a page leaves out for who may not do it; the act itself asks again."""
    owner = actor.tenant
    return actor.decide(action, resource(owner, task_id), owner=owner).allowed


def resource(tenant: Tenant, task_id: str) -> str:
    """What an action is done on, as policies name it."""
    return service_resource("dts", tenant, f"tracking/{task_id}")


def no_task(task_id: str) -> Refused:
    """The refusal of a task that there is not."""
    return Refused(NOT_FOUND, _("There is no change tracking task %(task_id)s.") % {"task_id": task_id}, "task")
