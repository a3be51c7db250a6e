"""The visitor's own AccessKey pairs and sign-in at the MySQL endpoint. They never can do more than their user."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from django.conf import settings
from django.contrib import messages
from django.http import HttpResponse
from django.http.request import split_domain_port
from django.shortcuts import render
from django.urls import reverse
from django.utils.translation import gettext as _
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_GET, require_POST

from console.accounts import access, credentials, queries, services
from console.accounts.http import Request
from console.accounts.models import User
from console.accounts.services import IssuedKey
from console.web import deletion, forms, htmx


@require_GET
def index(request: Request) -> HttpResponse:
    return render(request, "accounts/keys.html", _context(request))


@never_cache
@require_POST
def create(request: Request) -> HttpResponse:
    """The answer carries the secret, this once: no redirect could."""
    refused: dict[str, Any] = {}
    with forms.refusals_in(refused, "error"):
        issued = services.create_access_key(actor=request.actor, user=_owner(request))
        context = _context(request) | {"issued": issued, "files": _files(issued)}
        return render(request, "accounts/keys.html", context)
    return htmx.invalid(request, "accounts/keys.html", _context(request) | refused)


@require_POST
def switch(request: Request, access_key_id: str) -> HttpResponse:
    key = access.key_of(_owner(request), access_key_id)
    enabled = request.POST.get("enabled") == "true"
    services.set_access_key_enabled(actor=request.actor, key=key, enabled=enabled)
    said = (_("%(key)s is enabled.") if enabled else _("%(key)s is disabled: it stops working within two seconds.")) % {
        "key": key.access_key_id
    }
    messages.success(request, said)
    return htmx.done(request, "accounts.keys")


def delete(request: Request, access_key_id: str) -> HttpResponse:
    key = access.key_of(_owner(request), access_key_id)
    wanted = deletion.Deletion(
        kind=_("AccessKey"),
        name=key.access_key_id,
        warning=_("Every client that signs with it is refused from then on."),
        cancel_url=reverse("accounts.keys"),
    )
    return deletion.confirm(
        request, wanted, lambda: services.delete_access_key(actor=request.actor, key=key), ("accounts.keys",)
    )


@never_cache
@require_POST
def renew_database_password(request: Request) -> HttpResponse:
    """The answer carries the password, this once."""
    drawn = services.renew_database_password(actor=request.actor, user=_owner(request))
    return render(request, "accounts/keys.html", _context(request) | {"drawn": drawn})


@require_POST
def delete_database_account(request: Request) -> HttpResponse:
    services.delete_database_account(actor=request.actor, user=_owner(request))
    messages.success(request, _("The MySQL endpoint no longer takes this name and password."))
    return htmx.done(request, "accounts.keys")


def _owner(request: Request) -> User:
    """The visitor. Who belongs to no account owns no keys."""
    _unused = request.actor.tenant
    return request.actor.person


def _context(request: Request) -> dict[str, object]:
    owner = _owner(request)
    keys = list(queries.access_keys(request.actor.tenant, owner))
    uses, uses_known = credentials.known_uses(keys)
    pairs = credentials.pairs_of(keys, uses)
    account = queries.database_account(owner)
    host = split_domain_port(request.get_host())[0]
    return {
        "pairs": pairs,
        "uses_known": uses_known,
        "rotation": credentials.rotation_of(pairs),
        "may_create": len(keys) < services.MAX_KEYS_PER_USER,
        "database_account": account,
        "mysql_command": f"mysql --comments -h {host} -P {settings.SQL_PORT} -u '{account.name}' -p" if account else "",
    }


@dataclass(frozen=True, slots=True)
class KeyFile:
    """A file with its content as a data: URL, for a link that saves it."""

    name: str
    href: str


def _files(issued: IssuedKey) -> list[KeyFile]:
    """The names are those that the vendor's SDKs and command line read."""
    environment = (
        f"ALIBABA_CLOUD_ACCESS_KEY_ID={issued.access_key_id}\n"
        f"ALIBABA_CLOUD_ACCESS_KEY_SECRET={issued.access_key_secret}\n"
    )
    pair = {"AccessKeyId": issued.access_key_id, "AccessKeySecret": issued.access_key_secret}
    return [
        KeyFile("accesskey.env", f"data:text/plain;charset=utf-8,{quote(environment)}"),
        KeyFile("accesskey.json", f"data:application/json;charset=utf-8,{quote(json.dumps(pair, indent=2))}"),
    ]
