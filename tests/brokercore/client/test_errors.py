"""Errors by code."""

from __future__ import annotations

from brokercore.client import errors
from brokercore.protocol.codes import ResponseCode


def test_each_code_has_its_class_and_others_are_plain() -> None:
    assert isinstance(errors.for_code(16, "no", "a:1"), errors.NoPermission)
    assert isinstance(errors.for_code(206, "no", "a:1"), errors.ConsumerNotOnline)
    assert type(errors.for_code(4711, "no", "a:1")) is errors.BrokerError


def test_the_user_reads_what_it_is_and_the_brokers_reason() -> None:
    error = errors.for_code(ResponseCode.TOPIC_NOT_EXIST, "No route of t.\nSee https://help", "a:1")
    assert error.user_message == "The topic does not exist: No route of t."
    assert errors.for_code(ResponseCode.SYSTEM_BUSY, None, "a:1").user_message == "the broker is busy; try again later"


def test_only_what_may_pass_later_is_retriable() -> None:
    assert errors.for_code(2, None, "a:1").retriable
    assert not errors.for_code(16, None, "a:1").retriable


def test_a_refusal_of_acl_1_is_one_whatever_its_code() -> None:
    text = (
        "org.apache.rocketmq.acl.common.AclException: No default permission for TopicA, "
        "org.apache.rocketmq.acl.plain.PlainPermissionManager.checkPerm(PlainPermissionManager.java:600)"
    )
    error = errors.for_code(1, text, "127.0.0.1:10911")
    assert isinstance(error, errors.NoPermission) and not error.retriable
    assert error.text == "No default permission for TopicA"
