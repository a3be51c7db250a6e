"""The visitor's own AccessKey pairs. Everybody may have two; they never can do more than their user."""

from __future__ import annotations

from django.contrib import messages
from django.http import Http404, HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_GET, require_POST

from console.accounts import queries, services
from console.accounts.models import AccessKey
from console.web import deletion, htmx
from console.web.errors import Refused
from console.web.http import Request


@require_GET
def index(request: Request) -> HttpResponse:
    return render(request, "accounts/keys.html", _context(request))


@never_cache
@require_POST
def create(request: Request) -> HttpResponse:
    """The answer carries the secret, this once: no redirect could."""
    try:
        issued = services.create_access_key(actor=request.actor, user=request.user)
    except Refused as refused:
        return htmx.invalid(request, "accounts/keys.html", _context(request) | {"error": refused.message})
    return render(request, "accounts/keys.html", _context(request) | {"issued": issued})


@require_POST
def switch(request: Request, access_key_id: str) -> HttpResponse:
    key = _own(request, access_key_id)
    enabled = request.POST.get("enabled") == "true"
    services.set_access_key_enabled(actor=request.actor, key=key, enabled=enabled)
    messages.success(request, f"{key.access_key_id} is {'enabled' if enabled else 'disabled'}.")
    return htmx.done(request, "accounts.keys")


def delete(request: Request, access_key_id: str) -> HttpResponse:
    key = _own(request, access_key_id)
    wanted = deletion.Deletion(
        kind="AccessKey",
        name=key.access_key_id,
        warning="Every client that signs with it is refused from then on.",
        cancel_url=reverse("accounts.keys"),
    )
    return deletion.confirm(
        request, wanted, lambda: services.delete_access_key(actor=request.actor, key=key), ("accounts.keys",)
    )


def _own(request: Request, access_key_id: str) -> AccessKey:
    key = queries.access_keys(request.actor.tenant, request.user).filter(access_key_id=access_key_id).first()
    if key is None:
        raise Http404("no such AccessKey")
    return key


def _context(request: Request) -> dict[str, object]:
    keys = list(queries.access_keys(request.actor.tenant, request.user))
    return {"keys": keys, "may_create": len(keys) < services.MAX_KEYS_PER_USER}
