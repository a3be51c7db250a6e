"""The ACL table: what is compiled into it, and that the broker lives by it."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import AbstractContextManager

import pytest
import redis

from brokercore.client import Admin, Credentials, Message, Producer
from brokercore.client.errors import BrokerError, NoPermission, TopicNotExist
from brokercore.policy.table import HOLDERS, KEYS, VERSION, KeyRow, RateRow
from console.accounts import services
from console.accounts.models import AccessKey
from console.accounts.services import IssuedKey
from console.instances.models import DEFAULT_TPS
from console.rights import access_table
from console.topics import holdings
from console.topics import services as topics
from console.topics.models import Grant, Relation
from tests.support.broker import BrokerProcess
from tests.support.cast import Cast, make_group, make_instance, make_topic
from tests.support.patience import Patience
from tests.support.roles import role_key

DEADLINE_SECONDS = 5.0


def _key(cast: Cast, name: str) -> IssuedKey:
    return services.create_access_key(actor=cast.actor("alice"), user=cast.users[name])


def test_an_entry_names_the_user_and_stays_inside_the_account(cast: Cast) -> None:
    issued = _key(cast, "rita")
    entry = access_table.compiled()[issued.access_key_id]
    assert entry.principal == "rita@acme"
    assert entry.tenant == cast.acme.uid
    assert entry.boundary == [f"acs:mq:*:*:MQ_INST_{cast.acme.uid}_*", f"acs:mns:*:{cast.acme.uid}:*"]
    assert entry.statements == [
        {"Effect": "Allow", "Action": ["mq:Query*"], "Resource": "*", "Source": "AliyunMQReadOnlyAccess"},
        {
            "Effect": "Allow",
            "Action": ["mns:Get*", "mns:List*", "mns:PeekMessage"],
            "Resource": "*",
            "Source": "AliyunMNSReadOnlyAccess",
        },
    ]
    assert issued.access_key_secret not in str(entry)


def test_bare_names_of_the_default_instance_are_its_accounts_and_in_no_keys_row(cast: Cast) -> None:
    bare = make_instance(cast.alice, cast.cluster, name="bare", independent_naming=False)
    make_topic(cast.alice, bare, "bare-topic")
    make_group(cast.alice, bare, "GID_bare")
    ours, theirs = _key(cast, "alice"), services.create_access_key(actor=cast.actor("charlie"), user=cast.charlie)
    table = access_table.compiled()
    assert holdings.owners()["bare-topic"] == cast.acme.uid
    assert holdings.holders()["GID_bare"] == f"{cast.acme.uid}/*"
    for key in (ours, theirs):
        assert "bare" not in table[key.access_key_id].encode(), "with thousands of names, a row would be all of them"


def test_disabled_and_expired_keys_and_keys_of_disabled_users_are_absent(cast: Cast) -> None:
    disabled, of_disabled, expired = _key(cast, "alice"), _key(cast, "bob"), _key(cast, "rita")
    key = cast.alice.access_keys.get(access_key_id=disabled.access_key_id)
    services.set_access_key_enabled(actor=cast.actor("alice"), key=key, enabled=False)
    services.set_user_enabled(actor=cast.actor("alice"), user=cast.bob, enabled=False)
    cast.rita.access_keys.update(expires_at="2020-01-01T00:00:00Z")
    assert not access_table.compiled().keys() & {
        disabled.access_key_id,
        of_disabled.access_key_id,
        expired.access_key_id,
    }


def test_a_grant_reaches_every_key_of_the_grantees_account(cast: Cast) -> None:
    topic = make_topic(cast.alice, cast.instance)
    Grant.objects.create(topic=topic, tenant=cast.charlies.tenant, relation=Relation.SUBSCRIBE)
    issued = services.create_access_key(actor=cast.actor("charlie"), user=cast.charlie)
    (granted,) = access_table.compiled()[issued.access_key_id].delegated
    assert granted["Resource"] == [f"acs:mq:*:*:{topic.physical_name}"]
    assert "mq:SUB" in granted["Action"]
    assert "mq:PUB" not in granted["Action"]


def test_a_role_key_has_its_token_and_its_expiry(cast: Cast) -> None:
    issued = role_key(cast.actor("alice"), "AliyunMQFullAccess")
    entry = access_table.compiled()[issued.access_key_id]
    assert entry.token == issued.security_token
    assert issued.expires_at is not None
    assert entry.expires_ms == int(issued.expires_at.timestamp() * 1000)


def test_publishing_twice_changes_the_version_once(cast: Cast, broker: BrokerProcess) -> None:
    client = redis.Redis.from_url(f"{broker.redis_url}?db=0", decode_responses=True)
    issued = _key(cast, "alice")
    assert access_table.publish()
    version = client.get(VERSION)
    assert not access_table.publish()
    assert client.get(VERSION) == version
    assert client.hexists(KEYS, issued.access_key_id)


def test_every_change_is_published_on_commit(
    cast: Cast, broker: BrokerProcess, django_capture_on_commit_callbacks: Callable[..., AbstractContextManager[object]]
) -> None:
    with django_capture_on_commit_callbacks(execute=True):
        issued = _key(cast, "bob")
    client = redis.Redis.from_url(f"{broker.redis_url}?db=0", decode_responses=True)
    assert client.hexists(KEYS, issued.access_key_id)


def test_the_broker_lets_a_key_in_refuses_what_its_policy_lacks_and_drops_a_disabled_one(cast: Cast) -> None:
    topic = make_topic(cast.alice, cast.instance)
    writer, reader = _key(cast, "bob"), _key(cast, "rita")
    access_table.publish()
    _until(lambda: _send(cast, writer, topic.physical_name) is None)
    refused = _send(cast, reader, topic.physical_name)
    assert isinstance(refused, NoPermission)
    assert "mq:PUB" in refused.text
    key = cast.bob.access_keys.get()
    services.set_access_key_enabled(actor=cast.actor("alice"), key=key, enabled=False)
    access_table.publish()
    _until(lambda: isinstance(_send(cast, writer, topic.physical_name), NoPermission), seconds=2)


def test_another_accounts_administrator_is_refused_by_the_broker(cast: Cast) -> None:
    topic = make_topic(cast.alice, cast.instance)
    stranger = services.create_access_key(actor=cast.actor("charlie"), user=cast.charlie)
    access_table.publish()
    credentials = Credentials(stranger.access_key_id, stranger.access_key_secret)
    with Admin(cast.cluster.namesrv, credentials) as admin:
        _until(lambda: not isinstance(_answer(admin.topics.names), NoPermission))
        assert topic.physical_name not in admin.topics.names()
        assert isinstance(_answer(lambda: admin.topics.stats(topic.physical_name)), TopicNotExist)


def test_an_instance_is_held_to_its_rate_and_a_bare_topic_to_that_of_its_instance(cast: Cast) -> None:
    slow = make_instance(cast.alice, cast.cluster, name="slow", max_send_tps=5, max_receive_tps=7)
    bare = make_instance(cast.alice, cast.cluster, name="bare", independent_naming=False, max_send_tps=6)
    rates = dict(holdings.rates())
    assert rates[slow.instance_id] == RateRow(slow.instance_id, 5, 7)
    assert rates[cast.acme.uid] == RateRow(bare.instance_id, 6, DEFAULT_TPS)
    topic = make_topic(cast.alice, slow, "slow-orders")
    issued = _key(cast, "alice")
    access_table.publish()

    def refusal() -> str:
        error = _send(cast, issued, topic.physical_name)
        return str(error) if isinstance(error, BrokerError) and error.code == 215 else ""

    _until(lambda: bool(refusal()))
    assert f"instance {slow.instance_id} may send 5 messages a second" in refusal()


def _send(cast: Cast, key: IssuedKey, topic: str) -> Exception | None:
    credentials = Credentials(key.access_key_id, key.access_key_secret)
    with Producer(cast.cluster.namesrv, credentials, "GID_any") as producer:
        return _answer(lambda: producer.send(Message(topic, b"hello")))


def _answer(call: Callable[[], object]) -> Exception | None:
    try:
        call()
    except BrokerError as error:
        return error
    return None


def _until(holds: Callable[[], bool], seconds: float = DEADLINE_SECONDS) -> None:
    patience = Patience(seconds)
    while not holds():
        if patience.is_over():
            pytest.fail(f"not within {seconds} s")
        time.sleep(0.05)


def test_a_publisher_that_read_before_another_wrote_compiles_again(
    cast: Cast, broker: BrokerProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    issued = _key(cast, "alice")
    compiled, stale = access_table.compiled, [True]

    def overtaken() -> dict[str, KeyRow]:
        table = compiled()
        if stale.pop() if stale else False:
            AccessKey.objects.filter(access_key_id=issued.access_key_id).update(enabled=False)
            access_table.publish()
        return table

    access_table.publish()
    monkeypatch.setattr(access_table, "compiled", overtaken)
    access_table.publish()
    client = redis.Redis.from_url(f"{broker.redis_url}?db=0", decode_responses=True)
    assert not client.hexists(KEYS, issued.access_key_id)


def test_a_new_group_is_published_alone(
    cast: Cast, broker: BrokerProcess, django_capture_on_commit_callbacks: Callable[..., AbstractContextManager[object]]
) -> None:
    client = redis.Redis.from_url(f"{broker.redis_url}?db=0", decode_responses=True)
    with django_capture_on_commit_callbacks(execute=True):
        group = make_group(cast.bob, cast.instance, "GID_of_bob", shared=False)
    assert client.hget(HOLDERS, group.physical_name) == f"{cast.acme.uid}/bob@acme"
    with django_capture_on_commit_callbacks(execute=True):
        topics.delete_group(actor=cast.actor("bob"), group=group)
    assert client.hget(HOLDERS, group.physical_name) is None
