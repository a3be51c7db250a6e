"""The request as our views see it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from django.http import HttpRequest
from django_htmx.middleware import HtmxDetails

if TYPE_CHECKING:
    from console.accounts.actor import Actor
    from console.accounts.models import User


class Request(HttpRequest):
    """Set by the middlewares: `htmx`, `request_id`, and `actor` for whoever is signed in."""

    htmx: HtmxDetails
    request_id: str
    actor: Actor
    user: User
