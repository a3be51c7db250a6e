"""The rule of passwords, and passwords that somebody else sets: a user's first one, that of the MySQL endpoint."""

from __future__ import annotations

import hashlib
import secrets
import string
from dataclasses import dataclass

from django.contrib.auth.password_validation import validate_password
from django.core.exceptions import ValidationError
from django.db import transaction
from django.utils.translation import gettext as _

from console.accounts.actor import Actor
from console.accounts.delegation import require_change_of
from console.accounts.models import DatabaseAccount, User
from console.accounts.services.row_locks import hold
from console.accounts.services.sessions import end_sessions
from console.audit import record as audit
from console.web.errors import Refused

#: No 0, O, 1, l and I: a password that is shown once may be read aloud.
_CHARACTERS = "".join(c for c in string.ascii_letters + string.digits if c not in "0O1lI")
_SPECIAL = "!@#$%"
_LENGTH, _GROUP = 19, 5
_CLASSES = (string.ascii_letters, string.digits, string.punctuation)


class PasswordRule:
    """Validator for AUTH_PASSWORD_VALIDATORS."""

    def validate(self, password: str, user: User | None = None) -> None:
        classes = sum(any(c in characters for c in password) for characters in _CLASSES)
        if not 10 <= len(password) <= 32 or classes < 2:
            raise ValidationError(self.get_help_text(), code="password_rule")

    def get_help_text(self) -> str:
        return _("A password has 10 to 32 characters of at least two of: letters, digits, special characters.")


@dataclass(frozen=True, slots=True)
class DatabasePassword:
    """A new sign-in at the MySQL endpoint with its password in clear: shown once, never stored so."""

    name: str
    password: str


def draw_password() -> str:
    """A random password of 19 characters (90 bits) that follows the rule, in groups that are easy to copy by hand."""
    characters = [secrets.choice(_CHARACTERS) for _unused in range(_LENGTH)]
    for place in range(_GROUP - 1, _LENGTH, _GROUP):
        characters[place] = "-"
    return "".join([*characters[:-1], secrets.choice(_SPECIAL)])


def check_password(password: str, user: User) -> None:
    """Raise Refused for a password that breaks the rule (docs/use/permissions.md, "Sign-in")."""
    try:
        validate_password(password, user)
    except ValidationError as error:
        raise Refused("BIZ_FIELD_CHECK_INVALID", " ".join(error.messages), "password") from error


def reset_password(*, actor: Actor, user: User, password: str) -> None:
    """Give a user a new first password, to be changed at the next sign-in; ends the user's sessions.

    Raises Refused for a password that breaks the rule, PermissionDenied for a user whom `actor` may not change.
    """
    check_password(password, user)
    with transaction.atomic():
        user = hold(user)
        require_change_of(actor, user)
        user.set_password(password)
        user.must_change_password = True
        user.save(update_fields=["password", "must_change_password"])
        audit.record(actor, "accounts.user.reset_password", user.username)
        end_sessions(actor=actor, user=user)


def set_database_password(*, user: User, name: str, password: str) -> DatabaseAccount:
    """Set name and password for the MySQL endpoint; only hashes of hashes are kept."""
    sha1 = hashlib.sha1(password.encode(), usedforsecurity=False)  # MySQL's own method
    sha256 = hashlib.sha256(password.encode())
    account, _unused = DatabaseAccount.objects.update_or_create(
        user=user,
        defaults={
            "name": name,
            "sha1_of_sha1": hashlib.sha1(sha1.digest(), usedforsecurity=False).hexdigest(),
            "sha256_of_sha256": hashlib.sha256(sha256.digest()).hexdigest(),
        },
    )
    return account


@transaction.atomic
def renew_database_password(*, actor: Actor, user: User) -> DatabasePassword:
    """Generate a password for the MySQL endpoint. The first one makes the sign-in, whose name is the user's."""
    user = hold(user)
    existing = DatabaseAccount.objects.filter(user=user).first()
    drawn = DatabasePassword(existing.name if existing else user.username, draw_password())
    set_database_password(user=user, name=drawn.name, password=drawn.password)
    audit.record(actor, "accounts.database_password.renew", user.username, detail={"name": drawn.name})
    return drawn


@transaction.atomic
def delete_database_account(*, actor: Actor, user: User) -> None:
    """Close the MySQL endpoint for name and password; AccessKeys open it as before."""
    deleted, _unused = DatabaseAccount.objects.filter(user=user).delete()
    if deleted:
        audit.record(actor, "accounts.database_password.delete", user.username)
