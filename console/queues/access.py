"""The first line of every view of queues, and what the management API asks in its place.

Rights are those of the queue service: `mns:<Operation>` on `acs:mns:<region>:<account>:/queues/<name>[/messages]`.
"""

from __future__ import annotations

from brokercore.policy import mns_resource
from brokercore.smq.wire.queues import QueueState
from console.accounts.access import require
from console.accounts.actor import Actor
from console.accounts.http import Request
from console.accounts.models import Tenant
from console.queues import queries
from console.queues.client import NOT_FOUND
from console.web import missing

_OF_MESSAGES = frozenset(
    {"mns:SendMessage", "mns:ReceiveMessage", "mns:PeekMessage", "mns:ChangeMessageVisibility", "mns:DeleteMessage"}
)


def queues(request: Request, action: str, name: str = "") -> Tenant:
    """The actor's account, if the actor may do `action` there: of all queues, or of one that is not there yet."""
    return require_queue(request.actor, action, name)


def queue(request: Request, name: str, action: str) -> QueueState:
    """The queue of the actor's account, if the actor may do `action` on it or on its messages.

    A missing right is 403, also for a name that no queue has.
    """
    require_queue(request.actor, action, name)
    with missing.page_of("queue", NOT_FOUND, field="name"):
        return queries.queue(request.actor.tenant, name)


def require_queue(actor: Actor, action: str, name: str) -> Tenant:
    """The actor's account. Raises PermissionDenied with the decision's sentence unless it may do `action`."""
    owner = actor.tenant
    require(actor, action, resource(owner, action, name), owner=owner)
    return owner


def may(actor: Actor, action: str, name: str) -> bool:
    """What a page leaves out for who may not do it; the act itself asks again."""
    owner = actor.tenant
    return actor.decide(action, resource(owner, action, name), owner=owner).allowed


def resource(tenant: Tenant, action: str, name: str) -> str:
    """What an action is done on, as policies name it."""
    return mns_resource(tenant.uid, f"/queues/{name}{'/messages' if action in _OF_MESSAGES else ''}")
