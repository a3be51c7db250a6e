"""User groups of the account: list, create, describe, members, policies, delete."""

from __future__ import annotations

from django.contrib import messages
from django.http import HttpResponse
from django.shortcuts import redirect
from django.urls import reverse
from django.utils.translation import gettext as _
from django.views.decorators.http import require_GET, require_POST

from console.accounts import access, queries, services
from console.accounts.forms import GroupForm
from console.accounts.http import Request
from console.accounts.tables import GroupTable, MemberTable
from console.accounts.views import attaching
from console.web import deletion, forms, htmx
from console.web.paging import configured, search_text


@require_GET
def index(request: Request) -> HttpResponse:
    tenant = access.service(request, "ram", "ram:ListGroups", "group/*")
    text = search_text(request)
    found = queries.groups(tenant).filter(name__icontains=text)
    context = {"table": configured(request, GroupTable(found)), "q": text}
    return htmx.page(request, "accounts/groups.html", "accounts/_groups.html", context)


def create(request: Request) -> HttpResponse:
    access.service(request, "ram", "ram:CreateGroup", "group/*")
    form = GroupForm(request.POST or None)
    if form.is_valid():
        with forms.refusals_on(form):
            group = services.create_group(actor=request.actor, **form.cleaned_data)
            messages.success(
                request, _("User group %(group)s is ready. Add users and attach policies.") % {"group": group.name}
            )
            return redirect("accounts.group", group.name)
    return forms.show(request, "accounts/group_create.html", form)


@require_GET
def detail(request: Request, name: str) -> HttpResponse:
    group = access.group(request, name, "ram:GetGroup")
    text = search_text(request)
    context = {
        "group": group,
        "table": configured(request, MemberTable(queries.members(group, text))),
        "q": text,
        "user_picker": attaching.users_for(group),
        "policy_picker": attaching.policies_for(group),
    }
    return htmx.page(request, "accounts/group.html", "accounts/_members.html", context)


def update(request: Request, name: str) -> HttpResponse:
    group = access.group(request, name, "ram:UpdateGroup")
    form = GroupForm(request.POST or None, initial={"name": group.name, "description": group.description})
    if form.is_valid():
        # Rights on the new name are needed too, or a rename would lead around them.
        access.service(request, "ram", "ram:UpdateGroup", f"group/{form.cleaned_data['name']}")
        with forms.refusals_on(form):
            services.update_group(actor=request.actor, group=group, **form.cleaned_data)
            messages.success(request, _("Saved."))
            return redirect("accounts.group", group.name)
    return forms.show(request, "accounts/group_update.html", form, {"name": name})


def delete(request: Request, name: str) -> HttpResponse:
    group = access.group(request, name, "ram:DeleteGroup")
    wanted = deletion.Deletion(
        kind=_("user group"),
        name=group.name,
        warning=_("Its users stay, but lose the rights that they have through it."),
        cancel_url=reverse("accounts.group", args=[group.name]),
    )
    return deletion.confirm(
        request, wanted, lambda: services.delete_group(actor=request.actor, group=group), ("accounts.groups",)
    )


@require_GET
def find_users(request: Request, name: str) -> HttpResponse:
    group = access.group(request, name, "ram:AddUserToGroup")
    return attaching.find_users(request, group)


@require_POST
def add_user(request: Request, name: str) -> HttpResponse:
    group = access.group(request, name, "ram:AddUserToGroup")
    return attaching.join(request, group, access.chosen_user(request), page=group)


@require_POST
def remove_user(request: Request, name: str) -> HttpResponse:
    group = access.group(request, name, "ram:RemoveUserFromGroup")
    return attaching.leave(request, group, access.chosen_user(request), page=group)


@require_GET
def find_policies(request: Request, name: str) -> HttpResponse:
    group = access.group(request, name, "ram:AttachPolicyToGroup")
    return attaching.find_policies(request, group)


@require_POST
def attach_policy(request: Request, name: str) -> HttpResponse:
    group = access.group(request, name, "ram:AttachPolicyToGroup")
    return attaching.attach(
        request, group, lambda policy: services.attach_group_policy(actor=request.actor, group=group, policy=policy)
    )


@require_POST
def detach_policy(request: Request, name: str) -> HttpResponse:
    group = access.group(request, name, "ram:DetachPolicyFromGroup")
    return attaching.detach(
        request, group, lambda policy: services.detach_group_policy(actor=request.actor, group=group, policy=policy)
    )
