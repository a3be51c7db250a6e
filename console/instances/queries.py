"""Reads of instances. The tenant comes first."""

from __future__ import annotations

from dataclasses import dataclass

from django.conf import settings
from django.db.models import Q, QuerySet
from django.utils.translation import gettext as _

from brokercore.policy.table import RateUse
from console.accounts.models import Tenant
from console.accounts.organizations import Scope, ids_below
from console.instances.contents import contents
from console.instances.models import Cluster, Instance, Origin
from console.rights import limits
from console.web import regions


def instances(tenant: Tenant) -> QuerySet[Instance]:
    """The tenant's instances by name, with all that a list shows."""
    return Instance.objects.filter(tenant=tenant).select_related(
        "cluster", "tenant__organization", "resource_set__organization"
    )


def instances_with_counts(tenant: Tenant) -> QuerySet[Instance]:
    """As `instances`, each with `topic_count` and `group_count`."""
    return contents.get().counted(instances(tenant))


def narrowed(instances: QuerySet[Instance], scope: Scope) -> QuerySet[Instance]:
    """The instances inside what the `x-acs-…` headers name.

    An instance belongs to the organization of its resource set, or else to that of its account; an organization
    means those below it as well.
    """
    if scope.organization is not None:
        inside = ids_below(scope.organization)
        instances = instances.filter(
            Q(resource_set__organization__in=inside) | Q(resource_set=None, tenant__organization__in=inside)
        )
    if scope.resource_set is not None:
        instances = instances.filter(resource_set=scope.resource_set)
    return instances


def of_region(instances: QuerySet[Instance], region: str) -> QuerySet[Instance]:
    """Those of the region that was asked for; all of them where there is one region, or none was asked for."""
    return instances.filter(region=region) if region and regions.are_several() else instances


def clusters(region: str = "") -> QuerySet[Cluster]:
    """The clusters of a region by name; of all of them where there is one region, or none was asked for."""
    found = Cluster.objects.order_by("name")
    return found.filter(region=region) if region and regions.are_several() else found


def first_cluster(region: str) -> Cluster | None:
    """The cluster of a region that was there first."""
    return clusters(region).order_by("pk").first()


def cluster_of_settings() -> Cluster | None:
    """The cluster that the settings name: the embedded one, or that of GANTRY_NAMESRV."""
    origin = Origin.EMBEDDED if settings.EMBEDDED_BROKER else Origin.SETTINGS
    return Cluster.objects.filter(origin=origin).first()


def has_other_clusters() -> bool:
    """Whether there are brokers that are not the embedded ones: those know no temporary keys and tell no uses."""
    return Cluster.objects.exclude(origin=Origin.EMBEDDED).exists()


@dataclass(frozen=True, slots=True)
class RateLine:
    """One of the two limits, messages a second; `used` is None where no embedded broker tells it."""

    label: str
    limit: int
    used: int | None

    @property
    def percent(self) -> int:
        """How much of it is used, from 0 to 100."""
        return min(100, 100 * (self.used or 0) // self.limit)

    @property
    def colour(self) -> str:
        """As of the limits of an account: red is nearly all."""
        return "red" if self.percent >= 90 else "yellow" if self.percent >= 75 else "primary"


@dataclass(frozen=True, slots=True)
class Rates:
    """Both limits; `held_back` is how often a client had to wait or was refused since the brokers started."""

    lines: tuple[RateLine, RateLine]
    enforced: bool
    held_back: int


def rates(instance: Instance) -> Rates:
    """The limits with their use. Another cluster than the embedded one enforces none.

    See docs/operate/limits.md, "Rates of an instance".
    """
    use = limits.rates_of(instance.instance_id)
    told = use or RateUse()
    return Rates(
        (
            RateLine(_("Sending"), instance.max_send_tps, use.sent if use else None),
            RateLine(_("Receiving"), instance.max_receive_tps, use.received if use else None),
        ),
        enforced=use is not None,
        held_back=told.held_back,
    )
