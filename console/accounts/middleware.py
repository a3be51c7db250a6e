"""From the session to the request's actor; who must sign in or change the password gets no other page."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from urllib.parse import urlsplit

from django.contrib.auth import logout
from django.contrib.auth.middleware import LoginRequiredMiddleware
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import redirect
from django.urls import reverse
from django.utils.http import urlencode
from django_htmx.http import HttpResponseClientRedirect

from console.accounts.actor import Actor
from console.accounts.models import User

GetResponse = Callable[[HttpRequest], HttpResponse]
_OPEN_TO_ALL = frozenset({"account_change_password", "account_logout", "account_login", "account_inactive", "health"})


class SignInMiddleware(LoginRequiredMiddleware):
    """Every page asks for a sign-in unless its view says otherwise. A fragment never gets the sign-in page."""

    def handle_no_permission(  # type: ignore[override]  # the client follows a header here, not a 302
        self, request: HttpRequest, view_func: Any
    ) -> HttpResponse:
        if request.headers.get("HX-Request") != "true":
            return super().handle_no_permission(request, view_func)
        shown = urlsplit(request.headers.get("HX-Current-URL", ""))
        following = f"{shown.path}?{shown.query}" if shown.query else shown.path
        return HttpResponseClientRedirect(f"{reverse('account_login')}?{urlencode({'next': following or '/'})}")


class ActorMiddleware:
    """Sets `request.actor`; a user without a tenant has no pages here and is signed out."""

    def __init__(self, get_response: GetResponse) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        user = request.user
        if isinstance(user, User):
            if user.tenant_id is None:
                logout(request)
            else:
                request.actor = Actor(  # type: ignore[attr-defined]
                    user=user,
                    source_ip=request.META.get("REMOTE_ADDR", ""),
                    secure=request.is_secure(),
                    request_id=request.request_id,  # type: ignore[attr-defined]
                )
        return self.get_response(request)

    def process_view(self, request: HttpRequest, *_: Any) -> HttpResponse | None:
        """Until a first password is changed there is only the page that changes it."""
        user, match = request.user, request.resolver_match
        if not isinstance(user, User) or not user.must_change_password:
            return None
        if match is not None and match.url_name in _OPEN_TO_ALL:
            return None
        if request.headers.get("HX-Request") == "true":
            return HttpResponseClientRedirect(reverse("account_change_password"))
        response: HttpResponseRedirect = redirect("account_change_password")
        return response
