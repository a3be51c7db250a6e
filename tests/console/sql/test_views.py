"""Pages of async SQL."""

from __future__ import annotations

from pathlib import Path

import pytest
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from analytics import run as engine
from console.accounts.actor import Actor
from console.instances.models import Cluster, Instance
from console.outbox.models import Notification, NotificationStatus
from console.sql import services
from console.sql.models import QueryTask, TaskStatus
from console.topics.models import Group, Topic
from tests.console.sql.conftest import Cast, allow

pytestmark = pytest.mark.django_db(transaction=True)
HTMX = {"HX-Request": "true"}


def client_of(actor: Actor) -> Client:
    client = Client()
    client.force_login(actor.person)
    return client


@pytest.fixture
def alice(cast: Cast, handed_over: list[str]) -> Client:
    return client_of(cast.alice)


@pytest.fixture
def task(cast: Cast, handed_over: list[str]) -> QueryTask:
    return services.submit(cast.alice, "select * from flights", "demo")


def ended(task: QueryTask, content: bytes = b"carrier,n\nUA,1\n,\n") -> QueryTask:
    """The task with a result file."""
    location = engine.result_location(task.tenant.uid, "mq-private", task.pk, timezone.localdate())
    file = Path(engine.lake_path(location))
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(content)
    QueryTask.objects.filter(pk=task.pk).update(status=TaskStatus.SUCCESS, row_count=2, result_file=location)
    task.refresh_from_db()
    return task


def test_the_editor_shows_the_schemas(alice: Client) -> None:
    page = alice.get(reverse("sql.editor"))
    assert page.status_code == 200
    assert "flights" in page.text
    assert "secret" not in page.text


def test_it_submits_and_leads_to_the_task(alice: Client) -> None:
    answer = alice.post(reverse("sql.editor"), {"schema": "demo", "text": "select 1"}, headers=HTMX)
    task = QueryTask.objects.get()
    assert answer["HX-Redirect"] == reverse("sql.task", args=[task.pk])
    assert task.statement == "select 1"


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "required"),
        ("show tables", "write a SELECT"),
        ("/*+ run_async=true * / select 1", "does not end a comment"),
    ],
)
def test_it_says_what_is_wrong_beside_the_statement(alice: Client, text: str, reason: str) -> None:
    answer = alice.post(reverse("sql.editor"), {"schema": "demo", "text": text}, headers=HTMX)
    assert answer.status_code == 422
    assert reason in answer.text
    assert not QueryTask.objects.exists()


def test_a_missing_right_is_said_in_the_form(cast: Cast, handed_over: list[str]) -> None:
    document = {
        "Version": "1",
        "Statement": [
            {"Effect": "Allow", "Action": "dla:QueryTask", "Resource": "*"},
        ],
    }
    answer = client_of(allow(cast.bob.person, document)).post(
        reverse("sql.editor"), {"schema": "demo", "text": "select 1"}, headers=HTMX
    )
    assert answer.status_code == 422
    assert not QueryTask.objects.exists()


def test_the_hint_names_topic_group_and_endpoint(alice: Client, cast: Cast) -> None:
    cluster = Cluster.objects.create(name="c", region="mq-private", namesrv="127.0.0.1:9876")
    instance = Instance.objects.create(
        instance_id="MQ_INST_1_a", tenant=cast.alice.tenant, cluster=cluster, region="mq-private", name="i"
    )
    topic = Topic.objects.create(instance=instance, name="t", physical_name="MQ_INST_1_a%t", order_type=0)
    group = Group.objects.create(
        instance=instance, group_id="GID_g", physical_name="MQ_INST_1_a%GID_g", owner=instance.tenant
    )
    data = {"schema": "demo", "text": "/*+ run_async=true */ select 1;", "topic": topic.pk, "group": group.pk}
    answer = alice.post(reverse("sql.hint"), data, headers=HTMX)
    assert "mq-topic=t, mq-producer-id=GID_g, mq-endpoint=http://MQ_INST_1_a.localhost:9876 */\nselect 1" in answer.text


def test_without_topic_and_group_there_is_no_hint(alice: Client) -> None:
    answer = alice.post(reverse("sql.hint"), {"schema": "demo", "text": "select 1"}, headers=HTMX)
    assert answer.status_code == 422
    assert "select 1" in answer.text


def test_the_list_shows_page_and_part(alice: Client, task: QueryTask) -> None:
    assert task.pk in alice.get(reverse("sql.tasks")).text
    assert alice.get(reverse("sql.tasks"), headers=HTMX).text.strip().startswith('<div id="results"')
    assert task.pk not in alice.get(reverse("sql.tasks"), {"q": "other"}).text


def test_the_list_asks_the_same_number_of_queries_for_more_rows(
    alice: Client, cast: Cast, handed_over: list[str]
) -> None:
    from django.db import connection
    from django.test.utils import CaptureQueriesContext

    def count() -> int:
        with CaptureQueriesContext(
            connection,
        ) as captured:
            alice.get(reverse("sql.tasks"))
        return len(captured)

    services.submit(cast.alice, "select 1", "demo")
    count()  # the first page of a session also notes the visit
    few = count()
    for _ in range(10):
        services.submit(cast.alice, "select 1", "demo")
    assert count() == few


def test_a_task_shows_all_27_columns_and_polls_while_it_runs(alice: Client, task: QueryTask) -> None:
    page = alice.get(reverse("sql.task", args=[task.pk])).text
    assert 'hx-trigger="every 2s"' in page
    assert "scanned_data_bytes" in page
    assert alice.get(reverse("sql.state", args=[task.pk]), headers=HTMX).status_code == 200


def test_polling_stops_when_nothing_moves_any_more(alice: Client, task: QueryTask) -> None:
    ended(task)
    answer = alice.get(reverse("sql.state", args=[task.pk]), headers=HTMX)
    assert answer.status_code == 286
    assert "UA" in answer.text
    assert "null" in answer.text
    assert "every 2s" not in alice.get(reverse("sql.task", args=[task.pk])).text


def test_polling_goes_on_until_the_notification_is_sent(alice: Client, task: QueryTask) -> None:
    notification = Notification.objects.create(
        tenant=task.tenant, notify_by="ons", key=task.pk, body="{}", due_at=timezone.now()
    )
    QueryTask.objects.update(status=TaskStatus.FAILURE, message="no such column", notify={}, notification=notification)
    url = reverse("sql.state", args=[task.pk])
    answer = alice.get(url, headers=HTMX)
    assert (answer.status_code, "no such column" in answer.text) == (200, True)
    Notification.objects.update(status=NotificationStatus.FAILURE, error="no such topic")
    answer = alice.get(url, headers=HTMX)
    assert (answer.status_code, "no such topic" in answer.text) == (286, True)


def test_a_result_that_was_removed_is_said(alice: Client, task: QueryTask) -> None:
    Path(engine.lake_path(ended(task).result_file)).unlink()
    assert "there is no file" in alice.get(reverse("sql.task", args=[task.pk])).text
    assert alice.get(reverse("sql.download", args=[task.pk])).status_code == 404


@pytest.mark.filterwarnings("ignore:StreamingHttpResponse must consume")
def test_the_result_is_downloaded_as_it_is(alice: Client, task: QueryTask) -> None:
    content = b"n\n" + b"1\n" * 400_000
    answer = alice.get(reverse("sql.download", args=[ended(task, content).pk]))
    assert answer["Content-Disposition"] == f'attachment; filename="{task.pk}.csv"'
    assert b"".join(answer) == content


def test_a_task_without_result_has_no_file(alice: Client, task: QueryTask) -> None:
    assert alice.get(reverse("sql.download", args=[task.pk])).status_code == 404


def test_it_cancels_by_post_only(alice: Client, task: QueryTask) -> None:
    url = reverse("sql.cancel", args=[task.pk])
    assert alice.get(url).status_code == 405
    alice.post(url)
    task.refresh_from_db()
    assert task.status == TaskStatus.CANCELLED


PAGES = [("sql.editor", False), ("sql.tasks", False), ("sql.task", True), ("sql.state", True), ("sql.download", True)]


@pytest.mark.parametrize(("name", "of_task"), PAGES)
def test_access(cast: Cast, task: QueryTask, name: str, of_task: bool) -> None:
    ended(task)
    url = reverse(name, args=[task.pk] if of_task else [])
    assert Client().get(url).status_code == 302
    assert client_of(cast.bob).get(url).status_code == 403
    assert client_of(allow(cast.bob.person)).get(url).status_code == (404 if of_task else 200)
    assert client_of(cast.charlie).get(url).status_code == (404 if of_task else 200)
    assert client_of(cast.alice).get(url).status_code in (200, 286)


def test_another_tenant_cancels_nothing(cast: Cast, task: QueryTask) -> None:
    assert client_of(cast.charlie).post(reverse("sql.cancel", args=[task.pk])).status_code == 404
    task.refresh_from_db()
    assert task.status == TaskStatus.QUEUED
