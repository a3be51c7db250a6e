"""Users of the account: list, create, describe, delete, their policies and groups, and how they get in."""

from __future__ import annotations

from django.contrib import messages
from django.http import HttpResponse
from django.http.response import HttpResponseBase
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils.translation import gettext as _
from django.utils.translation import ngettext
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_GET, require_POST

from console.accounts import access, credentials, downloads, queries, saved_views, services
from console.accounts.forms import PasswordForm, ProfileForm, UserFilterForm, UserForm
from console.accounts.http import Request
from console.accounts.mfa import has_device
from console.accounts.models import User
from console.accounts.queries import UserFilter
from console.accounts.tables import UserTable
from console.accounts.views import attaching
from console.web import deletion, forms, htmx
from console.web.paging import configured


@require_GET
@saved_views.opens_with_default("accounts_UserTable")
def index(request: Request) -> HttpResponseBase:
    tenant = access.service(request, "ram", "ram:ListUsers", "user/*")
    form = UserFilterForm(request.GET, tenant=tenant)
    wanted = form.wanted
    table = configured(request, UserTable(queries.found_users(tenant, wanted)))
    if downloads.is_wanted(request):
        return downloads.csv(request, table, "accounts.user.export", "users")
    context = {"form": form, "narrowed": wanted != UserFilter(), "table": table}
    return htmx.page(request, "accounts/users.html", "accounts/_users.html", context)


@never_cache
def create(request: Request) -> HttpResponse:
    """A drawn password is in the answer, this once: no redirect could carry it."""
    tenant = access.service(request, "ram", "ram:CreateUser", "user/*")
    form = UserForm(request.POST or None, tenant=tenant)
    if form.is_valid():
        _require_rights_to_give(request, form.cleaned_data)
        chosen = form.cleaned_data.pop("password")
        password = chosen or services.draw_password()
        with forms.refusals_on(form):
            user = services.create_user(actor=request.actor, password=password, **form.cleaned_data)
            if not chosen:
                return render(request, "accounts/user_created.html", {"account": user, "password": password})
            messages.success(
                request, _("User %(username)s can sign in with the first password.") % {"username": user.username}
            )
            return redirect("accounts.user", user.username)
    return forms.show(request, "accounts/user_create.html", form)


@require_GET
def detail(request: Request, username: str) -> HttpResponse:
    user = access.user(request, username, "ram:GetUser")
    return render(request, "accounts/user.html", _page(request, user))


def update(request: Request, username: str) -> HttpResponse:
    user = access.user(request, username, "ram:UpdateUser")
    form = ProfileForm(request.POST or None, initial={"display_name": user.get_full_name(), "email": user.email})
    if form.is_valid():
        services.update_user(actor=request.actor, user=user, **form.cleaned_data)
        messages.success(request, _("Saved."))
        return redirect("accounts.user", user.username)
    return forms.show(request, "accounts/user_update.html", form, {"account": user})


@require_POST
def switch(request: Request, username: str) -> HttpResponse:
    user = access.user(request, username, "ram:UpdateUser")
    enabled = request.POST.get("enabled") == "true"
    with forms.refusals_told(request):
        services.set_user_enabled(actor=request.actor, user=user, enabled=enabled)
        said = (
            _("%(username)s is enabled.")
            if enabled
            else _("%(username)s is disabled, with all AccessKeys and sessions.")
        )
        messages.success(request, said % {"username": user.username})
    return htmx.done(request, "accounts.user", user.username)


def delete(request: Request, username: str) -> HttpResponse:
    user = access.user(request, username, "ram:DeleteUser")
    wanted = deletion.Deletion(
        kind=_("user"),
        name=user.username,
        warning=_(
            "Its AccessKeys, sessions, SQL sign-in and received grants are deleted with it. Topics "
            "and groups that it created stay; its query tasks keep its name."
        ),
        cancel_url=reverse("accounts.user", args=[user.username]),
    )
    return deletion.confirm(
        request, wanted, lambda: services.delete_user(actor=request.actor, user=user), ("accounts.users",)
    )


@require_GET
def find_policies(request: Request, username: str) -> HttpResponse:
    user = access.user(request, username, "ram:AttachPolicyToUser")
    return attaching.find_policies(request, user)


@require_POST
def attach_policy(request: Request, username: str) -> HttpResponse:
    user = access.user(request, username, "ram:AttachPolicyToUser")
    return attaching.attach(
        request, user, lambda policy: services.attach_policy(actor=request.actor, user=user, policy=policy)
    )


@require_POST
def detach_policy(request: Request, username: str) -> HttpResponse:
    user = access.user(request, username, "ram:DetachPolicyFromUser")
    return attaching.detach(
        request, user, lambda policy: services.detach_policy(actor=request.actor, user=user, policy=policy)
    )


@require_GET
def find_groups(request: Request, username: str) -> HttpResponse:
    user = access.user(request, username, "ram:GetUser")
    return attaching.find_groups(request, user)


@require_POST
def join_group(request: Request, username: str) -> HttpResponse:
    group = access.group(request, request.POST.get("name", ""), "ram:AddUserToGroup")
    user = access.user(request, username, "ram:GetUser")
    return attaching.join(request, group, user, page=user)


@require_POST
def leave_group(request: Request, username: str) -> HttpResponse:
    group = access.group(request, request.POST.get("name", ""), "ram:RemoveUserFromGroup")
    user = access.user(request, username, "ram:GetUser")
    return attaching.leave(request, group, user, page=user)


def _page(request: Request, user: User) -> dict[str, object]:
    """What the page of a user shows; parts that the visitor may not see are left out."""
    path = f"user/{user.username}"
    keys = list(user.access_keys.all()) if access.may(request.actor, "ram:ListAccessKeys", path) else None
    uses, uses_known = credentials.known_uses(keys or [])
    return {
        "account": user,
        "itself": user == request.user,
        "held": queries.held_policies(user),
        "groups": user.user_groups.order_by("name"),
        "pairs": None if keys is None else credentials.pairs_of(keys, uses),
        "uses_known": uses_known,
        "has_device": has_device(user),
        "password_form": PasswordForm(),
        "policy_picker": attaching.policies_for(user),
        "group_picker": attaching.groups_for(user),
    }


def _require_rights_to_give(request: Request, wanted: dict[str, object]) -> None:
    """Whoever makes a user with policies and groups needs the rights to give these, too."""
    if wanted["policies"]:
        access.service(request, "ram", "ram:AttachPolicyToUser", f"user/{wanted['name']}@{request.actor.tenant.name}")
    for group in wanted.get("groups") or ():  # type: ignore[attr-defined]
        access.service(request, "ram", "ram:AddUserToGroup", f"group/{group.name}")


@never_cache
@require_POST
def password(request: Request, username: str) -> HttpResponse:
    """A drawn password is in the answer, this once: no redirect could carry it."""
    user = access.user(request, username, "ram:UpdateLoginProfile")
    chosen = request.POST.get("password", "")
    drawn = chosen or services.draw_password()
    with forms.refusals_told(request):
        services.reset_password(actor=request.actor, user=user, password=drawn)
        if not chosen:
            return render(request, "accounts/user_password.html", {"account": user, "password": drawn})
        messages.success(
            request, _("%(username)s must change the new password at the next sign-in.") % {"username": user.username}
        )
    return htmx.done(request, "accounts.user", user.username)


@require_POST
def require_mfa(request: Request, username: str) -> HttpResponse:
    user = access.user(request, username, "ram:UpdateLoginProfile")
    required = request.POST.get("required") == "true"
    services.set_mfa_required(actor=request.actor, user=user, required=required)
    said = (
        _("%(username)s needs a second factor from the next page on.")
        if required
        else _("%(username)s no longer needs a second factor.")
    )
    messages.success(request, said % {"username": user.username})
    return htmx.done(request, "accounts.user", user.username)


def remove_mfa(request: Request, username: str) -> HttpResponse:
    user = access.user(request, username, "ram:UnbindMFADevice")
    wanted = deletion.Deletion(
        kind=_("user's MFA devices"),
        name=user.username,
        warning=_(
            "All devices and recovery codes of the user are removed and its sessions end. The next "
            "sign-in needs the password only; if a device is required, a new one must be bound first."
        ),
        cancel_url=reverse("accounts.user", args=[user.username]),
    )
    return deletion.confirm(
        request,
        wanted,
        lambda: services.remove_mfa_devices(actor=request.actor, user=user),
        ("accounts.user", user.username),
    )


@require_POST
def sign_out(request: Request, username: str) -> HttpResponse:
    user = access.user(request, username, "ram:UpdateLoginProfile")
    kept = request.session.session_key if user == request.user else None
    ended = services.sign_out(actor=request.actor, user=user, keep=kept)
    said = (
        ngettext("%(ended)s session ended.", "%(ended)s sessions ended.", ended) % {"ended": ended}
        if ended
        else _("There was no session to end.")
    )
    messages.success(request, said)
    return htmx.done(request, "accounts.user", user.username)


@require_POST
def switch_key(request: Request, username: str, access_key_id: str) -> HttpResponse:
    user = access.user(request, username, "ram:UpdateAccessKey")
    key = access.key_of(user, access_key_id)
    enabled = request.POST.get("enabled") == "true"
    services.set_access_key_enabled(actor=request.actor, key=key, enabled=enabled)
    said = _("%(key)s is enabled.") if enabled else _("%(key)s is disabled.")
    messages.success(request, said % {"key": key.access_key_id})
    return htmx.done(request, "accounts.user", user.username)


def delete_key(request: Request, username: str, access_key_id: str) -> HttpResponse:
    user = access.user(request, username, "ram:DeleteAccessKey")
    key = access.key_of(user, access_key_id)
    wanted = deletion.Deletion(
        kind=_("AccessKey"),
        name=key.access_key_id,
        warning=_("Every client that signs with it as %(username)s is refused from then on.")
        % {"username": user.username},
        cancel_url=reverse("accounts.user", args=[user.username]),
    )
    return deletion.confirm(
        request,
        wanted,
        lambda: services.delete_access_key(actor=request.actor, key=key),
        ("accounts.user", user.username),
    )
