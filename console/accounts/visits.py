"""Who acts in a page's request, and what a browser calls itself."""

from __future__ import annotations

from allauth.account.internal.flows.login import get_authentication_records
from django.http import HttpRequest
from django.utils.translation import gettext as _

from console.accounts.actor import Actor
from console.accounts.models import User

# The first that fits counts: most browsers also name the ones they descend from.
_BROWSERS = (
    ("Edg/", "Edge"), ("OPR/", "Opera"), ("Firefox/", "Firefox"), ("Chrome/", "Chrome"), ("Safari/", "Safari"),
    ("curl/", "curl"), ("python", "Python"),
)  # fmt: skip
_SYSTEMS = (
    ("iPhone", "iPhone"), ("iPad", "iPad"), ("Android", "Android"), ("Windows", "Windows"), ("CrOS", "ChromeOS"),
    ("Mac OS", "macOS"), ("Linux", "Linux"),
)  # fmt: skip


def actor_of(request: HttpRequest, user: User) -> Actor:
    """The user with the circumstances of a page's request: address, transport and request id."""
    return Actor(
        user=user,
        source_ip=request.META.get("REMOTE_ADDR", ""),
        secure=request.is_secure(),
        mfa=gave_second_factor(request, user),
        request_id=getattr(request, "request_id", ""),
    )


def gave_second_factor(request: HttpRequest, user: User) -> bool:
    """True when the sign-in of this session took a second factor."""
    return any(record.get("method") == "mfa" for record in get_authentication_records(request, user))


def device(user_agent: str) -> str:
    """`Firefox on Linux` for a User-Agent header; what it does not tell is left out."""
    browser = next((name for mark, name in _BROWSERS if mark.lower() in user_agent.lower()), _("Unknown browser"))
    system = next((name for mark, name in _SYSTEMS if mark in user_agent), "")
    return _("%(browser)s on %(system)s") % {"browser": browser, "system": system} if system else browser
