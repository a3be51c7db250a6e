"""`/mcp`: POST alone, with an AccessKey in a header and never by session cookie (docs/use/assistants.md)."""

from __future__ import annotations

import hmac
from urllib.parse import urlsplit

from django.conf import settings
from django.contrib.auth.decorators import login_not_required
from django.http import Http404, HttpResponse, HttpResponseNotAllowed
from django.utils.http import is_same_domain
from django.views.decorators.cache import never_cache
from django.views.decorators.csrf import csrf_exempt

from console.accounts.actor import Actor
from console.accounts.credentials import find_key, find_platform_key, secret_of, token_fits
from console.accounts.http import Request
from console.openapi import calls, envelope, throttle
from console.openapi.authentication import TOKEN_HEADER, accepted, note_refusal
from console.openapi.mcp import protocol
from console.openapi.mcp.protocol import REFUSED, RpcError
from console.web.errors import Refused
from console.web.request_owners import presented

_CHALLENGE = 'Bearer realm="gantry", Basic realm="gantry", charset="UTF-8"'
_MISSING = (
    "Sign in with the header Authorization: Bearer <AccessKey ID>:<AccessKey secret>, or Basic with the same pair."
)
_FAILED = "The AccessKey ID, its secret or its security token is not valid."
_STATUSES = {envelope.SIGNATURE: 401, envelope.THROTTLED: 429, envelope.INVOKE: 503, envelope.PERMISSION: 403}


@csrf_exempt
@login_not_required
@never_cache
def serve(request: Request) -> HttpResponse:
    """Answer one request. There is no stream to open (GET) and no session to end (DELETE)."""
    if not settings.MCP:
        raise Http404("there is no MCP server")
    if request.method != "POST":
        return HttpResponseNotAllowed(["POST"])
    try:
        return _served(request)
    except RpcError as error:
        response = error.response()
        if error.status == 401:
            response["WWW-Authenticate"] = _CHALLENGE
        return response


def _served(request: Request) -> HttpResponse:
    _refuse_foreign_pages(request)
    if calls.too_large(request):
        raise RpcError(REFUSED, calls.TOO_LARGE, status=413)
    actor = calls.attempt("mcp", lambda: _actor(request))
    if isinstance(actor, calls.Failure):
        raise RpcError(REFUSED, actor.message, status=_STATUSES.get(actor.symbol, 500))
    if request.content_type != "application/json":
        raise RpcError(REFUSED, "The Content-Type is not application/json.", status=415)
    version = request.headers.get("MCP-Protocol-Version", "")
    protocol.check_version(version)
    asked = protocol.read(request.body)
    return HttpResponse(status=202) if asked is None else protocol.answer(request, actor, asked, version)


def _refuse_foreign_pages(request: Request) -> None:
    """Programs send no Origin, browsers do: a page of somebody else is not to speak to a server inside a network."""
    origin = request.headers.get("Origin")
    if origin is None or origin == f"{request.scheme}://{request.get_host()}":
        return
    console = urlsplit(settings.CONSOLE_URL)
    if not any(_fits(origin, one) for one in (f"{console.scheme}://{console.netloc}", *settings.CSRF_TRUSTED_ORIGINS)):
        sentence = f"The Origin {origin[:100]} is not trusted; GANTRY_TRUSTED_ORIGINS names those that are."
        raise RpcError(REFUSED, sentence, status=403)


def _fits(origin: str, trusted: str) -> bool:
    """Whether an origin is this one, or one of `https://*.example.com`, as Django reads CSRF_TRUSTED_ORIGINS."""
    scheme, _, host = trusted.partition("://")
    try:
        found = urlsplit(origin)
    except ValueError:
        return False
    return found.scheme == scheme and is_same_domain(found.netloc, host.removeprefix("*"))


def _actor(request: Request) -> Actor:
    """Whose AccessKey came with the request. Raises Refused: limits and audit are those of wrong signatures."""
    access_key_id, rest = presented(request.headers.get("Authorization", ""))
    if not access_key_id:
        raise Refused(envelope.SIGNATURE, _MISSING)
    throttle.check_address(request.META.get("REMOTE_ADDR", ""))
    secret, _, token = rest.partition(":")
    key = find_key(access_key_id) or find_platform_key(access_key_id)
    right = hmac.compare_digest(secret_of(key).encode(), secret.encode())
    if key is None or not right or not token_fits(key, token or request.headers.get(TOKEN_HEADER, "")):
        problem = "the secret is wrong" if not right else "the security token is missing or wrong"
        problem = problem if key is not None else "the key is unknown, disabled or expired"
        note_refusal(request, access_key_id, problem, channel="mcp")
        raise Refused(envelope.SIGNATURE, _FAILED)
    return accepted(request, key, channel="mcp")
