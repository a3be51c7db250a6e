"""Users who keep the platform. They are made on the server, by whoever may run commands there, and nowhere else."""

from __future__ import annotations

import re

from django.db import transaction
from django.utils.translation import gettext as _

from console.accounts.actor import Actor
from console.accounts.models import USER_DIGITS, User, new_uid
from console.accounts.services.keys import IssuedKey, create_access_key, delete_access_key
from console.accounts.services.second_factor import remove_devices
from console.accounts.services.sessions import end_sessions
from console.audit import record as audit
from console.web.errors import Refused

# No @: what has one is a user of an account.
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,31}")
_FIELD = "BIZ_FIELD_CHECK_INVALID"


@transaction.atomic
def set_platform_admin(*, name: str, password: str, must_change_password: bool = True) -> bool:
    """Create the platform's administrator `name`, or let it in again: new password, no device, no session.

    Returns whether it is new. Raises Refused for a malformed name and for one that somebody else has.
    """
    if not _NAME.fullmatch(name):
        raise Refused(_FIELD, _("The name has 1 to 32 letters, digits, dots, - or _, and no @."), "name")
    user = User.objects.filter(username=name).first()
    if user is not None and not user.is_platform_admin:
        raise Refused(_FIELD, _("%(name)s is not an administrator of the platform.") % {"name": name}, "name")
    new = user is None
    user = user or User(username=name, uid=new_uid(USER_DIGITS), is_platform_admin=True)
    user.set_password(password)
    user.must_change_password, user.is_active = must_change_password, True
    user.save()
    audit.record_command(f"accounts.platform_admin.{'create' if new else 'reset'}", name)
    if not new:
        actor = Actor(user=user, channel="command")
        remove_devices(actor=actor, user=user)
        end_sessions(actor=actor, user=user)
    return new


def create_platform_key(*, name: str) -> IssuedKey:
    """Issue an AccessKey of the platform's administrator; at most two. Raises Refused.

    It opens the management API alone (`credentials.find_platform_key`), and there what the platform's administrator
    may do: adopt names. No account's operation, no broker and no database takes it.
    """
    user = _administrator(name)
    issued = create_access_key(actor=Actor(user=user, channel="command"), user=user)
    audit.record_command("accounts.platform_key.create", issued.access_key_id)
    return issued


def delete_platform_key(*, name: str, access_key_id: str) -> None:
    """Delete an AccessKey of the platform's administrator. Raises Refused."""
    user = _administrator(name)
    key = user.access_keys.filter(access_key_id=access_key_id).first()
    if key is None:
        raise Refused(
            _FIELD,
            _("%(name)s has no AccessKey %(access_key_id)s.") % {"name": name, "access_key_id": access_key_id},
            "delete",
        )
    delete_access_key(actor=Actor(user=user, channel="command"), key=key)
    audit.record_command("accounts.platform_key.delete", access_key_id)


def _administrator(name: str) -> User:
    user = User.objects.filter(username=name, is_platform_admin=True, is_active=True).first()
    if user is None:
        raise Refused(_FIELD, _("There is no administrator of the platform %(name)s.") % {"name": name}, "name")
    return user
