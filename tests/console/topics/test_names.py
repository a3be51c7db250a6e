"""The rules of names, told a second time by hand and compared over many names."""

from __future__ import annotations

import string
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from console.topics.names import (
    checked_group_id,
    checked_remark,
    checked_topic_name,
    may_be_adopted,
)
from console.web.errors import Refused

ALLOWED = set(string.ascii_letters + string.digits + "-_")
NEARLY = st.one_of(
    st.text(alphabet=sorted(ALLOWED), max_size=70),
    st.text(max_size=70),
    st.builds(
        str.__add__, st.sampled_from(["CID", "GID", "GID_", "GID-", "CID-", "gid_"]), st.text("aZ0_-% é", max_size=66)
    ),
    st.builds(str.__add__, st.text(sorted(ALLOWED), min_size=60, max_size=64), st.sampled_from(["", "\n", "%", " "])),
)


def _accepted(check: Any, name: str) -> bool:
    try:
        return bool(check(name) == name)
    except Refused as refused:
        assert refused.symbol == "BIZ_FIELD_CHECK_INVALID"
        return False


@given(NEARLY)
@example("a" * 3)
@example("a" * 127)
@example("a" * 128)
@example("GIDdata")
@example("cid_data")
@example("orders\n")
def test_topic_names_have_3_to_127_of_the_characters_and_no_group_prefix(name: str) -> None:
    expected = 3 <= len(name) <= 127 and set(name) <= ALLOWED and name[:3] not in ("CID", "GID")
    assert _accepted(checked_topic_name, name) == expected


@given(NEARLY)
@example("GID_")
@example("GID_1")
@example("GID-" + "x" * 60)
@example("GID-" + "x" * 61)
@example("CID_1")
@example("GID_1\n")
def test_group_ids_begin_with_their_prefix_and_have_5_to_64_of_the_characters(name: str) -> None:
    expected = 5 <= len(name) <= 64 and set(name) <= ALLOWED and name[:4] in ("GID_", "GID-")
    assert _accepted(checked_group_id, name) == expected


@given(NEARLY)
def test_no_name_is_a_topics_and_a_groups(name: str) -> None:
    assert not (_accepted(checked_topic_name, name) and _accepted(checked_group_id, name))
    assert not (may_be_adopted(name, group=False) and may_be_adopted(name, group=True) and name[:3] in ("CID", "GID"))


@given(NEARLY)
def test_what_can_be_created_can_be_adopted(name: str) -> None:
    if _accepted(checked_topic_name, name):
        assert may_be_adopted(name, group=False)
    if _accepted(checked_group_id, name):
        assert may_be_adopted(name, group=True)


@pytest.mark.parametrize("name", ["CID-old", "CID_old", "PID-old", "PID_old"])
def test_ids_of_old_are_taken_over_and_not_created(name: str) -> None:
    assert may_be_adopted(name, group=True)
    assert not _accepted(checked_group_id, name)


def test_the_longest_topic_name_is_a_setting(settings: Any) -> None:
    settings.TOPIC_NAME_MAX = 10
    assert not _accepted(checked_topic_name, "a" * 11)


def test_a_namespace_leaves_the_rest_of_127_characters() -> None:
    namespace = "MQ_INST_1234567890123456_AbCdEf12%"
    assert checked_topic_name("a" * 93, namespace) == "a" * 93
    with pytest.raises(Refused) as refused:
        checked_topic_name("a" * 94, namespace)
    assert refused.value.message == (
        "A topic name has 3 to 93 letters, digits, - or _ here: of RocketMQ's 127 characters the instance's namespace"
        " takes 34."
    )


@given(st.text(max_size=300))
def test_remarks_have_at_most_256_characters(remark: str) -> None:
    if len(remark) > 256:
        with pytest.raises(Refused):
            checked_remark(remark)
    else:
        assert checked_remark(remark) == remark.strip()
