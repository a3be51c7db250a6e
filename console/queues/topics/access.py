"""The first line of every view of the queue service's topics.

Rights are those of the service: `mns:<Operation>` on `acs:mns:<region>:<account>:/topics/<name>[/messages]`, and on
`/topics/<name>/subscriptions/<subscription>`.
"""

from __future__ import annotations

from brokercore.policy import mns_resource
from brokercore.smq.wire.requests import Call, Operation
from brokercore.smq.wire.subscriptions import SubscriptionState
from brokercore.smq.wire.topics import TopicState
from console.accounts.access import require
from console.accounts.actor import Actor
from console.accounts.http import Request
from console.accounts.models import Tenant
from console.queues.client import SUBSCRIPTION_NOT_FOUND, TOPIC_NOT_FOUND
from console.queues.topics import queries
from console.web import missing

_OF_SUBSCRIPTIONS = frozenset({"mns:Subscribe", "mns:Unsubscribe", "mns:SetSubscriptionAttributes"})


def topics(request: Request, action: str, name: str = "") -> Tenant:
    """The actor's account, if the actor may do `action` there: of all topics, or of one that is not there yet."""
    return require_topic(request.actor, action, name)


def topic(request: Request, name: str, action: str, subscription: str = "*") -> TopicState:
    """The topic of the actor's account, if the actor may do `action` on it, its messages or a subscription.

    A missing right is 403, also for a name that no topic has.
    """
    owner = require_topic(request.actor, action, name, subscription)
    with missing.page_of("topic", TOPIC_NOT_FOUND, field="name"):
        return queries.topic(owner, name)


def subscription(request: Request, topic: str, name: str, action: str) -> SubscriptionState:
    """The subscription of the actor's account, if the actor may do `action` on it; as for a topic."""
    owner = require_topic(request.actor, action, topic, name)
    with missing.page_of("subscription", TOPIC_NOT_FOUND, SUBSCRIPTION_NOT_FOUND, field="name"):
        return queries.subscription(owner, topic, name)


def require_topic(actor: Actor, action: str, name: str, subscription: str = "*") -> Tenant:
    """The actor's account. Raises PermissionDenied with the decision's sentence unless it may do `action`."""
    owner = actor.tenant
    require(actor, action, resource(owner, action, name, subscription), owner=owner)
    return owner


def may(request: Request, action: str, name: str) -> bool:
    """What a page leaves out for who may not do it; the act itself asks again."""
    owner = request.actor.tenant
    return request.actor.decide(action, resource(owner, action, name), owner=owner).allowed


def resource(tenant: Tenant, action: str, name: str, subscription: str = "*") -> str:
    """What an action is done on, as policies and the service name it."""
    operation = Operation(action.removeprefix("mns:"))
    call = Call(operation, name, subscription if action in _OF_SUBSCRIPTIONS else "")
    return mns_resource(tenant.uid, call.resource)
