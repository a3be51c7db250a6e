"""The first line of every view of SQL jobs, and what the management API asks in its place.

Rights are `dla:<Operation>` on `acs:dla:*:<account>:job/<name>`; those of secrets stand on `job-secret/<name>`, and
the same operations on `job-variable/<name>` are those of variables. Who may use a secret: `console.pipelines.access`.
"""

from __future__ import annotations

from typing import Literal

from django.utils.translation import gettext as _

from console.accounts.access import require
from console.accounts.actor import Actor, service_resource
from console.accounts.http import Request
from console.accounts.models import Tenant
from console.pipelines import queries
from console.pipelines.models import Kind, Pipeline
from console.web import missing
from console.web.errors import Refused

CREATE, UPDATE, DELETE = "dla:CreateJob", "dla:UpdateJob", "dla:DeleteJob"
QUERY, START, STOP = "dla:QueryJob", "dla:StartJob", "dla:StopJob"
DELETE_SAVEPOINT = "dla:DeleteJobSavepoint"
LIST_SECRETS, PUT_SECRET, DELETE_SECRET = "dla:ListJobSecrets", "dla:PutJobSecret", "dla:DeleteJobSecret"
NOT_FOUND = "JOB_NOT_FOUND"
Thing = Literal["job", "job-secret", "job-variable"]


def jobs(request: Request, action: str, name: str = "*") -> Tenant:
    """The actor's account, if the actor may do `action` there: of all jobs, or of one that is not there yet."""
    return require_right(request.actor, action, name)


def job(request: Request, name: str, action: str) -> Pipeline:
    """The job of the actor's account, if the actor may do `action` on it.

    A missing right is 403, also for a name that no job has.
    """
    with missing.page_of("job", NOT_FOUND):
        return require_job(request.actor, action, name)


def secrets(request: Request, action: str, name: str = "*", thing: Thing = "job-secret") -> Tenant:
    """The actor's account, if the actor may do `action` on the secret, or on the variable."""
    return require_right(request.actor, action, name, thing)


def require_job(actor: Actor, action: str, name: str) -> Pipeline:
    """The job. Raises PermissionDenied with the decision's sentence, and Refused for one that there is not."""
    found = queries.pipeline(require_right(actor, action, name), Kind.JOB, name)
    if found is None:
        raise Refused(NOT_FOUND, _("There is no job %(name)s.") % {"name": name}, "name")
    return found


def require_right(actor: Actor, action: str, name: str, thing: Thing = "job") -> Tenant:
    """The actor's account. Raises PermissionDenied with the decision's sentence unless it may do `action`."""
    owner = actor.tenant
    require(actor, action, resource(owner, name, thing), owner=owner)
    return owner


def may(actor: Actor, action: str, name: str = "*", thing: Thing = "job") -> bool:
    """What a page leaves out for who may not do it; the act itself asks again."""
    owner = actor.tenant
    return actor.decide(action, resource(owner, name, thing), owner=owner).allowed


def may_list(actor: Actor, thing: Thing) -> bool:
    """Whether the actor may see all names of the account's secrets, or of its variables."""
    return may(actor, LIST_SECRETS, thing=thing)


def resource(tenant: Tenant, name: str, thing: Thing = "job") -> str:
    """What an action is done on, as policies name it."""
    return service_resource("dla", tenant, f"{thing}/{name}")
