"""Who is let in at the MySQL endpoint."""

from __future__ import annotations

import pymysql
import pytest

from console.accounts import services as accounts
from console.accounts.services.keys import create_organization_key, issue
from console.sql.mysql import auth
from tests.support.sql_cast import Cast

pytestmark = pytest.mark.django_db(transaction=True)


def test_the_keys_of_an_organization_open_no_sql_session(cast: Cast, endpoint: int) -> None:
    """They are for the management API and act for an account as a whole, without a user to ask about rights."""
    tenant = cast.alice.tenant
    assert tenant.organization is not None
    key = create_organization_key(actor=cast.alice, organization=tenant.organization, tenant=tenant)
    assert auth.find_account(key.access_key_id) is None
    with pytest.raises(pymysql.err.OperationalError) as refused:
        pymysql.connect(host="127.0.0.1", port=endpoint, user=key.access_key_id, password=key.access_key_secret)
    assert refused.value.args[0] == 1045


def test_the_keys_of_a_user_do(cast: Cast) -> None:
    key = accounts.create_access_key(actor=cast.alice, user=cast.bob.person)
    found = auth.find_account(key.access_key_id)
    assert found is not None
    assert found.access_key_id == key.access_key_id
    assert auth.find_account(issue(user=cast.bob.person).access_key_id) is not None
