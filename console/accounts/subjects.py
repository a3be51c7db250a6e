"""The first line of views of one user or user group: it is of the caller's account, and may be used so."""

from __future__ import annotations

from django.http import Http404

from console.accounts import access, queries, user_queries
from console.accounts.actor import Actor, service_resource
from console.accounts.models import AccessKey, Policy, User, UserGroup
from console.web.http import Request


def user(request: Request, username: str, action: str) -> User:
    """The user of the caller's account. A missing right is 403, also for a name that nobody has."""
    tenant = access.service(request, "ram", action, f"user/{username}")
    found = user_queries.user(tenant, username)
    if found is None:
        raise Http404("no such user")
    return found


def group(request: Request, name: str, action: str) -> UserGroup:
    """The user group of the caller's account."""
    tenant = access.service(request, "ram", action, f"group/{name}")
    found = user_queries.groups(tenant).filter(name=name).first()
    if found is None:
        raise Http404("no such user group")
    return found


def policy(request: Request) -> Policy:
    """The policy that a picker chose: of the system or the caller's account."""
    key = request.POST.get("name", "")
    found = queries.policies(request.actor.tenant).filter(pk=key).first() if key.isdecimal() else None
    if found is None:
        raise Http404("no such policy")
    return found


def key_of(owner: User, access_key_id: str) -> AccessKey:
    """An AccessKey of a user whom access has found."""
    found = owner.access_keys.filter(access_key_id=access_key_id).first()
    if found is None:
        raise Http404("no such AccessKey")
    return found


def may(actor: Actor, action: str, path: str) -> bool:
    """What a page leaves out for who may not do it; the act itself asks again."""
    return actor.decide(action, service_resource("ram", actor.tenant, path), owner=actor.tenant).allowed
