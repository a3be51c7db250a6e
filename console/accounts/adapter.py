"""How django-allauth behaves here: no registration, every sign-in on record, a forced change is over once done."""

from __future__ import annotations

from typing import Any

from allauth.account.adapter import DefaultAccountAdapter
from django.http import HttpRequest, HttpResponse
from django.urls import reverse

from console.accounts.actor import Actor
from console.accounts.models import User
from console.audit import services as audit

_MAX_NAME = 150


class AccountAdapter(DefaultAccountAdapter):  # type: ignore[misc]
    """Users are made by their tenant's administrator, never by themselves."""

    def is_open_for_signup(self, request: HttpRequest) -> bool:
        return False

    def set_password(self, user: User, password: str) -> None:
        """Called by the page on which users change their own password."""
        user.must_change_password = False
        super().set_password(user, password)
        audit.record(_actor(self.request, user), "accounts.user.change_password", user.username)

    def get_password_change_redirect_url(self, request: HttpRequest) -> str:
        return reverse("instances.overview")

    def post_login(self, request: HttpRequest, user: User, **options: Any) -> HttpResponse:
        audit.record(_actor(request, user), "accounts.session.sign_in", user.username)
        response: HttpResponse = super().post_login(request, user, **options)
        return response

    def authentication_failed(self, request: HttpRequest, **credentials: Any) -> None:
        """A refused attempt on an account that exists is the account's business, so its tenant can see it."""
        super().authentication_failed(request, **credentials)
        name = str(credentials.get("username", ""))[:_MAX_NAME]
        user = User.objects.select_related("tenant").filter(username=name).first()
        if user is not None:
            actor = _actor(request, user)
            audit.record(actor, "accounts.session.sign_in", user.username, result="refused")


def _actor(request: HttpRequest, user: User) -> Actor:
    return Actor(
        user=user,
        source_ip=request.META.get("REMOTE_ADDR", ""),
        secure=request.is_secure(),
        request_id=getattr(request, "request_id", ""),
    )
