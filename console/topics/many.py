"""What is done to many topics or groups of an instance at once (`console.web.bulk`), each as if it were alone."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from django import forms
from django.http import Http404, QueryDict
from django.urls import reverse
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from brokercore.client.errors import ClientError
from brokercore.policy import mq_resource
from console.accounts.actor import Actor
from console.instances import broker
from console.instances.models import Instance
from console.topics import access, queries, services
from console.topics.forms import ModeForm
from console.topics.models import Group, Topic
from console.web.bulk import MOST, Bar, Deed, Offer, Thing, query_of
from console.web.forms import not_allowed
from console.web.paging import searched

DELETE_TOPIC, UPDATE_TOPIC = "mq:DeleteTopic", "mq:UpdateTopic"
DELETE_GROUP, RESET = "mq:DeleteGroup", "mq:ResetOffset"


def topic_refusal(actor: Actor, topic: Topic, action: str) -> str:
    """Why the actor cannot do `action` with the topic; empty when it can. Nothing is recorded."""
    decision = actor.decide(action, mq_resource(topic.physical_name), owner=topic.instance.tenant)
    return _refusal(decision.allowed, decision.reason, topic.instance)


def group_refusal(actor: Actor, group: Group, action: str) -> str:
    """As `topic_refusal`, of a group."""
    decision = actor.decide(action, mq_resource(group.physical_name), owner=group.owner, holder=group.holder)
    return _refusal(decision.allowed, decision.reason, group.instance)


def _refusal(is_allowed: bool, reason: str, instance: Instance) -> str:
    if not is_allowed:
        return not_allowed(reason)
    return broker.read_only(instance.cluster.name).message if instance.cluster.read_only else ""


def topic_bar(actor: Actor, instance: Instance, shown: Sequence[Topic], total: int, filters: str) -> Bar | None:
    """What may be done with topics of the page that is shown; None where it is nothing with any of them."""
    places = {mq_resource(topic.physical_name): "" for topic in shown}
    deeds = (
        (UPDATE_TOPIC, Offer(_("Set mode"), _url("topics.mode_many", instance), "lock")),
        (DELETE_TOPIC, Offer(_("Delete"), _url("topics.delete_many", instance), "trash", is_dangerous=True)),
    )
    offers = _offered(instance, deeds, "topics", lambda action: actor.allowed(action, places, owner=instance.tenant))
    return Bar(offers, {topic.pk: topic.name for topic in shown}, total, filters) if offers else None


def group_bar(actor: Actor, instance: Instance, shown: Sequence[Group], total: int, filters: str) -> Bar | None:
    """As `topic_bar`, of groups with their creators."""
    holders = {mq_resource(group.physical_name): group.holder_of(actor.tenant) for group in shown}
    deeds = (
        (RESET, Offer(_("Reset offsets"), _url("messaging.reset_many", instance), "rotate-clockwise")),
        (DELETE_GROUP, Offer(_("Delete"), _url("groups.delete_many", instance), "trash", is_dangerous=True)),
    )
    offers = _offered(instance, deeds, "groups", lambda action: actor.allowed(action, holders, owner=actor.tenant))
    return Bar(offers, {group.pk: group.group_id for group in shown}, total, filters) if offers else None


def _offered(
    instance: Instance, deeds: Iterable[tuple[str, Offer]], of: str, may: Callable[[str], object]
) -> list[Offer]:
    """Those of the deeds whose action may be done with any of the rows, and before them a file of the chosen rows."""
    if instance.cluster.read_only:
        return []
    offers = [offer for action, offer in deeds if may(action)]
    return [Offer(_("CSV"), _url(f"{of}.export_many", instance), "download"), *offers] if offers else []


def topic_deletion(actor: Actor, instance: Instance) -> Deed:
    """Delete topics."""
    return Deed(
        title=_("Delete topics"),
        question=lambda n: ngettext("Delete %(n)s topic", "Delete %(n)s topics", n) % {"n": n},
        warning=_("Their messages, the subscriptions of all groups and the grants on them are deleted with them."),
        is_dangerous=True,
        act=_act_on_topic(actor, instance, DELETE_TOPIC, lambda topic: services.delete_topic(actor=actor, topic=topic)),
        **_topics(actor, instance, DELETE_TOPIC),
    )


def topic_mode(actor: Actor, instance: Instance, form: ModeForm) -> Deed:
    """Set the mode of topics, which `form` says."""

    def act(topic: Topic) -> None:
        services.set_topic_permission(actor=actor, topic=topic, **form.cleaned_data)

    return Deed(
        title=_("Set the mode of topics"),
        question=lambda n: ngettext("Set the mode of %(n)s topic", "Set the mode of %(n)s topics", n) % {"n": n},
        warning=_("Read only refuses sends. Write only delivers nothing; groups keep their offsets."),
        act=_act_on_topic(actor, instance, UPDATE_TOPIC, act),
        form=form,
        **_topics(actor, instance, UPDATE_TOPIC),
    )


def group_deletion(actor: Actor, instance: Instance) -> Deed:
    """Delete groups."""

    def act(key: str) -> str:
        services.delete_group(actor=actor, group=group_of(actor, instance, key, DELETE_GROUP))
        return ""

    return Deed(
        title=_("Delete groups"),
        question=lambda n: ngettext("Delete %(n)s group", "Delete %(n)s groups", n) % {"n": n},
        warning=_(
            "Their offsets, the messages waiting for redelivery and their dead letters are deleted with them. A group "
            "with consumers online is not deleted."
        ),
        is_dangerous=True,
        act=act,
        **groups(actor, instance, DELETE_GROUP),
    )


def group_of(actor: Actor, instance: Instance, key: str, action: str) -> Group:
    """The group on which the actor may do `action`. Raises Http404 and PermissionDenied."""
    found = access.find_group(actor, instance.instance_id, key)
    if found is None:
        raise Http404("no such group")
    access.require_group(actor, action, found)
    return found


def groups(actor: Actor, instance: Instance, action: str) -> dict[str, Any]:
    """What each deed on groups has: which there are, and where it leads back to."""

    def find(keys: list[str]) -> list[Thing]:
        visible = queries.visible_groups(actor, instance).filter(group_id__in=keys)
        rows = visible.select_related("instance__cluster", "owner", "creator")
        return [Thing(one.group_id, one.group_id, group_refusal(actor, one, action)) for one in rows]

    def every(filters: str) -> list[str]:
        found = queries.visible_groups(actor, instance, text=text_of(filters))
        return list(found.values_list("group_id", flat=True)[: MOST + 1])

    return _about(instance, "groups.list") | {"find": find, "every": every}


def _topics(actor: Actor, instance: Instance, action: str) -> dict[str, Any]:
    def find(keys: list[str]) -> list[Thing]:
        visible = queries.visible_topics(actor, instance).filter(name__in=keys)
        rows = visible.select_related("instance__tenant", "instance__cluster")
        return [Thing(one.name, one.name, topic_refusal(actor, one, action)) for one in rows]

    def every(filters: str) -> list[str]:
        found = queries.visible_topics(actor, instance, text=text_of(filters))
        return list(found.values_list("name", flat=True)[: MOST + 1])

    return _about(instance, "topics.list") | {"find": find, "every": every}


def _act_on_topic(actor: Actor, instance: Instance, action: str, act: Callable[[Topic], None]) -> Callable[[str], str]:
    def acted(key: str) -> str:
        topic = access.find_topic(actor, instance.instance_id, key)
        if topic is None:
            raise Http404("no such topic")
        access.require_topic(actor, action, topic)
        act(topic)
        return ""

    return acted


def text_of(filters: str) -> str:
    """What a list is searched for, by the query of its address."""
    return searched(query_of(filters))


def _about(instance: Instance, listed: str) -> dict[str, Any]:
    return {
        "back": _url(listed, instance),
        "failures": (ClientError,),
        "context": {"instance": instance},
    }


def _url(name: str, instance: Instance) -> str:
    return reverse(name, args=[instance.instance_id])


def chosen_form(kind: type[forms.Form], data: QueryDict, **more: Any) -> Any:
    """The form of a deed: bound once it was shown, which `confirmed` or a later step tells."""
    return kind(data if "confirmed" in data or "begun" in data else None, **more)
