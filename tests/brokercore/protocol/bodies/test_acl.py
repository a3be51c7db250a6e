"""Users and lists of ACL 2.0, as brokers of 5.3.3 write and read them."""

from __future__ import annotations

import json

import pytest

from brokercore.protocol.bodies.acl import (
    AccessControlList,
    AclEntry,
    AclUser,
    acl_from_json,
    acls_from_json,
    user_from_json,
    users_from_json,
)
from brokercore.protocol.errors import LenientJsonError

#: What a broker answered.
LISTS = b"""[{"policies":[{"entries":[{"actions":["Pub","Sub"],"decision":"Allow","resource":"Topic:a%*"},
{"actions":["Get"],"decision":"Deny","resource":"Group:g","sourceIps":["10.0.0.0/8"]}],"policyType":"Custom"},
{"entries":[{"actions":["All"],"decision":"Allow","resource":"Topic:*"}],"policyType":"Default"}],"subject":"User:bob"}]"""
ENTRIES = (AclEntry("Topic:a%*", ("Pub", "Sub")), AclEntry("Group:g", ("Get",), ("10.0.0.0/8",), "Deny"))


def test_lists_are_read_without_the_policies_that_come_after() -> None:
    assert acls_from_json(LISTS) == [AccessControlList("User:bob", ENTRIES)]


def test_a_list_is_written_as_it_is_read() -> None:
    written = AccessControlList("User:bob", ENTRIES).to_json()
    assert acl_from_json(written) == AccessControlList("User:bob", ENTRIES)
    entries = json.loads(written)["policies"][0]["entries"]
    assert entries[0] == {"resource": "Topic:a%*", "actions": ["Pub", "Sub"], "decision": "Allow"}


def test_users_are_read_and_written() -> None:
    answer = b'[{"password":"s","userStatus":"enable","userType":"Normal","username":"bob"}]'
    assert users_from_json(answer) == [AclUser("bob", "s")]
    assert user_from_json(AclUser("bob", "s", status="disable").to_json()) == AclUser("bob", "s", status="disable")


def test_a_user_without_a_password_keeps_the_one_that_it_has() -> None:
    assert "password" not in json.loads(AclUser("bob").to_json())


def test_a_password_is_not_in_the_words_for_a_user() -> None:
    assert "secret" not in repr(AclUser("bob", "secret"))


def test_no_body_is_nobody() -> None:
    assert (users_from_json(b""), acls_from_json(b""), user_from_json(b""), acl_from_json(b"")) == ([], [], None, None)


def test_another_body_is_refused() -> None:
    with pytest.raises(LenientJsonError):
        users_from_json(b'{"username":"bob"}')
