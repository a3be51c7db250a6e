"""The first line of every view of one cluster."""

from __future__ import annotations

from django.http import Http404

from console.accounts import access
from console.accounts.http import Request
from console.cluster import queries
from console.instances.models import Cluster


def cluster(request: Request, number: int, action: str) -> Cluster:
    """The cluster, for the platform's administrator; a missing right is 403, also for one that does not exist."""
    access.platform(request, action, "cluster")
    found = queries.cluster(number)
    if found is None:
        raise Http404("no such cluster")
    return found
