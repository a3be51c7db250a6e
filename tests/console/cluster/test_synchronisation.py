"""Rights of AccessKeys on a real Apache RocketMQ 5.3.3: there within a round, gone within one, nobody else touched."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from brokercore.client import Admin, ConsumeResult, Credentials, Message, MessageView, Producer, PushConsumer
from brokercore.client.admin.acl import AclEntry, AclUser, user_subject
from brokercore.client.admin.brokers import Brokers
from brokercore.client.errors import BrokerError, ClientError, NoPermission
from brokercore.client.session import Call, Session
from brokercore.protocol.codes import RequestCode
from console.accounts import policy_documents
from console.accounts import services as accounts
from console.accounts.models import AccessKey, User
from console.accounts.services import users
from console.audit.models import Entry
from console.celery import app
from console.cluster import services, tasks
from console.cluster.models import ClusterUser, State, Synchronisation
from console.instances import broker as clients
from console.instances.models import Cluster
from console.topics import services as topics
from tests.console.cluster.acl2 import allows
from tests.support.apache import ApacheRocketMQ
from tests.support.broker import eventually
from tests.support.cast import Cast, make_group, make_topic

Pair = tuple[AccessKey, Credentials]


@pytest.fixture
def admin(carried: Cluster) -> Admin:
    return clients.admin(carried)


@pytest.fixture
def address(admin: Admin) -> str:
    (found,) = admin.brokers.addresses().values()
    return found


@pytest.fixture
def pam(cast: Cast) -> User:
    """A RAM user who may only publish."""
    wanted = [policy_documents.system_policy("AliyunMQPubOnlyAccess")]
    return accounts.create_user(actor=cast.actor("alice"), name="pam", password="Correct-horse-8", policies=wanted)


def page_of(cast: Cast) -> str:
    return f"/platform/clusters/{cast.cluster.pk}/"


def key_of(cast: Cast, user: User) -> Pair:
    """A new pair of a user."""
    issued = accounts.create_access_key(actor=cast.actor("alice"), user=user)
    key = AccessKey.objects.get(access_key_id=issued.access_key_id)
    return key, Credentials(issued.access_key_id, issued.access_key_secret)


def row_of(key: AccessKey) -> ClusterUser:
    return ClusterUser.objects.get(access_key_id=key.access_key_id)


def test_a_key_publishes_and_receives_what_it_may_and_nothing_else(
    cast: Cast, carried: Cluster, apache: ApacheRocketMQ, pam: User
) -> None:
    orders = make_topic(cast.alice, cast.instance)
    foreign = make_topic(cast.charlie, cast.charlies)
    group = make_group(cast.alice, cast.instance)
    _, publishing = key_of(cast, pam)
    _, everything = key_of(cast, cast.bob)
    assert services.synchronise(carried)

    received: list[bytes] = []
    with (
        Producer(apache.namesrv, publishing, "GID_pam") as producer,
        PushConsumer(apache.namesrv, everything, group.physical_name) as consumer,
    ):

        @consumer.on_message
        def take(message: MessageView) -> ConsumeResult:
            received.append(message.body)
            return ConsumeResult.SUCCESS

        consumer.subscribe(orders.physical_name).start()
        eventually(lambda: producer.send(Message(orders.physical_name, b"hello")) and received, 30)
        with pytest.raises(NoPermission):
            producer.send(Message(foreign.physical_name, b"not mine"))
    with Admin(apache.namesrv, publishing) as denied, pytest.raises(NoPermission):
        denied.groups.stats(group.physical_name)


def test_a_key_that_is_disabled_is_refused_and_works_again_when_enabled(
    cast: Cast, carried: Cluster, apache: ApacheRocketMQ, pam: User
) -> None:
    orders = make_topic(cast.alice, cast.instance)
    key, credentials = key_of(cast, pam)
    services.synchronise(carried)
    with Producer(apache.namesrv, credentials, "GID_pam") as producer:
        producer.send(Message(orders.physical_name, b"before"))
        accounts.set_access_key_enabled(actor=cast.actor("alice"), key=key, enabled=False)
        services.synchronise(carried)
        with pytest.raises(NoPermission):
            producer.send(Message(orders.physical_name, b"after"))
        assert row_of(key).state == State.ENDED
        accounts.set_access_key_enabled(actor=cast.actor("alice"), key=key, enabled=True)
        services.synchronise(carried)
        producer.send(Message(orders.physical_name, b"again"))


def test_topics_and_policies_that_come_and_go_change_the_list(
    cast: Cast, carried: Cluster, admin: Admin, address: str, pam: User
) -> None:
    orders = make_topic(cast.alice, cast.instance)
    key, _ = key_of(cast, pam)

    def listed() -> set[str]:
        services.synchronise(carried)
        found = admin.acl.lists(address).get(user_subject(key.access_key_id))
        return {entry.resource for entry in found.entries} if found else set()

    assert listed() == {f"Topic:{orders.physical_name}"}
    bills = make_topic(cast.alice, cast.instance, "bills")
    assert listed() == {f"Topic:{orders.physical_name}", f"Topic:{bills.physical_name}"}
    topics.delete_topic(actor=cast.actor("alice"), topic=orders)
    assert listed() == {f"Topic:{bills.physical_name}"}
    users.detach_policy(
        actor=cast.actor("alice"), user=pam, policy=policy_documents.system_policy("AliyunMQPubOnlyAccess")
    )
    assert listed() == set()
    assert admin.acl.users(address)[key.access_key_id].status == "enable"


def test_a_change_asks_a_worker_to_carry_it_over(
    cast: Cast, carried: Cluster, monkeypatch: pytest.MonkeyPatch, django_capture_on_commit_callbacks: Any
) -> None:
    asked: list[str] = []
    monkeypatch.setattr(app, "send_task", lambda name, **_: asked.append(name))
    with django_capture_on_commit_callbacks(execute=True):
        make_topic(cast.alice, cast.instance)
        make_group(cast.alice, cast.instance)
        key_of(cast, cast.bob)
    assert asked == ["console.cluster.tasks.synchronise"] * 3


def test_what_somebody_changed_on_a_broker_is_mended_and_strangers_are_left_alone(
    cast: Cast, carried: Cluster, admin: Admin, address: str
) -> None:
    make_topic(cast.alice, cast.instance)
    key, credentials = key_of(cast, cast.bob)
    ended, _ = key_of(cast, cast.bob)
    stranger = AclUser("somebody-else", "their-own-secret")
    admin.acl.create_user(address, stranger)
    admin.acl.set_entries(address, user_subject(stranger.username), [AclEntry("Topic:*", ("Pub",))])
    try:
        services.synchronise(carried, thorough=True)
        before = admin.acl.lists(address)
        accounts.delete_access_key(actor=cast.actor("alice"), key=ended)
        services.synchronise(carried)

        admin.acl.set_entries(address, user_subject(key.access_key_id), [AclEntry("Topic:*", ("All",))])
        admin.acl.update_user(address, AclUser(key.access_key_id, "another-secret", "Super"))
        admin.acl.update_user(address, AclUser(key.access_key_id, "another-secret", "Normal"))
        admin.acl.create_user(address, AclUser(ended.access_key_id, "came-back-with-a-broker"))
        services.synchronise(carried, thorough=True)

        now = admin.acl.users(address)
        assert now[key.access_key_id] == AclUser(key.access_key_id, credentials.access_key_secret)
        assert ended.access_key_id not in now
        assert now[stranger.username] == stranger
        assert _same(admin.acl.lists(address)[user_subject(key.access_key_id)], before[user_subject(key.access_key_id)])
        assert admin.acl.lists(address)[user_subject(stranger.username)] == before[user_subject(stranger.username)]
    finally:
        admin.acl.delete_user(address, stranger.username)


def _same(one: Any, other: Any) -> bool:
    return {entry.resource: set(entry.actions) for entry in one.entries} == {
        entry.resource: set(entry.actions) for entry in other.entries
    }


def test_a_user_of_the_same_name_that_gantry_did_not_make_is_left_as_it_is(
    cast: Cast, carried: Cluster, admin: Admin, address: str
) -> None:
    key, _ = key_of(cast, cast.bob)
    theirs = AclUser(key.access_key_id, "not-the-secret-of-the-key")
    admin.acl.create_user(address, theirs)
    try:
        services.synchronise(carried)
        assert row_of(key).state == State.REFUSED
        assert "that Gantry did not create" in row_of(key).error
        accounts.delete_access_key(actor=cast.actor("alice"), key=key)
        services.synchronise(carried, thorough=True)
        assert admin.acl.users(address)[theirs.username] == theirs
    finally:
        admin.acl.delete_user(address, theirs.username)


def test_an_outage_is_told_and_what_ended_meanwhile_ends_afterwards(
    cast: Cast, carried: Cluster, admin: Admin, address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    key, _ = key_of(cast, cast.bob)
    services.synchronise(carried, thorough=True)
    assert not services.unfinished(carried)
    accounts.delete_access_key(actor=cast.actor("alice"), key=key)
    away = Admin("127.0.0.1:9", Credentials("nobody", "there"))
    with monkeypatch.context() as patched:
        patched.setattr(clients, "admin", lambda _: away)
        tasks.synchronise()
        page = cast.client("petra").get(page_of(cast)).content.decode()
    assert services.unfinished(carried)
    assert "No connection to 127.0.0.1:9" in Synchronisation.objects.get(cluster=carried).error
    assert "does not answer" in page
    assert row_of(key).state == State.ENDING
    tasks.sweep()
    assert row_of(key).state == State.ENDED
    assert key.access_key_id not in admin.acl.users(address)


def test_a_broker_that_is_away_keeps_no_other_waiting(
    cast: Cast, carried: Cluster, address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    key, _ = key_of(cast, cast.bob)
    with monkeypatch.context() as patched:
        patched.setattr(Brokers, "addresses", lambda _: {"broker-a": address, "broker-b": "127.0.0.1:9"})
        assert not services.synchronise(carried)
    assert row_of(key).state == State.PENDING
    assert row_of(key).error == "broker-b: No connection to 127.0.0.1:9: Connection refused."
    assert key.access_key_id in clients.admin(carried).acl.users(address)
    tasks.sweep()
    assert (row_of(key).state, row_of(key).error) == (State.SYNCED, "")


def test_a_broker_that_asks_nobody_for_a_key_is_shown(
    cast: Cast, carried: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    def page() -> str:
        services.synchronise(carried, thorough=True)
        return cast.client("petra").get(page_of(cast)).content.decode()

    assert "everyone may do everything" not in page()
    monkeypatch.setattr(Brokers, "config", lambda *_: {"authenticationEnabled": "true"})
    assert "broker-a: everyone may do everything there" in page()


def test_the_page_tells_how_far_each_key_is_and_where_its_list_is_narrower(
    cast: Cast, carried: Cluster, pam: User
) -> None:
    key, _ = key_of(cast, pam)
    rows = [{"Effect": "Deny", "Action": "mq:PUB", "Resource": "*", "Condition": {"Bool": {"acs:MFAPresent": "false"}}}]
    made = accounts.create_policy(
        actor=cast.actor("alice"), name="with-mfa", description="", document={"Version": "1", "Statement": rows}
    )
    users.attach_policy(actor=cast.actor("alice"), user=pam, policy=made)
    services.synchronise(carried, thorough=True)
    page = cast.client("petra").get(page_of(cast)).content.decode()
    assert key.access_key_id in page
    assert "In sync" in page
    assert "Policy with-mfa denies under a condition (acs:MFAPresent); on the brokers it always denies." in page
    assert cast.client("petra").get(f"{page_of(cast)}?q=nobody").content.decode().count(key.access_key_id) == 0


def test_the_administrator_can_have_everything_compared(
    cast: Cast, carried: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []
    monkeypatch.setattr(app, "send_task", lambda name, **_: asked.append(name))
    assert cast.client("petra").post(f"{page_of(cast)}synchronise/").status_code == 302
    assert asked == ["console.cluster.tasks.repair"]
    assert Entry.objects.filter(action="platform.cluster.synchronise").count() == 1


# The evaluator that test_translation.py trusts, asked against the broker itself.

LISTS = {
    "a literal name": [AclEntry("Topic:cl-a", ("Pub", "Get"))],
    "a beginning": [AclEntry("Topic:cl-*", ("Pub",)), AclEntry("Group:cl-*", ("Sub",))],
    "a literal denial in an allowed beginning": [
        AclEntry("Topic:cl-*", ("Pub", "Get")),
        AclEntry("Topic:cl-a", ("Pub",), (), "Deny"),
    ],
    "a literal allow in a denied beginning": [
        AclEntry("Topic:cl-*", ("Pub", "Get"), (), "Deny"),
        AclEntry("Topic:cl-a", ("Pub",)),
    ],
    "a beginning in another": [
        AclEntry("Topic:cl*", ("Pub",), (), "Deny"),
        AclEntry("Topic:cl-b*", ("Pub",)),
    ],
    "addresses": [
        AclEntry("Topic:cl-a", ("Pub",), ("127.0.0.0/8",)),
        AclEntry("Topic:cl-b", ("Pub",), ("10.0.0.0/8",)),
        AclEntry("Topic:cl-c", ("Pub",), ("::/0",)),
        AclEntry("Group:cl-a", ("Sub",), ("127.0.0.1",)),
    ],
}
_REQUESTS = {
    ("Topic", "Pub"): (RequestCode.SEND_MESSAGE, "topic"),
    ("Topic", "Get"): (RequestCode.GET_MAX_OFFSET, "topic"),
    ("Group", "Sub"): (RequestCode.CONSUMER_SEND_MSG_BACK, "group"),
}


@pytest.fixture
def prober(admin: Admin, address: str, apache: ApacheRocketMQ) -> Iterator[Session]:
    """A user whose list a test sets."""
    admin.acl.create_user(address, AclUser("prober", "prober-secret"))
    session = Session(apache.namesrv, Credentials("prober", "prober-secret"))
    yield session
    session.close()
    admin.acl.delete_user(address, "prober")


@pytest.mark.parametrize("name", LISTS)
def test_the_evaluator_of_the_tests_decides_as_the_broker_does(
    name: str, admin: Admin, address: str, prober: Session
) -> None:
    entries = LISTS[name]
    admin.acl.set_entries(address, user_subject("prober"), entries)
    for (kind, action), (code, member) in _REQUESTS.items():
        for asked in ("cl-a", "cl-b", "cl-c", "cl", "else"):
            expected = allows(entries, kind, asked, action, "127.0.0.1")
            assert _passes(prober, address, code, {member: asked}) is expected, (kind, action, asked)


def test_requests_that_no_list_holds_back(admin: Admin, address: str, apache: ApacheRocketMQ, cast: Cast) -> None:
    """Facts of 5.3.3 that docs/operate/cluster.md warns of; a release in which this fails is a better one."""
    orders, group = make_topic(cast.alice, cast.instance), make_group(cast.alice, cast.instance)
    with Producer(apache.namesrv, clients.system_credentials(), "GID_system") as producer:
        sent = producer.send(Message(orders.physical_name, b"not for everybody"))
    admin.acl.create_user(address, AclUser("nobody", "nobodys-secret"))
    pull = {"topic": orders.physical_name, "consumerGroup": group.physical_name, "queueId": str(sent.queue.queue_id)}
    pull |= {"queueOffset": "0", "maxMsgNums": "1", "sysFlag": "4", "subscription": "*"}
    pull |= dict.fromkeys(("commitOffset", "suspendTimeoutMillis", "subVersion"), "0")
    try:
        with Admin(apache.namesrv, Credentials("nobody", "nobodys-secret")) as nobody:
            with pytest.raises(NoPermission):
                nobody.session.call(Call(address, RequestCode.PULL_MESSAGE, pull))
            answer = nobody.session.call(Call(address, RequestCode.LITE_PULL_MESSAGE, pull))
            assert b"not for everybody" in answer.body
            assert apache.admin_secret in nobody.brokers.config("broker-a")["initAuthenticationUser"]
            admin.acl.delete_user(address, "nobody")
            with pytest.raises(NoPermission):
                nobody.session.call(Call(address, RequestCode.LITE_PULL_MESSAGE, pull))
    finally:
        admin.acl.delete_user(address, "nobody")


def _passes(session: Session, address: str, code: RequestCode, ext: dict[str, str]) -> bool:
    """False when the list refused; whatever else is wrong with the request comes after that."""
    try:
        session.call(Call(address, code, ext | {"queueId": "0"}))
    except NoPermission as refused:
        return "has no permission to access" not in str(refused)
    except BrokerError:
        return True
    except ClientError as error:
        raise AssertionError(f"no answer to {code.name}: {error}") from error
    return True


def test_pages_do_not_promise_what_only_the_embedded_broker_does(cast: Cast, carried: Cluster) -> None:
    key_of(cast, cast.alice)
    keys = cast.client("alice").get("/keys/").content.decode()
    assert "do not report uses" in keys
    assert "not known" in keys
    assert "within ten seconds" in keys
    assert "do not accept temporary keys" in cast.client("alice").get("/roles/assume/").content.decode()
