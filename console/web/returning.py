"""Where a visitor is led back to: addresses that a request names lead nowhere else."""

from __future__ import annotations

from django.http import HttpRequest
from django.utils.http import url_has_allowed_host_and_scheme


def way_back(request: HttpRequest, url: str) -> str:
    """The address when it is of this console, by the same scheme; else empty."""
    is_ours = url_has_allowed_host_and_scheme(url, {request.get_host()}, require_https=request.is_secure())
    return url if is_ours else ""
