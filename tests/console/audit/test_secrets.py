"""No secret ever reaches the trail: whatever a detail is called or nested, and whatever the accounts' flows do."""

from __future__ import annotations

import json
from typing import Any

import pytest
from django.urls import reverse
from hypothesis import given
from hypothesis import strategies as st

from console.accounts import services as accounts
from console.accounts.services import keys, tenants
from console.audit.models import Entry
from console.audit.record.masking import masked
from tests.support.cast import PASSWORD, Cast

SECRET = "s3cr3t-that-must-not-be-seen"
names = st.builds(
    "".join,
    st.tuples(
        st.text(max_size=6),
        st.sampled_from(["secret", "Password", "TOKEN", "api_key", "ApiKey", "passwd", "private-key", "Credential"]),
        st.text(max_size=6),
    ),
)
plain = st.none() | st.booleans() | st.integers() | st.text(max_size=8)
values = st.recursive(
    plain, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3)
)


def planted(value: Any, name: str, depth: int) -> Any:
    """`value` around a secret of that name, so deep down."""
    found: Any = {name: [SECRET, {"deeper": SECRET}]}
    for level in range(depth):
        found = {"kept": value, "inside": found} if level % 2 else [value, found, (found,)]
    return found


@given(values, names, st.integers(min_value=0, max_value=5))
def test_what_is_called_a_secret_is_masked_at_any_depth(value: Any, name: str, depth: int) -> None:
    assert SECRET not in json.dumps(masked({"detail": planted(value, name, depth)}), default=str)


@given(st.dictionaries(st.sampled_from(["name", "count", "topic", "relation"]), plain, max_size=4))
def test_everything_else_is_kept(detail: dict[str, Any]) -> None:
    assert masked(detail) == detail


@pytest.mark.django_db(transaction=True)
def test_the_flows_of_accounts_leave_none(cast: Cast) -> None:
    given_out: list[str] = [PASSWORD]
    alice, petra = cast.actor("alice"), cast.actor("petra")
    key = accounts.create_access_key(actor=alice, user=cast.bob)
    given_out.append(key.access_key_secret)
    drawn = accounts.renew_database_password(actor=alice, user=cast.bob)
    given_out.append(drawn.password)
    accounts.reset_password(actor=alice, user=cast.bob, password="Another-horse-8")
    organization = cast.acme.organization
    issued = keys.create_organization_key(actor=petra, organization=organization, tenant=cast.acme)
    given_out += [issued.access_key_secret, "Another-horse-8", "Third-horse-9"]
    tenants.reset_administrator(actor=petra, tenant=cast.acme, password="Third-horse-9")
    for name, password in (("admin@acme", "Third-horse-9"), ("admin@acme", "Wrong-horse-1"), (PASSWORD, "x")):
        cast.client("anonymous").post(reverse("account_login"), {"login": name, "password": password})
    given_out.append("Wrong-horse-1")
    page = cast.client("petra").post(
        reverse("platform.account_create"), {"name": "fresh", "organization": str(organization.pk)}
    )
    given_out.append(page.context["password"])
    everything = "\n".join(str(vars(entry)) for entry in Entry.objects.all())
    assert Entry.objects.filter(action="accounts.tenant.create", resource="fresh").exists()
    assert [secret for secret in given_out if secret in everything] == []
