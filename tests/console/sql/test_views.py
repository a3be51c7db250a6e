"""Pages of async SQL."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from analytics import lake
from console.accounts.actor import Actor
from console.audit.models import Entry
from console.instances.models import Cluster, Instance, Origin
from console.outbox.models import Notification, NotificationStatus
from console.sql import services
from console.sql.models import QueryTask, TaskStatus
from console.statements import read
from console.topics.models import Group, Topic
from tests.support.sql_cast import Cast, allow

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
    return services.submit(cast.alice, read("select * from flights"), "demo")


def ended(task: QueryTask, content: bytes = b"carrier,n\nUA,1\n,\n") -> QueryTask:
    """The task with a result file."""
    location = lake.result_location(task.tenant.uid, "mq-private", task.pk, timezone.localdate())
    file = Path(lake.lake_path(location))
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
    answer = alice.post(reverse("sql.editor"), {"schema": "demo", "text": "select 1"})
    task = QueryTask.objects.get()
    assert answer["Location"] == reverse("sql.task", args=[task.pk])
    assert task.statement == "select 1"


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "Write a statement first"),
        ("/*+ run_async=true * / select 1", "does not end a comment"),
    ],
)
def test_it_says_what_is_wrong_beside_the_statement(alice: Client, text: str, reason: str) -> None:
    page = alice.post(reverse("sql.editor"), {"schema": "demo", "text": text})
    assert (page.status_code, reason in page.text) == (422, True)
    part = alice.post(reverse("sql.run"), {"schema": "demo", "text": text}, headers=HTMX)
    assert (part.status_code, part["HX-Retarget"], reason in part.text) == (422, "#sql-wrong", True)
    assert not QueryTask.objects.exists()


def test_a_run_is_a_pane_that_is_asked_for_every_second(alice: Client) -> None:
    data = {"schema": "demo", "text": "select 1", "from_line": "3", "from_column": "4"}
    answer = alice.post(reverse("sql.run"), data, headers=HTMX)
    task = QueryTask.objects.get()
    assert f'hx-get="{reverse("sql.pane", args=[task.pk])}" hx-trigger="every 1s"' in answer.text
    assert 'data-line="3" data-column="4"' in answer.text
    assert answer["HX-Trigger-After-Settle"] == "sqlSubmitted"


def test_what_the_console_answers_stands_there_at_once(alice: Client) -> None:
    answer = alice.post(reverse("sql.run"), {"schema": "demo", "text": "show tables"}, headers=HTMX)
    assert answer.status_code == 200
    assert "flights" in answer.text and "answered by the console" in answer.text
    assert not QueryTask.objects.exists()
    whole = alice.post(reverse("sql.editor"), {"schema": "demo", "text": "describe flights"})
    assert "carrier" in whole.text and "<html" in whole.text


def test_a_waiting_task_tells_how_many_are_in_front_of_it(alice: Client, cast: Cast, task: QueryTask) -> None:
    second = services.submit(cast.alice, read("select 2"), "demo")
    assert "next of the account" in alice.get(reverse("sql.pane", args=[task.pk]), headers=HTMX).text
    assert "1 statement of the account waits" in alice.get(reverse("sql.pane", args=[second.pk]), headers=HTMX).text


def test_a_task_that_waits_for_another_engine_tells_so(alice: Client, task: QueryTask) -> None:
    assert "waiting for a Spark worker" in alice.get(reverse("sql.pane", args=[task.pk]), headers=HTMX).text
    QueryTask.objects.update(message="The engine started before these brokers were known.")
    assert "started before these brokers were" in alice.get(reverse("sql.pane", args=[task.pk]), headers=HTMX).text


def test_a_running_task_shows_its_progress_and_the_pane_can_cancel_it(alice: Client, task: QueryTask) -> None:
    progress = {"stages": 3, "stages_done": 1, "tasks": 8, "tasks_done": 6}
    QueryTask.objects.update(status=TaskStatus.RUNNING, progress=progress, started_at=timezone.now())
    text = alice.get(reverse("sql.pane", args=[task.pk]), headers=HTMX).text
    assert 'value="75"' in text and "stage 1 of 3" in text and "6 of 8" in text
    target = HTMX | {"HX-Target": f"run-{task.pk}-pane"}
    answer = alice.post(reverse("sql.cancel", args=[task.pk]), headers=target)
    assert answer.status_code == 200 and "stopping" in answer.text
    task.refresh_from_db()
    assert task.cancel_requested


def test_a_failure_shows_the_sentence_and_the_place(alice: Client, task: QueryTask) -> None:
    QueryTask.objects.update(status=TaskStatus.FAILURE, message="no such column (line 1, position 7)")
    text = alice.get(reverse("sql.pane", args=[task.pk]), headers=HTMX).text
    assert "no such column" in text
    assert 'data-line="1" data-column="8"' in text


def test_a_statement_is_opened_and_run_again(alice: Client, task: QueryTask) -> None:
    found = alice.get(reverse("sql.text"), {"task": task.pk}).json()
    assert found == {"schema": "demo", "text": "select * from flights"}
    assert "select * from flights" in alice.get(reverse("sql.editor"), {"task": task.pk}).text
    answer = alice.post(reverse("sql.again", args=[task.pk]))
    new = QueryTask.objects.exclude(pk=task.pk).get()
    assert answer["Location"] == reverse("sql.task", args=[new.pk])
    assert new.command == task.command


def test_it_is_the_same_statement_when_it_is_run_again(alice: Client, cast: Cast, handed_over: list[str]) -> None:
    text = "/*+ run_async=true */ select carrier from flights; # mine"
    task = services.submit(cast.alice, read(text), "demo")
    alice.post(reverse("sql.again", args=[task.pk]))
    stored = QueryTask.objects.values_list("statement", "command")
    assert [*stored] == [("select carrier from flights", text)] * 2


def test_the_panels_show_schemas_saved_statements_and_history(alice: Client, task: QueryTask) -> None:
    assert "flights" in alice.get(reverse("sql.panel", args=["schemas"]), {"q": "fli"}, headers=HTMX).text
    assert "airlines" not in alice.get(reverse("sql.panel", args=["schemas"]), {"q": "fli"}, headers=HTMX).text
    assert "select * from flights" in alice.get(reverse("sql.panel", args=["history"]), headers=HTMX).text
    url = reverse("sql.panel", args=["history"])
    assert "select * from flights" not in alice.get(url, {"status": "FAILURE"}, headers=HTMX).text
    assert "Nothing saved yet" in alice.get(reverse("sql.panel", args=["saved"]), headers=HTMX).text


def test_rows_come_a_hundred_a_page(alice: Client, task: QueryTask) -> None:
    ended(task, b"n\n" + b"".join(b"%d\n" % n for n in range(1500)))
    url = reverse("sql.rows", args=[task.pk])
    text = alice.get(url, {"page": "10"}, headers=HTMX).text
    assert ">999</td>" in text and ">899</td>" not in text
    assert "Rows 901–1000" in text
    assert "1 / 10" in alice.get(url, {"page": "zero"}, headers=HTMX).text


@pytest.mark.parametrize("rest", ["", "x" * 200, "\n\n\n\n"], ids=["short", "folded", "many lines"])
def test_what_a_result_holds_is_text_and_never_markup(alice: Client, task: QueryTask, rest: str) -> None:
    hostile = "<img src=x onerror=alert(1)>"
    ended(task, f'{hostile},"{hostile} b"\n"{hostile}{rest}","{rest}{hostile}"\n'.encode())
    columns = [{"name": hostile, "type": hostile}, {"name": f"{hostile} b", "type": "string"}]
    for known in ([], columns):
        QueryTask.objects.filter(pk=task.pk).update(result_columns=known)
        text = alice.get(reverse("sql.rows", args=[task.pk]), headers=HTMX).text
        assert "<img" not in text
        assert text.count("&lt;img") >= 4


def test_a_missing_right_is_said_in_the_form(cast: Cast, handed_over: list[str]) -> None:
    document = {
        "Version": "1",
        "Statement": [
            {"Effect": "Allow", "Action": "dla:QueryTask", "Resource": "*"},
        ],
    }
    bob = client_of(allow(cast.bob.person, document))
    for name in ("sql.editor", "sql.run"):
        answer = bob.post(reverse(name), {"schema": "demo", "text": "select 1"}, headers=HTMX)
        assert answer.status_code == 422
        assert "Not allowed" in answer.text
    assert not QueryTask.objects.exists()


def hint_data(cast: Cast, **changed: str) -> dict[str, str]:
    """What the hint form sends, for an instance with a topic and a group."""
    cluster = Cluster.objects.create(name="c", region="mq-private", namesrv="127.0.0.1:9876", origin=Origin.EMBEDDED)
    instance = Instance.objects.create(
        instance_id="MQ_INST_1_a", tenant=cast.alice.tenant, cluster=cluster, region="mq-private", name="i"
    )
    Topic.objects.create(instance=instance, name="t", physical_name="MQ_INST_1_a%t", order_type=0)
    Group.objects.create(instance=instance, group_id="GID_g", physical_name="MQ_INST_1_a%GID_g", owner=instance.tenant)
    data = {"schema": "demo", "text": "-- mine\n/*+ run_async=true */ select 1;", "run_async": "on", "notify": "ons"}
    return data | {"instance": "MQ_INST_1_a", "topic": "t", "group": "GID_g"} | changed


def test_the_hint_names_topic_group_and_endpoint(alice: Client, cast: Cast) -> None:
    data = hint_data(cast)
    written = "mq-topic=t, mq-producer-id=GID_g, mq-endpoint=http://MQ_INST_1_a.localhost:9876 */"
    part = alice.post(reverse("sql.hint"), data, headers=HTMX).text
    assert written in part and 'data-start="8" data-end="30"' in part
    page = alice.post(reverse("sql.hint"), data).text
    assert f"-- mine\n/*+ run_async=true, mq-notify-by=ons, {written}\nselect 1;" in page


def test_a_topic_that_is_not_there_is_said_in_the_hint_form(alice: Client, cast: Cast) -> None:
    answer = alice.post(reverse("sql.hint"), hint_data(cast, topic="other"), headers=HTMX)
    assert answer.status_code == 422
    assert "Choose a topic of i that you may publish to" in answer.text


def test_the_hint_is_checked_while_it_is_written(alice: Client) -> None:
    url = reverse("sql.check")
    assert "unknown and is ignored" in alice.post(url, {"text": "/*+ run_async=true, mq=1 */ select 1"}).text
    assert "does not end a comment" in alice.post(url, {"text": "/*+ run_async=true * / select 1"}).text
    assert "run_async is not true" in alice.post(url, {"text": "/*+ mq-topic=t */ select 1"}).text


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

    services.submit(cast.alice, read("select 1"), "demo")
    count()  # the first page of a session also notes the visit
    few = count()
    for _ in range(10):
        services.submit(cast.alice, read("select 1"), "demo")
    assert count() == few


def test_a_task_shows_all_27_columns_and_polls_while_it_runs(alice: Client, task: QueryTask) -> None:
    page = alice.get(reverse("sql.task", args=[task.pk])).text
    assert 'hx-trigger="every 2s"' in page and 'hx-trigger="every 1s"' in page
    assert "scanned_data_bytes" in page
    assert alice.get(reverse("sql.state", args=[task.pk]), headers=HTMX).status_code == 200
    assert alice.get(reverse("sql.pane", args=[task.pk]), headers=HTMX).status_code == 200


def test_polling_stops_when_nothing_moves_any_more(alice: Client, task: QueryTask) -> None:
    ended(task)
    answer = alice.get(reverse("sql.pane", args=[task.pk]), headers=HTMX)
    assert answer.status_code == 286
    assert "UA" in answer.text
    assert "null" in answer.text
    page = alice.get(reverse("sql.task", args=[task.pk])).text
    assert "every 2s" not in page and "every 1s" not in page


def test_polling_goes_on_until_the_notification_is_sent(alice: Client, task: QueryTask) -> None:
    notification = Notification.objects.create(
        tenant=task.tenant, notify_by="ons", key=task.pk, body="{}", due_at=timezone.now()
    )
    QueryTask.objects.update(status=TaskStatus.FAILURE, message="no such column", notify={}, notification=notification)
    url, pane = (reverse(name, args=[task.pk]) for name in ("sql.state", "sql.pane"))
    assert alice.get(url, headers=HTMX).status_code == 200
    part = alice.get(pane, {"part": "receipt"}, headers=HTMX)
    assert "every 2s" in part.text and "in progress" in part.text
    Notification.objects.update(status=NotificationStatus.FAILURE, error="no such topic")
    answer = alice.get(url, headers=HTMX)
    assert (answer.status_code, "no such topic" in answer.text) == (286, True)
    assert "every 2s" not in alice.get(pane, {"part": "receipt"}, headers=HTMX).text


def test_a_failed_notification_is_sent_again_by_a_button(alice: Client, task: QueryTask, cast: Cast) -> None:
    notification = Notification.objects.create(
        tenant=task.tenant, notify_by="ons", key=task.pk, body="{}", due_at=timezone.now(), error="no such topic",
        status=NotificationStatus.FAILURE, attempts=40,
    )  # fmt: skip
    QueryTask.objects.update(status=TaskStatus.SUCCESS, notify={}, notification=notification)
    url = reverse("sql.send_again", args=[task.pk])
    assert "Resend" in alice.get(reverse("sql.state", args=[task.pk]), headers=HTMX).text
    assert alice.get(url).status_code == 405
    assert client_of(cast.charlie).post(url).status_code == 404
    notification.refresh_from_db()
    assert notification.status == NotificationStatus.FAILURE
    assert alice.post(url).status_code == 302
    notification.refresh_from_db()
    assert (notification.status, notification.attempts) == (NotificationStatus.PENDING, 0)
    assert Entry.objects.filter(action="sql.notification.resend", result="success").count() == 1
    assert "Resend" not in alice.get(reverse("sql.state", args=[task.pk]), headers=HTMX).text
    assert "no failed notification" in alice.post(url, follow=True).text


def test_a_notification_that_is_tried_shows_why_it_has_not_arrived_and_when_it_is_tried_next(
    alice: Client, task: QueryTask
) -> None:
    notification = Notification.objects.create(
        tenant=task.tenant, notify_by="ons", key=task.pk, body="{}", due_at=timezone.now() + timedelta(minutes=9),
        attempts=4, error="No connection to the broker.",
    )  # fmt: skip
    QueryTask.objects.update(status=TaskStatus.SUCCESS, notify={}, notification=notification)
    page = alice.get(reverse("sql.state", args=[task.pk]), headers=HTMX).text
    assert "No connection to the broker." in page and "Next attempt" in page
    assert "Resend" not in page


def test_a_result_that_was_removed_is_said(alice: Client, task: QueryTask) -> None:
    Path(lake.lake_path(ended(task).result_file)).unlink()
    assert "The result is gone" in alice.get(reverse("sql.task", args=[task.pk])).text
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


PAGES = [
    ("sql.editor", False),
    ("sql.tasks", False),
    ("sql.names", False),
    ("sql.task", True),
    ("sql.state", True),
    ("sql.pane", True),
    ("sql.rows", True),
    ("sql.plot", True),
    ("sql.download", True),
]


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


def test_statements_that_run_or_wait_are_cancelled_together(alice: Client, cast: Cast, task: QueryTask) -> None:
    other = services.submit(cast.alice, read("select 2"), "demo")
    done = ended(services.submit(cast.alice, read("select 3"), "demo"))
    page = alice.get(reverse("sql.tasks")).text
    assert f'name="pick" value="{task.pk}"' in page
    assert f'name="pick" value="{done.pk}"' not in page
    assert "All 2 that the filters find" in page
    url = reverse("sql.cancel_many")
    page = alice.post(url, {"pick": [task.pk, done.pk]}).text
    assert "Cancel 1 statement" in page
    assert "It has ended: SUCCESS." in page
    page = alice.post(url, {"all": "1", "filters": "q=select"}).text
    assert "Cancel 2 statements" in page
    page = alice.post(url, {"keys": f"{task.pk}\n{done.pk}\n{other.pk}\nno-such-task", "confirmed": "1"}).text
    assert "2 done, 2 failed" in page
    assert "It has ended already." in page
    assert "It no longer exists." in page
    assert set(QueryTask.objects.filter(pk__in=[task.pk, other.pk]).values_list("status", flat=True)) == {"CANCELLED"}
    assert Entry.objects.filter(action="sql.query.cancel").count() == 2
