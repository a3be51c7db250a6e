"""Users, AccessKeys, roles and the door's password."""

from __future__ import annotations

import hashlib

import pytest

from console.accounts import services
from console.accounts.crypto import decrypt
from console.accounts.models import AccessKey, User
from console.audit.models import Entry
from console.web.errors import Refused
from tests.support.cast import PASSWORD, Cast


@pytest.mark.parametrize("password", ["short-1", "x" * 33, "onlyletters", "1234567890", "!!!!!!!!!!"])
def test_it_refuses_a_password_that_breaks_the_rule(cast: Cast, password: str) -> None:
    with pytest.raises(Refused) as refused:
        services.create_user(actor=cast.actor("alice"), name="new", password=password, policies=[])
    assert refused.value.field == "password"
    assert not User.objects.filter(username="new@acme").exists()


@pytest.mark.parametrize("name", ["", "with space", "a@b", "x" * 33, "ünï"])
def test_it_refuses_a_user_name_that_breaks_the_rule(cast: Cast, name: str) -> None:
    with pytest.raises(Refused) as refused:
        services.create_user(actor=cast.actor("alice"), name=name, password=PASSWORD, policies=[])
    assert refused.value.field == "name"


def test_it_refuses_a_user_name_that_is_taken(cast: Cast) -> None:
    with pytest.raises(Refused):
        services.create_user(actor=cast.actor("alice"), name="bob", password=PASSWORD, policies=[])
    services.create_user(actor=cast.actor("charlie"), name="bob", password=PASSWORD, policies=[])


def test_a_new_user_must_change_the_password_and_may_do_nothing(cast: Cast) -> None:
    user = services.create_user(actor=cast.actor("alice"), name="new", password=PASSWORD, policies=[])
    assert user.must_change_password
    assert not user.is_tenant_admin
    assert not user.policies.exists()


def test_a_secret_is_encrypted_and_can_be_read_back_for_signatures_only(cast: Cast) -> None:
    issued = services.create_access_key(actor=cast.actor("alice"), user=cast.alice)
    key = AccessKey.objects.get(access_key_id=issued.access_key_id)
    assert issued.access_key_secret not in key.secret_encrypted
    assert decrypt(key.secret_encrypted) == issued.access_key_secret


def test_a_user_has_at_most_two_pairs(cast: Cast) -> None:
    for _ in range(2):
        services.create_access_key(actor=cast.actor("bob"), user=cast.bob)
    with pytest.raises(Refused):
        services.create_access_key(actor=cast.actor("bob"), user=cast.bob)
    services.delete_access_key(actor=cast.actor("bob"), key=cast.bob.access_keys.earliest("pk"))
    services.create_access_key(actor=cast.actor("bob"), user=cast.bob)


def test_the_audit_trail_never_holds_a_secret(cast: Cast) -> None:
    issued = services.create_access_key(actor=cast.actor("alice"), user=cast.alice)
    services.reset_password(actor=cast.actor("alice"), user=cast.bob, password="Brand-new-horse-9")
    text = " ".join(str(e.detail) + e.resource for e in Entry.objects.all())
    assert issued.access_key_id in text
    assert issued.access_key_secret not in text
    assert "Brand-new-horse-9" not in text


def test_the_administrator_cannot_be_disabled(cast: Cast) -> None:
    with pytest.raises(Refused):
        services.set_user_enabled(actor=cast.actor("alice"), user=cast.alice, enabled=False)


def test_only_hashes_of_hashes_of_the_doors_password_are_kept(cast: Cast) -> None:
    account = services.set_database_password(user=cast.alice, name="acme", password="door-password")
    stage = hashlib.sha1(b"door-password").digest()
    assert account.sha1_of_sha1 == hashlib.sha1(stage).hexdigest()
    stage = hashlib.sha256(b"door-password").digest()
    assert account.sha256_of_sha256 == hashlib.sha256(stage).hexdigest()
