"""Regions and clusters."""

from __future__ import annotations

from datetime import datetime

from django.conf import settings
from django.utils import timezone
from pydantic import Field

from console.instances import queries
from console.openapi.registry import Call, Parameters, Result, operation


class Region(Result):
    """RegionDo."""

    id: int = Field(description="Number of the record.")
    regionId: str = Field(description="The value for `_regionId`.")
    regionName: str = Field(description="Name to show.")


class ClusterInfo(Result):
    """ClusterInfoDo."""

    regionId: str = Field(description="Region of the cluster.")
    cluster: str = Field(description="Name of the cluster: the value for `cluster` of instance/create.")
    createTime: str = Field(description="When it was registered: `yyyy-MM-dd HH:mm:ss` in the zone of the deployment.")
    modifyTime: str = Field(description="When it was last changed, in the same form.")


@operation(
    "region/list",
    service="Region",
    summary="List the regions",
    description="The IDs are the allowed values of `_regionId`, which this operation alone does not need.",
    result=list[Region],
    rpc="OnsRegionList",
    region_required=False,
)
def region_list(call: Call, parameters: Parameters) -> list[Region]:
    return [Region(id=1, regionId=settings.REGION, regionName="Private region")]


@operation(
    "cluster/list",
    service="Cluster",
    summary="List the clusters of a region",
    description="An instance is created on one of them.",
    result=list[ClusterInfo],
)
def cluster_list(call: Call, parameters: Parameters) -> list[ClusterInfo]:
    return [
        ClusterInfo(
            regionId=cluster.region,
            cluster=cluster.name,
            createTime=_moment(cluster.created_at),
            modifyTime=_moment(cluster.modified_at),
        )
        for cluster in queries.clusters(settings.REGION)
    ]


def _moment(at: datetime) -> str:
    return timezone.localtime(at, timezone.get_default_timezone()).strftime("%Y-%m-%d %H:%M:%S")
