"""What every operation asks first: is the object there for the caller, and may the caller do this with it."""

from __future__ import annotations

from typing import Any

from brokercore.policy import mq_resource
from console.accounts.access import require
from console.instances import queries as instance_queries
from console.instances.models import Instance
from console.openapi import envelope
from console.openapi.registry import Call
from console.topics import access
from console.topics.models import Group, Topic
from console.web import regions
from console.web.errors import Refused

PRODUCER_PREFIXES = ("PID-", "PID_")
"""Of legacy producer IDs, which cannot be made any more but go on working."""
CONSUMER_PREFIXES = ("CID-", "CID_")
"""Of legacy consumer IDs."""


def own_instance(call: Call, instance_id: str, action: str) -> Instance:
    """The caller's instance on which it may do `action`. Raises Refused, PermissionDenied."""
    found = _own(call, instance_id)
    if found is None:
        raise _no_instance(call, instance_id)
    require_own(call, found, action)
    return found


def require_own(call: Call, instance: Instance, action: str) -> bool:
    """True for an instance of the caller's account, on which it may do `action`; False for another account's.

    Raises PermissionDenied.
    """
    if instance.tenant_id != call.actor.tenant.pk:
        return False
    resource = mq_resource(instance.instance_id)
    require(call.actor, action, resource, owner=call.actor.tenant, region=instance.region)
    return True


def reachable_instance(call: Call, instance_id: str) -> Instance:
    """The caller's instance, or one of another account with a topic that was granted to the caller.

    Raises Refused. Nothing is said about rights: those are on the topic or group that is looked up next.
    """
    found = _own(call, instance_id) or _granted(call, instance_id)
    if found is None:
        raise _no_instance(call, instance_id)
    return found


def topic(call: Call, instance_id: str, name: str, action: str) -> Topic:
    """The topic on which the caller may do `action`. Raises Refused, PermissionDenied."""
    instance = reachable_instance(call, instance_id)
    found = access.find_topic(call.actor, instance.instance_id, name)
    if found is None:
        raise no_topic(instance, name)
    access.require_topic(call.actor, action, found)
    return found


def owned_topic(call: Call, instance_id: str, name: str, action: str) -> Topic:
    """A topic of the caller's own account, whose owner alone grants it.

    Raises Refused: EMPOWER_OWNER_CHECK_ERROR in an instance that is not the account's own, whether there is such a
    topic or not; PermissionDenied.
    """
    own = _own(call, instance_id)
    if own is None:
        message = (
            f"The topic {name} does not belong to this account in the instance {instance_id}; only "
            "its owner can grant it."
        )
        raise Refused("EMPOWER_OWNER_CHECK_ERROR", message, "topic")
    found = access.find_topic(call.actor, own.instance_id, name)
    if found is None:
        raise no_topic(own, name)
    access.require_topic(call.actor, action, found)
    return found


def is_asked_for(call: Call, instance: Instance) -> bool:
    """Whether an instance is of the region that was asked for."""
    return not regions.are_several() or instance.region == call.region


def no_topic(instance: Instance, name: str) -> Refused:
    """The refusal of an unknown topic."""
    message = f"The topic {name} was not found in the instance {instance.instance_id}."
    return Refused("BIZ_TOPIC_NOT_FOUND", message, "topic")


def group(call: Call, instance_id: str, group_id: str, action: str) -> Group:
    """The group on which the caller may do `action`. Raises Refused, PermissionDenied."""
    instance = reachable_instance(call, instance_id)
    found = stored_group(instance, group_id)
    producer = group_id.startswith(PRODUCER_PREFIXES)
    if found is not None and found.owner_id != call.actor.tenant.pk:
        raise belongs_to_another(group_id)
    if found is None or found.instance_id != instance.pk:
        symbol = "BIZ_PUBLISH_INFO_NOT_FOUND" if producer else "BIZ_SUBSCRIPTION_NOT_FOUND"
        raise Refused(symbol, f"The group {group_id} was not found in the instance {instance.instance_id}.", "groupId")
    access.require_group(call.actor, action, found)
    return found


def stored_group(instance: Instance, group_id: str) -> Group | None:
    """The group of this name on the wire, whoever owns it: bare names are unique over all accounts."""
    return (
        Group.objects.select_related("instance__tenant", "instance__cluster", "owner", "creator")
        .filter(physical_name=instance.physical_name(group_id))
        .first()
    )


def belongs_to_another(group_id: str) -> Refused:
    """The refusal of a group ID that another account holds; nothing more is said about it."""
    kind = "PRODUCER" if group_id.startswith(PRODUCER_PREFIXES) else "CONSUMER"
    message = f"The group ID {group_id} belongs to another account; use another one."
    return Refused(f"BIZ_{kind}_ID_BELONG_TO_OTHER_USER", message, "groupId")


def _own(call: Call, instance_id: str) -> Instance | None:
    mine = instance_queries.narrowed(instance_queries.instances(call.actor.tenant), call.scope)
    mine = instance_queries.of_region(mine, call.region)
    return mine.filter(instance_id=instance_id).first() if instance_id else _default(call, mine)


def _granted(call: Call, instance_id: str) -> Instance | None:
    if call.scope.resource_set is not None:
        return None
    granted = access.received_grants(call.actor).values("topic__instance")
    found = Instance.objects.select_related("cluster", "tenant__organization", "resource_set__organization").filter(
        pk__in=granted, instance_id=instance_id
    )
    return instance_queries.of_region(found, call.region).first()


def _default(call: Call, mine: Any) -> Instance:
    found = list(mine.filter(independent_naming=False)[:2])
    if len(found) != 1:
        which = "there are several of those" if found else "there is none"
        raise Refused(
            envelope.FIELD,
            "The parameter instanceId is missing; it may be left out only with one instance without namespace, "
            f"and {which}{_there(call)}.",
            "instanceId",
        )
    instance: Instance = found[0]
    return instance


def _no_instance(call: Call, instance_id: str) -> Refused:
    return Refused("BIZ_INSTANCE_NOT_FOUND", f"The instance {instance_id} was not found{_there(call)}.", "instanceId")


def _there(call: Call) -> str:
    """Where was looked, when that is not everywhere."""
    return f" in the region {call.region}" if call.region and regions.are_several() else ""
