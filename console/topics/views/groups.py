"""Pages of groups; consumer status, reset and dead letters are those of messaging."""

from __future__ import annotations

from django.contrib import messages
from django.core.exceptions import PermissionDenied
from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.views.decorators.http import require_GET, require_POST

from console.instances import access as instances
from console.metrics.queries import rates
from console.topics import access, queries, services
from console.topics.forms import GroupForm
from console.topics.tables import GroupTable
from console.web import deletion, htmx
from console.web.errors import Refused
from console.web.forms import add_refusal
from console.web.http import Request
from console.web.paging import configured, search_text


@require_GET
def index(request: Request, instance_id: str) -> HttpResponse:
    instance = instances.instance(request, instance_id, "mq:QueryInstance")
    text = search_text(request)
    found = queries.visible_groups(request.actor, instance).filter(group_id__icontains=text).select_related("creator")
    measured = rates(instance.cluster)
    context = {
        "instance": instance,
        "table": configured(request, GroupTable(found, instance=instance, rates=measured)),
        "rates": measured,
        "q": text,
    }
    return htmx.page(request, "topics/group_list.html", "topics/_group_list.html", context)


def create(request: Request, instance_id: str) -> HttpResponse:
    instance = instances.instance(request, instance_id, "mq:CreateGroup")
    form = GroupForm(request.POST or None)
    if request.method == "POST" and form.is_valid():
        try:
            group = services.create_group(actor=request.actor, instance=instance, **form.cleaned_data)
        except Refused as refused:
            add_refusal(form, refused)
        else:
            messages.success(request, f"Group {group.group_id} is ready.")
            return redirect("groups.list", instance.instance_id)
    status = 422 if form.is_bound else 200
    return render(request, "topics/group_create.html", {"instance": instance, "form": form}, status=status)


@require_GET
def detail(request: Request, instance_id: str, group_id: str) -> HttpResponse:
    group = access.group(request, instance_id, group_id, "mq:QueryGroup")
    context = {"instance": group.instance, "group": group, "tab": "settings"}
    return render(request, "topics/group_detail.html", context)


@require_POST
def reading(request: Request, instance_id: str, group_id: str) -> HttpResponse:
    group = access.group(request, instance_id, group_id, "mq:UpdateGroup")
    enabled = request.POST.get("enabled") == "true"
    services.set_group_reading(actor=request.actor, group=group, enabled=enabled)
    messages.success(request, f"{group.group_id} {'may consume again' if enabled else 'gets no more messages'}.")
    return htmx.done(request, "groups.detail", group.instance.instance_id, group.group_id)


@require_POST
def sharing(request: Request, instance_id: str, group_id: str) -> HttpResponse:
    """Open a group to the account's RAM users or keep it: the account's decision alone."""
    group = access.group(request, instance_id, group_id, "mq:UpdateGroup")
    if not request.actor.is_account:
        raise PermissionDenied("Only the administrator of the account says which groups its RAM users may use.")
    shared = request.POST.get("shared") == "true"
    services.set_group_shared(actor=request.actor, group=group, shared=shared)
    who = "RAM users may use it as their policies say" if shared else "only the account and its creator may use it"
    messages.success(request, f"{group.group_id}: {who}.")
    return htmx.done(request, "groups.detail", group.instance.instance_id, group.group_id)


def delete(request: Request, instance_id: str, group_id: str) -> HttpResponse:
    group = access.group(request, instance_id, group_id, "mq:DeleteGroup")
    wanted = deletion.Deletion(
        kind="group",
        name=group.group_id,
        warning="Its offsets, the messages waiting for redelivery and its dead letters go with it.",
        cancel_url=reverse("groups.detail", args=[instance_id, group.group_id]),
    )
    own = group.instance.tenant_id == request.actor.tenant.pk
    return deletion.confirm(
        request,
        wanted,
        lambda: services.delete_group(actor=request.actor, group=group),
        ("groups.list", group.instance.instance_id) if own else ("grants.index",),
    )
