"""Multi-factor authentication: who needs it, its secrets at rest, codes valid once, and every change on record."""

from __future__ import annotations

from typing import Any

from allauth.account.internal.flows.login import get_authentication_records
from allauth.core import context
from allauth.core.internal.cryptokit import normalize_user_code
from allauth.mfa import signals
from allauth.mfa.adapter import DefaultMFAAdapter
from allauth.mfa.base import forms as base
from allauth.mfa.models import Authenticator
from allauth.mfa.totp import forms as totp
from allauth.mfa.webauthn import forms as webauthn
from allauth.mfa.webauthn.internal import auth
from django import forms
from django.core.cache import cache
from django.core.exceptions import ValidationError
from django.db import transaction
from django.db.models import QuerySet
from django.dispatch import receiver
from django.http import HttpRequest
from django.utils.translation import gettext as _

from console.accounts import crypto
from console.accounts.models import User
from console.accounts.visits import actor_of, gave_second_factor
from console.audit import record as audit
from console.web.languages import gettext_lazy

#: A code is good for its own step of 30 s and one step before and after, so it is remembered that long.
CODE_LIFETIME_S = 90
#: Where an Authenticator keeps how often a security key had signed when it was used last.
_COUNTER = "counter"
_KINDS = {
    "totp": "authenticator app",
    "webauthn": "security key",
    "recovery_codes": "recovery codes",
}


def is_at_home(user: User) -> bool:
    """True for a user of an enabled account, and for the platform's administrators, who have none."""
    return user.tenant.enabled if user.tenant is not None else user.is_platform_admin


def has_device(user: User) -> bool:
    """True when an authenticator app or a security key is bound."""
    return bool(devices(user).exists())


def devices(user: User) -> QuerySet[Authenticator]:
    """Authenticator apps and security keys, oldest first."""
    own: QuerySet[Authenticator] = Authenticator.objects.filter(user=user)
    return own.exclude(type=Authenticator.Type.RECOVERY_CODES).order_by("created_at")


def is_satisfied(request: HttpRequest, user: User) -> bool:
    """True when the user needs no second factor, or gave one in this session."""
    return not user.mfa_required or gave_second_factor(request, user)


def came_by_provider(request: HttpRequest, user: User) -> bool:
    """True when this session began by single sign-on, which knows no password of ours."""
    return any(record.get("method") == "single sign-on" for record in get_authentication_records(request, user))


class MFAAdapter(DefaultMFAAdapter):  # type: ignore[misc]
    """Secrets are encrypted at rest; the last device stays while one is required."""

    error_messages = DefaultMFAAdapter.error_messages | {
        "incorrect_code": gettext_lazy("This code is wrong or too old."),
        "used_code": gettext_lazy("This code was used already; wait for the next one."),
        "cannot_delete_authenticator": gettext_lazy("This is your last device, and your administrator requires one."),
    }

    def encrypt(self, text: str) -> str:
        return crypto.encrypt(text)

    def decrypt(self, encrypted_text: str) -> str:
        return crypto.decrypt(encrypted_text)

    def get_totp_issuer(self) -> str:
        return "Gantry"

    def can_delete_authenticator(self, authenticator: Authenticator) -> bool:
        if not authenticator.user.mfa_required:
            return True
        return bool(devices(authenticator.user).exclude(pk=authenticator.pk).exists())

    def generate_authenticator_name(self, user: User, type: Authenticator.Type) -> str:
        count = Authenticator.objects.filter(user=user, type=type).count()
        return _("Security key %(count)s") % {"count": count + 1} if count else _("Security key")

    def get_public_key_credential_rp_entity(self) -> dict[str, str]:
        entity: dict[str, str] = super().get_public_key_credential_rp_entity() | {"name": "Gantry"}
        return entity


def _code_field() -> forms.CharField:
    return forms.CharField(
        label=_("Six-digit code"),
        max_length=16,
        widget=forms.TextInput(
            attrs={"autocomplete": "one-time-code", "inputmode": "numeric", "autofocus": True, "spellcheck": "false"}
        ),
    )


def _use_once(user: User, code: str) -> None:
    """Refuse a code that was given before, also at the same moment. Raises ValidationError."""
    key = f"accounts.totp_used:{user.pk}:{normalize_user_code(code)}"
    if not cache.add(key, 1, timeout=CODE_LIFETIME_S):
        raise MFAAdapter().validation_error("used_code")


class _OnceForm(base.BaseAuthenticateForm):  # type: ignore[misc]
    code = _code_field()

    def clean_code(self) -> str:
        code: str = super().clean_code()
        _use_once(self.user, code)
        return code


class AuthenticateForm(_OnceForm, base.AuthenticateForm):  # type: ignore[misc]
    """The second step of a sign-in."""


class ReauthenticateForm(_OnceForm, base.ReauthenticateForm):  # type: ignore[misc]
    """Before the sign-in itself is changed."""


class _CountedForm(webauthn.AuthenticateWebAuthnForm):  # type: ignore[misc]
    def clean_credential(self) -> Authenticator:
        try:
            return self._clean()
        except ValidationError:
            key = Authenticator(user=self.user, type=Authenticator.Type.WEBAUTHN)
            _record(context.request, self.user, "accounts.mfa.authenticate", key, result="refused")
            raise

    def _clean(self) -> Authenticator:
        credential = self.cleaned_data["credential"]
        try:
            key: Authenticator = super().clean_credential()
            _count(key, auth.parse_authentication_response(credential).response.authenticator_data.counter)
            return key
        except (TypeError, LookupError, AttributeError, RecursionError) as error:  # of an answer with parts missing
            raise MFAAdapter().validation_error("incorrect_code") from error


class AuthenticateWebAuthnForm(_CountedForm):
    """The second step of a sign-in, by a security key."""


class ReauthenticateWebAuthnForm(_CountedForm):
    """Before the sign-in itself is changed, by a security key."""

    reauthenticated = True


@transaction.atomic
def _count(key: Authenticator, counter: int) -> None:
    """Note how often a security key has signed (WebAuthn 6.1.1). Raises ValidationError unless it is more than before.

    Then another key has the same secret, or an answer came twice. Keys that do not count always say 0.
    """
    held = Authenticator.objects.select_for_update().get(pk=key.pk)
    before = held.data.get(_COUNTER, held.wrap().authenticator_data.counter)
    if counter <= before and (counter or before):
        raise MFAAdapter().validation_error("incorrect_code")
    held.data[_COUNTER] = counter
    held.save(update_fields=["data"])
    key.data = held.data  # allauth saves it once more, with the time of its use


class ActivateTOTPForm(totp.ActivateTOTPForm):  # type: ignore[misc]
    """Binding an authenticator app."""

    code = _code_field()

    def clean_code(self) -> str:
        code: str = super().clean_code()
        _use_once(self.user, code)
        return code


@receiver(signals.authenticator_added)
def _added(request: HttpRequest, user: User, authenticator: Authenticator, **_unused: Any) -> None:
    _record(request, user, "accounts.mfa.add", authenticator)


@receiver(signals.authenticator_removed)
def _removed(request: HttpRequest, user: User, authenticator: Authenticator, **_unused: Any) -> None:
    _record(request, user, "accounts.mfa.remove", authenticator)


@receiver(signals.authenticator_reset)
def _reset(request: HttpRequest, user: User, authenticator: Authenticator, **_unused: Any) -> None:
    _record(request, user, "accounts.mfa.regenerate", authenticator)


@receiver(signals.authentication_failed)
def _failed(request: HttpRequest, user: User, authenticator: Authenticator, **_unused: Any) -> None:
    _record(request, user, "accounts.mfa.authenticate", authenticator, result="refused")


def _record(
    request: HttpRequest, user: User, action: str, authenticator: Authenticator, *, result: str = "success"
) -> None:
    kind = _KINDS.get(str(authenticator.type), str(authenticator.type))
    audit.record(actor_of(request, user), action, user.username, result=result, detail={"device": kind})
