"""Users of the account: list, create, describe, enable and disable, delete."""

from __future__ import annotations

from django.contrib import messages
from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_GET, require_POST

from console.accounts import access, key_use, picker, rotation, services, subjects, user_queries
from console.accounts.forms.users import PasswordForm, ProfileForm, UserFilterForm, UserForm
from console.accounts.mfa import has_device
from console.accounts.models import User
from console.accounts.tables.users import UserTable
from console.accounts.user_queries import UserFilter
from console.web import deletion, htmx
from console.web.errors import Refused
from console.web.forms import add_refusal
from console.web.http import Request
from console.web.paging import configured


@require_GET
def index(request: Request) -> HttpResponse:
    tenant = access.service(request, "ram", "ram:ListUsers", "user/*")
    form = UserFilterForm(request.GET, tenant=tenant)
    wanted = form.wanted
    context = {
        "form": form,
        "narrowed": wanted != UserFilter(),
        "table": configured(request, UserTable(user_queries.found_users(tenant, wanted))),
    }
    return htmx.page(request, "accounts/users.html", "accounts/_users.html", context)


@never_cache
def create(request: Request) -> HttpResponse:
    """A drawn password is in the answer, this once: no redirect could carry it."""
    tenant = access.service(request, "ram", "ram:CreateUser", "user/*")
    form = UserForm(request.POST or None, tenant=tenant)
    if request.method == "POST" and form.is_valid():
        _require_rights_to_give(request, form.cleaned_data)
        chosen = form.cleaned_data.pop("password")
        password = chosen or services.draw_password()
        try:
            user = services.create_user(actor=request.actor, password=password, **form.cleaned_data)
        except Refused as refused:
            add_refusal(form, refused)
        else:
            if not chosen:
                return render(request, "accounts/user_created.html", {"account": user, "password": password})
            messages.success(request, f"User {user.username} can sign in with the first password.")
            return redirect("accounts.user", user.username)
    status = 422 if form.is_bound else 200
    return render(request, "accounts/user_create.html", {"form": form}, status=status)


@require_GET
def detail(request: Request, username: str) -> HttpResponse:
    user = subjects.user(request, username, "ram:GetUser")
    return render(request, "accounts/user.html", _page(request, user))


def update(request: Request, username: str) -> HttpResponse:
    user = subjects.user(request, username, "ram:UpdateUser")
    form = ProfileForm(request.POST or None, initial={"display_name": user.get_full_name(), "email": user.email})
    if request.method == "POST" and form.is_valid():
        services.update_user(actor=request.actor, user=user, **form.cleaned_data)
        messages.success(request, "Saved.")
        return redirect("accounts.user", user.username)
    context = {"account": user, "form": form}
    return render(request, "accounts/user_update.html", context, status=422 if form.is_bound else 200)


@require_POST
def switch(request: Request, username: str) -> HttpResponse:
    user = subjects.user(request, username, "ram:UpdateUser")
    enabled = request.POST.get("enabled") == "true"
    try:
        services.set_user_enabled(actor=request.actor, user=user, enabled=enabled)
    except Refused as refused:
        messages.error(request, refused.message)
    else:
        done = "enabled" if enabled else "disabled, with all AccessKeys and sessions"
        messages.success(request, f"{user.username} is {done}.")
    return htmx.done(request, "accounts.user", user.username)


def delete(request: Request, username: str) -> HttpResponse:
    user = subjects.user(request, username, "ram:DeleteUser")
    wanted = deletion.Deletion(
        kind="user",
        name=user.username,
        warning="Its AccessKeys, sessions, SQL sign-in and received grants go with it. Topics and groups that it made "
        "stay; its query tasks keep its name.",
        cancel_url=reverse("accounts.user", args=[user.username]),
    )
    return deletion.confirm(
        request, wanted, lambda: services.delete_user(actor=request.actor, user=user), ("accounts.users",)
    )


def _page(request: Request, user: User) -> dict[str, object]:
    """What the page of a user shows; parts that the visitor may not see are left out."""
    path = f"user/{user.username}"
    keys = list(user.access_keys.all()) if subjects.may(request.actor, "ram:ListAccessKeys", path) else None
    uses, uses_known = key_use.known_uses(keys or [])
    return {
        "account": user,
        "itself": user == request.user,
        "held": user_queries.held_policies(user),
        "groups": user.user_groups.order_by("name"),
        "pairs": None if keys is None else rotation.pairs_of(keys, uses),
        "uses_known": uses_known,
        "has_device": has_device(user),
        "password_form": PasswordForm(),
        "policy_picker": picker.policies_for_user(user),
        "group_picker": picker.groups_for_user(user),
    }


def _require_rights_to_give(request: Request, wanted: dict[str, object]) -> None:
    """Whoever makes a user with policies and groups needs the rights to give these, too."""
    if wanted["policies"]:
        access.service(request, "ram", "ram:AttachPolicyToUser", f"user/{wanted['name']}@{request.actor.tenant.name}")
    for group in wanted.get("groups") or ():  # type: ignore[attr-defined]
        access.service(request, "ram", "ram:AddUserToGroup", f"group/{group.name}")
