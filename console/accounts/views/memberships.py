"""Putting a user into a group and taking it out: the same from the user's page and from the group's."""

from __future__ import annotations

from django.contrib import messages
from django.http import HttpResponse

from console.accounts import services
from console.accounts.models import User, UserGroup
from console.web import htmx
from console.web.errors import Refused
from console.web.http import Request

SOON = "It holds at once, at the broker within two seconds."


def join(request: Request, group: UserGroup, user: User, *back: str) -> HttpResponse:
    """Put the user into the group and go back to the page `back`, a URL name with its arguments."""
    try:
        services.add_user(actor=request.actor, group=group, user=user)
    except Refused as refused:
        messages.error(request, refused.message)
    else:
        messages.success(request, f"{user.username} is in {group.name}. {SOON}")
    return htmx.done(request, *back)


def leave(request: Request, group: UserGroup, user: User, *back: str) -> HttpResponse:
    """Take the user out of the group and go back to the page `back`."""
    services.remove_user(actor=request.actor, group=group, user=user)
    messages.success(request, f"{user.username} is no longer in {group.name}. {SOON}")
    return htmx.done(request, *back)
