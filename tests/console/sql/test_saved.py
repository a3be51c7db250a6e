"""Saved statements: who sees, changes and deletes them."""

from __future__ import annotations

import pytest
from django.core.exceptions import PermissionDenied
from django.test import Client
from django.urls import reverse

from console.accounts import services as accounts
from console.accounts.actor import Actor
from console.audit.models import Entry
from console.sql import saved
from console.sql.models import SavedQuery
from console.web.errors import Refused
from tests.support.sql_cast import PASSWORD, Cast, allow

pytestmark = pytest.mark.django_db
HTMX = {"HX-Request": "true"}


def keep(actor: Actor, name: str = "daily", text: str = "select 1", *, shared: bool = False) -> SavedQuery:
    return saved.keep(actor, name=name, schema="demo", text=text, shared=shared)


def test_a_name_is_kept_once_and_overwritten(cast: Cast) -> None:
    keep(cast.alice)
    keep(cast.alice, " daily ", "select 2")
    [kept] = saved.visible(cast.alice)
    assert (kept.name, kept.text) == ("daily", "select 2")
    actions = Entry.objects.filter(action__startswith="sql.saved_query").order_by("pk").values_list("action", flat=True)
    assert list(actions) == ["sql.saved_query.create", "sql.saved_query.update"]


def test_only_shared_ones_are_seen_by_others_of_the_account(cast: Cast) -> None:
    bob = allow(cast.bob.person)
    keep(cast.alice, "private")
    keep(cast.alice, "for all", shared=True)
    assert [s.name for s in saved.visible(bob)] == ["for all"]
    assert not saved.visible(cast.charlie).exists()
    assert [s.name for s in saved.visible(cast.alice, "FOR")] == ["for all"]


def test_only_the_owner_and_the_account_change_one(cast: Cast) -> None:
    bob = allow(cast.bob.person)
    carol = allow(accounts.create_user(actor=cast.alice, name="carol", password=PASSWORD, policies=[]))
    kept = keep(bob, shared=True)
    with pytest.raises(PermissionDenied):
        saved.change(carol, kept, name="mine", shared=True)
    with pytest.raises(PermissionDenied):
        saved.delete(carol, kept)
    saved.change(bob, kept, name="renamed", shared=False)
    assert not saved.visible(carol).exists()
    saved.delete(cast.alice, kept)
    assert not SavedQuery.objects.exists()


def test_who_may_submit_nothing_saves_nothing(cast: Cast) -> None:
    with pytest.raises(PermissionDenied):
        keep(cast.bob)


@pytest.mark.parametrize(("name", "text"), [("", "select 1"), ("a" * 101, "select 1"), ("a\x07", "x"), ("a", "  ")])
def test_what_has_no_name_or_text_is_refused(cast: Cast, name: str, text: str) -> None:
    with pytest.raises(Refused):
        keep(cast.alice, name, text)


def test_a_taken_name_is_said_when_renaming(cast: Cast) -> None:
    keep(cast.alice, "taken")
    with pytest.raises(Refused, match="already"):
        saved.change(cast.alice, keep(cast.alice, "other"), name="taken", shared=False)


def test_the_dialog_saves_shares_and_deletes(cast: Cast) -> None:
    client = Client()
    client.force_login(cast.alice.person)
    assert "<dialog" in client.get(reverse("sql.save"), headers=HTMX).text
    answer = client.post(reverse("sql.save"), {"name": "n", "schema": "demo", "text": "select 1"}, headers=HTMX)
    assert answer.status_code == 204 and "sqlSaved" in answer["HX-Trigger"]
    kept = SavedQuery.objects.get()
    assert client.get(reverse("sql.text"), {"saved": kept.pk}).json() == {"schema": "demo", "text": "select 1"}
    answer = client.post(reverse("sql.saved", args=[kept.pk]), {"name": "m", "shared": "on"}, headers=HTMX)
    kept.refresh_from_db()
    assert (answer.status_code, kept.name, kept.shared, kept.text) == (204, "m", True, "select 1")
    assert client.post(reverse("sql.saved", args=[kept.pk]), {"name": ""}, headers=HTMX).status_code == 422
    assert client.post(reverse("sql.saved_delete", args=[kept.pk])).status_code == 302
    assert not SavedQuery.objects.exists()
