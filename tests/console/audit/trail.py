"""Entries of another time, and an empty trail: what the product itself never makes."""

from __future__ import annotations

from datetime import datetime
from typing import Any
from unittest import mock

from console.accounts.actor import Actor
from console.audit.models import Entry
from console.audit.record import record


def entry_at(at: datetime, actor: Actor, action: str, resource: str = "", **options: Any) -> Entry:
    """An entry that was recorded at a time."""
    with mock.patch.object(Entry._meta.get_field("at"), "_get_default", lambda: at):
        return record(actor, action, resource, **options)


def emptied() -> None:
    """Forget every entry; the tests' database lets deletes pass (tests/conftest.py)."""
    everything = Entry.objects.all()
    everything._raw_delete(everything.db)
