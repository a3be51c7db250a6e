"""The trail refuses changes and deletes, to models and to SQL alike, and only retention takes anything out."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from io import StringIO

import pytest
from django.core.management import CommandError, call_command
from django.db import DatabaseError, connection, transaction
from django.utils import timezone

from console.accounts.models import Organization, Tenant
from console.accounts.services import create_tenant
from console.audit import retention
from console.audit.models import AppendOnlyError, Entry
from console.audit.record import record, record_command
from tests.console.audit.trail import entry_at
from tests.support.cast import PASSWORD, Cast


@pytest.fixture
def closed(db: None) -> Iterator[None]:
    """The trail as in production: the tests' database otherwise lets deletes pass (tests/conftest.py)."""
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute("DELETE FROM audit_retention")
        yield
        cursor.execute("INSERT INTO audit_retention (days) VALUES (0)")


def test_models_refuse_to_change_or_delete_an_entry(db: None) -> None:
    entry = record_command("a.b.c")
    entry.actor = "somebody else"
    with pytest.raises(AppendOnlyError):
        entry.save()
    with pytest.raises(AppendOnlyError):
        entry.delete()
    with pytest.raises(AppendOnlyError):
        Entry.objects.filter(pk=entry.pk).update(actor="somebody else")
    with pytest.raises(AppendOnlyError):
        Entry.objects.all().delete()
    with pytest.raises(AppendOnlyError):
        Entry.objects.bulk_update([entry], ["actor"])


@pytest.mark.parametrize(
    "statement", ["UPDATE audit_entry SET actor = 'somebody else'", "DELETE FROM audit_entry WHERE id > 0"]
)
def test_the_database_refuses_it_too(closed: None, statement: str) -> None:
    entry = record_command("a.b.c")
    with pytest.raises(DatabaseError, match="append-only"), transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(statement)
    assert Entry.objects.get(pk=entry.pk).actor == entry.actor


def test_an_update_is_refused_even_while_entries_are_pruned(db: None) -> None:
    record_command("a.b.c")
    with pytest.raises(DatabaseError, match="append-only"), transaction.atomic(), connection.cursor() as cursor:
        cursor.execute("UPDATE audit_entry SET actor = 'somebody else'")


def test_an_entry_outlives_its_account(closed: None) -> None:
    organization = Organization.objects.create(name="Head office")
    tenant = create_tenant(name="shortlived", organization=organization, password=PASSWORD).tenant
    assert isinstance(tenant, Tenant)
    uid = tenant.uid
    tenant.users.all().delete()
    tenant.delete()
    entry = Entry.objects.get(action="accounts.tenant.create", resource="shortlived")
    assert entry.tenant_uid == uid


def test_retention_deletes_what_is_old_and_says_so(closed: None, cast: Cast, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retention, "BATCH", 2)
    before = timezone.now() - timedelta(days=400)
    for number in range(5):
        entry_at(before, cast.actor("bob"), "topics.topic.create", f"old-{number}")
    entry_at(before, cast.actor("charlie"), "topics.topic.create", "old-theirs")
    young = record(cast.actor("bob"), "topics.topic.create", "young")
    said = StringIO()
    call_command("prune_audit", days=365, stdout=said)
    assert "6 entries" in said.getvalue()
    assert not Entry.objects.filter(resource__startswith="old-").exists()
    assert Entry.objects.filter(pk=young.pk).exists()
    pruned = Entry.objects.filter(action=retention.ACTION)
    assert {e.tenant_uid: e.detail["entries"] for e in pruned} == {
        "": 6,
        cast.acme.uid: 5,
        cast.charlies.tenant.uid: 1,
    }
    assert all(e.channel == "command" and e.actor.startswith("command line") for e in pruned)
    with pytest.raises(DatabaseError, match="append-only"), transaction.atomic(), connection.cursor() as cursor:
        cursor.execute("DELETE FROM audit_entry")


def test_retention_keeps_a_month_whatever_is_asked_for(db: None) -> None:
    with pytest.raises(CommandError, match="at least 30 days"):
        call_command("prune_audit", days=29)
