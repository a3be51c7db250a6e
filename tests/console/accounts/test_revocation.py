"""What is taken away stops working everywhere within two seconds: broker, API, MySQL endpoint, open connections.

Real ones: a broker process, signed requests, and a door on a socket.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import pymysql
import pytest
from django.db import transaction

from console.accounts import services
from console.accounts.models import Tenant, UserGroup
from console.accounts.policy_documents import system_policy
from console.catalog.models import Schema
from console.rights import access_table
from console.sql.mysql.server import MySqlEndpoint
from tests.console.accounts import revocation
from tests.support.cast import Cast, make_topic
from tests.support.mysql_endpoint import running_endpoint
from tests.support.patience import Patience

pytestmark = pytest.mark.django_db(transaction=True)


@dataclass
class Doors:
    """Bob's key at every door."""

    cast: Cast
    key: services.IssuedKey
    port: int
    group: UserGroup
    cursor: pymysql.cursors.Cursor

    def answers(self) -> dict[str, bool]:
        """What each door says now."""
        return {
            "broker": revocation.may_publish(self.cast, self.key),
            "api": revocation.may_call(self.cast, self.key),
            "sql": revocation.may_query(self.port, self.key),
            "open connection": revocation.still_answers(self.cursor),
        }

    def wait_for(self, allowed: bool) -> None:
        """Until every door says so, at the latest when two seconds are over: each answers in its own time."""
        patience = Patience(revocation.PROMISE_SECONDS)
        while set((answers := self.answers()).values()) != {allowed}:
            assert not patience.is_over(), answers


@pytest.fixture
def doors(cast: Cast, monkeypatch: pytest.MonkeyPatch) -> Iterator[Doors]:
    """Bob may do everything with messages and queries, by the policies of a group that is all he has."""
    alice = cast.actor("alice")
    make_topic(cast.alice, cast.instance, revocation.TOPIC)
    Schema.objects.create(tenant=cast.acme, name="acme")
    group = services.create_group(actor=alice, name="everything")
    for name in ("AliyunMQFullAccess", "AliyunDLAFullAccess"):
        services.attach_group_policy(actor=alice, group=group, policy=system_policy(name))
    cast.bob.policies.clear()
    services.add_user(actor=alice, group=group, user=cast.bob)
    key = services.create_access_key(actor=cast.actor("bob"), user=cast.bob)
    with running_endpoint(MySqlEndpoint) as port:
        connection = pymysql.connect(
            host="127.0.0.1", port=port, user=key.access_key_id, password=key.access_key_secret, connect_timeout=10
        )
        with connection, connection.cursor() as cursor:
            made = Doors(cast, key, port, group, cursor)
            access_table.publish()
            revocation.until(lambda: set(made.answers().values()) == {True}, "not every door is open", seconds=20)
            yield made


def _disable_key(doors: Doors) -> None:
    services.set_access_key_enabled(actor=doors.cast.actor("bob"), key=doors.cast.bob.access_keys.get(), enabled=False)


def _delete_key(doors: Doors) -> None:
    services.delete_access_key(actor=doors.cast.actor("bob"), key=doors.cast.bob.access_keys.get())


def _disable_user(doors: Doors) -> None:
    services.set_user_enabled(actor=doors.cast.actor("alice"), user=doors.cast.bob, enabled=False)


def _delete_user(doors: Doors) -> None:
    services.delete_user(actor=doors.cast.actor("alice"), user=doors.cast.bob)


def _disable_tenant(doors: Doors) -> None:
    with transaction.atomic():
        Tenant.objects.filter(pk=doors.cast.acme.pk).update(enabled=False)
        access_table.publish_on_commit()


def _remove_policies(doors: Doors) -> None:
    for policy in doors.group.policies.all():
        services.detach_group_policy(actor=doors.cast.actor("alice"), group=doors.group, policy=policy)


def _remove_from_group(doors: Doors) -> None:
    services.remove_user(actor=doors.cast.actor("alice"), group=doors.group, user=doors.cast.bob)


def _delete_group(doors: Doors) -> None:
    services.delete_group(actor=doors.cast.actor("alice"), group=doors.group)


@pytest.mark.parametrize(
    "take_away",
    [
        _disable_key,
        _delete_key,
        _disable_user,
        _delete_user,
        _disable_tenant,
        _remove_policies,
        _remove_from_group,
        _delete_group,
    ],
)
def test_it_stops_working_everywhere_within_two_seconds(doors: Doors, take_away: Callable[[Doors], None]) -> None:
    take_away(doors)
    doors.wait_for(allowed=False)


def test_what_is_enabled_again_works_again(doors: Doors) -> None:
    _disable_key(doors)
    doors.wait_for(allowed=False)
    key = doors.cast.bob.access_keys.get()
    services.set_access_key_enabled(actor=doors.cast.actor("bob"), key=key, enabled=True)
    access_table.publish()
    revocation.until(lambda: set(doors.answers().values()) == {True}, "not every door is open again", seconds=20)
