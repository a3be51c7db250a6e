"""The first line of every view and operation of adoption: for the platform, and for accounts that may adopt."""

from __future__ import annotations

from django.http import Http404

from console.accounts.access import require
from console.accounts.actor import ADOPTION, Actor, platform_resource
from console.adoption import queries
from console.adoption.models import Rule, Run
from console.instances.models import Cluster


def anywhere(actor: Actor, action: str) -> None:
    """Raise PermissionDenied unless the actor may do `action` with names that no account has, on any cluster."""
    require(actor, action, platform_resource(f"{ADOPTION}*"), owner=None)


def cluster(actor: Actor, number: int, action: str) -> Cluster:
    """The cluster, if the actor may do `action` with names there that no account has."""
    anywhere(actor, action)
    found = Cluster.objects.filter(pk=number).first()
    if found is None:
        raise Http404("no such cluster")
    return found


def rule(actor: Actor, number: int, action: str) -> Rule:
    """The rule; another account's does not exist for an account that may adopt."""
    anywhere(actor, action)
    found = queries.find_rule(actor, number)
    if found is None:
        raise Http404("no such rule")
    return found


def run(actor: Actor, number: int, action: str) -> Run:
    """The run; another account's does not exist for an account that may adopt."""
    anywhere(actor, action)
    found = queries.find_run(actor, number)
    if found is None:
        raise Http404("no such run")
    return found
