"""The worked examples of the management API's specification (invented data, computed by two tools)."""

from __future__ import annotations

import base64
import hashlib

from hypothesis import given
from hypothesis import strategies as st

from console.openapi.authentication import SIGNATURE, sign, verify

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
    ignoring_case = LETTER | {"_signature": "rc+oO9Y53jSmOEgU6CcbuPZp+VU="}
    assert verify(ignoring_case, SECRET, any_case=True)
    assert not verify(ignoring_case, SECRET)


def test_it_refuses_an_altered_value_a_wrong_secret_and_a_missing_signature() -> None:
    signed = TOPIC | {"_signature": sign(TOPIC, SECRET)}
    assert verify(signed, SECRET)
    assert not verify(signed | {"topic": "orders_other"}, SECRET)
    assert not verify(signed, SECRET + "x")
    assert not verify(TOPIC, SECRET)


names = st.text(st.sampled_from("abAB_xyXY01"), min_size=1, max_size=12).filter(lambda name: name != SIGNATURE)
values = st.text(max_size=20)
parameter_sets = st.dictionaries(names, values, max_size=8).map(lambda own: own | COMMON)


def by_hand(parameters: dict[str, str], secret: str, lower: bool = False) -> str:
    """The rule in other words: bytes of the values, in the order of the names' bytes, by a second HMAC."""
    order = sorted(sorted(parameters), key=lambda name: (name.lower() if lower else name).encode())
    block = secret.encode()
    block = (hashlib.sha1(block).digest() if len(block) > 64 else block).ljust(64, b"\0")
    inner, outer = (bytes(byte ^ pad for byte in block) for pad in (0x36, 0x5C))
    digest = hashlib.sha1(inner + b"".join(parameters[name].encode() for name in order)).digest()
    return base64.b64encode(hashlib.sha1(outer + digest).digest()).decode()


@given(parameter_sets, st.text(st.characters(codec="utf-8"), min_size=1, max_size=80))
def test_it_agrees_with_the_rule_written_out(parameters: dict[str, str], secret: str) -> None:
    assert sign(parameters, secret) == by_hand(parameters, secret)
    assert verify(parameters | {SIGNATURE: by_hand(parameters, secret)}, secret)
    assert verify(parameters | {SIGNATURE: by_hand(parameters, secret, lower=True)}, secret, any_case=True)


@given(parameter_sets, names, values, values)
def test_one_changed_value_breaks_it(parameters: dict[str, str], name: str, value: str, other: str) -> None:
    parameters |= {name: value}
    signed = parameters | {SIGNATURE: sign(parameters, SECRET)}
    changed = signed | {name: other}
    same_text = "".join(changed[n] for n in sorted(parameters)) == "".join(parameters[n] for n in sorted(parameters))
    assert verify(changed, SECRET) == same_text
    assert not verify(signed, SECRET + "x")
