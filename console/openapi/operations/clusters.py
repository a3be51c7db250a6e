"""Clusters by the management API: for the platform's administrator alone, by a key of `manage.py platform_key`."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, Any, Literal

from pydantic import Field, StringConstraints

from console.accounts.access import require
from console.accounts.actor import platform_resource
from console.cluster import brokers, queries, registry, trial
from console.cluster.registry import Wanted
from console.instances.models import Cluster
from console.openapi.registry import NOTHING, Boolean, Call, Nothing, Parameters, Result, operation
from console.web import regions
from console.web.errors import Refused

_SERVICE = "Cluster"
_MISSES = ("BIZ_CLUSTER_NOT_FOUND",)

Name = Annotated[str, Field(min_length=1, max_length=64, description="Name of the cluster.", examples=["theirs"])]
Secret = Annotated[str, StringConstraints(strip_whitespace=False, max_length=65_536)]


class ClusterOnly(Parameters):
    cluster: Name


class _Reached(Parameters):
    """How a cluster is reached, and what may be done there; what is left out stays as it is."""

    cluster: Name
    accessKeyId: Annotated[
        str | None, Field(max_length=128, description="Of the console's account there; empty for none.")
    ] = None
    accessKeySecret: Annotated[Secret, Field(description="It is never told again.")] = ""
    tls: Annotated[Boolean | None, Field(description="Whether name servers and brokers are reached over TLS.")] = None
    authority: Annotated[
        str | None,
        Field(max_length=65_536, description="PEM: who signed their certificates; empty: the system's."),
    ] = None
    certificate: Annotated[str | None, Field(max_length=65_536, description="PEM of a client certificate.")] = None
    key: Annotated[Secret, Field(description="PEM of its private key, which is never told again.")] = ""
    proxy: Annotated[str | None, Field(max_length=255, description="host:port of the gRPC proxy.")] = None
    accessControl: Annotated[
        Literal["auto", "acl2", "acl1", "none"] | None,
        Field(description="acl2: rights of AccessKeys are copied to the brokers; none: they stay as they are."),
    ] = None
    readOnly: Annotated[Boolean | None, Field(description="Whether the console changes nothing there.")] = None

    def wanted(self, before: Wanted) -> Wanted:
        """What is given, over what there is."""
        given: dict[str, Any] = {
            "access_key_id": self.accessKeyId,
            "access_key_secret": self.accessKeySecret or None,
            "tls": self.tls,
            "authority": self.authority,
            "certificate": self.certificate,
            "key": self.key or None,
            "proxy": self.proxy,
            "access_control": self.accessControl,
            "read_only": self.readOnly,
            "namesrv": self._name_servers(),
        }
        return replace(before, **{name: value for name, value in given.items() if value is not None})

    def _name_servers(self) -> str | None:
        raise NotImplementedError


class ClusterAdd(_Reached):
    namesrv: Annotated[str, Field(max_length=255, description="host:port, several separated by ;.")]

    def _name_servers(self) -> str | None:
        return self.namesrv


class ClusterUpdate(_Reached):
    region: Annotated[
        str | None,
        Field(max_length=64, description="ID of the region that cluster and instances move to; nothing changes there."),
    ] = None
    namesrv: Annotated[str | None, Field(max_length=255, description="host:port, several separated by ;.")] = None

    def _name_servers(self) -> str | None:
        return self.namesrv


class BrokerDo(Result):
    """A broker as it is now."""

    name: str
    address: str
    version: str
    absence: str = Field(description="Why nothing more is known of it; empty for one that answers.")
    receivedPerSecond: float = Field(description="Messages that arrive, over ten seconds.")
    sentPerSecond: float
    usedPercent: int = Field(description="How full its store is.")


class ClusterDo(Result):
    """A cluster. No secret is told."""

    cluster: str
    region: str
    origin: str = Field(description="embedded, settings (GANTRY_NAMESRV names it) or added.")
    namesrv: str
    accessKeyId: str
    tls: bool
    proxy: str
    accessControl: str
    readOnly: bool
    instances: int
    outage: str = Field(description="Why its brokers are not known now; else empty.")
    brokers: list[BrokerDo]


class StepDo(Result):
    """One step of a test."""

    outcome: str = Field(description="fine, failed, or open where nothing but a change could tell.")
    text: str


@operation(
    "cluster/get",
    service=_SERVICE,
    summary="A cluster with its brokers",
    description="Asked now: one that does not answer is told by `outage`.",
    parameters=ClusterOnly,
    result=ClusterDo,
    needs=("platform:GetCluster",),
    errors=_MISSES,
    extension=True,
)
def get(call: Call, parameters: ClusterOnly) -> ClusterDo:
    return _told(_cluster(call, parameters.cluster, "platform:GetCluster"))


@operation(
    "cluster/add",
    service=_SERVICE,
    summary="Add a cluster",
    description="Nothing is changed there. Send it as POST: the secrets do not belong into an address.",
    parameters=ClusterAdd,
    result=Nothing,
    needs=("platform:CreateCluster",),
    changes=True,
    errors=("BIZ_CLUSTER_EXISTED",),
    extension=True,
)
def add(call: Call, parameters: ClusterAdd) -> dict[str, Any]:
    _may(call, "platform:CreateCluster")
    wanted = parameters.wanted(Wanted(region=call.region))
    registry.add(actor=call.actor, name=parameters.cluster, wanted=wanted)
    return NOTHING


@operation(
    "cluster/update",
    service=_SERVICE,
    summary="Change how a cluster is reached and what may be done there",
    description="What is left out stays as it is. Address and account of the first cluster are in the settings.",
    parameters=ClusterUpdate,
    result=Nothing,
    needs=("platform:UpdateCluster",),
    changes=True,
    errors=_MISSES,
    extension=True,
)
def update(call: Call, parameters: ClusterUpdate) -> dict[str, Any]:
    cluster = _cluster(call, parameters.cluster, "platform:UpdateCluster")
    wanted = parameters.wanted(registry.wanted_of(cluster))
    registry.change(
        actor=call.actor, cluster=cluster, wanted=replace(wanted, region=parameters.region or wanted.region)
    )
    return NOTHING


@operation(
    "cluster/test",
    service=_SERVICE,
    summary="Test a cluster step by step",
    description="Name servers, brokers, and what the account may do there, action by action; it only reads.",
    parameters=ClusterOnly,
    result=list[StepDo],
    needs=("platform:GetCluster",),
    errors=_MISSES,
    extension=True,
)
def test(call: Call, parameters: ClusterOnly) -> list[StepDo]:
    cluster = _cluster(call, parameters.cluster, "platform:GetCluster")
    return [StepDo(outcome=str(step.outcome), text=step.text) for step in trial.tried(cluster)]


@operation(
    "cluster/remove",
    service=_SERVICE,
    summary="Remove a cluster on which nobody has an instance",
    description="Its brokers stay as they are.",
    parameters=ClusterOnly,
    result=Nothing,
    needs=("platform:DeleteCluster",),
    changes=True,
    errors=(*_MISSES, "BIZ_CLUSTER_IN_USE"),
    extension=True,
)
def remove(call: Call, parameters: ClusterOnly) -> dict[str, Any]:
    registry.remove(actor=call.actor, cluster=_cluster(call, parameters.cluster, "platform:DeleteCluster"))
    return NOTHING


def _may(call: Call, action: str) -> None:
    require(call.actor, action, platform_resource("cluster"), owner=None)


def _cluster(call: Call, name: str, action: str) -> Cluster:
    """The cluster of this name, with its number of instances. Raises PermissionDenied, Refused."""
    _may(call, action)
    clusters = queries.clusters()
    if regions.are_several():
        clusters = clusters.filter(region=call.region)
    found = clusters.filter(name=name).first()
    if found is None:
        raise Refused("BIZ_CLUSTER_NOT_FOUND", f"There is no cluster {name}.", "cluster")
    return found


def _told(cluster: Cluster) -> ClusterDo:
    health = brokers.health_of(cluster)
    return ClusterDo(
        cluster=cluster.name,
        region=cluster.region,
        origin=cluster.origin,
        namesrv=cluster.namesrv,
        accessKeyId=cluster.access_key_id,
        tls=cluster.tls,
        proxy=cluster.proxy,
        accessControl=cluster.access_control,
        readOnly=cluster.read_only,
        instances=cluster.instance_count,  # type: ignore[attr-defined]
        outage=health.outage,
        brokers=[
            BrokerDo(
                name=one.name,
                address=one.address,
                version=one.version,
                absence=one.absence.value,
                receivedPerSecond=one.received,
                sentPerSecond=one.sent,
                usedPercent=one.percent,
            )
            for one in health.brokers
        ],
    )
