"""Events of buckets: what happens to files is told to queues of the account, at a real queue service."""

from __future__ import annotations

import base64
import hashlib
import io
import json
import re
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.core.exceptions import PermissionDenied
from django.core.files.uploadedfile import SimpleUploadedFile
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from analytics import lake as lakes
from analytics.errors import LakeError
from analytics.lake import LakeFile, parse_location
from brokercore.smq.client import QueueClient
from console.accounts.actor import Actor
from console.accounts.models import User
from console.audit.models import Entry
from console.catalog import bucket_events, bucket_rules, buckets, ddl
from console.catalog.models import Bucket, BucketChange, BucketRule, ExternalTable, Schema
from console.outbox import services as outbox
from console.outbox import tasks as outbox_tasks
from console.outbox.models import Notification, NotificationStatus
from console.statements.ddl.definition import DropTable, Named
from console.web.errors import Refused
from tests.support.queue_service import QueueServiceProcess, queue_service
from tests.support.redis_server import RedisServer
from tests.support.sql_cast import Cast, allow

pytestmark = pytest.mark.django_db(transaction=True)
NOTIFY_ONLY = {"Version": "1", "Statement": [{"Effect": "Allow", "Action": "dla:*", "Resource": "*"}]}


@pytest.fixture(scope="module")
def running(redis: RedisServer) -> Iterator[QueueServiceProcess]:
    with queue_service(redis) as process:
        yield process


@pytest.fixture
def service(running: QueueServiceProcess, settings: Any, kicked: list[int]) -> QueueServiceProcess:
    settings.SMQ_ADDRESS, settings.SMQ_PORT = running.address, running.port
    settings.BROKER_ACCESS_KEY_ID = running.access_key_id
    settings.BROKER_ACCESS_KEY_SECRET = running.access_key_secret
    return running


@pytest.fixture
def queue(service: QueueServiceProcess, cast: Cast) -> Iterator[QueueClient]:
    """The queue `changes` of Alice's account, empty."""
    client = QueueClient(
        service.address, service.access_key_id, service.access_key_secret, account=cast.alice.tenant.uid
    )
    client.delete_queue("changes")
    client.create_queue("changes")
    yield client
    client.delete_queue("changes")
    client.close()


@pytest.fixture
def bucket(cast: Cast, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Bucket:
    monkeypatch.setenv("GANTRY_LAKE", str(tmp_path))
    Bucket.objects.create(tenant=cast.charlie.tenant, name="other-lake")
    return Bucket.objects.create(tenant=cast.alice.tenant, name="demo-lake")


def rule(cast: Cast, bucket: Bucket, *events: str, name: str = "r", **fields: str) -> BucketRule:
    wanted = events or ("ObjectCreated:*", "ObjectRemoved:*")
    return bucket_rules.create(cast.alice, bucket, name=name, events=wanted, queue="changes", **fields)


def upload(actor: Actor, key: str, content: bytes = b"id\n1\n") -> None:
    place = parse_location(f"oss://demo-lake/{key}")
    buckets.upload(actor, place.folder, place.name, io.BytesIO(content), len(content))


def told(queue: QueueClient) -> list[dict[str, Any]]:
    """The events that have come, once all that waits was delivered."""
    for notification in Notification.objects.filter(status=NotificationStatus.PENDING).order_by("pk"):
        outbox_tasks.deliver(notification.pk)
    bodies = [base64.b64decode(m.body, validate=True) for m in queue.receive("changes", 16)]
    found = [json.loads(body)["events"] for body in bodies]
    assert all(len(events) == 1 for events in found)
    return sorted(
        (events[0] for events in found), key=lambda event: (event["eventTime"], event["oss"]["object"]["key"])
    )


def test_an_upload_an_overwrite_and_a_deletion_are_told_in_the_vendors_shape(
    cast: Cast, bucket: Bucket, queue: QueueClient
) -> None:
    rule(cast, bucket, name="all-of-it")
    alice = Actor(cast.alice.user, source_ip="192.0.2.7", request_id="request-1")
    upload(alice, "orders/a.csv", b"12345")
    (event,) = told(queue)
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", event.pop("eventTime"))
    uid = cast.alice.tenant.uid
    assert event == {
        "eventName": "ObjectCreated:PutObject",
        "eventSource": "acs:oss",
        "eventVersion": "1.0",
        "oss": {
            "bucket": {
                "arn": f"acs:oss:mq-private:{uid}:demo-lake",
                "name": "demo-lake",
                "ownerIdentity": uid,
                "virtualBucket": "",
            },
            "object": {
                "deltaSize": 5,
                "eTag": hashlib.md5(b"12345").hexdigest().upper(),
                "key": "orders/a.csv",
                "readFrom": 0,
                "readTo": 0,
                "size": 5,
            },
            "ossSchemaVersion": "1.0",
            "ruleId": "all-of-it",
        },
        "region": "mq-private",
        "requestParameters": {"sourceIPAddress": "192.0.2.7"},
        "responseElements": {"requestId": "request-1"},
        "userIdentity": {"principalId": cast.alice.person.uid},
    }
    upload(cast.alice, "orders/a.csv", b"123")
    buckets.delete_file(cast.alice, parse_location("oss://demo-lake/orders/a.csv"))
    found = [(e["eventName"], e["oss"]["object"]["size"], e["oss"]["object"]["deltaSize"]) for e in told(queue)]
    assert found == [("ObjectCreated:PutObject", 3, -2), ("ObjectRemoved:DeleteObject", 0, -3)]
    assert not BucketChange.objects.exists()


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [
        (("ObjectCreated:*", "", ""), ["orders/a.csv", "orders/b.json", "z.csv"]),
        (("ObjectCreated:PutObject", "orders/", ".csv"), ["orders/a.csv"]),
        (("ObjectCreated:*", "orders/a", ""), ["orders/a.csv"]),
        (("ObjectCreated:*", "/orders/", ""), []),
        (("ObjectCreated:*", "", ".CSV"), []),
        (("ObjectRemoved:*", "orders/", ""), []),
    ],
)
def test_only_what_a_rule_asks_for_is_told(
    cast: Cast, bucket: Bucket, queue: QueueClient, wanted: tuple[str, str, str], expected: list[str]
) -> None:
    event, prefix, suffix = wanted
    rule(cast, bucket, event, key_prefix=prefix, key_suffix=suffix)
    for key in ("orders/a.csv", "orders/b.json", "z.csv"):
        upload(cast.alice, key)
    assert [found["oss"]["object"]["key"] for found in told(queue)] == expected


def test_each_rule_that_fits_tells_of_it_and_a_bucket_without_rules_tells_nothing(
    cast: Cast, bucket: Bucket, queue: QueueClient
) -> None:
    upload(cast.alice, "a.csv")
    buckets.delete_file(cast.alice, parse_location("oss://demo-lake/nowhere.csv"))
    assert told(queue) == []
    rule(cast, bucket, name="one")
    rule(cast, bucket, name="two", key_suffix=".csv")
    upload(cast.alice, "a.csv")
    assert sorted(event["oss"]["ruleId"] for event in told(queue)) == ["one", "two"]
    buckets.delete_file(cast.alice, parse_location("oss://demo-lake/nowhere.csv"))
    assert told(queue) == []


def test_a_change_whose_maker_was_killed_is_told_by_the_sweep(cast: Cast, bucket: Bucket, queue: QueueClient) -> None:
    rule(cast, bucket)
    upload(cast.alice, "gone.csv")
    told(queue)
    put = parse_location("oss://demo-lake/put.csv")
    bucket_events.begin(cast.alice, bucket_events.PUT, [put])
    bucket_events.begin(cast.alice, bucket_events.PUT, [parse_location("oss://demo-lake/never.csv")])
    bucket_events.begin(cast.alice, bucket_events.DELETE, [parse_location("oss://demo-lake/gone.csv")])
    lakes.write_file(put, io.BytesIO(b"1234567"))
    lakes.remove("oss://demo-lake/gone.csv")
    bucket_events.sweep()
    assert told(queue) == []  # somebody may still be at it
    BucketChange.objects.update(began_at=timezone.now() - timedelta(minutes=2))
    bucket_events.sweep()
    found = [(e["eventName"], e["oss"]["object"]["key"], e["oss"]["object"]["size"]) for e in told(queue)]
    assert sorted(found) == [
        ("ObjectCreated:PutObject", "put.csv", 7),
        ("ObjectRemoved:DeleteObject", "gone.csv", 0),
    ]
    assert BucketChange.objects.get().key == "never.csv"
    BucketChange.objects.update(began_at=timezone.now() - timedelta(hours=2))
    bucket_events.sweep()
    assert told(queue) == []
    assert not BucketChange.objects.exists()


def test_a_write_that_fails_is_not_told(cast: Cast, bucket: Bucket, queue: QueueClient) -> None:
    rule(cast, bucket)

    class Broken(io.BytesIO):
        def read(self, size: int | None = -1) -> bytes:
            raise OSError("the connection was cut")

    with pytest.raises(Refused, match="cannot reach"):
        buckets.upload(cast.alice, parse_location("oss://demo-lake/x"), "a.csv", Broken(), 5)
    assert told(queue) == []
    assert not BucketChange.objects.exists()


def test_the_files_of_a_dropped_table_are_told_and_of_another_account_nothing(
    cast: Cast, bucket: Bucket, queue: QueueClient
) -> None:
    rule(cast, bucket)
    schema = Schema.objects.get(name="demo")
    ExternalTable.objects.create(schema=schema, name="m", location="oss://demo-lake/m/", managed=True)
    for name in ("a", "b"):
        lakes.write_file(f"oss://demo-lake/m/{name}.csv", io.BytesIO(b"1"))
    lakes.write_file("oss://other-lake/m/a.csv", io.BytesIO(b"1"))
    buckets.delete_file(cast.charlie, parse_location("oss://other-lake/m/a.csv"))
    ddl.drop_table(cast.alice, DropTable(Named(schema="demo", table="m"), if_exists=False), "demo")
    found = [(e["eventName"], e["oss"]["object"]["key"], e["oss"]["object"]["deltaSize"]) for e in told(queue)]
    assert found == [("ObjectRemoved:DeleteObjects", f"m/{name}.csv", -1) for name in ("a", "b")]


def test_the_files_of_a_deleted_bucket_are_told_though_its_rules_go_with_it(
    cast: Cast, bucket: Bucket, queue: QueueClient
) -> None:
    rule(cast, bucket, "ObjectRemoved:*", key_prefix="in/")
    for key in ("in/a.csv", "in/deeper/b.csv", "out/c.csv"):
        upload(cast.alice, key)
    schema = Schema.objects.get(name="demo")
    table = ExternalTable.objects.create(schema=schema, name="m", location="oss://demo-lake/m/")
    with pytest.raises(Refused, match="drop them first"):
        buckets.delete(cast.alice, bucket)
    table.delete()
    assert not BucketChange.objects.exists()
    buckets.delete(cast.alice, bucket)
    assert not BucketRule.objects.exists() and not BucketChange.objects.exists()
    found = [(e["eventName"], e["oss"]["object"]["key"], e["oss"]["object"]["deltaSize"]) for e in told(queue)]
    assert found == [("ObjectRemoved:DeleteObjects", key, -5) for key in ("in/a.csv", "in/deeper/b.csv")]


def test_of_a_bucket_that_cannot_be_deleted_only_what_went_is_told(
    cast: Cast, bucket: Bucket, queue: QueueClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    rule(cast, bucket, "ObjectRemoved:*")
    for key in ("a.csv", "b.csv"):
        upload(cast.alice, key)

    def halfway(_: str) -> None:
        (folder / "a.csv").unlink()
        raise LakeError("the disk is gone")

    folder = Path(lakes.lake_path(f"oss://{bucket.name}"))
    with monkeypatch.context() as patched:
        patched.setattr(lakes, "remove", halfway)
        with pytest.raises(Refused, match="the disk is gone"):
            buckets.delete(cast.alice, bucket)
    assert [e["oss"]["object"]["key"] for e in told(queue)] == ["a.csv"]
    assert Bucket.objects.filter(name="demo-lake").exists() and not BucketChange.objects.exists()


def test_the_files_of_an_archive_are_told_when_they_come_and_when_they_go(
    cast: Cast, bucket: Bucket, queue: QueueClient
) -> None:
    rule(cast, bucket)
    lakes.write_file("oss://demo-lake/archive/a.parquet", io.BytesIO(b"123"))
    bucket_events.note(cast.alice, cast.alice.tenant, "archive-1-1", lakes.files("oss://demo-lake/archive"), [])
    bucket_events.confirm("archive-1-1")
    with bucket_events.removed(cast.alice, "oss://demo-lake/archive/"):
        lakes.remove("oss://demo-lake/archive/")
    found = [(e["eventName"], e["oss"]["object"]["deltaSize"]) for e in told(queue)]
    assert found == [("ObjectCreated:PutObject", 3), ("ObjectRemoved:DeleteObjects", -3)]


def test_the_files_of_a_statement_are_told_once_however_often_it_was_noted(
    cast: Cast, bucket: Bucket, queue: QueueClient
) -> None:
    rule(cast, bucket)
    lakes.write_file("oss://demo-lake/t/part-0.csv", io.BytesIO(b"12"))
    written = lakes.files("oss://demo-lake/t")
    for _ in range(2):
        replaced = [LakeFile("oss://demo-lake/t/old.csv", 7, 0)]
        bucket_events.note(cast.alice, cast.alice.tenant, "q1", written, replaced)
    bucket_events.note(cast.alice, cast.alice.tenant, "q2", written, [])
    BucketChange.objects.update(began_at=timezone.now() - timedelta(minutes=2))
    bucket_events.sweep()
    assert told(queue) == []
    bucket_events.forget("q2")
    bucket_events.confirm("q1")
    bucket_events.confirm("q1")
    events = told(queue)
    assert sorted((e["eventName"], e["oss"]["object"]["key"], e["oss"]["object"]["deltaSize"]) for e in events) == [
        ("ObjectCreated:PutObject", "t/part-0.csv", 2),
        ("ObjectRemoved:DeleteObjects", "t/old.csv", -7),
    ]
    (etag,) = {e["oss"]["object"]["eTag"] for e in events if e["oss"]["object"]["size"] == 2}
    assert re.fullmatch(r"[0-9A-F]{32}-1", etag)


@pytest.mark.parametrize(
    ("changed", "field"),
    [
        ({"name": "a b"}, "name"),
        ({"name": "taken"}, "name"),
        ({"events": []}, "events"),
        ({"events": ["ObjectDownloaded:GetObject"]}, "events"),
        ({"queue": "nowhere"}, "queue"),
        ({"queue": "a/b"}, "queue"),
        ({"key_prefix": "x" * 1024}, "key_prefix"),
    ],
)
def test_a_rule_that_makes_no_sense_is_refused_beside_its_field(
    cast: Cast, bucket: Bucket, queue: QueueClient, changed: dict[str, Any], field: str
) -> None:
    rule(cast, bucket, name="taken")
    wanted: dict[str, Any] = {"name": "r", "events": ["ObjectCreated:*"], "queue": "changes"} | changed
    with pytest.raises(Refused) as refused:
        bucket_rules.create(cast.alice, bucket, **wanted)
    assert refused.value.field == field


def test_a_bucket_has_ten_rules_at_most(cast: Cast, bucket: Bucket, queue: QueueClient) -> None:
    for number in range(bucket_rules.MOST_RULES):
        rule(cast, bucket, name=f"r{number}")
    with pytest.raises(Refused, match="10 rules at most"):
        rule(cast, bucket, name="one-more")


def test_who_makes_a_rule_may_send_to_its_queue(cast: Cast, bucket: Bucket, queue: QueueClient) -> None:
    bob = allow(User.objects.get(pk=cast.bob.person.pk), NOTIFY_ONLY)
    with pytest.raises(PermissionDenied, match="mns:SendMessage"):
        bucket_rules.create(bob, bucket, name="r", events=["ObjectCreated:*"], queue="changes")
    assert not BucketRule.objects.exists()


def test_an_event_whose_queue_is_gone_is_given_up_told_on_the_page_and_sent_again(
    cast: Cast, bucket: Bucket, queue: QueueClient, client: Client
) -> None:
    made = rule(cast, bucket)
    queue.delete_queue("changes")
    upload(cast.alice, "a.csv")
    outbox_tasks.deliver(Notification.objects.get().pk)
    (state,) = bucket_rules.states(bucket)
    assert (state.waiting, state.delivered, state.failed) == (0, 0, 1)
    assert "QueueNotExist" in state.error
    client.force_login(cast.alice.person)
    assert "QueueNotExist" in client.get(reverse("sql.bucket_rules", args=["demo-lake"])).text
    queue.create_queue("changes")
    assert client.post(reverse("sql.bucket_rule_again", args=["demo-lake", made.name])).status_code == 302
    assert [event["oss"]["object"]["key"] for event in told(queue)] == ["a.csv"]
    (state,) = bucket_rules.states(bucket)
    assert (state.waiting, state.delivered, state.failed) == (0, 1, 0)
    outbox.forget_events()
    assert Notification.objects.exists()
    Notification.objects.update(ended_at=timezone.now() - timedelta(days=2))
    outbox.forget_events()
    assert not Notification.objects.exists()


def test_of_thousands_of_events_no_notice_of_a_statement_waits_behind_them(
    cast: Cast, kicked: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(outbox, "_SWEPT_AT_ONCE", 3)
    monkeypatch.setattr(outbox, "_KICKED_AT_ONCE", 2)
    tenant = cast.alice.tenant
    outbox.enqueue_events(tenant, [outbox.Event("changes", "1", "ObjectCreated:PutObject", "{}") for _ in range(7)])
    assert len(kicked) == 2
    notice = outbox.enqueue(tenant=tenant, notify_by="mns", queue="q", key="q1", tag="SUCCESS", body="{}")
    Notification.objects.update(due_at=timezone.now() - timedelta(seconds=5))
    asked = set()
    for _ in range(3):
        kicked.clear()
        outbox.sweep()
        asked |= set(kicked)
        if notice.pk in kicked:
            assert len(kicked) == 4
    assert asked == set(Notification.objects.values_list("pk", flat=True))


def test_events_wait_for_a_service_that_is_away(
    cast: Cast, bucket: Bucket, queue: QueueClient, service: QueueServiceProcess, settings: Any
) -> None:
    rule(cast, bucket)
    settings.SMQ_ADDRESS = "http://127.0.0.1:1"
    upload(cast.alice, "a.csv")
    assert told(queue) == []
    assert bucket_rules.states(bucket)[0].waiting == 1
    settings.SMQ_ADDRESS = service.address
    Notification.objects.update(due_at=timezone.now())
    assert len(told(queue)) == 1


def test_rules_are_added_and_deleted_on_the_buckets_page(
    cast: Cast, bucket: Bucket, queue: QueueClient, client: Client
) -> None:
    client.force_login(cast.alice.person)
    url = reverse("sql.bucket_rules", args=["demo-lake"])
    data = {"name": "csv", "queue": "changes", "events": ["ObjectCreated:*"], "key_prefix": "in/", "key_suffix": ".csv"}
    assert client.post(url, data | {"queue": "nowhere"}).status_code == 422
    assert client.post(url, data).status_code == 302
    assert BucketRule.objects.get().prefix == "in/"
    assert reverse("sql.bucket_rules", args=["demo-lake"]) in client.get(reverse("sql.bucket", args=["demo-lake"])).text
    page = client.get(url).text
    assert "in/*.csv" in page
    file = SimpleUploadedFile("a.csv", b"id\n1\n")
    client.post(reverse("sql.bucket_upload", args=["demo-lake"]), {"folder": "in", "content": file})
    assert [event["oss"]["object"]["key"] for event in told(queue)] == ["in/a.csv"]
    away = reverse("sql.bucket_rule_delete", args=["demo-lake", "csv"])
    assert client.post(away, {"name": "csv"}).status_code == 302
    assert not BucketRule.objects.exists()
    actions = ["sql.bucket.rule.create", "sql.bucket.rule.delete"]
    assert sorted(Entry.objects.filter(action__in=actions).values_list("action", flat=True)) == actions
