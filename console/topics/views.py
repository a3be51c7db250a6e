"""Pages of topics, of groups, and of grants: what the owner gives, and what the receiver does with it.

Consumer status, reset and dead letters of a group are pages of messaging.
"""

from __future__ import annotations

from typing import Any

from django.contrib import messages
from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpResponse
from django.http.response import HttpResponseBase
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils.translation import gettext as _
from django.views.decorators.http import require_GET, require_POST

from console.accounts import downloads, saved_views
from console.accounts import queries as account_queries
from console.accounts.http import Request
from console.instances import access as instances
from console.instances.addresses import tcp_address
from console.instances.snippets import snippets
from console.topics import access, many, queries, services
from console.topics import grants as grant_services
from console.topics.forms import GrantForm, GroupForm, ModeForm, OrderForm, TopicForm
from console.topics.live import delivery, group_hours, queue_rows, rates, subscribers, topic_hours
from console.topics.models import Grant, Topic
from console.topics.names import topic_name_room
from console.topics.tables import (
    GroupTable,
    SharedByMeTable,
    SharedWithMeTable,
    TopicGrantTable,
    TopicTable,
    sortable_groups,
    sortable_topics,
)
from console.web import bulk, deletion, forms, htmx, streams
from console.web.paging import configured, records, search_text

_SUGGESTED_USERS = 300


@streams.part
@require_GET
@saved_views.opens_with_default("topics_TopicTable")
def topic_list(request: Request, instance_id: str) -> HttpResponseBase:
    instance = instances.instance(request, instance_id, "mq:QueryInstance")
    text = search_text(request)
    found = queries.visible_topics(request.actor, instance, text=text)
    table = configured(request, TopicTable(sortable_topics(request, instance, found), instance=instance))
    if downloads.is_wanted(request):
        return downloads.csv(request, table, "topics.topic.export", f"topics-{instance_id}", instance_id)
    shown = records(table)
    table.measure(shown)
    if table.shows("hour"):
        table.hours = topic_hours.get()(instance.cluster, [topic.physical_name for topic in shown])
    total = table.page.paginator.count
    table.bulk = many.topic_bar(request.actor, instance, shown, total, request.GET.urlencode())
    context = {
        "instance": instance,
        "table": table,
        "rates": table.rates,
        "q": text,
    }
    return htmx.page(request, "topics/list.html", "topics/_list.html", context)


def topic_create(request: Request, instance_id: str) -> HttpResponse:
    instance = instances.instance(request, instance_id, "mq:CreateTopic")
    form = TopicForm(request.POST or None, most=topic_name_room(instance.physical_name("")))
    if form.is_valid():
        with forms.refusals_on(form):
            topic = services.create_topic(actor=request.actor, instance=instance, **form.cleaned_data)
            messages.success(request, _("Topic %(topic)s is ready.") % {"topic": topic.name})
            return redirect("topics.detail", instance.instance_id, topic.name)
    return forms.show(request, "topics/create.html", form, {"instance": instance})


@require_GET
def topic_detail(request: Request, instance_id: str, name: str) -> HttpResponse:
    topic = access.topic(request, instance_id, name, "mq:QueryTopic")
    measured = rates(topic.instance.cluster, topics=[topic.physical_name])
    context = {
        "instance": topic.instance,
        "topic": topic,
        "tab": "information",
        "in_tps": measured.in_tps.get(topic.physical_name),
        "stored": measured.stored.get(topic.physical_name),
        "message_type": services.MESSAGE_TYPES[topic.order_type],  # type: ignore[index]
        "form": ModeForm(initial={"perm": topic.perm}),
    } | access.standing(request.actor, topic)
    return render(request, "topics/detail.html", context)


@streams.part
@require_GET
def topic_live(request: Request, instance_id: str, name: str) -> HttpResponse:
    topic = access.topic(request, instance_id, name, "mq:QueryTopic")
    context = {
        "instance": topic.instance,
        "topic": topic,
        "subscribers": subscribers(request.actor, topic),
        "queues": queue_rows(topic),
    }
    return render(request, "topics/_live.html", context)


@require_POST
def topic_mode(request: Request, instance_id: str, name: str) -> HttpResponse:
    topic = access.topic(request, instance_id, name, "mq:UpdateTopic")
    form = ModeForm(request.POST)
    if form.is_valid():
        services.set_topic_permission(actor=request.actor, topic=topic, **form.cleaned_data)
        messages.success(
            request, _("%(topic)s is now: %(perm)s.") % {"topic": topic.name, "perm": topic.get_perm_display().lower()}
        )
    else:
        messages.error(request, _("The mode is read and write, read only, or write only."))
    return htmx.done(request, "topics.detail", topic.instance.instance_id, topic.name)


@require_POST
def topic_delete_many(request: Request, instance_id: str) -> HttpResponse:
    instance = instances.instance(request, instance_id, "mq:QueryInstance")
    return bulk.answer(request, many.topic_deletion(request.actor, instance))


@require_POST
def topic_mode_many(request: Request, instance_id: str) -> HttpResponse:
    instance = instances.instance(request, instance_id, "mq:QueryInstance")
    form = many.chosen_form(ModeForm, request.POST)
    return bulk.answer(request, many.topic_mode(request.actor, instance, form))


@require_POST
def topic_export_many(request: Request, instance_id: str) -> HttpResponseBase:
    """The chosen topics as a file, as the list has it of all."""
    instance = instances.instance(request, instance_id, "mq:QueryInstance")
    text = many.text_of(request.POST.get("filters", "")) if request.POST.get("all") else ""
    found = queries.visible_topics(request.actor, instance, text=text)
    if not request.POST.get("all"):
        found = found.filter(name__in=bulk.chosen(request))
    table = TopicTable(found, instance=instance)
    return downloads.csv(request, table, "topics.topic.export", f"topics-{instance_id}", instance_id)


def topic_delete(request: Request, instance_id: str, name: str) -> HttpResponse:
    topic = access.topic(request, instance_id, name, "mq:DeleteTopic")
    wanted = deletion.Deletion(
        kind=_("topic"),
        name=topic.name,
        warning=_("Its messages, the subscriptions of all groups and the grants on it are deleted with it."),
        cancel_url=reverse("topics.detail", args=[instance_id, topic.name]),
    )
    return deletion.confirm(
        request,
        wanted,
        lambda: services.delete_topic(actor=request.actor, topic=topic),
        ("topics.list", topic.instance.instance_id),
    )


@streams.part
@require_GET
@saved_views.opens_with_default("topics_GroupTable")
def group_list(request: Request, instance_id: str) -> HttpResponseBase:
    instance = instances.instance(request, instance_id, "mq:QueryInstance")
    text = search_text(request)
    found = queries.visible_groups(request.actor, instance, text=text).select_related("creator")
    table = configured(request, GroupTable(sortable_groups(request, instance, found), instance=instance))
    if downloads.is_wanted(request):
        return downloads.csv(request, table, "topics.group.export", f"groups-{instance_id}", instance_id)
    shown = records(table)
    table.measure(shown)
    if table.shows("hour"):
        table.hours = group_hours.get()(instance.cluster, table.rates.backlog)
    total = table.page.paginator.count
    table.bulk = many.group_bar(request.actor, instance, shown, total, request.GET.urlencode())
    context = {
        "instance": instance,
        "table": table,
        "rates": table.rates,
        "q": text,
    }
    return htmx.page(request, "topics/group_list.html", "topics/_group_list.html", context)


def group_create(request: Request, instance_id: str) -> HttpResponse:
    instance = instances.instance(request, instance_id, "mq:CreateGroup")
    form = GroupForm(request.POST or None)
    if form.is_valid():
        with forms.refusals_on(form):
            group = services.create_group(actor=request.actor, instance=instance, **form.cleaned_data)
            messages.success(request, _("Group %(group_id)s is ready.") % {"group_id": group.group_id})
            return redirect("groups.list", instance.instance_id)
    return forms.show(request, "topics/group_create.html", form, {"instance": instance})


@require_GET
def group_detail(request: Request, instance_id: str, group_id: str) -> HttpResponse:
    group = access.group(request, instance_id, group_id, "mq:QueryGroup")
    form = OrderForm(initial={"delivery_order": group.delivery_order})
    context = {"instance": group.instance, "group": group, "tab": "settings", "form": form}
    return render(request, "topics/group_detail.html", context)


@require_POST
def group_reading(request: Request, instance_id: str, group_id: str) -> HttpResponse:
    group = access.group(request, instance_id, group_id, "mq:UpdateGroup")
    enabled = request.POST.get("enabled") == "true"
    services.set_group_reading(actor=request.actor, group=group, enabled=enabled)
    said = _("%(group_id)s may consume again.") if enabled else _("%(group_id)s gets no more messages.")
    messages.success(request, said % {"group_id": group.group_id})
    return htmx.done(request, "groups.detail", group.instance.instance_id, group.group_id)


def group_order(request: Request, instance_id: str, group_id: str) -> HttpResponse:
    """Whether the group gets messages in order now, as the brokers know it; and setting it."""
    changes = request.method == "POST"
    group = access.group(request, instance_id, group_id, "mq:UpdateGroup" if changes else "mq:QueryGroup")
    if not changes:
        return render(request, "topics/_delivery.html", {"group": group, "delivery": delivery(group)})
    form = OrderForm(request.POST)
    if form.is_valid():
        services.set_group_order(actor=request.actor, group=group, **form.cleaned_data)
        messages.success(
            request,
            _("%(group_id)s is delivered to: %(delivery_order)s.")
            % {"group_id": group.group_id, "delivery_order": group.get_delivery_order_display().lower()},
        )
    else:
        messages.error(request, _("The delivery order is automatic, in order, or without order."))
    return htmx.done(request, "groups.detail", group.instance.instance_id, group.group_id)


@require_POST
def group_sharing(request: Request, instance_id: str, group_id: str) -> HttpResponse:
    """Open a group to the account's RAM users or keep it: the account's decision alone."""
    group = access.group(request, instance_id, group_id, "mq:UpdateGroup")
    if not request.actor.is_account:
        raise PermissionDenied(_("Only the administrator of the account decides which groups its RAM users may use."))
    shared = request.POST.get("shared") == "true"
    services.set_group_shared(actor=request.actor, group=group, shared=shared)
    said = (
        _("%(group_id)s: RAM users may use it as their policies say.")
        if shared
        else _("%(group_id)s: only the account and its creator may use it.")
    )
    messages.success(request, said % {"group_id": group.group_id})
    return htmx.done(request, "groups.detail", group.instance.instance_id, group.group_id)


@require_POST
def group_delete_many(request: Request, instance_id: str) -> HttpResponse:
    instance = instances.instance(request, instance_id, "mq:QueryInstance")
    return bulk.answer(request, many.group_deletion(request.actor, instance))


@require_POST
def group_export_many(request: Request, instance_id: str) -> HttpResponseBase:
    """The chosen groups as a file, as the list has it of all."""
    instance = instances.instance(request, instance_id, "mq:QueryInstance")
    text = many.text_of(request.POST.get("filters", "")) if request.POST.get("all") else ""
    found = queries.visible_groups(request.actor, instance, text=text).select_related("creator")
    if not request.POST.get("all"):
        found = found.filter(group_id__in=bulk.chosen(request))
    table = GroupTable(found, instance=instance)
    return downloads.csv(request, table, "topics.group.export", f"groups-{instance_id}", instance_id)


def group_delete(request: Request, instance_id: str, group_id: str) -> HttpResponse:
    group = access.group(request, instance_id, group_id, "mq:DeleteGroup")
    wanted = deletion.Deletion(
        kind=_("group"),
        name=group.group_id,
        warning=_("Its offsets, the messages waiting for redelivery and its dead letters are deleted with it."),
        cancel_url=reverse("groups.detail", args=[instance_id, group.group_id]),
    )
    own = group.instance.tenant_id == request.actor.tenant.pk
    return deletion.confirm(
        request,
        wanted,
        lambda: services.delete_group(actor=request.actor, group=group),
        ("groups.list", group.instance.instance_id) if own else ("grants.index",),
    )


@require_GET
def grants_index(request: Request) -> HttpResponse:
    """Shared by the account and shared with it; each visitor sees the topics it may see."""
    actor, text = request.actor, search_text(request)
    given = request.GET.get("tab") == "by"
    found = queries.shared_by_me(actor, text) if given else queries.shared_with_me(actor, text)
    table = (SharedByMeTable if given else SharedWithMeTable)(found)
    here = reverse("grants.index")
    context = {
        "table": configured(request, table),
        "q": text,
        "tab": "by" if given else "with",
        "tabs": [
            {"title": _("Shared with me"), "url": here, "active": not given},
            {"title": _("Shared by me"), "url": f"{here}?tab=by", "active": given},
        ],
    }
    return htmx.page(request, "grants/index.html", "grants/_list.html", context)


def grants_topic(request: Request, instance_id: str, name: str) -> HttpResponse:
    """Whom the topic is shared with, and sharing it: for its owner."""
    found = _owned(request, instance_id, name, "mq:Empower" if request.method == "POST" else "mq:QueryTopic")
    form = GrantForm(request.POST or None)
    if form.is_valid():
        with forms.refusals_on(form):
            grant = _create_grant(request, found, form.cleaned_data)
            messages.success(
                request,
                _("%(found)s is shared with %(grant)s.")
                % {"found": found.name, "grant": grant_services.receiver_name(grant)},
            )
            return redirect("grants.topic", instance_id, name)
    context = {
        "instance": found.instance,
        "topic": found,
        "tab": "grants",
        "table": configured(request, TopicGrantTable(grant_services.grants_of(found))),
        "users": queries.ram_user_names(request.actor.tenant, _SUGGESTED_USERS),
    }
    return forms.show(request, "grants/topic.html", form, context)


def grants_revoke(request: Request, instance_id: str, name: str, number: int) -> HttpResponse:
    """End a grant once the receiver's name was typed."""
    found = _owned(request, instance_id, name, "mq:Empower")
    grant = grant_services.grants_of(found).filter(pk=number).first()
    if grant is None:
        raise Http404("no such grant")
    wanted = deletion.Deletion(
        kind=_("grant"),
        verb=_("Revoke"),
        name=grant_services.receiver_name(grant),
        warning=_("Its clients are refused on %(found)s within two seconds. Its groups and their offsets stay.")
        % {"found": found.name},
        cancel_url=reverse("grants.topic", args=[instance_id, name]),
    )
    return deletion.confirm(
        request,
        wanted,
        lambda: grant_services.delete_grant(actor=request.actor, grant=grant),
        ("grants.topic", instance_id, name),
    )


@require_GET
def grants_client(request: Request, instance_id: str, name: str) -> HttpResponse:
    """Client settings for a granted topic: the owner's instance, the visitor's own AccessKey and group."""
    found = _granted(request, instance_id, name)
    person = request.actor.person
    key = account_queries.access_keys(request.actor.tenant, person).filter(enabled=True).first()
    group = queries.visible_groups(request.actor, found.instance).first()
    context = _received(found, "client") | {
        "key": key,
        "endpoint": tcp_address(found.instance),
        "snippets": snippets(
            found.instance,
            access_key_id=key.access_key_id if key else "",
            topic=found.name,
            group_id=group.group_id if group else "",
        ),
    }
    return render(request, "grants/client.html", context)


@require_GET
def grants_groups(request: Request, instance_id: str, name: str) -> HttpResponse:
    """The visitor's own groups in the owner's instance."""
    found = _granted(request, instance_id, name)
    own = queries.visible_groups(request.actor, found.instance).select_related("creator")
    return render(request, "grants/groups.html", _received(found, "groups") | {"groups": own[:_SUGGESTED_USERS]})


def grants_group_create(request: Request, instance_id: str, name: str) -> HttpResponse:
    """A group of the visitor's account in the owner's instance."""
    found = access.new_group(request, instance_id, name)
    form = GroupForm(request.POST or None)
    if form.is_valid():
        with forms.refusals_on(form):
            group = services.create_group(actor=request.actor, instance=found.instance, **form.cleaned_data)
            messages.success(request, _("Group %(group_id)s is ready.") % {"group_id": group.group_id})
            return redirect("grants.groups", instance_id, name)
    return forms.show(request, "grants/group_create.html", form, _received(found, "groups"))


def _create_grant(request: Request, found: Topic, values: dict[str, Any]) -> Grant:
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


def _received(found: Topic, tab: str) -> dict[str, Any]:
    return {"instance": found.instance, "topic": found, "tab": tab}
