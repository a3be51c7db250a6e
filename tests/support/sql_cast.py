"""The cast of SQL: Alice administers the tenant `demo`, Bob is a RAM user there, Charlie is of another tenant."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import pytest
from pytest_django import Settings

from console.accounts import services as accounts
from console.accounts.actor import Actor
from console.accounts.models import Organization, Policy, User
from console.accounts.services import IssuedKey
from console.catalog.models import ExternalTable, Schema
from console.rights import access_table
from console.sql import lifecycle

PASSWORD = "correct horse 1"
ALLOW_SQL = {"Version": "1", "Statement": [{"Effect": "Allow", "Action": "dla:*", "Resource": "*"}]}


@dataclass(frozen=True)
class Cast:
    """Who takes part, and Alice's AccessKey pair."""

    alice: Actor
    bob: Actor
    charlie: Actor
    key: IssuedKey


@pytest.fixture
def no_acl(monkeypatch: pytest.MonkeyPatch) -> None:
    """There is no Redis here to publish the table of keys to."""
    monkeypatch.setattr(access_table, "publish", lambda: False)


@pytest.fixture
def cast(db: None, no_acl: None, settings: Settings) -> Cast:
    """Two tenants; `demo` has a schema `demo` with the tables flights and airlines."""
    settings.PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]
    organization = Organization.objects.create(name="all")
    alice = accounts.create_tenant(name="demo", organization=organization, password=PASSWORD)
    charlie = accounts.create_tenant(name="other", organization=organization, password=PASSWORD)
    actor = Actor(alice)
    bob = accounts.create_user(actor=actor, name="bob", password=PASSWORD, policies=[])
    User.objects.filter(pk=bob.pk).update(must_change_password=False)
    bob.refresh_from_db()
    schema = Schema.objects.create(tenant=actor.tenant, name="demo")
    columns = [{"name": "carrier", "type": "string"}, {"name": "hour", "type": "int"}]
    for name in ("flights", "airlines"):
        ExternalTable.objects.create(schema=schema, name=name, location=f"oss://demo/{name}/", columns=columns)
    Schema.objects.create(tenant=Actor(charlie).tenant, name="secret")
    return Cast(actor, Actor(bob), Actor(charlie), accounts.create_access_key(actor=actor, user=alice))


def allow(user: User, document: Mapping[str, object] = ALLOW_SQL) -> Actor:
    """Attach a policy to a RAM user; returns the user as a fresh actor."""
    policy = Policy.objects.create(tenant=user.tenant, name=f"policy-{Policy.objects.count()}", document=document)
    user.policies.add(policy)
    return Actor(User.objects.get(pk=user.pk))


@pytest.fixture
def handed_over(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """Task ids that were given to Celery, which does not run here."""
    sent: list[str] = []
    monkeypatch.setattr(lifecycle, "hand_over", sent.append)
    yield sent


@pytest.fixture
def kicked(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Notifications that Celery was asked to deliver."""
    from console.outbox import services as outbox

    sent: list[int] = []

    def kick(notification_id: int, *, after_s: float = 0) -> None:
        sent.append(notification_id)

    monkeypatch.setattr(outbox, "kick", kick)
    return sent
