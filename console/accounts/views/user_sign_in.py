"""How a user gets in: first password, second factor, sessions, and AccessKeys as its administrator sees them."""

from __future__ import annotations

from django.contrib import messages
from django.http import HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_POST

from console.accounts import services, subjects
from console.web import deletion, htmx
from console.web.errors import Refused
from console.web.http import Request


@never_cache
@require_POST
def password(request: Request, username: str) -> HttpResponse:
    """A drawn password is in the answer, this once: no redirect could carry it."""
    user = subjects.user(request, username, "ram:UpdateLoginProfile")
    chosen = request.POST.get("password", "")
    drawn = chosen or services.draw_password()
    try:
        services.reset_password(actor=request.actor, user=user, password=drawn)
    except Refused as refused:
        messages.error(request, refused.message)
        return htmx.done(request, "accounts.user", user.username)
    if not chosen:
        return render(request, "accounts/user_password.html", {"account": user, "password": drawn})
    messages.success(request, f"{user.username} must change the new password at the next sign-in.")
    return htmx.done(request, "accounts.user", user.username)


@require_POST
def require_mfa(request: Request, username: str) -> HttpResponse:
    user = subjects.user(request, username, "ram:UpdateLoginProfile")
    required = request.POST.get("required") == "true"
    services.set_mfa_required(actor=request.actor, user=user, required=required)
    said = "needs a second factor from the next page on" if required else "no longer needs a second factor"
    messages.success(request, f"{user.username} {said}.")
    return htmx.done(request, "accounts.user", user.username)


def remove_mfa(request: Request, username: str) -> HttpResponse:
    user = subjects.user(request, username, "ram:UnbindMFADevice")
    wanted = deletion.Deletion(
        kind="user's MFA devices",
        name=user.username,
        warning="All devices and recovery codes of the user are unbound and its sessions end. The next sign-in takes "
        "the password alone, and binds a new device first when one is required.",
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
    user = subjects.user(request, username, "ram:UpdateLoginProfile")
    kept = request.session.session_key if user == request.user else None
    ended = services.sign_out(actor=request.actor, user=user, keep=kept)
    said = f"{ended} session{'' if ended == 1 else 's'} ended" if ended else "There was no session to end"
    messages.success(request, f"{said}.")
    return htmx.done(request, "accounts.user", user.username)


@require_POST
def switch_key(request: Request, username: str, access_key_id: str) -> HttpResponse:
    user = subjects.user(request, username, "ram:UpdateAccessKey")
    key = subjects.key_of(user, access_key_id)
    enabled = request.POST.get("enabled") == "true"
    services.set_access_key_enabled(actor=request.actor, key=key, enabled=enabled)
    messages.success(request, f"{key.access_key_id} is {'enabled' if enabled else 'disabled'}.")
    return htmx.done(request, "accounts.user", user.username)


def delete_key(request: Request, username: str, access_key_id: str) -> HttpResponse:
    user = subjects.user(request, username, "ram:DeleteAccessKey")
    key = subjects.key_of(user, access_key_id)
    wanted = deletion.Deletion(
        kind="AccessKey",
        name=key.access_key_id,
        warning=f"Every client that signs with it as {user.username} is refused from then on.",
        cancel_url=reverse("accounts.user", args=[user.username]),
    )
    return deletion.confirm(
        request,
        wanted,
        lambda: services.delete_access_key(actor=request.actor, key=key),
        ("accounts.user", user.username),
    )
