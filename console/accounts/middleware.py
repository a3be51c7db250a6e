"""Makes the signed-in user the request's actor."""

from __future__ import annotations

from collections.abc import Callable

from django.contrib.auth import logout
from django.http import HttpRequest, HttpResponse

from console.accounts.actor import Actor
from console.accounts.models import User

GetResponse = Callable[[HttpRequest], HttpResponse]


class ActorMiddleware:
    """Sets `request.actor`; a user without a tenant has no pages here and is signed out."""

    def __init__(self, get_response: GetResponse) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        user = request.user
        if isinstance(user, User):
            if user.tenant_id is None:
                logout(request)
            else:
                request.actor = Actor(  # type: ignore[attr-defined]
                    user=user,
                    source_ip=request.META.get("REMOTE_ADDR", ""),
                    secure=request.is_secure(),
                    request_id=request.request_id,  # type: ignore[attr-defined]
                )
        return self.get_response(request)
