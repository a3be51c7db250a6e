"""The visitor's own sign-in: password, MFA devices, recovery codes, sessions. No permission: it is one's own."""

from __future__ import annotations

from allauth.account.adapter import get_adapter
from allauth.mfa.adapter import get_adapter as get_mfa_adapter
from allauth.mfa.webauthn import views as webauthn
from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils.translation import gettext as _
from django.views.decorators.http import require_GET, require_POST

from console.accounts import security
from console.accounts.http import Request
from console.accounts.services import sessions


@require_GET
def index(request: Request) -> HttpResponse:
    devices = security.devices(request.user)
    context = {
        "devices": devices,
        "has_app": any(device.is_app for device in devices),
        "codes_left": security.recovery_codes_left(request.user),
        "sessions": list(security.sessions(request.user, request.session.session_key)),
        "is_by_name": not request.get_host().replace(".", "").partition(":")[0].isdecimal(),
    }
    return render(request, "accounts/security.html", context)


@require_GET
def to_index(request: Request) -> HttpResponse:
    """Where django-allauth goes after a change of the devices."""
    return redirect("accounts.security")


@require_POST
def end_session(request: Request, number: int) -> HttpResponse:
    if sessions.end_session(actor=request.actor, user=request.user, number=number):
        messages.success(request, _("That browser is signed out."))
    else:
        messages.info(request, _("That session had already ended."))
    return redirect("accounts.security")


@require_POST
def end_all(request: Request) -> HttpResponse:
    """Sign out everywhere, here too."""
    sessions.end_sessions(actor=request.actor, user=request.user)
    get_adapter(request).logout(request)
    messages.success(request, _("You are signed out everywhere."))
    return redirect("account_login")


class RemoveKeyView(webauthn.RemoveWebAuthnView):  # type: ignore[misc]
    """Unlike django-allauth's view it asks whether the key may go: the last device may be required."""

    def form_valid(self, form: object) -> HttpResponse:
        if not get_mfa_adapter().can_delete_authenticator(self.object):
            messages.error(self.request, get_mfa_adapter().error_messages["cannot_delete_authenticator"])
            return redirect("accounts.security")
        response: HttpResponse = super().form_valid(form)
        return response


def remove_key(request: HttpRequest, pk: int) -> HttpResponse:
    """A view function like the others."""
    response: HttpResponse = RemoveKeyView.as_view()(request, pk=pk)
    return response
