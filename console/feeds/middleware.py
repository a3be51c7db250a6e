"""The token of a webhook's address goes no further than here: it is no part of the path that views and logs see.

And no session speaks there, whatever cookie is sent along.
"""

from __future__ import annotations

from collections.abc import Callable

from django.http import HttpRequest, HttpResponse

PREFIX = "/hooks/"
"""Addresses of webhooks: `/hooks/<token>`, and anything behind that."""


class HookTokenMiddleware:
    """Moves the token from the path into `request.hook_token`. The outermost: what is raised tells the path, too."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        if request.path_info.startswith(PREFIX):
            token, _, rest = request.path_info.removeprefix(PREFIX).partition("/")
            request.hook_token = token  # type: ignore[attr-defined]
            request.META.pop("HTTP_COOKIE", None)
            request.path = request.path_info = request.META["PATH_INFO"] = f"{PREFIX}{rest}"
        return self.get_response(request)
