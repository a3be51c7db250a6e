"""The request as our views see it."""

from __future__ import annotations

from console.accounts.actor import Actor
from console.accounts.models import User
from console.web.htmx import HtmxRequest


class Request(HtmxRequest):
    """Also set by the middlewares: `actor` for whoever is signed in."""

    actor: Actor
    user: User
