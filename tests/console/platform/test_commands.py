"""The first way into a copy without a demo."""

from __future__ import annotations

from io import StringIO
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.test import Client
from django.urls import reverse

from console.accounts import policy_documents
from console.accounts.crypto import decrypt
from console.accounts.models import AccessKey, Organization, Tenant, User
from console.audit.models import Entry
from console.instances.models import Cluster
from tests.support.cast import Cast


def said(*arguments: str, **options: str) -> tuple[str, str]:
    """What a command prints, and the password in it."""
    out = StringIO()
    call_command(*arguments, stdout=out, **options)
    return out.getvalue(), out.getvalue().rsplit(" ", 1)[1].strip()


def test_it_makes_an_administrator_who_must_change_the_password(cast: Cast) -> None:
    text, password = said("platform_admin", "root")
    assert "root is created" in text
    client = Client()
    client.post(reverse("account_login"), {"login": "root", "password": password})
    assert client.get(reverse("platform.accounts"))["Location"] == reverse("account_change_password")
    entry = Entry.objects.get(action="accounts.platform_admin.create", resource="root")
    assert entry.channel == "command"
    assert password not in str(vars(entry))


def test_it_lets_one_in_again_and_ends_the_sessions(cast: Cast) -> None:
    petra = cast.client("petra")
    assert petra.get(reverse("platform.accounts")).status_code == 200
    text, password = said("platform_admin", "petra")
    assert "petra is reset" in text
    assert petra.get(reverse("platform.accounts")).status_code == 302
    assert User.objects.get(username="petra").check_password(password)


def test_it_is_all_that_an_empty_copy_needs(db: None, settings: Any) -> None:
    settings.NAMESRV = "mq.internal:9876"
    said("platform_admin", "root")
    assert [(c.namesrv, c.region) for c in Cluster.objects.all()] == [("mq.internal:9876", settings.REGION)]
    assert policy_documents.system_policy("AliyunMQFullAccess")


def test_a_key_of_an_administrator_is_issued_and_deleted_on_the_server_alone(cast: Cast) -> None:
    text, secret = said("platform_key", "petra")
    key = AccessKey.objects.get(user=cast.petra)
    assert key.access_key_id in text and decrypt(key.secret_encrypted) == secret
    entry = Entry.objects.get(action="accounts.platform_key.create")
    assert (entry.resource, entry.channel) == (key.access_key_id, "command") and secret not in str(vars(entry))
    with pytest.raises(CommandError, match="petra has no AccessKey LTAInone"):
        said("platform_key", "petra", delete="LTAInone")
    for name in ("admin@acme", "nobody"):
        with pytest.raises(CommandError, match="There is no administrator of the platform"):
            said("platform_key", name)
    said("platform_key", "petra", delete=key.access_key_id)
    assert not AccessKey.objects.filter(user=cast.petra).exists()


@pytest.mark.parametrize("name", ["a b", "bob@acme", "", "x" * 33])
def test_it_refuses_an_odd_name(db: None, name: str) -> None:
    with pytest.raises(CommandError, match="1 to 32 letters"):
        said("platform_admin", name)


def test_it_makes_an_account_and_the_organizations_of_its_path(db: None) -> None:
    text, password = said("create_account", "fresh", organization="Head office/Sales")
    assert "admin@fresh" in text
    tenant = Tenant.objects.get(name="fresh")
    assert tenant.organization.name == "Sales"
    assert tenant.organization.parent == Organization.objects.get(name="Head office")
    user = User.objects.get(username="admin@fresh")
    assert user.check_password(password)
    assert user.must_change_password


def test_a_refused_account_leaves_no_organization(db: None) -> None:
    with pytest.raises(CommandError, match="lower-case"):
        said("create_account", "Not A Name", organization="Ghost")
    assert not Organization.objects.filter(name="Ghost").exists()
