"""Pages of AccessKeys and users."""

from __future__ import annotations

from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from console.accounts import services
from console.accounts.models import AccessKey, User
from console.accounts.policies import system_policy
from tests.support.cast import PASSWORD, Cast


def test_a_secret_is_shown_once(cast: Cast) -> None:
    client = cast.client("bob")
    response = client.post(reverse("accounts.key_create"))
    secret = response.context["issued"].access_key_secret
    assert secret in response.content.decode()
    assert "no-store" in response["Cache-Control"]
    again = client.get(reverse("accounts.keys")).content.decode()
    assert response.context["issued"].access_key_id in again
    assert secret not in again


def test_a_third_pair_is_refused_with_422(cast: Cast) -> None:
    client = cast.client("bob")
    for _ in range(2):
        assert client.post(reverse("accounts.key_create")).status_code == 200
    response = client.post(reverse("accounts.key_create"))
    assert response.status_code == 422
    assert "has 2 AccessKey pairs already" in response.content.decode()


def test_a_pair_can_be_disabled_and_deleted(cast: Cast) -> None:
    issued = services.create_access_key(actor=cast.actor("bob"), user=cast.bob)
    client = cast.client("bob")
    client.post(reverse("accounts.key_switch", args=[issued.access_key_id]), {"enabled": "false"})
    assert not AccessKey.objects.get().enabled
    client.post(reverse("accounts.key_delete", args=[issued.access_key_id]), {"name": issued.access_key_id})
    assert not AccessKey.objects.exists()


def test_creating_a_user_attaches_the_ticked_policies(cast: Cast) -> None:
    data = {"name": "dora", "password": PASSWORD, "policies": [system_policy("AliyunMQPubOnlyAccess").pk]}
    response = cast.client("alice").post(reverse("accounts.user_create"), data)
    assert response["Location"] == reverse("accounts.user", args=["dora@acme"])
    assert [p.name for p in User.objects.get(username="dora@acme").policies.all()] == ["AliyunMQPubOnlyAccess"]


def test_unticking_every_policy_leaves_none(cast: Cast) -> None:
    cast.client("alice").post(reverse("accounts.user", args=["bob@acme"]))
    assert not cast.bob.policies.exists()


def test_a_policy_of_another_account_cannot_be_attached(cast: Cast) -> None:
    foreign = system_policy("AliyunMQFullAccess")
    foreign.pk, foreign.tenant, foreign.name = None, cast.charlies.tenant, "foreign"
    foreign.save()
    response = cast.client("alice").post(reverse("accounts.user", args=["nora@acme"]), {"policies": [foreign.pk]})
    assert response.status_code == 422
    assert not cast.nora.policies.exists()


def test_the_list_of_users_costs_the_same_queries_for_more_rows(cast: Cast) -> None:
    client, url = cast.client("alice"), reverse("accounts.users")
    client.get(url)
    with CaptureQueriesContext(connection) as few:
        client.get(url)
    for number in range(12):
        services.create_user(
            actor=cast.actor("alice"),
            name=f"user{number}",
            password=PASSWORD,
            policies=[system_policy("AliyunMQFullAccess")],
        )
    with CaptureQueriesContext(connection) as many:
        client.get(url)
    assert len(many) == len(few)


def test_a_disabled_user_loses_running_sessions(cast: Cast) -> None:
    bob = cast.client("bob")
    assert bob.get("/").status_code == 200
    cast.client("alice").post(reverse("accounts.user_switch", args=["bob@acme"]), {"enabled": "false"})
    assert bob.get("/").status_code == 302
