"""The first line of every view of inflow tasks, and what the management API asks in its place.

Rights are `dts:<Operation>` on `acs:dts:*:<account>:inflow/<name>`. What a task reads and writes is asked of who starts
it, beside them (`console.pipelines.starts`).
"""

from __future__ import annotations

from django.utils.translation import gettext as _

from console.accounts.access import require
from console.accounts.actor import Actor, service_resource
from console.accounts.http import Request
from console.accounts.models import Tenant
from console.pipelines import queries
from console.pipelines.models import Kind, Pipeline
from console.web import missing
from console.web.errors import Refused

CREATE, UPDATE, DELETE = "dts:CreateInflowTask", "dts:UpdateInflowTask", "dts:DeleteInflowTask"
QUERY, START, STOP = "dts:QueryInflowTask", "dts:StartInflowTask", "dts:StopInflowTask"
NOT_FOUND = "INFLOW_TASK_NOT_FOUND"


def tasks(request: Request, action: str, name: str = "*") -> Tenant:
    """The actor's account, if the actor may do `action` there: of all tasks, or of one that is not there yet."""
    return require_right(request.actor, action, name)


def task(request: Request, name: str, action: str) -> Pipeline:
    """The task of the actor's account, if the actor may do `action` on it.

    A missing right is 403, also for a name that no task has.
    """
    with missing.page_of(_("inflow task"), NOT_FOUND):
        return require_task(request.actor, action, name)


def require_task(actor: Actor, action: str, name: str) -> Pipeline:
    """The task. Raises PermissionDenied with the decision's sentence, and Refused for one that there is not."""
    found = queries.pipeline(require_right(actor, action, name), Kind.INFLOW, name)
    if found is None:
        raise Refused(NOT_FOUND, _("There is no inflow task %(name)s.") % {"name": name}, "name")
    return found


def require_right(actor: Actor, action: str, name: str) -> Tenant:
    """The actor's account. Raises PermissionDenied with the decision's sentence unless it may do `action`."""
    owner = actor.tenant
    require(actor, action, resource(owner, name), owner=owner)
    return owner


def may(actor: Actor, action: str, name: str = "*") -> bool:
    """What a page leaves out for who may not do it; the act itself asks again."""
    owner = actor.tenant
    return actor.decide(action, resource(owner, name), owner=owner).allowed


def resource(tenant: Tenant, name: str) -> str:
    """What an action is done on, as policies name it."""
    return service_resource("dts", tenant, f"inflow/{name}")
