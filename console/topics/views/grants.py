"""Topics shared between accounts: what the owner gives, what the receiver does with it."""

from __future__ import annotations

from typing import Any

from django.contrib import messages
from django.http import Http404, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.views.decorators.http import require_GET

from console.accounts import queries as account_queries
from console.instances.snippets import endpoint, snippets
from console.topics import access, queries, services
from console.topics import grants as grant_services
from console.topics.forms import GrantForm, GroupForm
from console.topics.models import Grant, Topic
from console.topics.tables import GivenGrantTable, TakenGrantTable, TopicGrantTable
from console.web import deletion, htmx
from console.web.errors import Refused
from console.web.forms import add_refusal
from console.web.http import Request
from console.web.paging import configured, search_text

_SUGGESTED_USERS = 300


@require_GET
def index(request: Request) -> HttpResponse:
    """Shared by the account and shared with it; each visitor sees the topics it may see."""
    actor, text = request.actor, search_text(request)
    given = request.GET.get("tab") == "by"
    found = queries.given_grants(actor, text) if given else queries.taken_grants(actor, text)
    table = (GivenGrantTable if given else TakenGrantTable)(found)
    here = reverse("grants.index")
    context = {
        "table": configured(request, table),
        "q": text,
        "tab": "by" if given else "with",
        "tabs": [
            {"title": "Shared with me", "url": here, "active": not given},
            {"title": "Shared by me", "url": f"{here}?tab=by", "active": given},
        ],
    }
    return htmx.page(request, "grants/index.html", "grants/_list.html", context)


def topic(request: Request, instance_id: str, name: str) -> HttpResponse:
    """Whom the topic is shared with, and sharing it: for its owner."""
    found = _owned(request, instance_id, name, "mq:Empower" if request.method == "POST" else "mq:QueryTopic")
    form = GrantForm(request.POST or None)
    if request.method == "POST" and form.is_valid():
        try:
            grant = _create(request, found, form.cleaned_data)
        except Refused as refused:
            add_refusal(form, refused)
        else:
            messages.success(request, f"{found.name} is shared with {grant_services.receiver_name(grant)}.")
            return redirect("grants.topic", instance_id, name)
    context = {
        "instance": found.instance,
        "topic": found,
        "tab": "grants",
        "form": form,
        "table": configured(request, TopicGrantTable(grant_services.grants_of(found))),
        "users": queries.ram_user_names(request.actor.tenant, _SUGGESTED_USERS),
    }
    return render(request, "grants/topic.html", context, status=422 if form.is_bound else 200)


def revoke(request: Request, instance_id: str, name: str, number: int) -> HttpResponse:
    """End a grant once the receiver's name was typed."""
    found = _owned(request, instance_id, name, "mq:Empower")
    grant = grant_services.grants_of(found).filter(pk=number).first()
    if grant is None:
        raise Http404("no such grant")
    wanted = deletion.Deletion(
        kind="grant",
        verb="Revoke",
        name=grant_services.receiver_name(grant),
        warning=f"Its clients are refused on {found.name} within two seconds. Its groups and their progress stay.",
        cancel_url=reverse("grants.topic", args=[instance_id, name]),
    )
    return deletion.confirm(
        request,
        wanted,
        lambda: grant_services.delete_grant(actor=request.actor, grant=grant),
        ("grants.topic", instance_id, name),
    )


@require_GET
def client(request: Request, instance_id: str, name: str) -> HttpResponse:
    """Client settings for a granted topic: the owner's instance, the visitor's own AccessKey and group."""
    found = _granted(request, instance_id, name)
    person = request.actor.person
    key = account_queries.access_keys(request.actor.tenant, person).filter(enabled=True).first()
    group = queries.visible_groups(request.actor, found.instance).first()
    context = _context(found, "client") | {
        "key": key,
        "endpoint": endpoint(found.instance),
        "snippets": snippets(
            found.instance,
            access_key_id=key.access_key_id if key else "",
            topic=found.name,
            group_id=group.group_id if group else "",
        ),
    }
    return render(request, "grants/client.html", context)


@require_GET
def groups(request: Request, instance_id: str, name: str) -> HttpResponse:
    """The visitor's own groups in the owner's instance."""
    found = _granted(request, instance_id, name)
    own = queries.visible_groups(request.actor, found.instance).select_related("creator")
    return render(request, "grants/groups.html", _context(found, "groups") | {"groups": own[:_SUGGESTED_USERS]})


def group_create(request: Request, instance_id: str, name: str) -> HttpResponse:
    """A group of the visitor's account in the owner's instance."""
    found = access.new_group(request, instance_id, name)
    form = GroupForm(request.POST or None)
    if request.method == "POST" and form.is_valid():
        try:
            group = services.create_group(actor=request.actor, instance=found.instance, **form.cleaned_data)
        except Refused as refused:
            add_refusal(form, refused)
        else:
            messages.success(request, f"Group {group.group_id} is ready.")
            return redirect("grants.groups", instance_id, name)
    status = 422 if form.is_bound else 200
    return render(request, "grants/group_create.html", _context(found, "groups") | {"form": form}, status=status)


def _create(request: Request, found: Topic, values: dict[str, Any]) -> Grant:
    actor = request.actor
    receiver: dict[str, Any] = (
        {"tenant": grant_services.account_of(actor, values["tenant"])}
        if values["receiver"] == "account"
        else {"user": grant_services.user_of(actor, values["user"])}
    )
    return grant_services.create_grant(actor=actor, topic=found, relation=values["relation"], **receiver)


def _owned(request: Request, instance_id: str, name: str, action: str) -> Topic:
    found = access.topic(request, instance_id, name, action)
    if found.instance.tenant_id != request.actor.tenant.pk:
        raise Http404("only the owner shares a topic")
    return found


def _granted(request: Request, instance_id: str, name: str) -> Topic:
    found = access.topic(request, instance_id, name, "mq:QueryTopic")
    if found.instance.tenant_id == request.actor.tenant.pk:
        raise Http404("an own topic has its pages in its instance")
    return found


def _context(found: Topic, tab: str) -> dict[str, Any]:
    return {"instance": found.instance, "topic": found, "tab": tab}
