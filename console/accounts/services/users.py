"""Users of an account: RAM users, their passwords, and their sign-in at the MySQL door."""

from __future__ import annotations

import hashlib
import string

from django.contrib.auth.password_validation import validate_password
from django.core.exceptions import ValidationError
from django.db import IntegrityError, transaction

from console.accounts import acl
from console.accounts.actor import Actor
from console.accounts.models import DatabaseAccount, Policy, User
from console.accounts.services.uids import USER_DIGITS, new_uid
from console.audit import services as audit
from console.web.errors import Refused

_NAME_CHARACTERS = string.ascii_letters + string.digits + "._-"


@transaction.atomic
def create_user(*, actor: Actor, name: str, password: str, policies: list[Policy]) -> User:
    """Create a RAM user `name@<tenant>`, who must change the password at the first sign-in.

    Raises Refused for a name that is taken or malformed and for a password that breaks the rule.
    """
    tenant = actor.tenant
    if not name or not all(c in _NAME_CHARACTERS for c in name) or len(name) > 32:
        raise Refused("BIZ_FIELD_CHECK_INVALID", "A user name has 1 to 32 letters, digits, dots, - or _.", "name")
    user = User(username=f"{name}@{tenant.name}", uid=new_uid(USER_DIGITS), tenant=tenant, must_change_password=True)
    try:
        validate_password(password, user)
    except ValidationError as error:
        raise Refused("BIZ_FIELD_CHECK_INVALID", " ".join(error.messages), "password") from error
    user.set_password(password)
    try:
        with transaction.atomic():
            user.save()
    except IntegrityError as error:
        raise Refused("BIZ_FIELD_CHECK_INVALID", f"The user {user.username} exists already.", "name") from error
    user.policies.set(policies)
    audit.record(actor, "accounts.user.create", user.username, detail={"policies": [p.name for p in policies]})
    return user


@transaction.atomic
def set_user_policies(*, actor: Actor, user: User, policies: list[Policy]) -> None:
    """Replace the policies attached to a RAM user."""
    user.policies.set(policies)
    audit.record(actor, "accounts.user.policies", user.username, detail={"policies": [p.name for p in policies]})
    acl.publish_on_commit()


@transaction.atomic
def set_user_enabled(*, actor: Actor, user: User, enabled: bool) -> None:
    """Let a user in, or shut out sign-in, sessions and AccessKeys. The tenant's administrator cannot be shut out."""
    if user.is_tenant_admin and not enabled:
        raise Refused("BIZ_FIELD_CHECK_INVALID", "The administrator of the account cannot be disabled.")
    user.is_active = enabled
    user.save(update_fields=["is_active"])
    audit.record(actor, f"accounts.user.{'enable' if enabled else 'disable'}", user.username)
    acl.publish_on_commit()


@transaction.atomic
def reset_password(*, actor: Actor, user: User, password: str) -> None:
    """Give a user a new first password, to be changed at the next sign-in; ends the user's sessions."""
    try:
        validate_password(password, user)
    except ValidationError as error:
        raise Refused("BIZ_FIELD_CHECK_INVALID", " ".join(error.messages), "password") from error
    user.set_password(password)
    user.must_change_password = True
    user.save(update_fields=["password", "must_change_password"])
    audit.record(actor, "accounts.user.reset_password", user.username)


def set_database_password(*, user: User, name: str, password: str) -> DatabaseAccount:
    """Set name and password for the MySQL door; only hashes of hashes are kept."""
    sha1, sha256 = hashlib.sha1(password.encode()), hashlib.sha256(password.encode())  # noqa: S324 - MySQL's own
    account, _ = DatabaseAccount.objects.update_or_create(
        user=user,
        defaults={
            "name": name,
            "sha1_of_sha1": hashlib.sha1(sha1.digest()).hexdigest(),  # noqa: S324 - MySQL's own
            "sha256_of_sha256": hashlib.sha256(sha256.digest()).hexdigest(),
        },
    )
    return account
