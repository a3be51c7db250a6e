"""Where mail of alarms may go (`GANTRY_MAIL_DOMAINS`): without a domain there, to every address."""

from __future__ import annotations

from collections.abc import Iterable

from django.conf import settings
from django.utils.translation import gettext as _


def refusal(addresses: Iterable[str]) -> str:
    """Why mail may not go to one of these addresses, in a sentence; empty where it may go to all of them."""
    allowed = settings.MAIL_DOMAINS
    for address in addresses:
        if allowed and not any(_is_of(address.rpartition("@")[2], domain) for domain in allowed):
            refusal = _("%(address)r is of a domain that mail may not go to; allowed are %(domains)s.")
            return refusal % {"address": address[:254], "domains": ", ".join(allowed)}
    return ""


def _is_of(domain: str, allowed: str) -> bool:
    """Whether it is the allowed domain; `*.example.com` means all below example.com."""
    named, wanted = _ascii(domain), _ascii(allowed.removeprefix("*."))
    return named.endswith(f".{wanted}") if allowed.startswith("*.") else named == wanted


def _ascii(domain: str) -> str:
    """As DNS knows it: without regard to case, and to how letters beyond ASCII are written."""
    try:
        return domain.rstrip(".").lower().encode("idna").decode()
    except UnicodeError:
        return domain.lower()
