"""What the page Security shows of the own sign-in: devices, recovery codes, sessions."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime

from allauth.mfa.models import Authenticator
from allauth.usersessions.models import UserSession
from django.contrib.sessions.models import Session
from django.utils import timezone
from django.utils.translation import gettext as _

from console.accounts import mfa
from console.accounts.models import User
from console.accounts.visits import device

#: More than anybody can look through; "sign out everywhere" ends the others too.
SESSIONS_SHOWN = 100


@dataclass(frozen=True)
class Device:
    """An authenticator app or a security key; `number` is that of a key."""

    name: str
    is_app: bool
    number: int
    added_at: datetime
    used_at: datetime | None


@dataclass(frozen=True)
class OpenSession:
    """A browser that is signed in."""

    number: int
    client: str
    user_agent: str
    address: str
    since: datetime
    seen_at: datetime
    is_this: bool


def devices(user: User) -> list[Device]:
    """The user's devices, oldest first."""
    return [
        Device(
            name=_("Authenticator app") if row.type == Authenticator.Type.TOTP else row.wrap().name,
            is_app=row.type == Authenticator.Type.TOTP,
            number=row.pk,
            added_at=row.created_at,
            used_at=row.last_used_at,
        )
        for row in mfa.devices(user)
    ]


def recovery_codes_left(user: User) -> int | None:
    """How many recovery codes were not used; None when there are none at all."""
    row = Authenticator.objects.filter(user=user, type=Authenticator.Type.RECOVERY_CODES).first()
    return len(row.wrap().get_unused_codes()) if row is not None else None


def sessions(user: User, own_key: str | None) -> Iterator[OpenSession]:
    """The user's open sessions, the one with the session key `own_key` first, then the latest used."""
    alive = Session.objects.filter(expire_date__gt=timezone.now()).values("session_key")
    rows = UserSession.objects.filter(user=user, session_key__in=alive).order_by("-last_seen_at")[:SESSIONS_SHOWN]
    for row in sorted(rows, key=lambda row: row.session_key != own_key):
        yield OpenSession(
            number=row.pk,
            client=device(row.user_agent),
            user_agent=row.user_agent,
            address=row.ip,
            since=row.created_at,
            seen_at=row.last_seen_at,
            is_this=row.session_key == own_key,
        )
