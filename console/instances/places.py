"""Of which region a resource is, for policies that name a region (docs/use/permissions.md)."""

from __future__ import annotations

from collections.abc import Callable

from brokercore.policy import mq_resource
from console.accounts.models import Tenant
from console.instances.models import Instance
from console.web import regions

_SERVICE = mq_resource("")
_INSTANCE = "MQ_INST_"


def places_of(owner: Tenant) -> Callable[[str], str]:
    """What tells the region of each resource of an account.

    A topic or group is of its instance's region. Of a bare name it is not known where the account has instances without
    namespace in several regions. What is of no instance (queues, statements, users) is of the default region.
    """
    rows = Instance.objects.filter(tenant=owner).values_list("instance_id", "region", "independent_naming")
    by_instance: dict[str, str] = {instance_id: region for instance_id, region, _ in rows}
    bare = {region for _, region, has_namespace in rows if not has_namespace}
    of_bare = next(iter(bare), regions.default()) if len(bare) < 2 else ""

    def region_of(resource: str) -> str:
        if not resource.startswith(_SERVICE):
            return regions.default()
        name = resource.removeprefix(_SERVICE)
        if not name.startswith(_INSTANCE):
            return of_bare
        instance_id = name.partition("%")[0]
        if instance_id not in by_instance:
            by_instance[instance_id] = _of_another(instance_id)
        return by_instance[instance_id]

    return region_of


def _of_another(instance_id: str) -> str:
    """Of an instance in which another account may use something, or which is not there."""
    found = Instance.objects.filter(instance_id=instance_id).values_list("region", flat=True).first()
    return found or regions.default()
