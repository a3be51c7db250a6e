"""Temporary keys of a role, drawn by the vendor's STS client, at every door: both API styles, SQL and the broker."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import httpx
import pymysql
import pytest
from alibabacloud_ons20190214 import models as ons
from alibabacloud_ons20190214.client import Client as OnsClient
from alibabacloud_sts20150401 import models as sts
from alibabacloud_sts20150401.client import Client as StsClient
from alibabacloud_tea_openapi.exceptions import ClientException as TeaException
from aliyunsdkons.request.v20190214 import OnsInstanceInServiceListRequest

from brokercore.client import Credentials, Message, Producer
from brokercore.client.errors import ClientError
from console.accounts import services as accounts
from console.accounts.models import AccessKey, Role
from console.accounts.services import IssuedKey
from console.audit.models import Entry
from console.openapi.authentication import sign
from console.sql.mysql.server import MySqlEndpoint
from tests.compat.test_python_sdks import Core, config, endpoint, key, no_proxy, until
from tests.console.live import Live
from tests.support.cast import Cast
from tests.support.mysql_endpoint import running_endpoint
from tests.support.roles import make_role

__all__ = ["endpoint", "key", "no_proxy"]

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def role(cast: Cast) -> Role:
    """A role of acme that may do everything with messages and SQL, and trusts acme's users."""
    return make_role(cast.actor("alice"), "sender", "AliyunMQFullAccess", "AliyunDLAFullAccess")


@pytest.fixture
def temporary(endpoint: str, key: IssuedKey, role: Role) -> IssuedKey:
    """What AssumeRole answers."""
    request = sts.AssumeRoleRequest(
        role_arn=f"acs:ram::{role.tenant.uid}:role/{role.name}", role_session_name="nightly", duration_seconds=900
    )
    body = StsClient(config(endpoint, key)).assume_role(request).body
    assert body.assumed_role_user.arn == f"acs:ram::{role.tenant.uid}:role/{role.name}/nightly"
    expires = time.mktime(time.strptime(body.credentials.expiration, "%Y-%m-%dT%H:%M:%SZ")) - time.timezone
    assert 840 < expires - time.time() <= 901
    drawn = body.credentials
    return IssuedKey(drawn.access_key_id, drawn.access_key_secret, drawn.security_token, None)


@pytest.fixture
def door(cast: Cast) -> Iterator[int]:
    with running_endpoint(MySqlEndpoint) as port:
        yield port


def json_call(endpoint: str, key: IssuedKey, **more: str) -> Any:
    parameters = {
        "_accesskey": key.access_key_id,
        "__preventCache": str(int(time.time() * 1000)),
        "_regionId": "mq-private",
        **more,
    }
    parameters["_signature"] = sign(parameters, key.access_key_secret)
    return httpx.post(f"http://{endpoint}/json/instance/list", data=parameters, trust_env=False).json()


def test_temporary_keys_work_at_every_door(endpoint: str, temporary: IssuedKey, live: Live, door: int) -> None:
    mine = live.instance.instance_id
    identity = StsClient(config(endpoint, temporary)).get_caller_identity().body
    assert (identity.identity_type, identity.account_id) == ("AssumedRoleUser", live.instance.tenant.uid)

    listed = OnsClient(config(endpoint, temporary)).ons_instance_in_service_list(ons.OnsInstanceInServiceListRequest())
    assert mine in {i.instance_id for i in listed.body.data.instance_vo}
    older = Core(endpoint, temporary)(OnsInstanceInServiceListRequest.OnsInstanceInServiceListRequest())
    assert mine in {i["InstanceId"] for i in older["Data"]["InstanceVO"]}

    answer = json_call(endpoint, temporary, _securityToken=temporary.security_token)
    assert mine in {i["instanceId"] for i in answer["data"]}
    assert json_call(endpoint, temporary)["status"] == "AUTH_SIGNATURE_INVALID"

    password = f"{temporary.access_key_secret}:{temporary.security_token}"
    with (
        pymysql.connect(
            host="127.0.0.1", port=door, user=temporary.access_key_id, password=password, ssl_disabled=True
        ) as connection,
        connection.cursor() as cursor,
    ):
        cursor.execute("select database()")
        assert cursor.fetchall()

    topic = live.topic()
    credentials = Credentials(temporary.access_key_id, temporary.access_key_secret, temporary.security_token)
    with Producer(live.instance.cluster.namesrv, credentials, "GID_role", namespace=mine) as producer:

        def sent() -> Any:
            try:
                return producer.send(Message(topic.name, b"from a role"))
            except ClientError:  # until the broker has read the new key, some milliseconds after the answer
                return None

        assert until(sent).message_id
    assert Entry.objects.filter(action="sts.role.assume", result="success").exists()


def test_a_temporary_key_needs_its_token_and_ends_with_its_time(endpoint: str, temporary: IssuedKey) -> None:
    without = IssuedKey(temporary.access_key_id, temporary.access_key_secret, "", None)
    with pytest.raises(TeaException) as missing:
        OnsClient(config(endpoint, without)).ons_region_list()
    assert missing.value.code == "InvalidSecurityToken.MismatchWithAccessKey"
    AccessKey.objects.filter(access_key_id=temporary.access_key_id).update(expires_at="2020-01-01T00:00:00Z")
    with pytest.raises(TeaException) as ended:
        OnsClient(config(endpoint, temporary)).ons_region_list()
    assert ended.value.code == "InvalidAccessKeyId.NotFound"


def test_a_role_is_not_given_to_strangers_or_with_a_policy_that_would_be_ignored(
    endpoint: str, key: IssuedKey, role: Role, cast: Cast
) -> None:
    arn = f"acs:ram::{role.tenant.uid}:role/{role.name}"
    charlie = accounts.create_access_key(actor=cast.actor("charlie"), user=cast.charlie)
    with pytest.raises(TeaException) as stranger:
        StsClient(config(endpoint, charlie)).assume_role(
            sts.AssumeRoleRequest(role_arn=arn, role_session_name="nightly")
        )
    assert (stranger.value.code, stranger.value.status_code) == ("Forbidden.RAM", 403)
    with pytest.raises(TeaException, match="Policy") as narrowed:
        StsClient(config(endpoint, key)).assume_role(
            sts.AssumeRoleRequest(role_arn=arn, role_session_name="nightly", policy='{"Version": "1"}')
        )
    assert narrowed.value.code == "BIZ_FIELD_CHECK_INVALID"
    assert not AccessKey.objects.filter(role=role).exists()
