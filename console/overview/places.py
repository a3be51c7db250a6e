"""Go anywhere: what is called as one types, of all that the visitor may see (docs/use/keys.md)."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from itertools import islice
from typing import TypeVar
from urllib.parse import urlencode

from django.db.models import Model, QuerySet
from django.urls import reverse
from django.utils.translation import gettext as _

from console.accounts import access as accounts
from console.accounts.actor import Actor
from console.accounts.http import Request
from console.accounts.models import User
from console.inflow import access as inflow
from console.instances.context import choosable, chosen, may_open
from console.instances.models import Instance
from console.jobs import access as jobs
from console.pipelines.models import Kind, Pipeline
from console.sql.queries import visible_tasks
from console.topics.live import figure
from console.topics.models import Topic
from console.topics.queries import visible_groups_in, visible_topics
from console.web.navigation import sections

_Thing = TypeVar("_Thing")
_Row = TypeVar("_Row", bound=Model)
#: Places of a kind, and topics in which a key is looked for.
_OF_A_KIND, _KEY_TOPICS = 5, 5
_PAGES = 30
_MESSAGE_ID = re.compile(r"[0-9A-Fa-f]{32}|[0-9A-Fa-f]{40}|[0-9A-Fa-f]{56}")
_KEY = re.compile(r"\S{3,200}")


@dataclass(frozen=True)
class Place:
    """Somewhere to go: what it is, what it is called, where it is, and its address."""

    kind: str
    name: str
    note: str
    url: str


def places(request: Request, text: str) -> list[Place]:
    """Where what was typed leads; pages alone when nothing was."""
    actor = request.actor
    if actor.own_tenant is None:
        return list(_pages(None, None, text))
    instances = choosable(actor)
    here = chosen(request, instances)
    pages = _pages(here, partial(may_open, actor), text)
    if not text:
        return list(pages)
    ways: tuple[Iterable[Place], ...] = (
        _message_ids(actor, here, text),
        _instances(instances, text),
        _topics(actor, instances, here, text),
        _groups(actor, instances, text),
        pages,
        _actions(actor, here, text),
        _pipelines(actor, text),
        _statements(actor, text),
        _users(actor, text),
        _keys(actor, here, text),
    )
    return [place for way in ways for place in way]


def _pages(here: Instance | None, may: Callable[[str, str], bool] | None, text: str) -> Iterator[Place]:
    found = (
        Place(_("Page"), entry.title, section.title, entry.url)
        for section in sections("", here.instance_id if here else None, may)
        for entry in section.entries
        if text.casefold() in f"{entry.title} {section.title}".casefold()
    )
    return islice(found, _PAGES)


def _instances(instances: list[Instance], text: str) -> Iterator[Place]:
    for one in _best(instances, text, lambda one: (one.name, one.instance_id)):
        yield Place(_("Instance"), one.name, one.instance_id, reverse("instances.detail", args=[one.instance_id]))


def _topics(actor: Actor, instances: list[Instance], here: Instance | None, text: str) -> Iterator[Place]:
    """Those of the chosen instance first; what one may publish to also leads there."""
    found: list[Topic] = []
    for instance in sorted(instances, key=lambda one: one != here):
        found += _named(visible_topics(actor, instance, text=text), "name", text)
        if len(found) >= _OF_A_KIND:
            break
    for number, topic in enumerate(found[:_OF_A_KIND]):
        where = (topic.instance.instance_id, topic.name)
        yield Place(_("Topic"), topic.name, topic.instance.name, reverse("topics.detail", args=where))
        if number == 0 and not topic.instance.cluster.read_only and may_open(actor, "mq:PUB", topic.physical_name):
            url = reverse("messaging.publish", args=where)
            yield Place(
                _("Action"), _("Publish a message to %(topic)s") % {"topic": topic.name}, topic.instance.name, url
            )


def _groups(actor: Actor, instances: list[Instance], text: str) -> Iterator[Place]:
    visible = visible_groups_in(actor, instances).filter(group_id__icontains=text).select_related("instance")
    for group in _named(visible, "group_id", text):
        where = (group.instance.instance_id, group.group_id)
        yield Place(_("Group"), group.group_id, group.instance.name, reverse("messaging.status", args=where))


def _actions(actor: Actor, here: Instance | None, text: str) -> Iterator[Place]:
    at = [here.instance_id] if here else []
    known: list[tuple[str, str, str, list[str], str]] = [
        (_("Create an instance"), "instances.create", "mq:CreateInstance", [], "")
    ]
    if here is not None and not here.cluster.read_only:
        known += [
            (_("Create a topic"), "topics.create", "mq:CreateTopic", at, here.instance_id),
            (_("Create a group"), "groups.create", "mq:CreateGroup", at, here.instance_id),
        ]
    for name, url_name, action, arguments, path in known:
        if text.casefold() in name.casefold() and may_open(actor, action, path):
            yield Place(_("Action"), name, here.name if path and here else "", reverse(url_name, args=arguments))


def _pipelines(actor: Actor, text: str) -> Iterator[Place]:
    found = Pipeline.objects.filter(tenant=actor.tenant, deleted_at=None, name__icontains=text).defer("draft")
    for one in found.order_by("name")[: 4 * _OF_A_KIND]:
        if one.kind == Kind.JOB and jobs.may(actor, jobs.QUERY, one.name):
            yield Place(_("SQL job"), one.name, "", reverse("jobs.detail", args=[one.name]))
        elif one.kind == Kind.INFLOW and inflow.may(actor, inflow.QUERY, one.name):
            yield Place(_("Inflow task"), one.name, "", reverse("inflow.detail", args=[one.name]))


def _statements(actor: Actor, text: str) -> Iterator[Place]:
    """Statements by the whole id or its beginning."""
    if len(text) < 8 or not text.isascii() or not may_open(actor, "dla:QueryTask", ""):
        return
    for task in visible_tasks(actor).filter(pk__startswith=text)[:_OF_A_KIND]:
        yield Place(_("Statement"), task.id, task.statement[:80], reverse("sql.task", args=[task.id]))


def _users(actor: Actor, text: str) -> Iterator[Place]:
    if not accounts.may(actor, "ram:ListUsers", "user/*"):
        return
    for user in _named(User.objects.filter(tenant=actor.tenant, username__icontains=text), "username", text):
        yield Place(_("User"), user.username, "", reverse("accounts.user", args=[user.username]))


def _message_ids(actor: Actor, here: Instance | None, text: str) -> Iterator[Place]:
    """A message id does not tell its topic, so it is looked for in those that hold the most messages."""
    if _MESSAGE_ID.fullmatch(text):
        yield from _searches(actor, here, _("Message %(text)s") % {"text": text}, {"by": "id", "message_id": text})


def _keys(actor: Actor, here: Instance | None, text: str) -> Iterator[Place]:
    if _KEY.fullmatch(text) and not _MESSAGE_ID.fullmatch(text):
        yield from _searches(actor, here, _("Messages with key %(text)s") % {"text": text}, {"by": "key", "key": text})


def _searches(actor: Actor, here: Instance | None, what: str, form: Mapping[str, str]) -> Iterator[Place]:
    """A search in each of the topics of the chosen instance that hold the most messages."""
    if here is None:
        return
    stored = figure.get()(here.cluster, "stored")
    held = [name for name in stored if name.startswith(here.physical_name(""))] if here.independent_naming else stored
    most = sorted(held, key=lambda name: -stored[name])[: 4 * _KEY_TOPICS]
    visible = visible_topics(actor, here, "mq:QueryMessage").filter(physical_name__in=most)
    for topic in sorted(visible, key=lambda one: -stored[one.physical_name])[:_KEY_TOPICS]:
        query = urlencode({"search": 1, "topic": topic.name, **form})
        url = f"{reverse('messaging.search', args=[here.instance_id])}?{query}"
        yield Place(_("Search"), _("%(what)s in %(topic)s") % {"what": what, "topic": topic.name}, here.name, url)


def _named(found: QuerySet[_Row], field: str, text: str) -> list[_Row]:
    """Of the things whose names have the text those that begin with it first."""
    first = list(found.filter(**{f"{field}__istartswith": text}).order_by(field)[:_OF_A_KIND])
    if len(first) < _OF_A_KIND:
        others = found.exclude(**{f"{field}__istartswith": text}).order_by(field)
        first += others[: _OF_A_KIND - len(first)]
    return first


def _best(things: Iterable[_Thing], text: str, names: Callable[[_Thing], tuple[str, ...]]) -> list[_Thing]:
    wanted = text.casefold()
    fitting = [one for one in things if any(wanted in name.casefold() for name in names(one))]
    fitting.sort(key=lambda one: not any(name.casefold().startswith(wanted) for name in names(one)))
    return fitting[:_OF_A_KIND]
