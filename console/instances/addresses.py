"""Access points: how clients, hints and pages address an instance."""

from __future__ import annotations

from django.conf import settings

from console.instances.models import Instance


def access_point(instance: Instance) -> str:
    """The instance's own name before that of the name server, as the vendor shows it.

    A default instance, whose names have no prefix on the wire, has that of the name server alone: an account has one.
    """
    label = f"{instance.instance_id}." if instance.independent_naming else ""
    return _address(label, instance.cluster.namesrv)


def access_point_pattern() -> str:
    """How the access points of this copy look."""
    return _address("MQ_INST_….", settings.NAMESRV)


def _address(label: str, namesrv: str) -> str:
    return f"http://{label}{settings.ENDPOINT_HOST}:{namesrv.rpartition(':')[2]}"
