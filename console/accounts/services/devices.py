"""The MFA devices of a user, as seen by whoever administers the user."""

from __future__ import annotations

from allauth.mfa.models import Authenticator
from django.db import transaction

from console.accounts.actor import Actor
from console.accounts.models import User
from console.accounts.services.sessions import end_sessions
from console.audit import services as audit


@transaction.atomic
def remove_devices(*, actor: Actor, user: User) -> int:
    """Remove a user's devices and recovery codes, for one who lost them, and end the sessions; returns how many.

    When the user must have a device, the next sign-in begins with binding one.
    """
    removed: int = Authenticator.objects.filter(user=user).delete()[0]
    audit.record(actor, "accounts.mfa.reset", user.username, detail={"devices": removed})
    end_sessions(actor=actor, user=user)
    return removed
