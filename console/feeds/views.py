"""Where requests to webhooks come in. No session speaks here: the token in the address does.

The middleware takes the token out of the path (`middleware`), so that nothing that logs a path knows it.
"""

from __future__ import annotations

from http import HTTPStatus

from django.conf import settings
from django.contrib.auth.decorators import login_not_required
from django.core.exceptions import RequestDataTooBig, TooManyFieldsSent
from django.db import Error as DatabaseError
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.utils.translation import gettext as _
from django.views.decorators.csrf import csrf_exempt

from analytics.inflow.webhook import MOST_BODY_BYTES, BodyRefused, Request, Webhook, is_signed
from console.accounts.crypto import decrypt
from console.feeds import queries, receiving
from console.feeds.models import Feed, Kind

_RETRY_AFTER_S = "5"
_TOO_LARGE = f"The body is larger than {MOST_BODY_BYTES >> 10:,} KiB."


@csrf_exempt
@login_not_required
def receive(request: HttpRequest, path: str) -> HttpResponse:
    """Answers 200 and the event's ID once the event is stored."""
    try:
        feed = queries.feed_of_token(getattr(request, "hook_token", ""))
        if feed is None or feed.kind != Kind.WEBHOOK:
            return _refused(HTTPStatus.NOT_FOUND, _("There is no such webhook."))
        return _received(request, feed, f"/{path}")
    except RequestDataTooBig:
        return _refused(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, _TOO_LARGE)
    except TooManyFieldsSent:
        return _refused(
            HTTPStatus.BAD_REQUEST,
            _("A query has at most %(data_upload_max_number_fields)s fields.")
            % {"data_upload_max_number_fields": settings.DATA_UPLOAD_MAX_NUMBER_FIELDS},
        )
    except DatabaseError:
        return _refused(HTTPStatus.SERVICE_UNAVAILABLE, _("The event could not be stored; send it again."))


def _received(request: HttpRequest, feed: Feed, path: str) -> HttpResponse:
    hook = Webhook.read(feed.told)
    if refusal := _unwanted(request, feed, hook):
        return refusal
    sent = _request_of(request, path)
    if len(sent.deduplication) > receiving.LONGEST_KEY:
        return _refused(
            HTTPStatus.BAD_REQUEST,
            _("An idempotency key has at most %(longest_key)s characters.") % {"longest_key": receiving.LONGEST_KEY},
        )
    try:
        identity = receiving.store(feed, sent, frozenset(filter(None, [hook.signature])))
    except BodyRefused as refused:
        return _refused(HTTPStatus.BAD_REQUEST, refused.user_message)
    except receiving.NoRoom:
        return _refused(HTTPStatus.TOO_MANY_REQUESTS, _("Too many events of this account wait; send it again later."))
    return JsonResponse({"id": identity})


def _unwanted(request: HttpRequest, feed: Feed, hook: Webhook) -> HttpResponse | None:
    """The refusal of a request that the webhook does not take."""
    if not hook.admits(request.META.get("REMOTE_ADDR", "")):
        return _refused(HTTPStatus.FORBIDDEN, _("The webhook takes no requests from this address."))
    if request.method not in hook.methods:
        refusal = _refused(HTTPStatus.METHOD_NOT_ALLOWED, f"The webhook takes {', '.join(hook.methods)}.")
        refusal["Allow"] = ", ".join(hook.methods)
        return refusal
    if len(request.body) > MOST_BODY_BYTES:
        return _refused(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, _TOO_LARGE)
    if hook.signature:
        key = decrypt(feed.key_encrypted) if feed.key_encrypted else ""
        if not key or not is_signed(request.body, key, request.headers.get(hook.signature, "")):
            return _refused(
                HTTPStatus.UNAUTHORIZED,
                _("The header %(signature)s has not the body's signature.") % {"signature": hook.signature},
            )
    return None


def _request_of(request: HttpRequest, path: str) -> Request:
    query = [(name, value) for name, values in request.GET.lists() for value in values]
    headers = {name.lower(): value for name, value in request.headers.items()}
    return Request(request.method or "", path, query, headers, request.body)


def _refused(status: HTTPStatus, sentence: str) -> HttpResponse:
    response = JsonResponse({"error": sentence}, status=status)
    if status in (HTTPStatus.TOO_MANY_REQUESTS, HTTPStatus.SERVICE_UNAVAILABLE):
        response["Retry-After"] = _RETRY_AFTER_S
    response._has_been_logged = True  # type: ignore[attr-defined]  # strangers would fill Django's log
    return response
