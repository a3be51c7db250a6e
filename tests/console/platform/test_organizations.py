"""Organizations, resource sets, their AccessKeys, and what callers narrow themselves to."""

from __future__ import annotations

import pytest
from django.urls import reverse

from analytics import wall
from console.accounts.credentials import actor_of, find_key
from console.accounts.models import AccessKey, Organization, ResourceSet, Tenant
from console.accounts.organizations import MAX_DEPTH, ids_below, scope_of
from console.accounts.services import keys, organizations
from console.audit.models import Entry
from console.instances import queries as instances
from console.instances import services
from console.rights import access_table
from console.web.errors import Refused
from tests.support.cast import Cast, make_instance


def made(cast: Cast, name: str, parent: Organization | None = None) -> Organization:
    return organizations.create_organization(actor=cast.actor("petra"), name=name, parent=parent)


def test_the_tree_shows_each_below_its_parent_with_its_id(cast: Cast) -> None:
    head = cast.acme.organization
    north = made(cast, "North", head)
    made(cast, "Harbour", north)
    made(cast, "Abroad")
    page = cast.client("petra").get(reverse("platform.organizations"))
    assert [(b.organization.name, b.level) for b in page.context["branches"]] == [
        ("Abroad", 1),
        ("Head office", 1),
        ("North", 2),
        ("Harbour", 3),
    ]
    assert page.context["branches"][3].path == "Head office / North / Harbour"
    found = cast.client("petra").get(reverse("platform.organizations"), {"q": str(north.pk)}).context["branches"]
    assert [b.organization.name for b in found] == ["North"]


def test_names_are_unique_where_they_are(cast: Cast) -> None:
    with pytest.raises(Refused, match="Head office"):
        made(cast, "Head office")
    north = made(cast, "North", cast.acme.organization)
    with pytest.raises(Refused, match="North"):
        made(cast, "North", cast.acme.organization)
    organizations.rename_organization(actor=cast.actor("petra"), organization=north, name="Head office")
    assert Organization.objects.filter(name="Head office").count() == 2


def test_they_are_nested_so_deep_and_no_deeper(cast: Cast) -> None:
    parent = cast.acme.organization
    for level in range(2, MAX_DEPTH + 1):
        parent = made(cast, f"level {level}", parent)
    with pytest.raises(Refused, match="levels deep"):
        made(cast, "too deep", parent)


def test_only_an_empty_organization_is_deleted(cast: Cast) -> None:
    url = reverse("platform.organization_delete", args=[cast.acme.organization_id])
    page = cast.client("petra").post(url, {"name": "Head office"})
    assert page.status_code == 422
    assert "2 accounts" in page.content.decode()
    empty = made(cast, "Empty")
    url = reverse("platform.organization_delete", args=[empty.pk])
    assert cast.client("petra").post(url, {"name": "Empty"}).status_code == 302
    assert not Organization.objects.filter(pk=empty.pk).exists()


def test_a_resource_set_with_instances_is_not_deleted(cast: Cast) -> None:
    petra = cast.actor("petra")
    made_set = organizations.create_resource_set(actor=petra, organization=cast.acme.organization, name="production")
    services.set_resource_set(actor=cast.actor("alice"), instance=cast.instance, resource_set=made_set)
    with pytest.raises(Refused, match=r"1 instance\."):
        organizations.delete_resource_set(actor=petra, resource_set=made_set)
    services.set_resource_set(actor=cast.actor("alice"), instance=cast.instance, resource_set=None)
    organizations.delete_resource_set(actor=petra, resource_set=made_set)
    assert Entry.objects.filter(action="instances.instance.move").count() == 2


def test_an_instance_is_put_into_a_set_by_its_page_which_shows_the_ids(cast: Cast) -> None:
    made_set = ResourceSet.objects.create(organization=cast.acme.organization, name="production")
    client, number = cast.client("alice"), cast.instance.instance_id
    client.post(
        reverse("instances.update", args=[number]),
        {"max_send_tps": "250", "max_receive_tps": "250", "name": "orders", "resource_set": str(made_set.pk)},
    )
    page = client.get(reverse("instances.detail", args=[number])).content.decode()
    assert "production" in page
    assert f'<code class="copy-text">{made_set.pk}</code>' in page
    assert f'<code class="copy-text">{cast.acme.organization_id}</code>' in page


def test_a_set_of_another_organization_is_no_choice(cast: Cast) -> None:
    foreign = ResourceSet.objects.create(organization=made(cast, "Elsewhere"), name="theirs")
    url = reverse("instances.update", args=[cast.instance.instance_id])
    page = cast.client("alice").post(url, {"name": "orders", "resource_set": str(foreign.pk)})
    assert page.status_code == 422
    assert "resource_set" in page.context["form"].errors
    with pytest.raises(Refused, match="no such resource set"):
        make_instance(cast.alice, cast.cluster, name="second", resource_set=foreign)
    with pytest.raises(Refused, match="no such resource set"):
        services.set_resource_set(actor=cast.actor("alice"), instance=cast.instance, resource_set=foreign)


def test_a_call_is_narrowed_to_the_organization_and_the_set_of_its_headers(cast: Cast) -> None:
    alice, head = cast.actor("alice"), cast.acme.organization
    north = made(cast, "North", head)
    production = ResourceSet.objects.create(organization=north, name="production")
    inside = make_instance(cast.alice, cast.cluster, name="inside", resource_set=production)

    def listed(organization_id: str = "", resource_set_id: str = "") -> set[str]:
        scope = scope_of(alice, organization_id, resource_set_id)
        return {i.name for i in instances.narrowed(instances.instances(cast.acme), scope)}

    assert listed() == {"orders", "inside"}
    assert listed(str(head.pk)) == {"orders", "inside"}
    assert listed(str(north.pk)) == listed(str(north.pk), str(production.pk)) == {inside.name}


@pytest.mark.parametrize("organization", ["foreign", "0", "x", "99999999999999999999", "-1", "٣"])
def test_an_unknown_or_foreign_organization_is_refused(cast: Cast, organization: str) -> None:
    foreign = made(cast, "Elsewhere")
    with pytest.raises(Refused) as refused:
        scope_of(cast.actor("alice"), str(foreign.pk) if organization == "foreign" else organization)
    assert refused.value.symbol == "BIZ_FIELD_CHECK_INVALID"


def test_a_set_needs_its_own_organization(cast: Cast) -> None:
    alice, head = cast.actor("alice"), cast.acme.organization
    north = made(cast, "North", head)
    production = ResourceSet.objects.create(organization=north, name="production")
    for organization_id, set_id in (("", str(production.pk)), (str(head.pk), str(production.pk)), (str(head.pk), "x")):
        with pytest.raises(Refused) as refused:
            scope_of(alice, organization_id, set_id)
        assert refused.value.symbol == "BIZ_FIELD_CHECK_INVALID"


def test_below_means_the_whole_tree(cast: Cast) -> None:
    head = cast.acme.organization
    north = made(cast, "North", head)
    harbour = made(cast, "Harbour", north)
    assert ids_below(head) == {head.pk, north.pk, harbour.pk}
    assert ids_below(harbour) == {harbour.pk}


def test_a_key_of_an_organization_acts_for_its_account(cast: Cast) -> None:
    url = reverse("platform.organization_keys", args=[cast.acme.organization_id])
    page = cast.client("petra").post(url, {"tenant": "acme"})
    issued = page.context["issued"]
    assert issued.access_key_secret in page.content.decode()
    assert issued.access_key_secret not in cast.client("petra").get(url).content.decode()
    key = find_key(issued.access_key_id)
    assert key is not None
    actor = actor_of(key)
    assert (actor.tenant, actor.is_account, actor.name) == (cast.acme, True, "organization/Head office@acme")
    cast.client("petra").post(
        reverse("platform.organization_key_switch", args=[issued.access_key_id]), {"enabled": "false"}
    )
    assert find_key(issued.access_key_id) is None
    # The account reads of it in its own trail.
    assert Entry.objects.filter(tenant=cast.acme, action__startswith="accounts.organization_key.").count() == 2
    delete = reverse("platform.organization_key_delete", args=[issued.access_key_id])
    assert cast.client("petra").post(delete, {"name": issued.access_key_id}).status_code == 302
    assert not AccessKey.objects.filter(access_key_id=issued.access_key_id).exists()


def test_a_key_of_an_organization_ends_with_its_account(cast: Cast) -> None:
    petra, head = cast.actor("petra"), cast.acme.organization
    issued = keys.create_organization_key(actor=petra, organization=head, tenant=cast.acme)
    assert find_key(issued.access_key_id) is not None
    Tenant.objects.filter(pk=cast.acme.pk).update(enabled=False)
    assert find_key(issued.access_key_id) is None
    assert issued.access_key_id not in access_table.compiled()


def test_an_organization_has_two_keys_only_level_1_and_only_for_its_own_accounts(cast: Cast) -> None:
    petra, head = cast.actor("petra"), cast.acme.organization
    with pytest.raises(Refused, match="level-1"):
        keys.create_organization_key(actor=petra, organization=made(cast, "North", head), tenant=cast.acme)
    with pytest.raises(Refused, match="does not belong"):
        keys.create_organization_key(actor=petra, organization=made(cast, "Other"), tenant=cast.acme)
    for _ in range(2):
        keys.create_organization_key(actor=petra, organization=head, tenant=cast.acme)
    with pytest.raises(Refused, match="2 AccessKey pairs already"):
        keys.create_organization_key(actor=petra, organization=head, tenant=cast.acme)


def test_a_users_key_is_none_of_the_platforms_business(cast: Cast) -> None:
    url = reverse("platform.organization_key_switch", args=["LTAInotanorganizations"])
    assert cast.client("petra").post(url, {"enabled": "false"}).status_code == 404


def test_settings_tell_the_addresses(cast: Cast) -> None:
    page = cast.client("petra").get(reverse("platform.settings")).content.decode()
    assert "http://testserver/json/" in page
    assert cast.cluster.namesrv in page
    assert "mq-private" in page


def test_settings_tell_what_the_wall_around_the_engine_lacks(cast: Cast, monkeypatch: pytest.MonkeyPatch) -> None:
    def page() -> str:
        return cast.client("petra").get(reverse("platform.settings")).content.decode()

    monkeypatch.setattr(wall, "abi", lambda: 7)
    assert "reads and writes the lake only" in page()
    monkeypatch.setattr(wall, "abi", lambda: 0)
    assert "The SQL engine stands behind no wall: that takes Linux 5.19" in page()
