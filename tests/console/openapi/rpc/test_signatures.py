"""The two signatures against the public cloud's published examples, and what must be covered by them."""

from __future__ import annotations

import hashlib
import hmac
from typing import Any
from urllib.parse import quote

import pytest
from django.test import RequestFactory

from console.openapi.rpc import authentication
from console.openapi.rpc.responses import GatewayError
from console.web.errors import Refused

V1 = {
    "Timestamp": "2016-02-23T12:46:24Z", "Format": "XML", "AccessKeyId": "testid", "Action": "DescribeRegions",
    "SignatureMethod": "HMAC-SHA1", "SignatureNonce": "3ee8c1b8-83d3-44af-a94f-4e0ad82fd6cf",
    "Version": "2014-05-26", "SignatureVersion": "1.0",
}  # fmt: skip
V1_SIGNATURE = "OLeaidS1JvxuMvnyHOwuJ+uX5qY="
EMPTY = hashlib.sha256(b"").hexdigest()
ACS3_HEADERS = {
    "host": "ecs.cn-shanghai.aliyuncs.com", "x-acs-action": "RunInstances", "x-acs-content-sha256": EMPTY,
    "x-acs-date": "2023-10-26T10:22:32Z", "x-acs-signature-nonce": "3156853299f313e23d1673dc12e1703d",
    "x-acs-version": "2014-05-26",
}  # fmt: skip
ACS3_QUERY = {"ImageId": "win2019_1809_x64_dtc_zh-cn_40G_alibase_20230811.vhd", "RegionId": "cn-shanghai"}
ACS3_SIGNATURE = "06563a9e1b43f5dfe96b81484da74bceab24a1d853912eee15083a6f0f3283c0"


@pytest.fixture
def anywhere(settings: Any) -> None:
    settings.ALLOWED_HOSTS = ["*"]


def acs3(headers: dict[str, str], query: dict[str, str], signature: str, *, signed: str = "", body: bytes = b"") -> Any:
    """A POST with the headers, all of them signed unless said otherwise."""
    covered = signed or ";".join(sorted(headers))
    authorization = f"ACS3-HMAC-SHA256 Credential=YourAccessKeyId,SignedHeaders={covered},Signature={signature}"
    url = "/?" + "&".join(f"{name}={quote(value)}" for name, value in query.items())
    content = "application/x-www-form-urlencoded"
    return RequestFactory().post(url, body, content, headers={**headers, "Authorization": authorization})


def test_version_1_is_that_of_the_published_example() -> None:
    request: Any = RequestFactory().get("/", V1 | {"Signature": V1_SIGNATURE})
    signed = authentication.read(request)
    assert signed.matches("testsecret")
    assert not signed.matches("testsecres")
    assert signed.text.startswith("GET&%2F&AccessKeyId%3Dtestid%26Action%3DDescribeRegions%26Format%3DXML")
    assert (signed.action, signed.version, signed.xml, signed.parameters) == ("DescribeRegions", "2014-05-26", True, {})


@pytest.mark.parametrize("value", ["a b", "a+b", "*", "~", "a/b", "très – 漢", "a=b&c", "%", "\n"])
def test_version_1_encodes_every_value_as_the_sdk_does(value: str) -> None:
    from aliyunsdkcore.auth.composer import rpc_signature_composer

    _, text = rpc_signature_composer.get_signed_url({"Remark": value}, "testid", "testsecret", "JSON", "POST", {})
    mine = authentication.text_to_sign("POST", {"Remark": value})
    assert f"Remark%3D{mine.rpartition('%3D')[2]}" in text


def test_a_form_is_part_of_what_version_1_signs() -> None:
    parameters = V1 | {"Remark": "from the form"}
    signature = authentication.v1(authentication.text_to_sign("POST", parameters), "testsecret")
    url = "/?" + "&".join(f"{n}={quote(v, safe='')}" for n, v in (V1 | {"Signature": signature}).items())
    request: Any = RequestFactory().post(url, b"Remark=from+the+form", "application/x-www-form-urlencoded")
    signed = authentication.read(request)
    assert signed.matches("testsecret")
    assert signed.parameters == {"Remark": "from the form"}


def test_acs3_is_that_of_the_published_example(anywhere: None) -> None:
    signed = authentication.read(acs3(ACS3_HEADERS, ACS3_QUERY, ACS3_SIGNATURE))
    assert signed.matches("YourAccessKeySecret")
    assert not signed.matches("YourAccessKeySecres")
    assert (signed.access_key_id, signed.action, signed.xml) == ("YourAccessKeyId", "RunInstances", False)


@pytest.mark.parametrize(
    ("headers", "query"),
    [
        (ACS3_HEADERS | {"x-acs-action": "DeleteInstances"}, ACS3_QUERY),
        (ACS3_HEADERS | {"x-acs-date": "2023-10-26T10:22:33Z"}, ACS3_QUERY),
        (ACS3_HEADERS | {"host": "elsewhere.test"}, ACS3_QUERY),
        (ACS3_HEADERS, ACS3_QUERY | {"RegionId": "cn-hangzhou"}),
        (ACS3_HEADERS, ACS3_QUERY | {"Amount": "100"}),
    ],
)
def test_acs3_covers_action_time_host_and_parameters(
    anywhere: None, headers: dict[str, str], query: dict[str, str]
) -> None:
    assert not authentication.read(acs3(headers, query, ACS3_SIGNATURE)).matches("YourAccessKeySecret")


def test_acs3_covers_the_body_itself_not_its_stated_digest(anywhere: None) -> None:
    assert not authentication.read(acs3(ACS3_HEADERS, ACS3_QUERY, ACS3_SIGNATURE, body=b"A=1")).matches(
        "YourAccessKeySecret"
    )


@pytest.mark.parametrize("name", ["host", "x-acs-action", "x-acs-date", "x-acs-version", "x-acs-signature-nonce"])
def test_a_header_that_decides_the_call_must_be_signed(anywhere: None, name: str) -> None:
    without = ";".join(sorted(ACS3_HEADERS.keys() - {name}))
    with pytest.raises(GatewayError) as refused:
        authentication.read(acs3(ACS3_HEADERS, ACS3_QUERY, ACS3_SIGNATURE, signed=without))
    assert refused.value.code == "IncompleteSignature"


@pytest.mark.parametrize(
    ("name", "code"),
    [
        ("Action", "MissingAction"),
        ("Version", "MissingVersion"),
        ("AccessKeyId", "MissingAccessKeyId"),
        ("Signature", "MissingSignature"),
        ("SignatureNonce", "MissingSignatureNonce"),
        ("Timestamp", "MissingTimestamp"),
    ],
)
def test_what_every_request_needs_is_asked_for_by_name(name: str, code: str) -> None:
    parameters = V1 | {"Signature": V1_SIGNATURE}
    del parameters[name]
    request: Any = RequestFactory().get("/", parameters)
    with pytest.raises(GatewayError, match=name) as refused:
        authentication.read(request)
    assert refused.value.code == code


def test_a_doubled_parameter_and_another_method_are_refused(anywhere: None) -> None:
    doubled: Any = RequestFactory().get("/?Topic=a&Topic=b", V1)
    doubled.META["QUERY_STRING"] = "Topic=a&Topic=b"
    with pytest.raises(Refused, match="more than once"):
        authentication.read(doubled)
    other: Any = RequestFactory().get("/", V1 | {"Signature": "x", "SignatureMethod": "HMAC-MD5"})
    with pytest.raises(GatewayError, match="HMAC-MD5"):
        authentication.read(other)
    basic: Any = RequestFactory().get("/", headers={"Authorization": "Basic eDp5", "x-acs-action": "OnsTopicList"})
    with pytest.raises(GatewayError, match="Basic"):
        authentication.read(basic)


def test_the_digest_is_that_of_another_hand(anywhere: None) -> None:
    headers = ACS3_HEADERS | {"x-acs-security-token": "token"}
    canonical = "POST\n/\n" + "&".join(f"{n}={quote(v, safe='~')}" for n, v in sorted(ACS3_QUERY.items())) + "\n"
    canonical += "".join(f"{n}:{v}\n" for n, v in sorted(headers.items())) + "\n" + ";".join(sorted(headers))
    text = "ACS3-HMAC-SHA256\n" + hashlib.sha256(f"{canonical}\n{EMPTY}".encode()).hexdigest()
    signature = hmac.new(b"YourAccessKeySecret", text.encode(), hashlib.sha256).hexdigest()
    assert authentication.read(acs3(headers, ACS3_QUERY, signature)).matches("YourAccessKeySecret")
