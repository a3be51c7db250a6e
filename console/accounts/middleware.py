"""From the session to the request's actor. Who must sign in, change a password or bind a device gets that page only."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from urllib.parse import urlsplit

from django.conf import settings
from django.contrib import messages
from django.contrib.auth import logout
from django.contrib.auth.middleware import LoginRequiredMiddleware
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.urls import reverse
from django.utils.http import urlencode
from django.utils.translation import gettext as _
from django_htmx.http import HttpResponseClientRedirect

from console.accounts import mfa
from console.accounts.models import User
from console.accounts.services import sessions
from console.accounts.visits import actor_of
from console.web import request_owners

GetResponse = Callable[[HttpRequest], HttpResponse]
_OPEN_TO_ALL = frozenset({"account_logout", "account_login", "account_inactive", "health"})
_FOR_FIRST_PASSWORD = _OPEN_TO_ALL | {"account_change_password"}
# The recovery codes are shown once, right after the device is bound.
_FOR_BINDING = _OPEN_TO_ALL | {"mfa_activate_totp", "account_reauthenticate", "mfa_view_recovery_codes"}


class SignInMiddleware(LoginRequiredMiddleware):
    """Every page asks for a sign-in unless its view says otherwise. A fragment never gets the sign-in page."""

    def handle_no_permission(  # type: ignore[override]  # the client follows a header here, not a 302
        self, request: HttpRequest, view_func: Any
    ) -> HttpResponse:
        if request.headers.get("HX-Request") != "true":
            return super().handle_no_permission(request, view_func)
        return HttpResponseClientRedirect(f"{reverse('account_login')}?{urlencode({'next': _shown(request) or '/'})}")


def _shown(request: HttpRequest) -> str:
    """Path and query of the page that a fragment was asked for by; empty where what it tells is no address."""
    try:
        shown = urlsplit(request.headers.get("HX-Current-URL", ""))
    except ValueError:
        return ""
    return f"{shown.path}?{shown.query}" if shown.query else shown.path


class ActorMiddleware:
    """Sets `request.actor`; who belongs to no account, to a disabled one, or has a session too old is signed out."""

    def __init__(self, get_response: GetResponse) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        user = request.user
        if isinstance(user, User) and mfa.is_at_home(user) and sessions.keep_alive(request):
            request.actor = actor_of(request, user)  # type: ignore[attr-defined]
            account = request_owners.account_name(user.tenant_id, user.pk)
            request_owners.tell_session(request, request.session.session_key, account)
        else:
            request_owners.tell_session(request, request.COOKIES.get(settings.SESSION_COOKIE_NAME), None)
            if isinstance(user, User):
                logout(request)
        return self.get_response(request)

    def process_view(self, request: HttpRequest, *_unused: Any) -> HttpResponse | None:
        """Until a first password is changed, and a required device bound and used, there is only the page for it."""
        user = request.user
        if not isinstance(user, User):
            return None
        name = request.resolver_match.url_name if request.resolver_match else ""
        if user.must_change_password and not mfa.came_by_provider(request, user):
            return None if name in _FOR_FIRST_PASSWORD else _go_to(request, "account_change_password")
        if mfa.is_satisfied(request, user) or name in _OPEN_TO_ALL:
            return None
        if not mfa.has_device(user):
            return None if name in _FOR_BINDING else _go_to(request, "mfa_activate_totp")
        if name == "mfa_view_recovery_codes":
            return None
        # The device is bound now: the sign-in starts again, this time with its code.
        logout(request)
        messages.info(request, _("The device is bound. Sign in again with its code."))
        return _go_to(request, "account_login")


def _go_to(request: HttpRequest, url_name: str) -> HttpResponse:
    """A redirect that the browser follows, for fragments too."""
    if request.headers.get("HX-Request") == "true":
        response: HttpResponse = HttpResponseClientRedirect(reverse(url_name))
        return response
    return redirect(url_name)
