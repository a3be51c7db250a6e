"""How long results are kept (GANTRY_RESULTS_DAYS), and what is said of one that is there no more."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta

from django.conf import settings

from analytics.errors import LakeError, LakeUnavailable
from console.sql.models import QueryTask

_DELETED = (
    "The result was deleted to make room for newer ones: of what the account may keep of results the oldest go first."
    " Run the statement again."
)


def expired_since(task: QueryTask) -> date | None:
    """The first UTC day on which the sweep could delete the task's result; None when it has not come."""
    if not settings.RESULTS_DAYS:
        return None
    day = task.create_time.astimezone(UTC).date() + timedelta(days=settings.RESULTS_DAYS + 1)
    return day if day <= datetime.now(UTC).date() else None


def why_gone(task: QueryTask, error: LakeError) -> str:
    """The sentence for a result that cannot be read: an old one has expired, of another the lake's own reason."""
    since = None if isinstance(error, LakeUnavailable) else expired_since(task)
    if since is None:
        return _DELETED if error.is_missing and not task.result_bytes else error.user_message
    days = settings.RESULTS_DAYS
    return f"The result has expired since {since}: results are kept for {days} days. Run the statement again."
