"""Instances of several regions: where they are made, what pages tell, and what policies that name a region allow."""

from __future__ import annotations

from typing import Any

import pytest
from django.apps import apps as installed
from django.db import connection

from brokercore.policy.table import KeyRow
from console.accounts import services as accounts
from console.accounts.models import Policy
from console.audit.models import Entry
from console.cluster import registry
from console.cluster.registry import wanted_of
from console.instances.migrations import __name__ as migrations
from console.instances.models import Cluster, Instance, Origin
from console.instances.services import create_instance, ensure_cluster, update_instance
from console.rights import access_table
from console.web.errors import Refused
from tests.console.east import EAST, HERE, east, several
from tests.support.cast import Cast, make_group, make_instance, make_topic

__all__ = ["east", "several"]
pytestmark = pytest.mark.django_db


def allow(cast: Cast, name: str, *actions: str, region: str, effect: str = "Allow") -> None:
    """A policy that names a region."""
    statement = {"Effect": effect, "Action": list(actions), "Resource": f"acs:mq:{region}:*:*"}
    document = {"Version": "1", "Statement": [statement]}
    policy = Policy.objects.create(tenant=cast.acme, name=f"in-{region}-{effect}", document=document)
    cast.users[name].policies.add(policy)


def form(**given: Any) -> dict[str, Any]:
    return {
        "name": "stock",
        "independent_naming": "true",
        "max_send_tps": 10,
        "max_receive_tps": 10,
        "cluster": "DefaultCluster",
    } | given


# --- What belongs where ---------------------------------------------------------------------------------------------
def test_an_instance_is_of_its_clusters_region(cast: Cast, east: Cluster) -> None:
    assert make_instance(cast.alice, cast.cluster, name="here").region == HERE
    assert make_instance(cast.alice, east, name="there").region == EAST


def test_a_name_is_unique_in_a_region_and_not_across_them(cast: Cast, east: Cluster) -> None:
    there = make_instance(cast.alice, east, name=cast.instance.name)
    assert there.region == EAST
    with pytest.raises(Refused, match="is taken"):
        make_instance(cast.alice, east, name=cast.instance.name)
    make_instance(cast.alice, cast.cluster, name="other")
    update_instance(actor=cast.actor("alice"), instance=there, name="other", remark="")
    with pytest.raises(Refused, match="is taken"):
        update_instance(actor=cast.actor("alice"), instance=cast.instance, name="other", remark="")


def test_the_quota_is_of_each_region(cast: Cast, east: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("console.instances.services.MAX_INSTANCES", 1)
    make_instance(cast.alice, east, name="there")
    for cluster in (cast.cluster, east):
        with pytest.raises(Refused) as refused:
            make_instance(cast.alice, cluster, name="more")
        assert refused.value.symbol == "BIZ_INSTANCE_QUOTA_EXCEEDED"


@pytest.mark.parametrize(
    ("region", "symbol", "message"),
    [
        ("mars", "BIZ_REGION_NOT_FOUND", "The region mars does not exist; allowed are mq-private, eu-2."),
        (
            HERE,
            "BIZ_CLUSTER_NOT_FOUND",
            "The cluster east does not exist in the region mq-private; its clusters are DefaultCluster.",
        ),
    ],
)
def test_region_and_cluster_belong_together(cast: Cast, east: Cluster, region: str, symbol: str, message: str) -> None:
    with pytest.raises(Refused) as refused:
        make_instance(cast.alice, east, region=region)
    assert (refused.value.symbol, refused.value.message) == (symbol, message)


def test_a_region_without_a_cluster_says_so(cast: Cast, several: None) -> None:
    with pytest.raises(Refused, match="does not exist in the region eu-2; it has no cluster"):
        make_instance(cast.alice, cast.cluster, region=EAST)


def test_nothing_is_made_on_a_cluster_whose_region_the_settings_have_no_more(cast: Cast, settings: Any) -> None:
    Cluster.objects.filter(pk=cast.cluster.pk).update(region="gone")
    with pytest.raises(Refused, match="The cluster DefaultCluster is of the region gone, which does not exist"):
        make_instance(cast.alice, cast.cluster, name="stock")


# --- Clusters move, and their instances go with them ----------------------------------------------------------------
@pytest.fixture
def apart(east: Cluster) -> Cluster:
    """The cluster of the second region with name servers that no other one has, as pages and calls want it."""
    east.namesrv = "127.0.0.1:9"
    east.save()
    return east


def test_a_cluster_moves_with_its_instances(cast: Cast, apart: Cluster) -> None:
    there = make_instance(cast.alice, apart, name="there")
    wanted = wanted_of(apart)
    assert wanted.region == EAST
    moved = registry.change(actor=cast.actor("petra"), cluster=apart, wanted=_in(wanted, HERE))
    there.refresh_from_db()
    assert (moved.region, there.region) == (HERE, HERE)
    assert Entry.objects.filter(action="platform.cluster.update").latest("pk").detail["region"] == HERE


def test_a_move_that_would_make_twins_is_refused_whole(cast: Cast, apart: Cluster) -> None:
    there = make_instance(cast.alice, apart, name=cast.instance.name)
    with pytest.raises(Refused, match="acme has another instance orders in the region mq-private; rename one of them"):
        registry.change(actor=cast.actor("petra"), cluster=apart, wanted=_in(wanted_of(apart), HERE))
    there.refresh_from_db()
    assert (there.region, Cluster.objects.get(pk=apart.pk).region) == (EAST, EAST)


def test_the_cluster_of_the_settings_stays_in_the_first_region(cast: Cast, east: Cluster) -> None:
    with pytest.raises(Refused, match="is of the settings, and so of the first region, mq-private"):
        registry.change(actor=None, cluster=cast.cluster, wanted=_in(wanted_of(cast.cluster), EAST))


def test_an_unknown_region_of_a_cluster_is_refused(cast: Cast, apart: Cluster) -> None:
    with pytest.raises(Refused, match="The region mars does not exist; allowed are mq-private, eu-2"):
        registry.change(actor=None, cluster=apart, wanted=_in(wanted_of(apart), "mars"))


def test_a_renamed_region_takes_the_settings_cluster_and_its_instances_along(cast: Cast, settings: Any) -> None:
    settings.REGIONS = {"eu-1": "eu-1"}
    assert ensure_cluster().region == "eu-1"
    cast.instance.refresh_from_db()
    assert cast.instance.region == "eu-1"


def _in(wanted: registry.Wanted, region: str) -> registry.Wanted:
    return registry.Wanted(**{**vars(wanted), "region": region})


# --- The migration --------------------------------------------------------------------------------------------------
def test_rows_of_before_get_a_region_that_there_is(cast: Cast, several: None) -> None:
    """Of a region that the settings do not have, of none, and of another one than their cluster's."""
    added = Cluster.objects.create(name="added", region=EAST, namesrv="127.0.0.1:1")
    old = Cluster.objects.create(name="old", region="gone", namesrv="127.0.0.1:2")
    mine = {"tenant": cast.acme, "independent_naming": True}
    twin = Instance.objects.create(instance_id="MQ_INST_a", cluster=old, region="gone", name="orders", **mine)
    empty = Instance.objects.create(instance_id="MQ_INST_b", cluster=added, region="", name="empty", **mine)
    migration = __import__(f"{migrations}.0007_regions", fromlist=["place"])
    for _ in range(2):  # done again it changes nothing
        migration.place(installed, connection.schema_editor())
        found = {one.pk: (one.region, one.name) for one in Instance.objects.all()}
        assert found[twin.pk] == (HERE, "orders-2")
        assert found[empty.pk] == (EAST, "empty")
        assert found[cast.instance.pk] == (HERE, "orders")
        assert dict(Cluster.objects.values_list("name", "region")) == {
            "DefaultCluster": HERE, "added": EAST, "old": HERE,
        }  # fmt: skip


# --- Pages ----------------------------------------------------------------------------------------------------------
def test_the_page_asks_for_the_region_and_keeps_to_it(cast: Cast, east: Cluster) -> None:
    client = cast.client("alice")
    page = client.get("/instances/create/?region=eu-2").content.decode()
    assert '<option value="eu-2" selected>Europe (Two), eu-2</option>' in page
    assert '<optgroup label="Europe (Two), eu-2">' in page
    wrong = client.post("/instances/create/", form(region=EAST))
    assert wrong.status_code == 422
    assert "does not exist in the region eu-2; its clusters are east" in wrong.content.decode()
    assert client.post("/instances/create/", form(region="mars")).status_code == 422
    assert client.post("/instances/create/", form(region=EAST, cluster="east")).status_code == 302
    assert Instance.objects.get(name="stock").region == EAST


def test_the_list_tells_regions_and_can_be_narrowed_to_one(cast: Cast, east: Cluster) -> None:
    make_instance(cast.alice, east, name="stock")
    client = cast.client("alice")
    page = client.get("/instances/").content.decode()
    assert 'aria-label="Region"' in page and ">Region<" in page and "eu-2" in page
    narrowed = client.get("/instances/?region=eu-2", headers={"HX-Request": "true"}).content.decode()
    assert "stock" in narrowed and ">orders<" not in narrowed
    assert ">orders<" in client.get("/instances/?region=mars", headers={"HX-Request": "true"}).content.decode()
    file: Any = client.get("/instances/?as=csv")
    assert "eu-2" in b"".join(file.streaming_content).decode()


def test_with_one_region_no_page_speaks_of_regions(cast: Cast) -> None:
    client, petra = cast.client("alice"), cast.client("petra")
    assert 'name="region"' not in client.get("/instances/create/").content.decode()
    assert "Region" not in client.get("/instances/").content.decode()
    for page in ("/platform/clusters/", "/platform/clusters/add/"):
        assert "egion" not in petra.get(page).content.decode()


def test_the_platform_sees_regions_of_clusters_and_organizations(cast: Cast, east: Cluster) -> None:
    make_instance(cast.alice, east, name="stock")
    petra = cast.client("petra")
    narrowed = petra.get("/platform/clusters/?region=eu-2").content.decode()
    assert "eu-2 · Added here" in narrowed and "mq-private · " not in narrowed
    organization = petra.get(f"/platform/organizations/{cast.acme.organization_id}/").content.decode()
    assert "Europe (Two)" in organization and "Private region" in organization
    told = petra.get("/platform/settings/").content.decode()
    assert "Europe (Two)" in told and "Name server of cluster east in eu-2" in told
    edit = petra.get(f"/platform/clusters/{east.pk}/edit/").content.decode()
    assert 'name="region"' in edit
    first = petra.get(f"/platform/clusters/{cast.cluster.pk}/edit/").content.decode()
    assert 'name="region"' not in first


def test_a_cluster_of_a_region_that_is_gone_stands_out(cast: Cast, east: Cluster, settings: Any) -> None:
    assert "unknown region" not in cast.client("petra").get("/platform/clusters/").content.decode()
    settings.REGIONS = {HERE: "Private region"}
    page = cast.client("petra").get("/platform/clusters/").content.decode()
    assert "unknown region" in page and "eu-2 · Added here" in page


# --- Policies that name a region ------------------------------------------------------------------------------------
def test_a_policy_of_one_region_reaches_nothing_of_another(cast: Cast, east: Cluster) -> None:
    there = make_instance(cast.alice, east, name="stock")
    allow(cast, "nora", "mq:*", region=EAST)
    make_topic(cast.alice, there, "seen")
    make_topic(cast.alice, cast.instance, "unseen")
    make_group(cast.alice, there, "GID_seen")
    client = cast.client("nora")
    listed = client.get("/instances/").content.decode()
    assert "stock" in listed
    assert client.get(f"/i/{there.instance_id}/topics/seen/").status_code == 200
    assert client.get(f"/i/{there.instance_id}/groups/GID_seen/settings/").status_code == 200
    assert client.get(f"/i/{cast.instance.instance_id}/").status_code == 403
    assert client.get(f"/i/{cast.instance.instance_id}/topics/unseen/").status_code == 403


def test_a_denial_of_one_region_leaves_the_other(cast: Cast, east: Cluster) -> None:
    there = make_instance(cast.alice, east, name="stock")
    allow(cast, "bob", "mq:QueryInstance", region=HERE, effect="Deny")
    client = cast.client("bob")
    assert client.get(f"/i/{there.instance_id}/").status_code == 200
    assert client.get(f"/i/{cast.instance.instance_id}/").status_code == 403


def test_who_may_make_instances_in_one_region_is_offered_that_one(cast: Cast, east: Cluster) -> None:
    allow(cast, "nora", "mq:CreateInstance", "mq:QueryInstance", region=EAST)
    client = cast.client("nora")
    assert "/instances/create/" in client.get("/instances/").content.decode()
    page = client.get("/instances/create/").content.decode()
    assert "eu-2" in page and 'value="mq-private"' not in page
    assert client.post("/instances/create/", form(region=HERE)).status_code == 422
    assert client.post("/instances/create/", form(region=EAST, cluster="east")).status_code == 302


def test_brokers_are_told_the_region_of_their_cluster(cast: Cast, east: Cluster) -> None:
    key = accounts.create_access_key(actor=cast.actor("bob"), user=cast.bob)
    tables: list[dict[str, KeyRow]] = [access_table.compiled(), access_table.compiled(east.pk)]
    assert [table[key.access_key_id].region for table in tables] == [HERE, EAST]


def test_bare_names_in_two_regions_are_judged_by_denials_alone(cast: Cast, east: Cluster) -> None:
    bare = [
        create_instance(actor=cast.actor("alice"), cluster=name, name=f"bare-{name}", independent_naming=False)
        for name in (cast.cluster.name, "east")
    ]
    assert [one.region for one in bare] == [HERE, EAST]
    allow(cast, "nora", "mq:QueryTopic", region=EAST)
    nora = cast.actor("nora")
    assert not nora.decide("mq:QueryTopic", "acs:mq:*:*:payments", owner=cast.acme).allowed
    assert nora.decide("mq:QueryTopic", "acs:mq:*:*:payments", owner=cast.acme, region=EAST).allowed
    assert east.origin == Origin.ADDED
