"""How django-allauth behaves here: no registration, every sign-in on record, a forced change is over once done."""

from __future__ import annotations

import time
from typing import Any

from allauth.account import forms
from allauth.account.adapter import DefaultAccountAdapter
from allauth.account.app_settings import REAUTHENTICATION_TIMEOUT
from allauth.account.internal.flows.login import get_authentication_records
from django.core.cache import cache
from django.core.exceptions import ValidationError
from django.http import HttpRequest, HttpResponse
from django.shortcuts import resolve_url
from django.urls import reverse
from django.utils.translation import gettext as _

from console.accounts import mfa
from console.accounts.actor import Actor
from console.accounts.models import Tenant, User
from console.accounts.services.sessions import end_sessions
from console.accounts.visits import actor_of
from console.audit import record as audit

_LOCK_S = 15 * 60


class AccountAdapter(DefaultAccountAdapter):  # type: ignore[misc]
    """Users are made by their tenant's administrator, never by themselves."""

    def is_open_for_signup(self, request: HttpRequest) -> bool:
        return False

    def set_password(self, user: User, password: str) -> None:
        """Called by the page on which users change their own password; ends their other sessions."""
        user.must_change_password = False
        super().set_password(user, password)
        actor = actor_of(self.request, user)
        audit.record(actor, "accounts.user.change_password", user.username)
        end_sessions(actor=actor, user=user, keep=self.request.session.session_key)

    def get_password_change_redirect_url(self, request: HttpRequest) -> str:
        return self.get_login_redirect_url(request)

    def get_login_redirect_url(self, request: HttpRequest) -> str:
        """The overview; the platform's administrator has another first page."""
        if isinstance(request.user, User) and request.user.is_platform_admin:
            return resolve_url("platform.accounts")
        return reverse("instances.overview")

    def is_reauthentication_required(self, *, app: str, **options: Any) -> bool:
        """Not in the minutes after the sign-in: who just gave the password need not give it again."""
        if not super().is_reauthentication_required(app=app, **options):
            return False
        records = get_authentication_records(self.request, self.request.user)
        return not any(time.time() - record["at"] < REAUTHENTICATION_TIMEOUT for record in records)

    def pre_login(self, request: HttpRequest, user: User, **options: Any) -> HttpResponse | None:
        """The right password opens nothing for a disabled user, or in a disabled account."""
        if not user.is_active or not mfa.is_at_home(user):
            return self.respond_user_inactive(request, user)
        response: HttpResponse | None = super().pre_login(request, user, **options)
        return response

    def respond_user_inactive(self, request: HttpRequest, user: User) -> HttpResponse:
        _refused(actor_of(request, user), "disabled")
        response: HttpResponse = super().respond_user_inactive(request, user)
        return response

    def post_login(self, request: HttpRequest, user: User, **options: Any) -> HttpResponse:
        methods = [r.get("type") or r["method"] for r in get_authentication_records(request, user)]
        audit.record(actor_of(request, user), "accounts.session.sign_in", user.username, detail={"by": methods})
        response: HttpResponse = super().post_login(request, user, **options)
        return response

    def logout(self, request: HttpRequest) -> None:
        if isinstance(request.user, User):
            audit.record(actor_of(request, request.user), "accounts.session.sign_out", request.user.username)
        super().logout(request)

    def pre_authenticate(self, request: HttpRequest, **credentials: Any) -> None:
        """The first attempt that a lock refuses is on record, not each of thousands."""
        try:
            super().pre_authenticate(request, **credentials)
        except ValidationError:
            name = str(credentials.get("username", ""))
            if cache.add(
                f"accounts.lock_noted:{self._get_login_attempts_cache_key(request, **credentials)}", 1, _LOCK_S
            ):
                _refused(_claimed(request, name), _("locked after too many wrong passwords"))
            raise

    def authentication_failed(self, request: HttpRequest, **credentials: Any) -> None:
        """A refused attempt on an account is the account's business, so its tenant can see it."""
        super().authentication_failed(request, **credentials)
        _refused(_claimed(request, str(credentials.get("username", ""))), _("wrong name or password"))

    def _get_login_attempts_cache_key(self, request: HttpRequest, **credentials: Any) -> str:
        # Not per host name, as allauth does: a copy that answers to two names would allow twice the attempts.
        # By upper case first, as databases compare names: there are letters that only become an s or an i that way.
        return str(credentials.get("username", "")).upper().lower()


class ChangePasswordForm(forms.ChangePasswordForm):  # type: ignore[misc]
    """The new password is another one."""

    def clean_password1(self) -> str:
        password: str = self.cleaned_data["password1"]
        if password == self.cleaned_data.get("oldpassword"):
            raise ValidationError(_("The new password must differ from the old one."), code="same_password")
        return password


def _refused(actor: Actor, reason: str) -> None:
    audit.record(actor, "accounts.session.sign_in", actor.name, result="refused", detail={"reason": reason})


def _claimed(request: HttpRequest, name: str) -> Actor:
    """Who an attempt says it is: a user, or a name that an account does not have.

    What names no account is not written down: people type passwords into the field of the name.
    """
    user = User.objects.select_related("tenant").filter(username__iexact=name).first()
    if user is None:
        tenant = Tenant.objects.filter(name=name.rpartition("@")[2]).first()
        shown = name[: User._meta.get_field("username").max_length] if tenant is not None else "unknown"
        user = User(username=shown, tenant=tenant)
    return actor_of(request, user)
