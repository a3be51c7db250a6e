"""Rows of the table of rights: what console and brokers write is read back, byte by byte as it was always written."""

from __future__ import annotations

import orjson
import pytest

from brokercore.policy.table import KeyRow, LimitRow, Refused, Used, UseRow, use_field

KEY = {
    "boundary": ["acs:mq:*:*:MQ_INST_42_*"],
    "delegated": [],
    "expires_ms": None,
    "grants": [],
    "is_account": False,
    "principal": "rita@acme",
    "region": "mq-private",
    "secret": "gAAA",
    "statements": [{"Effect": "Allow", "Action": ["mq:Query*"], "Resource": "*", "Source": "ReadOnly"}],
    "tenant": "42",
    "token": None,
}


def test_a_key_is_written_with_its_names_in_order() -> None:
    row = KeyRow(**KEY)  # type: ignore[arg-type]
    text = row.encode()
    assert text == orjson.dumps(KEY, option=orjson.OPT_SORT_KEYS).decode()
    assert KeyRow.decode(text.encode()).encode() == text
    assert row.values() == KEY


def test_a_key_needs_its_secret_alone() -> None:
    assert KeyRow.decode(b'{"secret": "gAAA", "grants": null}') == KeyRow("gAAA")


@pytest.mark.parametrize("data", [b"[", b"[]", b"1", b'{"tenant": "42"}', b'{"secret": "s", "boundary": 1}'])
def test_what_is_no_key_is_said(data: bytes) -> None:
    with pytest.raises((ValueError, KeyError, TypeError, AttributeError)):
        KeyRow.decode(data)


def test_limits_are_written_with_their_names_in_order() -> None:
    text = LimitRow(connections=5, lake_bytes=1 << 30).encode()
    assert text.startswith('{"bytes_per_second":0,"connections":5,"groups":0,"jobs":0,"lake_bytes":1073741824,')
    assert LimitRow.decode(text.encode()) == LimitRow(connections=5, lake_bytes=1 << 30)
    assert LimitRow.decode(b'{"topics": null, "queues": -1, "others": 7}') == LimitRow()


def test_a_broker_has_its_part_of_what_is_sent_and_stored_and_nothing_of_the_consoles_limits() -> None:
    row = LimitRow(connections=5, messages_per_second=3, stored_bytes=10, lake_bytes=7, sql_connections=2)
    assert row.shared(2) == LimitRow(connections=5, messages_per_second=2, stored_bytes=5)
    assert row.shared(1) == LimitRow(connections=5, messages_per_second=3, stored_bytes=10)


@pytest.mark.parametrize("data", [b"[", b"[]", b'{"topics": "many"}', b'{"topics": [1]}'])
def test_limits_that_are_no_numbers_are_said(data: bytes) -> None:
    with pytest.raises((ValueError, TypeError, AttributeError)):
        LimitRow.decode(data)


def test_what_brokers_tell_is_read_back() -> None:
    use = UseRow(connections=3, stored_bytes=9, refused={"rate": 2})
    assert use.encode() == (
        b'{"connections":3,"messages_per_second":0,"bytes_per_second":0,"stored_bytes":9,"queues":0,"refused":{"rate":2}}'
    )
    assert UseRow.decode(use.encode().decode()) == use
    assert UseRow.decode('{"connections": 1, "positions": 5}') == UseRow(connections=1)
    assert (use_field("42", "broker-a"), use_field("", "broker-a")) == ("42/broker-a", "/broker-a")


def test_a_use_of_a_key_is_read_back() -> None:
    used = Used(1_700_000_000_000, "broker", "10.0.0.7")
    assert used.encode() == "1700000000000 broker 10.0.0.7"
    assert Used.decode(used.encode()) == used
    assert Used.decode("1700000000000") == Used(1_700_000_000_000)
    assert Used.decode("") is None and Used.decode("yesterday api x") is None


def test_a_refusal_is_read_back_and_what_it_says_more_is_left_out() -> None:
    refused = Refused("42", "rita@acme", "LTAI1", "SEND_MESSAGE", "denied", "mq:PUB", "t", "10.0.0.7", "no", 3, 1, 2)
    text = refused.encode().decode()
    assert text.startswith('{"tenant":"42","name":"rita@acme","key":"LTAI1","request":"SEND_MESSAGE","kind":"denied",')
    assert Refused.decode(text) == refused
    assert Refused.decode(text.replace("{", '{"newer":1,', 1)) == refused
