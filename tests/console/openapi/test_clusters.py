"""Clusters by the management API, with a key of the platform's administrator."""

from __future__ import annotations

import pytest

from console.accounts.services.platform_admins import create_platform_key
from console.audit.models import Entry
from console.instances.models import Cluster
from tests.console.beside import OTHER_KEY, OTHER_SECRET, other_broker
from tests.console.openapi.caller import Caller
from tests.support.broker import BrokerProcess
from tests.support.cast import Cast, make_instance

__all__ = ["other_broker"]
pytestmark = pytest.mark.django_db


@pytest.fixture
def petra(cast: Cast) -> Caller:
    issued = create_platform_key(name="petra")
    return Caller(issued.access_key_id, issued.access_key_secret)


def test_a_cluster_is_added_tried_changed_and_removed(cast: Cast, petra: Caller, other_broker: BrokerProcess) -> None:
    how = {"namesrv": other_broker.namesrv, "accessKeyId": OTHER_KEY, "accessKeySecret": OTHER_SECRET}
    petra.data("cluster/add", method="post", cluster="theirs", **how)
    assert petra.symbol("cluster/add", cluster="theirs", namesrv="10.0.0.5:9876") == "BIZ_CLUSTER_EXISTED"
    told = petra.data("cluster/get", cluster="theirs")
    assert (told["origin"], told["outage"], told["accessControl"]) == ("added", "", "none")
    assert [broker["name"] for broker in told["brokers"]] == ["broker-a"]
    assert OTHER_SECRET not in str(told)
    steps = petra.data("cluster/test", cluster="theirs")
    assert {"outcome": "fine", "text": f"The name server {other_broker.namesrv} answers."} in steps
    petra.data("cluster/update", cluster="theirs", readOnly="true", proxy="mq.example.com:8081")
    told = petra.data("cluster/get", cluster="theirs")
    assert (told["readOnly"], told["proxy"], told["namesrv"]) == (True, "mq.example.com:8081", other_broker.namesrv)
    alice = Caller.of(cast.alice)
    listed = {row["cluster"]: row["readOnly"] for row in alice.data("cluster/list")}
    assert listed == {"DefaultCluster": False, "theirs": True}
    instance = make_instance(cast.alice, Cluster.objects.get(name="theirs"), name="there")
    assert petra.symbol("cluster/remove", cluster="theirs") == "BIZ_CLUSTER_IN_USE"
    assert petra.symbol("cluster/remove", cluster="DefaultCluster") == "BIZ_CLUSTER_IN_USE"
    instance.delete()
    petra.data("cluster/remove", cluster="theirs")
    assert petra.symbol("cluster/get", cluster="theirs") == "BIZ_CLUSTER_NOT_FOUND"
    assert not any(OTHER_SECRET in str(entry.detail) for entry in Entry.objects.all())


@pytest.mark.parametrize("path", ["cluster/get", "cluster/test", "cluster/update", "cluster/remove"])
def test_no_account_reaches_it(cast: Cast, path: str) -> None:
    assert Caller.of(cast.alice).symbol(path, cluster="DefaultCluster") == "AUTH_PERMISSION_DENIED"
