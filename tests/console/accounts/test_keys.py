"""Own AccessKeys: the page, the rotation, the MySQL endpoint's password, and two requests at once."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from urllib.parse import unquote

import pytest
from django.db import connection
from django.urls import reverse
from django.utils import timezone
from pytest_django import Settings

from console.accounts import credentials, services
from console.accounts.actor import Actor
from console.accounts.credentials import pairs_of, rotation_of
from console.accounts.models import AccessKey, DatabaseAccount, Organization, Tenant, User
from console.accounts.services import IssuedKey
from console.accounts.services.keys import create_organization_key, issue
from console.audit.models import Entry
from console.web.errors import Refused
from tests.support.broker import BrokerProcess
from tests.support.cast import PASSWORD, Cast
from tests.support.roles import make_role

KEYS = "accounts.keys"


def test_a_secret_is_shown_once(cast: Cast) -> None:
    client = cast.client("bob")
    response = client.post(reverse("accounts.key_create"))
    secret = response.context["issued"].access_key_secret
    assert secret in response.content.decode()
    assert "no-store" in response["Cache-Control"]
    again = client.get(reverse(KEYS)).content.decode()
    assert response.context["issued"].access_key_id in again
    assert secret not in again


def test_the_new_pair_can_be_saved_as_files_that_are_inside_the_page(cast: Cast) -> None:
    response = cast.client("bob").post(reverse("accounts.key_create"))
    issued, (environment, pair) = response.context["issued"], response.context["files"]
    assert f"ALIBABA_CLOUD_ACCESS_KEY_SECRET={issued.access_key_secret}\n" in unquote(environment.href)
    content = json.loads(unquote(pair.href.partition(",")[2]))
    assert content == {"AccessKeyId": issued.access_key_id, "AccessKeySecret": issued.access_key_secret}


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
    wrong = client.post(reverse("accounts.key_delete", args=[issued.access_key_id]), {"name": "LTAI"})
    assert wrong.status_code == 422
    assert AccessKey.objects.exists()
    client.post(reverse("accounts.key_delete", args=[issued.access_key_id]), {"name": issued.access_key_id})
    assert not AccessKey.objects.exists()


def test_a_pair_of_somebody_else_does_not_exist_on_the_own_page(cast: Cast) -> None:
    issued = services.create_access_key(actor=cast.actor("bob"), user=cast.bob)
    for name in ("alice", "rita", "charlie"):
        response = cast.client(name).post(reverse("accounts.key_switch", args=[issued.access_key_id]))
        assert response.status_code == 404
    assert AccessKey.objects.get().enabled


# --- Rotation


def test_the_rotation_leads_from_step_to_step(cast: Cast) -> None:
    client, url = cast.client("bob"), reverse(KEYS)

    def step() -> int:
        rotation: int = client.get(url).context["rotation"].step
        return rotation

    assert step() == 0
    older = client.post(reverse("accounts.key_create")).context["issued"]
    assert step() == 1
    client.post(reverse("accounts.key_create"))
    assert step() == 2
    assert client.get(url).context["rotation"].older.key.access_key_id == older.access_key_id
    client.post(reverse("accounts.key_switch", args=[older.access_key_id]), {"enabled": "false"})
    assert step() == 3
    client.post(reverse("accounts.key_delete", args=[older.access_key_id]), {"name": older.access_key_id})
    assert step() == 1


def test_it_warns_while_the_older_pair_is_still_used(cast: Cast) -> None:
    older, _ = _two_keys(cast)
    client, url = cast.client("bob"), reverse(KEYS)
    assert "A program still signed with the old pair" not in client.get(url).content.decode()
    credentials.note(older.access_key_id, "broker", "10.0.0.7")
    page = client.get(url).content.decode()
    assert "A program still signed with the old pair" in page
    assert "broker · 10.0.0.7" in page


def test_it_warns_of_a_key_that_is_older_than_90_days(cast: Cast) -> None:
    services.create_access_key(actor=cast.actor("bob"), user=cast.bob)
    client, url = cast.client("bob"), reverse(KEYS)
    AccessKey.objects.update(created_at=timezone.now() - timedelta(days=89))
    assert "Over 90 days old" not in client.get(url).content.decode()
    AccessKey.objects.update(created_at=timezone.now() - timedelta(days=91))
    assert "Over 90 days old" in client.get(url).content.decode()


def test_the_older_pair_is_the_one_made_first_whatever_the_order_of_the_rows(cast: Cast) -> None:
    _two_keys(cast)
    one, two = cast.bob.access_keys.order_by("pk")
    one.created_at = two.created_at + timedelta(days=1)
    rotation = rotation_of(pairs_of([one, two], {}))
    assert (rotation.older.key, rotation.newer.key) == (two, one)  # type: ignore[union-attr]


def test_the_page_stays_up_without_redis_and_says_what_is_not_known(cast: Cast, settings: Settings) -> None:
    _two_keys(cast)
    settings.REDIS_URL = "redis://127.0.0.1:1"
    page = cast.client("bob").get(reverse(KEYS)).content.decode()
    assert "uses at the broker are unknown at the moment" in page


def test_what_is_known_of_a_deleted_pair_is_dropped(
    cast: Cast, django_capture_on_commit_callbacks: Callable[..., object]
) -> None:
    older, _ = _two_keys(cast)
    credentials.note(older.access_key_id, "api", "10.0.0.7")
    key = cast.bob.access_keys.get(access_key_id=older.access_key_id)
    assert credentials.last_uses([key])[older.access_key_id].address == "10.0.0.7"
    with django_capture_on_commit_callbacks(execute=True):  # type: ignore[attr-defined]
        services.delete_access_key(actor=cast.actor("bob"), key=key)
    assert credentials.last_uses([AccessKey(access_key_id=older.access_key_id)]) == {}


# --- The MySQL endpoint


def test_the_doors_password_is_drawn_shown_once_and_on_record(cast: Cast) -> None:
    client = cast.client("bob")
    response = client.post(reverse("accounts.key_database"))
    drawn = response.context["drawn"]
    assert drawn.password in response.content.decode()
    assert "no-store" in response["Cache-Control"]
    page = client.get(reverse(KEYS)).content.decode()
    assert drawn.password not in page
    assert "bob@acme" in page
    entry = Entry.objects.get(action="accounts.database_password.renew")
    assert drawn.password not in str(entry.detail)


def test_replacing_the_doors_password_keeps_the_name_and_ends_the_old_one(cast: Cast) -> None:
    services.set_database_password(user=cast.bob, name="bobby", password=PASSWORD)
    before = DatabaseAccount.objects.get()
    drawn = services.renew_database_password(actor=cast.actor("bob"), user=cast.bob)
    after = DatabaseAccount.objects.get()
    assert (drawn.name, after.name) == ("bobby", "bobby")
    assert after.sha256_of_sha256 != before.sha256_of_sha256
    cast.client("bob").post(reverse("accounts.key_database_delete"))
    assert not DatabaseAccount.objects.exists()


def test_a_drawn_password_follows_the_rule_and_is_never_drawn_twice(cast: Cast) -> None:
    drawn = {services.draw_password() for _ in range(200)}
    assert len(drawn) == 200
    for password in drawn:
        services.reset_password(actor=cast.actor("alice"), user=cast.bob, password=password)


# --- Two at once


@pytest.mark.django_db(transaction=True)
def test_two_requests_at_once_leave_two_pairs_at_most(settings: object, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("console.rights.access_table.publish", lambda: False)
    organization = Organization.objects.create(name="Race")
    user = services.create_tenant(name="race", organization=organization, password=PASSWORD)
    services.create_access_key(actor=Actor(user), user=user)
    together = threading.Barrier(4)

    def create() -> IssuedKey | Refused:
        together.wait(10)
        try:
            mine = User.objects.get(pk=user.pk)
            return services.create_access_key(actor=Actor(mine), user=mine)
        except Refused as refused:
            return refused
        finally:
            connection.close()

    with ThreadPoolExecutor(4) as threads:
        answers = list(threads.map(lambda _: create(), range(4)))
    assert sorted(type(answer).__name__ for answer in answers) == ["IssuedKey", "Refused", "Refused", "Refused"]
    assert user.access_keys.count() == 2


# --- Last use


def test_the_broker_notes_which_key_was_used_and_from_where(cast: Cast, broker: BrokerProcess) -> None:
    from tests.console.accounts.revocation import send_once

    issued = services.create_access_key(actor=cast.actor("bob"), user=cast.bob)
    send_once(cast, issued)
    (key,) = cast.bob.access_keys.all()
    deadline = time.monotonic() + 10
    while not (uses := credentials.last_uses([key])):
        assert time.monotonic() < deadline, "the broker did not note the use"
        time.sleep(0.1)
    assert uses[key.access_key_id].channel == "broker"
    assert uses[key.access_key_id].address == "127.0.0.1"


def _two_keys(cast: Cast) -> tuple[IssuedKey, IssuedKey]:
    actor = cast.actor("bob")
    return services.create_access_key(actor=actor, user=cast.bob), services.create_access_key(
        actor=actor, user=cast.bob
    )


def test_an_account_that_is_disabled_gets_no_key(cast: Cast) -> None:
    """It would begin to work on the day on which the account is enabled again."""
    alice, acme = cast.actor("alice"), cast.acme
    Tenant.objects.filter(pk=acme.pk).update(enabled=False)
    before = AccessKey.objects.count()
    with pytest.raises(Refused, match="The account acme is disabled; it gets no AccessKeys"):
        services.create_access_key(actor=alice, user=cast.bob)
    with pytest.raises(Refused, match="is disabled"):
        create_organization_key(actor=cast.actor("petra"), organization=acme.organization, tenant=acme)
    with pytest.raises(Refused, match="is disabled"):
        issue(role=make_role(alice), token="t", lifetime=timedelta(hours=1))
    assert AccessKey.objects.count() == before
