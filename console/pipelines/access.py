"""Who may use which secret of an account: asked of who deploys a text that names it, and of who starts it.

The right is `dla:UseJobSecret` on `acs:dla:*:<account>:job-secret/<name>`. A secret that there is not and one that may
not be used are refused in one sentence, so that a refusal does not tell which names there are.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from django.utils.translation import gettext as _

from console.accounts.actor import Actor, service_resource
from console.audit import record as audit
from console.pipelines.models import Secret
from console.web.errors import Refused

USE = "dla:UseJobSecret"


def usable_secrets(actor: Actor, names: Collection[str]) -> set[str]:
    """Those of the names that are secrets of the actor's account, and that the actor may use."""
    there = Secret.objects.filter(tenant=actor.tenant, name__in=names).values_list("name", flat=True)
    resources = {_resource(actor, name): name for name in there}
    allowed = actor.allowed(USE, dict.fromkeys(resources, ""), owner=actor.tenant)
    return {resources[resource] for resource in allowed}


def require_secrets(actor: Actor, names: Iterable[str]) -> None:
    """Raise Refused for the first that the actor may not use, there or not, and record the refused attempt."""
    for name in names:
        decision = actor.decide(USE, _resource(actor, name), owner=actor.tenant)
        if not decision.allowed:
            detail = {"reason": decision.reason}
            audit.record(actor, USE, _resource(actor, name), result="refused", detail=detail)
            raise no_secret(name)


def no_secret(name: str) -> Refused:
    """The one refusal, of a secret that there is not and of one that may not be used."""
    return Refused(
        "SECRET_NOT_FOUND",
        _("There is no secret %(name)s, or who starts the job may not use it (%(use)s).") % {"name": name, "use": USE},
    )


def _resource(actor: Actor, name: str) -> str:
    return service_resource("dla", actor.tenant, f"job-secret/{name}")
