"""Where a visitor is led back to: addresses that a request names lead nowhere else."""

from __future__ import annotations

import re

from django.http import HttpRequest
from django.utils.http import url_has_allowed_host_and_scheme

_CONTROL = re.compile(r"[\x00-\x1f\x7f]")


def way_back(request: HttpRequest, url: str) -> str:
    """The address when it is of this console, by the same scheme; else empty.

    Browsers take tabs and ends of lines out of an address before they read it, so one with a control character is
    another to them than it is here: no address of ours has any.
    """
    is_ours = url_has_allowed_host_and_scheme(url, {request.get_host()}, require_https=request.is_secure())
    return url if is_ours and not _CONTROL.search(url) else ""
