"""The permission gate of every view: 404 for what is not the tenant's, 403 with the reason for a missing right."""

from __future__ import annotations

from django.core.exceptions import PermissionDenied

from console.accounts.actor import Actor, platform_resource, service_resource, tenant_resource
from console.accounts.models import Tenant
from console.audit import services as audit
from console.web.http import Request


def require(actor: Actor, action: str, resource: str, *, owner: Tenant | None, holder: str = "") -> None:
    """Raise PermissionDenied with the decision's sentence, and record the refused attempt."""
    decision = actor.decide(action, resource, owner=owner, holder=holder)
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
