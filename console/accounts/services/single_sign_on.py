"""Single sign-on of an account: its configuration, and which user a provider's claim names."""

from __future__ import annotations

import string
from typing import Any

from django.db import IntegrityError, transaction
from django.http import HttpRequest
from django.utils.translation import gettext as _

from console.accounts import crypto, oidc
from console.accounts.actor import Actor
from console.accounts.delegation import require_change_of_everybody
from console.accounts.models import USER_DIGITS, SingleSignOn, User, new_uid
from console.accounts.oidc import SignInError
from console.accounts.outgoing_requests import Unreachable, require_safe_scheme
from console.accounts.visits import actor_of
from console.audit import record as audit
from console.web.errors import Refused

_NAME_CHARACTERS = frozenset(string.ascii_letters + string.digits + "._-")
_NAME_MAX = 32


def find(account: str) -> SingleSignOn | None:
    """The single sign-on of an enabled account that has it switched on."""
    rows = SingleSignOn.objects.select_related("tenant")
    return rows.filter(tenant__name=account, tenant__enabled=True, enabled=True).first()


def configuration(actor: Actor) -> SingleSignOn | None:
    """What the caller's account has configured."""
    return SingleSignOn.objects.filter(tenant=actor.tenant).first()


@transaction.atomic
def save_single_sign_on(
    *,
    actor: Actor,
    issuer: str,
    client_id: str,
    client_secret: str,
    user_claim: str,
    create_users: bool,
    enabled: bool,
) -> SingleSignOn:
    """Set up or change the account's provider. An empty secret keeps the stored one, as long as the issuer stays.

    Raises Refused for an issuer that is not an https address, PermissionDenied for who could not change every RAM user:
    the provider says who signs in.
    """
    require_change_of_everybody(actor)
    row = configuration(actor) or SingleSignOn(tenant=actor.tenant)
    issuer = issuer.rstrip("/")
    try:
        require_safe_scheme(issuer)
    except Unreachable as error:
        raise Refused("BIZ_FIELD_CHECK_INVALID", str(error), "issuer") from error
    if row.issuer != issuer and row.client_secret_encrypted and not client_secret:
        # Else whoever may change the address could have the stored secret sent to a server of their own.
        raise Refused("BIZ_FIELD_CHECK_INVALID", _("A new issuer needs its own client secret."), "client_secret")
    if client_secret:
        row.client_secret_encrypted = crypto.encrypt(client_secret)
    row.issuer, row.client_id, row.user_claim = issuer, client_id, user_claim
    row.create_users, row.enabled = create_users, enabled
    row.save()
    detail = {"issuer": issuer, "client": client_id, "claim": user_claim, "creates": create_users, "enabled": enabled}
    audit.record(actor, "accounts.single_sign_on.update", actor.tenant.name, detail=detail)
    return row


@transaction.atomic
def delete_single_sign_on(*, actor: Actor) -> None:
    """Forget the account's provider. Its users keep their rows; without a password they cannot sign in."""
    SingleSignOn.objects.filter(tenant=actor.tenant).delete()
    audit.record(actor, "accounts.single_sign_on.delete", actor.tenant.name)


def test_connection(row: SingleSignOn) -> dict[str, Any]:
    """The discovery document of the provider. Raises Refused with what is wrong."""
    try:
        return oidc.discover(row.issuer)
    except SignInError as error:
        raise Refused("BIZ_FIELD_CHECK_INVALID", str(error), "issuer") from error


def user_of(row: SingleSignOn, claim: Any, request: HttpRequest) -> User:
    """The RAM user `<claim>@<account>`, made when the account wants that. Raises SignInError with the reason.

    The name must be equal, letter by letter. The account's administrator never signs in this way: whoever could choose
    a name at the provider would own the account.
    """
    name = claim if isinstance(claim, str) else ""
    if not name or len(name) > _NAME_MAX or not _NAME_CHARACTERS.issuperset(name):
        raise SignInError(_("The provider's claim %(user_claim)s is not a user name.") % {"user_claim": row.user_claim})
    username = f"{name}@{row.tenant.name}"
    user = User.objects.select_related("tenant").filter(tenant=row.tenant, username=username).first()
    if user is None and row.create_users:
        user = _create(row, username, request)
    if user is None:
        raise SignInError(_("There is no user %(username)s.") % {"username": username})
    if user.is_tenant_admin or user.is_platform_admin:
        raise SignInError(
            _("%(username)s administers the account and signs in with a password only.") % {"username": username}
        )
    return user


def record_refusal(row: SingleSignOn, request: HttpRequest, reason: str) -> None:
    """Put a refused sign-in by the provider on record, where the account sees it."""
    actor = actor_of(request, User(username=f"single sign-on@{row.tenant.name}", tenant=row.tenant))
    audit.record(actor, "accounts.session.sign_in", row.issuer, result="refused", detail={"reason": reason})


@transaction.atomic
def _create(row: SingleSignOn, username: str, request: HttpRequest) -> User | None:
    if User.objects.filter(username__iexact=username).exists():
        return None  # one that differs in case only: nobody could tell the two apart
    user = User(username=username, uid=new_uid(USER_DIGITS), tenant=row.tenant)
    user.set_unusable_password()
    try:
        with transaction.atomic():
            user.save()
    except IntegrityError:
        return User.objects.filter(tenant=row.tenant, username=username).first()
    audit.record(actor_of(request, user), "accounts.user.create", username, detail={"by": "single sign-on"})
    return user
