"""The AccessKey signature."""

from __future__ import annotations

import pytest

from brokercore.protocol.command import decode
from brokercore.protocol.signature import sign, verify
from tests.brokercore.protocol import captured
from tests.brokercore.protocol.test_command import frame

SECRET = "SKsecret"
ONS = {"AccessKey": "AKtest", "OnsChannel": "ALIYUN"}


def test_it_signs_as_java_does() -> None:
    assert sign(ONS | {"consumerGroup": "GID_ons_c"}, b"", SECRET) == "tY8NPrSi6/+a/Iib6cx/mbF/9dw="


def test_it_accepts_a_captured_request() -> None:
    command = decode(frame(captured.ONS_REQUEST_HEADER))
    assert verify(command.code, command.ext, command.body, SECRET)
    assert not verify(command.code, command.ext, command.body, "another secret")
    assert not verify(command.code, command.ext, b"another body", SECRET)


def test_it_accepts_the_invisible_field_of_ons_client_in_route_requests_only() -> None:
    ext = ONS | {"topic": "OnsTopic", "Signature": "QEIDqbyZJfA1H0gKUonI8Q4KEDE="}
    assert verify(105, ext, b"", SECRET)
    assert not verify(106, ext, b"", SECRET)


@pytest.mark.parametrize("late", ["_UNIQUE_KEY_QUERY", "__ZONE_NAME", "__ZONE_MODE"])
def test_it_accepts_fields_that_some_clients_add_after_signing(late: str) -> None:
    ext = {"AccessKey": "ak", "topic": "t"}
    signed = ext | {"Signature": sign(ext, b"body", SECRET), late: "true"}
    assert verify(12, signed, b"body", SECRET)
    assert not verify(12, signed | {"other": "field"}, b"body", SECRET)


def test_it_accepts_route_requests_with_both_peculiarities() -> None:
    ext = ONS | {"topic": "t"}
    signature = sign(ext | {"split": "\x01"}, b"", SECRET)
    assert verify(105, ext | {"Signature": signature, "__ZONE_NAME": "z"}, b"", SECRET)


@pytest.mark.parametrize("signature", [None, "", "wrong", "größe"])
def test_it_refuses_a_missing_or_wrong_signature(signature: str | None) -> None:
    ext = {"AccessKey": "ak"} | ({} if signature is None else {"Signature": signature})
    assert not verify(10, ext, b"", SECRET)


def test_keys_are_ordered_by_utf16_units_as_in_java() -> None:
    # U+1F600 is two surrogates (D83D …) and so comes before U+FF01 in Java, though its code point is higher.
    java_first = sign({"\U0001f600": "1", "！": "2"}, b"", SECRET)
    assert java_first == sign({"a": "1", "b": "2"}, b"", SECRET)
    assert java_first == sign({"a": "12"}, b"", SECRET)
    assert java_first != sign({"a": "21"}, b"", SECRET)
