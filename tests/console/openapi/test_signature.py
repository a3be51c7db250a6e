"""The worked examples of the management API's specification (invented data, computed by two tools)."""

from __future__ import annotations

from console.openapi.signature import sign, verify

SECRET = "demoSecret-5fT9wL2"
COMMON = {"__preventCache": "1767225602000", "_accesskey": "AKDEMO0001"}
TOPIC = COMMON | {
    "_regionId": "mq-private",
    "instanceId": "MQ_INST_demo01",
    "orderType": "0",
    "remark": "orders – très vite",
    "topic": "orders_demo",
}
LETTER = COMMON | {
    "_regionId": "mq-private",
    "InstanceId": "MQ_INST_demo01",
    "GroupId": "GID_billing",
    "MsgId": "0A0000010001189F0000000000000007",
}


def test_it_signs_non_ascii_values_as_utf8() -> None:
    assert sign(TOPIC, SECRET) == "/H0GK1sRt80GKOIUIW5hyr+tGWs="


def test_it_signs_names_in_byte_order() -> None:
    assert sign(LETTER, SECRET) == "6kqSHRAAbuHtrAvAsF/BGBJpZdo="


def test_it_signs_the_common_parameters_alone() -> None:
    assert sign(COMMON, SECRET) == "6TxITtGwhofYemlv++TORTDH/Rw="


def test_it_accepts_both_orders_of_mixed_case_names() -> None:
    assert verify(LETTER | {"_signature": "6kqSHRAAbuHtrAvAsF/BGBJpZdo="}, SECRET)
    assert verify(LETTER | {"_signature": "rc+oO9Y53jSmOEgU6CcbuPZp+VU="}, SECRET)


def test_it_refuses_an_altered_value_a_wrong_secret_and_a_missing_signature() -> None:
    signed = TOPIC | {"_signature": sign(TOPIC, SECRET)}
    assert verify(signed, SECRET)
    assert not verify(signed | {"topic": "orders_other"}, SECRET)
    assert not verify(signed, SECRET + "x")
    assert not verify(TOPIC, SECRET)
