"""Sends RPC requests for `/` to their view, and lets no cookie speak for a request of an API."""

from __future__ import annotations

from collections.abc import Callable

from django.http import HttpRequest, HttpResponse

from console.openapi.calls import FORM, too_large

RPC_PATH = "/rpc/"
MCP_PATH = "/mcp"


class ApiMiddleware:
    """The SDKs call the root of the endpoint, where people find the overview page.

    `path` stays as it was sent, since it is signed; only the routing follows `path_info`. Cookies are dropped, so
    that the signature alone says who calls: no session, and no redirect to a page for whoever is signed in too.
    """

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        if request.path_info == "/" and is_rpc(request):
            request.path_info = RPC_PATH
        if request.path_info in (RPC_PATH, MCP_PATH) or request.path_info.startswith("/json/"):
            request.COOKIES = {}
            request.META.pop("HTTP_COOKIE", None)
        return self.get_response(request)


def is_rpc(request: HttpRequest) -> bool:
    """True for a request that names an action in a header, in the query string or in a form."""
    if "x-acs-action" in request.headers:
        return True
    sources = [request.GET]
    if request.method == "POST" and request.content_type == FORM and not too_large(request):
        sources.append(request.POST)
    return any("Action" in source and "Version" in source for source in sources)
