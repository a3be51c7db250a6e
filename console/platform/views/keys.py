"""The "Management AccessKey" of a level-1 organization."""

from __future__ import annotations

from django.contrib import messages
from django.http import Http404, HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_POST

from console.accounts import access
from console.accounts.models import AccessKey
from console.accounts.services import organization_keys as services
from console.platform import queries
from console.platform.forms import KeyForm
from console.web import deletion, htmx
from console.web.errors import Refused
from console.web.forms import add_refusal
from console.web.http import Request


@never_cache
def index(request: Request, number: int) -> HttpResponse:
    """On POST: issue a pair. The answer carries the secret, this once."""
    action = "platform:CreateOrganizationKey" if request.method == "POST" else "platform:ListOrganizationKeys"
    actor = access.platform(request, action, f"organization/{number}")
    found = queries.organization(number)
    if found is None or found.parent_id is not None:
        raise Http404("no such level-1 organization")
    form = KeyForm(request.POST or None, organization=found)
    issued = None
    if request.method == "POST" and form.is_valid():
        try:
            issued = services.create_organization_key(actor=actor, organization=found, **form.cleaned_data)
        except Refused as refused:
            add_refusal(form, refused)
    failed = form.is_bound and issued is None
    keys = list(queries.keys(found))
    context = {
        "organization": found,
        "form": form if failed else KeyForm(organization=found),
        "issued": issued,
        "keys": keys,
        "may_create": len(keys) < services.MAX_KEYS_PER_ORGANIZATION,
    }
    return render(request, "platform/organization_keys.html", context, status=422 if failed else 200)


@require_POST
def switch(request: Request, access_key_id: str) -> HttpResponse:
    key = _key(request, access_key_id, "platform:UpdateOrganizationKey")
    enabled = request.POST.get("enabled") == "true"
    services.set_organization_key_enabled(actor=request.actor, key=key, enabled=enabled)
    messages.success(request, f"{key.access_key_id} is {'enabled' if enabled else 'disabled'}.")
    return htmx.done(request, "platform.organization_keys", key.organization_id)


def delete(request: Request, access_key_id: str) -> HttpResponse:
    key = _key(request, access_key_id, "platform:DeleteOrganizationKey")
    number = key.organization_id
    asked = deletion.Deletion(
        kind="AccessKey",
        name=key.access_key_id,
        warning="Programs that sign with it are refused within two seconds.",
        cancel_url=reverse("platform.organization_keys", args=[number]),
    )
    return deletion.confirm(
        request,
        asked,
        lambda: services.delete_organization_key(actor=request.actor, key=key),
        ("platform.organization_keys", str(number)),
    )


def _key(request: Request, access_key_id: str, action: str) -> AccessKey:
    access.platform(request, action, f"organization-key/{access_key_id}")
    key = queries.key(access_key_id)
    if key is None:
        raise Http404("no such AccessKey of an organization")
    return key
