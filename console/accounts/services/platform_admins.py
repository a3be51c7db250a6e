"""Users who keep the platform. They are made on the server, by whoever may run commands there, and nowhere else."""

from __future__ import annotations

import re

from django.db import transaction

from console.accounts.actor import Actor
from console.accounts.models import USER_DIGITS, User, new_uid
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
        raise Refused(_FIELD, "The name has 1 to 32 letters, digits, dots, - or _, and no @.", "name")
    user = User.objects.filter(username=name).first()
    if user is not None and not user.is_platform_admin:
        raise Refused(_FIELD, f"{name} is not an administrator of the platform.", "name")
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
