"""User groups of the account: list, create, describe, members, policies, delete."""

from __future__ import annotations

from django.contrib import messages
from django.http import Http404, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.views.decorators.http import require_GET, require_POST

from console.accounts import access, picker, services, subjects, user_queries
from console.accounts.forms.user_groups import GroupForm
from console.accounts.models import User
from console.accounts.tables.user_groups import GroupTable, MemberTable
from console.accounts.views import memberships
from console.accounts.views.memberships import SOON
from console.web import deletion, htmx
from console.web.errors import Refused
from console.web.forms import add_refusal
from console.web.http import Request
from console.web.paging import configured, search_text


@require_GET
def index(request: Request) -> HttpResponse:
    tenant = access.service(request, "ram", "ram:ListGroups", "group/*")
    text = search_text(request)
    found = user_queries.groups(tenant).filter(name__icontains=text)
    context = {"table": configured(request, GroupTable(found)), "q": text}
    return htmx.page(request, "accounts/groups.html", "accounts/_groups.html", context)


def create(request: Request) -> HttpResponse:
    access.service(request, "ram", "ram:CreateGroup", "group/*")
    form = GroupForm(request.POST or None)
    if request.method == "POST" and form.is_valid():
        try:
            group = services.create_group(actor=request.actor, **form.cleaned_data)
        except Refused as refused:
            add_refusal(form, refused)
        else:
            messages.success(request, f"User group {group.name} is ready. Add users and attach policies.")
            return redirect("accounts.group", group.name)
    status = 422 if form.is_bound else 200
    return render(request, "accounts/group_create.html", {"form": form}, status=status)


@require_GET
def detail(request: Request, name: str) -> HttpResponse:
    group = subjects.group(request, name, "ram:GetGroup")
    text = search_text(request)
    context = {
        "group": group,
        "table": configured(request, MemberTable(user_queries.members(group, text))),
        "q": text,
        "user_picker": picker.users_for_group(group),
        "policy_picker": picker.policies_for_group(group),
    }
    return htmx.page(request, "accounts/group.html", "accounts/_members.html", context)


def update(request: Request, name: str) -> HttpResponse:
    group = subjects.group(request, name, "ram:UpdateGroup")
    form = GroupForm(request.POST or None, initial={"name": group.name, "description": group.description})
    if request.method == "POST" and form.is_valid():
        # Rights on the new name are needed too, or a rename would lead around them.
        access.service(request, "ram", "ram:UpdateGroup", f"group/{form.cleaned_data['name']}")
        try:
            services.update_group(actor=request.actor, group=group, **form.cleaned_data)
        except Refused as refused:
            add_refusal(form, refused)
        else:
            messages.success(request, "Saved.")
            return redirect("accounts.group", group.name)
    context = {"form": form, "name": name}
    return render(request, "accounts/group_update.html", context, status=422 if form.is_bound else 200)


def delete(request: Request, name: str) -> HttpResponse:
    group = subjects.group(request, name, "ram:DeleteGroup")
    wanted = deletion.Deletion(
        kind="user group",
        name=group.name,
        warning="Its users stay, and lose what they may do through it.",
        cancel_url=reverse("accounts.group", args=[group.name]),
    )
    return deletion.confirm(
        request, wanted, lambda: services.delete_group(actor=request.actor, group=group), ("accounts.groups",)
    )


@require_GET
def find_users(request: Request, name: str) -> HttpResponse:
    group = subjects.group(request, name, "ram:AddUserToGroup")
    text = search_text(request)
    found = user_queries.addable_users(request.actor.tenant, group, text)
    return picker.respond(request, picker.users_for_group(group).showing(text, picker.of_users(found)))


@require_POST
def add_user(request: Request, name: str) -> HttpResponse:
    group = subjects.group(request, name, "ram:AddUserToGroup")
    user = _named_user(request)
    return memberships.join(request, group, user, "accounts.group", group.name)


@require_POST
def remove_user(request: Request, name: str) -> HttpResponse:
    group = subjects.group(request, name, "ram:RemoveUserFromGroup")
    user = _named_user(request)
    return memberships.leave(request, group, user, "accounts.group", group.name)


@require_GET
def find_policies(request: Request, name: str) -> HttpResponse:
    group = subjects.group(request, name, "ram:AttachPolicyToGroup")
    text = search_text(request)
    found = user_queries.attachable_policies(request.actor.tenant, group, text)
    return picker.respond(request, picker.policies_for_group(group).showing(text, picker.of_policies(found)))


@require_POST
def attach_policy(request: Request, name: str) -> HttpResponse:
    group = subjects.group(request, name, "ram:AttachPolicyToGroup")
    policy = subjects.policy(request)
    services.attach_group_policy(actor=request.actor, group=group, policy=policy)
    messages.success(request, f"{policy.name} is attached. {SOON}")
    return htmx.done(request, "accounts.group", group.name)


@require_POST
def detach_policy(request: Request, name: str) -> HttpResponse:
    group = subjects.group(request, name, "ram:DetachPolicyFromGroup")
    policy = subjects.policy(request)
    services.detach_group_policy(actor=request.actor, group=group, policy=policy)
    messages.success(request, f"{policy.name} is detached. {SOON}")
    return htmx.done(request, "accounts.group", group.name)


def _named_user(request: Request) -> User:
    user = user_queries.user(request.actor.tenant, request.POST.get("name", ""))
    if user is None:
        raise Http404("no such user")
    return user
