"""`mq-notify-by=mns`: the end of a statement is told to a queue of the account, at a real queue service."""

from __future__ import annotations

import base64
import json
import socket
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from datetime import timedelta
from typing import Any

import pytest
from django.conf import settings as django_settings
from django.test import Client
from django.urls import reverse
from django.utils import timezone
from mns.account import Account

from brokercore.smq.client import QueueClient
from brokercore.smq.wire.errors import SmqError
from console.accounts.actor import Actor
from console.accounts.models import Policy, User
from console.outbox import queues as to_queues
from console.outbox import tasks as outbox_tasks
from console.outbox.models import Notification, NotificationStatus
from console.sql import hint_builder, lifecycle, queries, services, specs
from console.sql.lifecycle import Outcome
from console.sql.models import QueryTask, TaskStatus
from console.statements import read
from console.web.errors import Refused
from tests.support.broker import eventually
from tests.support.queue_service import PATIENCE_SECONDS, QueueServiceProcess, queue_service
from tests.support.redis_server import RedisServer
from tests.support.sql_cast import ALLOW_SQL, Cast, allow

pytestmark = pytest.mark.django_db(transaction=True)
MAY_SEND = {
    "Version": "1",
    "Statement": [{"Effect": "Allow", "Action": "mns:SendMessage", "Resource": "acs:mns:*:*:/queues/done-*/messages"}],
}


@pytest.fixture(scope="module")
def running(redis: RedisServer) -> Iterator[QueueServiceProcess]:
    with queue_service(redis) as process:
        yield process


@pytest.fixture
def service(running: QueueServiceProcess, settings: Any, handed_over: list[str], kicked: list[int]) -> Any:
    """The console knows the service, and its key is the console's own."""
    settings.SMQ_ADDRESS, settings.SMQ_PORT = running.address, running.port
    settings.BROKER_ACCESS_KEY_ID = running.access_key_id
    settings.BROKER_ACCESS_KEY_SECRET = running.access_key_secret
    return running


@contextmanager
def queue(actor: Actor, name: str, **attributes: int) -> Iterator[QueueClient]:
    """A queue of the actor's account, empty."""
    with closing(to_queues.own_service(actor.tenant, QueueClient)) as client:
        client.delete_queue(name)
        client.create_queue(name, attributes)
        yield client
        client.delete_queue(name)


def hint(actor: Actor, name: str = "done-q", **changed: str) -> str:
    values = {"mq-topic": name, "mq-endpoint": to_queues.address_of(actor.tenant)} | changed
    return "/*+ run_async=true, mq-notify-by=mns, " + ", ".join(f"{k}={v}" for k, v in values.items()) + " */"


def ended(actor: Actor, front: str) -> QueryTask:
    """A statement that was submitted with this hint and has ended, its notification tried once."""
    task = services.submit(actor, read(f"{front} select 1"), "demo")
    claimed = lifecycle.claim(task.pk, "w")
    assert claimed is not None
    assert lifecycle.end(claimed, Outcome(TaskStatus.SUCCESS, row_count=1))
    return tried(task)


def tried(task: QueryTask) -> QueryTask:
    found = QueryTask.objects.select_related("notification", "creator").get(pk=task.pk)
    assert found.notification is not None
    outbox_tasks.deliver(found.notification.pk)
    return QueryTask.objects.select_related("notification", "creator").get(pk=task.pk)


def why_failed(task: QueryTask) -> str:
    row = queries.row_of(task)
    assert (row["status"], row["mq_status"], row["mq_message_id"]) == ("SUCCESS", "FAILURE", None)
    return str(row["mq_error_msg"])


@pytest.mark.parametrize(
    "written",
    [
        "/*+ run_async=true, mq-notify-by=mns, mq-topic=done-q, mq-endpoint={endpoint} */",
        "/*+ run_async=true, mq-notify-by=mns, mq-queue=done-q, mq-endpoint={endpoint} */",
        "/* + RUN-ASYNC = true, MQ_NOTIFY_BY = MNS , mq_topic ='done-q', MQ-Endpoint= \"{endpoint}/\" */",
        "/*+ run_async=true, mq-notify-by=mns, mq-topic=ignored, mq-queue=done-q, mq-endpoint={endpoint} */",
    ],
)
def test_the_end_of_a_statement_is_a_message_in_the_queue(
    service: QueueServiceProcess, cast: Cast, written: str
) -> None:
    endpoint = to_queues.address_of(cast.alice.tenant)
    with queue(cast.alice, "done-q") as client:
        task = ended(cast.alice, written.format(endpoint=endpoint))
        row = queries.row_of(task)
        assert (row["mq_product"], row["mq_model"], row["mq_queue"]) == ("mns", "queue", "done-q")
        assert (row["mq_status"], row["mq_error_msg"]) == ("SUCCESS", None)
        assert isinstance(row["mq_total_time"], int)
        (message,) = client.receive("done-q", 16)
        assert message.id == row["mq_message_id"]
        told = json.loads(base64.b64decode(message.body, validate=True))
        assert (told["id"], told["status"], told["row_count"], told["mq_queue"]) == (task.pk, "SUCCESS", 1, "done-q")


def test_the_vendors_sdk_reads_it_as_it_reads_everything(service: QueueServiceProcess, cast: Cast) -> None:
    keys = service.keys(account=cast.alice.tenant.uid)
    with queue(cast.alice, "done-q"):
        task = ended(cast.alice, hint(cast.alice))
        received = Account(service.address, keys.id, keys.secret).get_queue("done-q").receive_message()
    assert json.loads(received.message_body)["id"] == task.pk
    assert received.message_id == queries.row_of(task)["mq_message_id"]


def test_the_tasks_page_leads_to_the_queue(service: QueueServiceProcess, cast: Cast, client: Client) -> None:
    client.force_login(cast.alice.person)
    with queue(cast.alice, "done-q"):
        task = ended(cast.alice, hint(cast.alice))
    page = client.get(reverse("sql.task", args=[task.pk])).text
    assert f'<a href="{reverse("queues.detail", args=["done-q"])}">notified</a>' in page


def test_delivered_twice_it_has_the_same_id_in_its_body(service: QueueServiceProcess, cast: Cast) -> None:
    with queue(cast.alice, "done-q") as client:
        task = ended(cast.alice, hint(cast.alice))
        Notification.objects.update(status=NotificationStatus.SENDING, claimed_at=timezone.now() - timedelta(hours=1))
        tried(task)
        found = [json.loads(base64.b64decode(m.body))["id"] for m in client.receive("done-q", 16)]
        assert found == [task.pk, task.pk]


@pytest.mark.parametrize(
    "address",
    [
        "http://{uid}.mns.{region}",
        "{uid}.mns.{region}.localhost",
        "http://{uid}.mns.{region}-internal.aliyuncs.com/",
        "HTTP://{uid}.MNS.{region}-internal-vpc.aliyuncs.com",
        "http://127.0.0.1:{port}",
    ],
)
def test_each_way_to_write_the_accounts_own_service_is_right(
    service: QueueServiceProcess, cast: Cast, address: str
) -> None:
    endpoint = address.format(uid=cast.alice.tenant.uid, region=django_settings.REGION, port=service.port)
    with queue(cast.alice, "done-q"):
        assert queries.row_of(ended(cast.alice, hint(cast.alice, **{"mq-endpoint": endpoint})))["mq_error_msg"] is None


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        ({"mq-endpoint": ""}, "mq-endpoint is missing"),
        ({"mq-topic": ""}, "mq-topic is missing"),
        ({"mq-topic": "nowhere"}, "refused the message for 'nowhere': QueueNotExist"),
        ({"mq-topic": "a b/c"}, "refused the message for 'a b/c'"),
        ({"mq-endpoint": "two words"}, "is not an address"),
        ({"mq-endpoint": "http://1.mns.mq-private"}, "names another account"),
        ({"mq-endpoint": "http://{uid}.mns.elsewhere"}, "not in the query service's region mq-private"),
        ({"mq-endpoint": "http://{uid}.mns.mq-private.example.com"}, "neither this installation's queue service"),
        ({"mq-endpoint": "http://169.254.169.254"}, "neither this installation's queue service"),
        ({"mq-endpoint": "http://127.0.0.1:1"}, "neither this installation's queue service"),
        ({"mq-endpoint": "http://aliyuncs.com"}, "neither this installation's queue service"),
    ],
)
def test_it_says_what_is_wrong(service: QueueServiceProcess, cast: Cast, changed: dict[str, str], reason: str) -> None:
    values = {name: value.replace("{uid}", cast.alice.tenant.uid) for name, value in changed.items()}
    assert reason in why_failed(ended(cast.alice, hint(cast.alice, **values)))


def test_a_message_larger_than_the_queue_takes_fails_with_the_reason(service: QueueServiceProcess, cast: Cast) -> None:
    with queue(cast.alice, "done-q", MaximumMessageSize=1024):
        assert "refused the message for 'done-q'" in why_failed(ended(cast.alice, hint(cast.alice, note="x" * 1024)))


def test_the_author_needs_the_right_when_it_is_sent_and_not_only_when_it_was_written(
    service: QueueServiceProcess, cast: Cast
) -> None:
    bob = allow(User.objects.get(pk=cast.bob.person.pk), ALLOW_SQL)
    with queue(cast.alice, "done-q") as client, queue(cast.alice, "other"):
        task = ended(bob, hint(bob))
        assert "bob@demo may not send to queue done-q" in why_failed(task)
        policy = Policy.objects.create(tenant=cast.alice.tenant, name="send", document=MAY_SEND)
        bob.person.policies.add(policy)
        assert services.send_notification_again(Actor(User.objects.get(pk=bob.person.pk)), task)
        assert queries.row_of(tried(task))["mq_status"] == "SUCCESS"
        assert len(client.receive("done-q", 16)) == 1
        assert "may not send to queue other" in why_failed(ended(bob, hint(bob, "other")))
        User.objects.filter(pk=bob.person.pk).update(is_active=False)
        found = QueryTask.objects.select_related("notification").get(pk=task.pk)
        assert found.notification is not None
        assert specs.author_of_notification(found.notification) is None


def test_a_queue_of_another_account_of_the_same_name_gets_nothing(service: QueueServiceProcess, cast: Cast) -> None:
    with queue(cast.alice, "done-q") as mine, queue(cast.charlie, "done-q") as other:
        ended(cast.alice, hint(cast.alice))
        assert (len(mine.receive("done-q")), len(other.receive("done-q"))) == (1, 0)


def test_a_service_that_is_away_is_tried_again(service: QueueServiceProcess, cast: Cast, settings: Any) -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        away = f"http://127.0.0.1:{closed.getsockname()[1]}"
        settings.SMQ_ADDRESS = away
        task = ended(cast.alice, hint(cast.alice))
    assert task.notification is not None
    assert (task.notification.status, task.notification.attempts) == (NotificationStatus.PENDING, 1)
    assert away in task.notification.error
    settings.SMQ_ADDRESS = service.address
    Notification.objects.update(due_at=timezone.now())
    with queue(cast.alice, "done-q") as client:
        assert queries.row_of(tried(task))["mq_status"] == "SUCCESS"
        assert len(client.receive("done-q")) == 1


def test_an_account_whose_queues_are_full_is_tried_again(service: QueueServiceProcess, cast: Cast) -> None:
    with queue(cast.alice, "done-q", MaximumMessageSize=2048) as client:
        service.limit(cast.alice.tenant.uid, smq_messages=1)
        client.send("done-q", b"first")

        def is_full() -> bool:
            try:
                client.send("done-q", b"further")
            except SmqError:
                return True
            return False

        eventually(is_full, PATIENCE_SECONDS)
        task = ended(cast.alice, hint(cast.alice))
        assert task.notification is not None
        assert (task.notification.status, task.notification.attempts) == (NotificationStatus.PENDING, 1)
        assert "AccessDenied" in task.notification.error
        while found := client.receive("done-q", 16):
            client.delete("done-q", [one.handle for one in found])
        Notification.objects.update(due_at=timezone.now())
        assert queries.row_of(tried(task))["mq_status"] == "SUCCESS"


def test_a_listed_service_elsewhere_is_signed_with_the_platforms_key(
    service: QueueServiceProcess, cast: Cast, settings: Any
) -> None:
    keys = service.keys()
    elsewhere = QueueClient(service.address, keys.id, keys.secret)
    elsewhere.create_queue("done-q")
    settings.SMQ_ADDRESS, settings.SMQ_PORT = "http://127.0.0.1:1", 1
    settings.SMQ_ENDPOINTS = [service.address]
    settings.SMQ_ACCESS_KEY_ID, settings.SMQ_ACCESS_KEY_SECRET = keys.id, keys.secret
    with closing(elsewhere):
        row = queries.row_of(ended(cast.alice, hint(cast.alice, **{"mq-endpoint": f"{service.address}/"})))
        assert (row["mq_error_msg"], row["mq_status"]) == (None, "SUCCESS")
        (message,) = elsewhere.receive("done-q")
        assert message.id == row["mq_message_id"]


def test_the_editor_offers_queues_that_the_caller_may_send_to(service: QueueServiceProcess, cast: Cast) -> None:
    bob = allow(User.objects.get(pk=cast.bob.person.pk), MAY_SEND)
    write: Callable[..., str] = lambda actor, name: hint_builder.written(  # noqa: E731
        actor, run_async=True, notify="mns", instance_id="", topic="", group="", queue=name
    )
    with queue(cast.alice, "done-q"), queue(cast.alice, "other"):
        assert [o.value for o in hint_builder.queues(cast.alice, "")] == ["done-q", "other"]
        assert [o.value for o in hint_builder.queues(cast.alice, "", "ot")] == ["other"]
        assert [o.value for o in hint_builder.queues(bob, "")] == ["done-q"]
        assert hint_builder.queues(cast.charlie, "") == hint_builder.queues(cast.alice, "", "Öl") == []
        assert queries.row_of(ended(cast.alice, write(cast.alice, "done-q")))["mq_error_msg"] is None
        with pytest.raises(Refused) as refused:
            write(bob, "other")
        assert refused.value.field == "queue"


def test_the_pages_form_writes_the_hint_and_says_when_the_service_is_away(
    service: QueueServiceProcess, cast: Cast, settings: Any, client: Client
) -> None:
    client.force_login(cast.alice.person)
    data = {"run_async": "on", "notify": "mns", "queue": "done-q", "text": "select 1"}
    with queue(cast.alice, "done-q"):
        assert "done-q" in client.get(reverse("sql.pick", args=["queues"])).text
        page = client.post(reverse("sql.hint"), data, headers={"HX-Request": "true"}).text
        assert f"mq-notify-by=mns, mq-topic=done-q, mq-endpoint={to_queues.address_of(cast.alice.tenant)}" in page
    settings.SMQ_ADDRESS = "http://127.0.0.1:1"
    assert "does not answer" in client.get(reverse("sql.pick", args=["queues"])).text
    answer = client.post(reverse("sql.hint"), data, headers={"HX-Request": "true"})
    assert (answer.status_code, "does not answer" in answer.text) == (422, True)
