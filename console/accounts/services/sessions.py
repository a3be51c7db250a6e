"""Sessions of the console: kept alive by use, ended by age, by their user, or by who administers the user."""

from __future__ import annotations

import logging
import time
from datetime import timedelta

from allauth.usersessions.models import UserSession
from django.conf import settings
from django.contrib.sessions.models import Session
from django.db import DatabaseError, transaction
from django.http import HttpRequest
from django.utils import timezone

from console.accounts.actor import Actor
from console.accounts.models import User
from console.audit import record as audit

log = logging.getLogger(__name__)
#: A session in use is written this often, not at every request.
SEEN_EVERY_S = 60
_STARTED, _SEEN = "accounts.started_at", "accounts.seen_at"


@transaction.atomic
def end_sessions(*, actor: Actor, user: User, keep: str | None = None) -> int:
    """End every session of the user, except the one with the session key `keep`; returns how many ended.

    Their browsers are signed out at the next request.
    """
    rows = UserSession.objects.filter(user=user).exclude(session_key=keep or "")
    ended, _ = Session.objects.filter(session_key__in=list(rows.values_list("session_key", flat=True))).delete()
    rows.delete()
    if ended:
        audit.record(actor, "accounts.session.end", user.username, detail={"sessions": ended})
    return ended


@transaction.atomic
def end_session(*, actor: Actor, user: User, number: int) -> bool:
    """End one session of the user; False when it is over already, or somebody else's."""
    row = UserSession.objects.filter(user=user, pk=number).first()
    if row is None:
        return False
    audit.record(actor, "accounts.session.end", user.username, detail={"address": row.ip, "client": row.user_agent})
    row.end()
    return True


def keep_alive(request: HttpRequest) -> bool:
    """Note that the session is in use, which moves its idle limit; False when it is older than any may become."""
    now = time.time()
    started = request.session.get(_STARTED, now)
    if now - started > settings.SESSION_MAX_AGE_S:
        return False
    if now - request.session.get(_SEEN, 0) >= SEEN_EVERY_S:
        try:
            UserSession.objects.create_from_request(request)
        except DatabaseError as error:
            # On a full disk nothing can be noted, and everything can be read: the session stays as it was.
            log.warning("the use of a session could not be noted: %s", error)
            return True
        request.session[_STARTED], request.session[_SEEN] = started, now
    return True


def clear_ended_sessions() -> int:
    """Delete what is left of sessions that ran out; returns how many there were."""
    ended, _ = Session.objects.filter(expire_date__lt=timezone.now()).delete()
    # A session has its row in the list a moment before it is itself stored.
    old = UserSession.objects.filter(last_seen_at__lt=timezone.now() - timedelta(minutes=10))
    old.exclude(session_key__in=Session.objects.values("session_key")).delete()
    return ended
