"""The VPC access mode of a cluster, which a deployment without VPC does not have."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from brokercore.policy import mq_resource
from console.accounts.access import require
from console.instances.models import Cluster
from console.instances.storage import busiest_broker
from console.openapi.operations import lookup
from console.openapi.operations.fields import Boolean, NeededInstanceId
from console.openapi.registry import Call, Parameters, operation
from console.web.errors import Refused

QUIET_TPS = 10
"""Messages a second, sent and received together, above which a broker is not switched without force."""


class TunnelSwitch(Parameters):
    tunnelType: Literal["anyTunnel", "singleTunnel"] = Field(description="The mode to switch to.")
    instanceId: NeededInstanceId
    slbUrl: str = Field(default="", max_length=1024, description="Address of the load balancer's API.")
    force: Boolean = Field(default=False, description="true: switch also while brokers process messages.")
    vSwitchId: str = Field(default="", max_length=128, description="VPC of the address; only for singleTunnel.")


@operation(
    "vpcTunnel/tunnelSwitch",
    service="Instance",
    summary="Switch the VPC access mode of a cluster",
    description="There is no VPC here: what is checked is checked, then the answer is ONS_SERVICE_UNSUPPORTED. It "
    "would affect a whole cluster, so no policy of the service `mq` allows it to RAM users.",
    parameters=TunnelSwitch,
    result=str,
    changes=True,
    errors=("BIZ_INSTANCE_NOT_FOUND", "BIZ_TUNNEL_SWITCH_BLOCKED", "ONS_SERVICE_UNSUPPORTED"),
)
def tunnel_switch(call: Call, parameters: TunnelSwitch) -> str:
    instance = lookup.own_instance(call, parameters.instanceId, "mq:QueryInstance")
    require(call.actor, "vpc:SwitchTunnel", mq_resource(instance.instance_id), owner=instance.tenant)
    if not parameters.force:
        _check_quiet(instance.cluster)
    raise Refused("ONS_SERVICE_UNSUPPORTED", "This deployment has no VPC, so there is no access mode to switch.")


def _check_quiet(cluster: Cluster) -> None:
    name, tps = busiest_broker(cluster)
    if tps > QUIET_TPS:
        message = (
            f"The broker {name} handles {tps:.1f} messages a second, more than {QUIET_TPS}; stop them or use force."
        )
        raise Refused("BIZ_TUNNEL_SWITCH_BLOCKED", message, "force")
