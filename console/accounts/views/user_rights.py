"""What a user may do: policies attached to it, and the groups it is in."""

from __future__ import annotations

from django.contrib import messages
from django.http import HttpResponse
from django.views.decorators.http import require_GET, require_POST

from console.accounts import picker, services, subjects, user_queries
from console.accounts.views import memberships
from console.accounts.views.memberships import SOON
from console.web import htmx
from console.web.errors import Refused
from console.web.http import Request
from console.web.paging import search_text


@require_GET
def find_policies(request: Request, username: str) -> HttpResponse:
    user = subjects.user(request, username, "ram:AttachPolicyToUser")
    text = search_text(request)
    found = user_queries.attachable_policies(request.actor.tenant, user, text)
    return picker.respond(request, picker.policies_for_user(user).showing(text, picker.of_policies(found)))


@require_POST
def attach_policy(request: Request, username: str) -> HttpResponse:
    user = subjects.user(request, username, "ram:AttachPolicyToUser")
    policy = subjects.policy(request)
    try:
        services.attach_policy(actor=request.actor, user=user, policy=policy)
    except Refused as refused:
        messages.error(request, refused.message)
    else:
        messages.success(request, f"{policy.name} is attached. {SOON}")
    return htmx.done(request, "accounts.user", user.username)


@require_POST
def detach_policy(request: Request, username: str) -> HttpResponse:
    user = subjects.user(request, username, "ram:DetachPolicyFromUser")
    policy = subjects.policy(request)
    services.detach_policy(actor=request.actor, user=user, policy=policy)
    messages.success(request, f"{policy.name} is detached. {SOON}")
    return htmx.done(request, "accounts.user", user.username)


@require_GET
def find_groups(request: Request, username: str) -> HttpResponse:
    user = subjects.user(request, username, "ram:GetUser")
    text = search_text(request)
    found = user_queries.joinable_groups(request.actor.tenant, user, text)
    return picker.respond(request, picker.groups_for_user(user).showing(text, picker.of_groups(found)))


@require_POST
def join_group(request: Request, username: str) -> HttpResponse:
    group = subjects.group(request, request.POST.get("name", ""), "ram:AddUserToGroup")
    user = subjects.user(request, username, "ram:GetUser")
    return memberships.join(request, group, user, "accounts.user", user.username)


@require_POST
def leave_group(request: Request, username: str) -> HttpResponse:
    group = subjects.group(request, request.POST.get("name", ""), "ram:RemoveUserFromGroup")
    user = subjects.user(request, username, "ram:GetUser")
    return memberships.leave(request, group, user, "accounts.user", user.username)
