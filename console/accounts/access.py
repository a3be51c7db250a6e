"""The permission gate of every view: 404 for what is not the tenant's, 403 with the reason for a missing right."""

from __future__ import annotations

from django.core.exceptions import PermissionDenied
from django.http import Http404

from console.accounts import queries
from console.accounts.actor import Actor, platform_resource, service_resource, tenant_resource
from console.accounts.http import Request
from console.accounts.models import AccessKey, Policy, Role, Tenant, User, UserGroup
from console.audit import record as audit


def require(
    actor: Actor, action: str, resource: str, *, owner: Tenant | None, holder: str = "", region: str = ""
) -> None:
    """Raise PermissionDenied with the decision's sentence, and record the refused attempt."""
    decision = actor.decide(action, resource, owner=owner, holder=holder, region=region)
    if not decision.allowed:
        audit.record(actor, action, resource, result="refused", detail={"reason": decision.reason})
        raise PermissionDenied(decision.reason)


def tenant(request: Request, action: str) -> Tenant:
    """The caller's tenant, for what is not inside an instance (creating one, the overview)."""
    owner = request.actor.tenant
    require(request.actor, action, tenant_resource(owner), owner=owner)
    return owner


def service(request: Request, service_name: str, action: str, path: str = "*") -> Tenant:
    """The caller's tenant, for account pages (`ram`), the audit page (`actiontrail`) and SQL (`dla`).

    `path` names the one thing that is looked at or changed, as in `user/bob@acme`.
    """
    owner = request.actor.tenant
    require(request.actor, action, service_resource(service_name, owner, path), owner=owner)
    return owner


def platform(request: Request, action: str, path: str = "*") -> Actor:
    """The platform's administrator, for organizations, resource sets and tenant accounts."""
    require(request.actor, action, platform_resource(path), owner=None)
    return request.actor


def user(request: Request, username: str, action: str) -> User:
    """The user of the caller's account. A missing right is 403, also for a name that nobody has."""
    tenant = service(request, "ram", action, f"user/{username}")
    found = queries.user(tenant, username)
    if found is None:
        raise Http404("no such user")
    return found


def group(request: Request, name: str, action: str) -> UserGroup:
    """The user group of the caller's account."""
    tenant = service(request, "ram", action, f"group/{name}")
    found = queries.groups(tenant).filter(name=name).first()
    if found is None:
        raise Http404("no such user group")
    return found


def role(request: Request, name: str, action: str) -> Role:
    """The role of the caller's account."""
    tenant = service(request, "ram", action, f"role/{name}")
    found = queries.role(tenant, name)
    if found is None:
        raise Http404("no such role")
    return found


def policy(request: Request, name: str, action: str) -> Policy:
    """The policy of the system or the caller's account."""
    tenant = service(request, "ram", action, f"policy/{name}")
    found = queries.policy(tenant, name)
    if found is None:
        raise Http404("no such policy")
    return found


def chosen_policy(request: Request) -> Policy:
    """The policy that a picker chose: of the system or the caller's account."""
    key = request.POST.get("name", "")
    found = queries.policies(request.actor.tenant).filter(pk=key).first() if key.isdecimal() else None
    if found is None:
        raise Http404("no such policy")
    return found


def chosen_user(request: Request) -> User:
    """The user of the caller's account that a picker or a button chose."""
    found = queries.user(request.actor.tenant, request.POST.get("name", ""))
    if found is None:
        raise Http404("no such user")
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
