"""Archives as statements see them: whole, without gaps and without doubles, however their runs end."""

from __future__ import annotations

import csv
import io
import json
import uuid
from collections.abc import Callable
from datetime import timedelta

import pytest
from django.utils import timezone
from pytest_django import DjangoCaptureOnCommitCallbacks, Settings

from analytics import archives, engine, errors, lake
from analytics.specs import Archived, ArchiveStep, QueryResult, QuerySpec
from console.accounts.actor import Actor
from console.archive import lifecycle, services, worker
from console.archive.models import ArchiveStatus, TopicArchive
from console.catalog import virtual
from console.catalog.models import Bucket, BucketRule
from console.outbox.models import Notification
from console.topics import services as topics
from console.topics.models import Topic
from tests.console.live import Live

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("spark")]


def unreachable(reason: str) -> None:
    raise AssertionError(f"Spark was lost: {reason}")


def archived(actor: Actor, topic: Topic) -> TopicArchive:
    """A run by hand, as its worker does it."""
    archive = services.start(actor=actor, topic=topic)
    worker.run(archive.pk, unreachable)
    archive.refresh_from_db()
    return archive


def bodies(actor: Actor, name: str, where: str = "true") -> list[str]:
    """The bodies that a statement of the actor finds, in order."""
    rows, _ = asked(actor, f"select body from mq.`{name}` where {where} order by body")
    return [row["body"] for row in rows]


def asked(actor: Actor, sql: str) -> tuple[list[dict[str, str]], QueryResult]:
    task_id = f"q{uuid.uuid4().hex[:20]}"
    spec = QuerySpec(
        task_id=task_id,
        tenant=actor.tenant.uid,
        sql=sql,
        schema="mq",
        tables={},
        parameters=(),
        result_file=lake.result_location(actor.tenant.uid, "mq-private", task_id, timezone.localdate()),
        time_limit_s=120,
        lookup=virtual.lookup(actor),
    )
    result = engine.run_query(spec)
    with lake.open_result(spec.result_file) as file:
        return list(csv.DictReader(io.StringIO(file.read().decode()))), result


def test_the_table_is_archive_and_broker_without_doubles(live: Live, settings: Settings) -> None:
    settings.ARCHIVE_STEP_MESSAGES = 4
    topic = live.topic(queues=2)
    for number in range(10):
        live.send(topic, b"%02d" % number)
    archive = archived(live.actor, topic)
    assert (archive.status, archive.messages, archive.steps, archive.pending) == ("IDLE", 10, 3, None)
    for number in range(10, 13):
        live.send(topic, b"%02d" % number)
    expected = [f"{number:02}" for number in range(13)]
    assert bodies(live.actor, topic.physical_name) == expected
    assert archived(live.actor, topic).messages == 13
    assert bodies(live.actor, topic.physical_name) == expected
    rows, _ = asked(live.actor, f"select count(*) as n, count(distinct queue, offset) as d from mq.`{topic.name}`")
    assert rows == [{"n": "13", "d": "13"}]


@pytest.mark.parametrize("is_busy", [False, True])
def test_a_run_that_needs_another_engine_waits_and_is_no_failure(
    live: Live, monkeypatch: pytest.MonkeyPatch, is_busy: bool
) -> None:
    topic = live.topic(queues=1)
    live.send(topic, b"one")
    outdated = errors.EngineOutdated("Later.", addresses=["10.0.0.5:9876"])
    asked: list[object] = []

    def renew(addresses: object) -> None:
        asked.append(addresses)
        if is_busy:
            raise outdated

    def refuse(spec: ArchiveStep, check: Callable[[], None]) -> Archived:
        raise outdated

    with monkeypatch.context() as patched:
        patched.setattr(engine, "renew", renew)
        patched.setattr(archives, "write_step", refuse)
        archive = archived(live.actor, topic)
    assert (archive.status, archive.error, asked) == ("QUEUED", "", [("10.0.0.5:9876",)])
    worker.run(archive.pk, unreachable)
    archive.refresh_from_db()
    assert (archive.status, archive.messages) == ("IDLE", 1)


def test_rules_of_the_archives_bucket_hear_of_its_files(live: Live) -> None:
    topic = live.topic(queues=1)
    bucket, _ = Bucket.objects.get_or_create(tenant=live.actor.tenant, name=services.bucket_name(live.actor.tenant))
    rule = BucketRule.objects.create(
        bucket=bucket, name="all", queue="changes", events=["ObjectCreated:*", "ObjectRemoved:*"]
    )
    live.send(topic, b"one")
    archive = archived(live.actor, topic)
    (file,) = lake.files(archive.location)
    services.delete(actor=live.actor, archive=archive)
    found = [json.loads(one.body)["events"][0] for one in Notification.objects.filter(key=str(rule.pk)).order_by("pk")]
    key = file.location.removeprefix(f"oss://{bucket.name}/")
    assert [(e["eventName"], e["oss"]["object"]["key"], e["oss"]["object"]["deltaSize"]) for e in found] == [
        ("ObjectCreated:PutObject", key, file.size),
        ("ObjectRemoved:DeleteObjects", key, -file.size),
    ]
    assert live.actor.user is not None
    assert {event["userIdentity"]["principalId"] for event in found} == {live.actor.user.uid}


def test_what_the_broker_dropped_is_still_there(live: Live) -> None:
    topic = live.topic(queues=1)
    live.send(topic, b"old")
    archived(live.actor, topic)
    live.admin.topics.delete(topic.physical_name)
    assert bodies(live.actor, topic.physical_name) == ["old"]


def test_a_topic_that_was_made_anew_is_not_taken_for_archived(live: Live) -> None:
    topic = live.topic(queues=1)
    for _ in range(3):
        live.send(topic, b"old")
    archived(live.actor, topic)
    live.admin.topics.delete(topic.physical_name)
    live.admin.topics.create(topic.physical_name, queues=1)
    live.send(topic, b"new")
    again = archived(live.actor, topic)
    assert again.status == ArchiveStatus.FAILED
    assert "made anew" in again.error


def test_a_step_that_was_interrupted_is_done_again_with_the_same_ranges(
    live: Live, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = live.topic(queues=1)
    for number in range(5):
        live.send(topic, b"%d" % number)
    written = archives.write_step

    def killed(step: ArchiveStep, check: Callable[[], None]) -> Archived:
        written(step, check)
        raise SystemExit("killed between the files and the commit")

    monkeypatch.setattr(archives, "write_step", killed)
    archive = services.start(actor=live.actor, topic=topic)
    with pytest.raises(SystemExit):
        worker.run(archive.pk, unreachable)
    monkeypatch.setattr(archives, "write_step", written)
    live.send(topic, b"5")
    assert bodies(live.actor, topic.physical_name) == ["0", "1", "2", "3", "4", "5"], "files without commit count not"
    TopicArchive.objects.update(heartbeat_at=timezone.now() - timedelta(minutes=1))
    lifecycle.sweep()
    worker.run(archive.pk, unreachable)
    archive.refresh_from_db()
    assert (archive.status, archive.messages, archive.steps) == ("IDLE", 6, 2)
    assert bodies(live.actor, topic.physical_name) == ["0", "1", "2", "3", "4", "5"]


def test_a_worker_that_was_given_up_commits_nothing(live: Live, monkeypatch: pytest.MonkeyPatch) -> None:
    topic = live.topic(queues=1)
    live.send(topic, b"a")
    written = archives.write_step

    def overtaken(step: ArchiveStep, check: Callable[[], None]) -> Archived:
        TopicArchive.objects.update(worker="another", attempts=7)
        return written(step, check)

    monkeypatch.setattr(archives, "write_step", overtaken)
    archive = archived(live.actor, topic)
    assert (archive.worker, archive.offsets, archive.status) == ("another", {}, "RUNNING")


def test_whoever_lost_the_right_does_not_go_on_archiving(live: Live) -> None:
    topic = live.topic(queues=1)
    live.send(topic, b"a")
    services.start(actor=live.actor, topic=topic)
    archive = TopicArchive.objects.get(topic=topic)
    live.actor.person.__class__.objects.filter(pk=live.actor.person.pk).update(is_active=False)
    worker.run(archive.pk, unreachable)
    archive.refresh_from_db()
    assert archive.status == ArchiveStatus.FAILED
    assert "may no longer archive" in archive.error


def test_an_outage_fails_the_run_and_keeps_what_is_archived(live: Live, monkeypatch: pytest.MonkeyPatch) -> None:
    topic = live.topic(queues=1)
    live.send(topic, b"a")
    archived(live.actor, topic)

    def down(step: ArchiveStep, check: Callable[[], None]) -> Archived:
        raise errors.LakeError("The lake does not answer.")

    monkeypatch.setattr(archives, "write_step", down)
    live.send(topic, b"b")
    archive = archived(live.actor, topic)
    assert (archive.status, archive.error, archive.messages) == ("FAILED", "The lake does not answer.", 1)
    assert bodies(live.actor, topic.physical_name) == ["a", "b"]


def test_a_deleted_topic_leaves_its_archive_readable(live: Live) -> None:
    topic = live.topic(queues=1)
    live.send(topic, b"kept")
    archived(live.actor, topic)
    topics.delete_topic(actor=live.actor, topic=topic)
    assert bodies(live.actor, topic.physical_name) == ["kept"]


def test_days_outside_of_the_statements_time_are_not_read(live: Live) -> None:
    topic = live.topic(queues=1)
    for number in range(20):
        live.send(topic, b"%02d" % number)
    archived(live.actor, topic)
    _, result = asked(live.actor, f"select body from mq.`{topic.physical_name}` where store_time < date'2020-01-01'")
    assert (result.row_count, result.scanned_row_count) == (0, 0)


def test_hourly_archives_start_by_themselves(live: Live, handed_over: list[int]) -> None:
    topic = live.topic(queues=1)
    archive = archived(live.actor, topic)
    services.set_hourly(actor=live.actor, archive=archive, hourly=True)
    handed_over.clear()
    lifecycle.sweep()
    assert handed_over == []
    TopicArchive.objects.update(requested_at=timezone.now() - timedelta(minutes=61))
    lifecycle.sweep()
    assert handed_over == [archive.pk]


def test_deleting_takes_row_and_files(live: Live) -> None:
    topic = live.topic(queues=1)
    live.send(topic, b"a")
    archive = archived(live.actor, topic)
    services.delete(actor=live.actor, archive=archive)
    assert bodies(live.actor, topic.physical_name) == ["a"]
    live.admin.topics.delete(topic.physical_name)
    assert bodies(live.actor, topic.physical_name) == []


def test_a_start_is_handed_over_when_it_is_committed(
    live: Live, handed_over: list[int], django_capture_on_commit_callbacks: DjangoCaptureOnCommitCallbacks
) -> None:
    with django_capture_on_commit_callbacks(execute=True):
        archive = services.start(actor=live.actor, topic=live.topic())
    assert handed_over == [archive.pk]
    with django_capture_on_commit_callbacks(execute=True):
        assert services.start(actor=live.actor, topic=archive.topic) == archive  # type: ignore[arg-type]
    assert handed_over == [archive.pk], "a run that waits is not asked for twice"
