"""How a user is signed in, for its administrator: the second factor, required or removed, and the open sessions."""

from __future__ import annotations

from allauth.mfa.models import Authenticator
from django.db import transaction

from console.accounts.actor import Actor
from console.accounts.delegation import require_change_of
from console.accounts.models import User
from console.accounts.services.row_locks import hold
from console.accounts.services.sessions import end_sessions
from console.audit import record as audit


def set_mfa_required(*, actor: Actor, user: User, required: bool) -> None:
    """Ask a user for a second factor from the next page on, or no longer."""
    with transaction.atomic():
        user = hold(user)
        require_change_of(actor, user)
        user.mfa_required = required
        user.save(update_fields=["mfa_required"])
        audit.record(actor, f"accounts.mfa.{'require' if required else 'waive'}", user.username)


def remove_mfa_devices(*, actor: Actor, user: User) -> None:
    """Unbind every device of a user who lost them, and end its sessions.

    Raises PermissionDenied for a user whom `actor` may not change.
    """
    with transaction.atomic():
        user = hold(user)
        require_change_of(actor, user)
        remove_devices(actor=actor, user=user)


@transaction.atomic
def sign_out(*, actor: Actor, user: User, keep: str | None = None) -> int:
    """End the sessions of a user, except the one with the key `keep`; returns how many ended.

    Raises PermissionDenied for a user whom `actor` may not change.
    """
    require_change_of(actor, user)
    return end_sessions(actor=actor, user=user, keep=keep)


@transaction.atomic
def remove_devices(*, actor: Actor, user: User) -> int:
    """Remove a user's devices and recovery codes, for one who lost them, and end the sessions; returns how many.

    When the user must have a device, the next sign-in begins with binding one.
    """
    removed: int = Authenticator.objects.filter(user=user).delete()[0]
    audit.record(actor, "accounts.mfa.reset", user.username, detail={"devices": removed})
    end_sessions(actor=actor, user=user)
    return removed
