"""`gantry export` and `gantry apply` against a real console and broker."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml

from brokercore.smq.wire.queues import RANGES
from console.accounts.models import Policy
from console.catalog.models import Bucket, BucketRule
from console.instances.models import Instance
from console.pipelines import services as pipelines
from console.pipelines.models import Pipeline
from console.queues.client import queues_of, topics_of
from console.topics.models import Group, Topic
from gantry_cli import config
from gantry_cli.state import files
from tests.cli.conftest import Ended, Run
from tests.support.cast import Cast, make_group, make_topic

_ALL = """\
version: 1
instances:
- name: stock
  topics:
  - name: arrivals
    orderType: delayed
  groups:
  - groupId: GID_stock
queues:
- name: late
  delaySeconds: 5
  maximumMessageSize: 2048
  loggingEnabled: true
- name: orders
queueTopics:
- name: news
  maximumMessageSize: 4096
  loggingEnabled: true
  subscriptions:
  - name: to-orders
    receiver: orders
    tag: red
    strategy: EXPONENTIAL_DECAY_RETRY
    format: SIMPLIFIED
  - name: to-world
    receiver: https://8.8.8.8/news
buckets:
- name: acme-lake
  rules:
  - name: csv
    queue: orders
    events: ['ObjectRemoved:*', 'ObjectCreated:PutObject']
    prefix: in/
  - name: everything
    queue: late
    events: ['ObjectCreated:*']
jobSecrets: [key_id]
jobVariables:
- name: rows
  value: '5'
jobs:
- name: late
  text: |
    CREATE TEMPORARY TABLE seen (id BIGINT) WITH ('connector' = 'datagen', 'rows-per-second' = '${rows}');
    SELECT id FROM seen;
  draft: |
    SELECT wrong
- name: wrong
  deployed: false
  text: SELECT '${secret_values.key_id}'
policies:
- name: stock-readers
  document: {Version: '1', Statement: [{Effect: Allow, Action: 'mq:SUB', Resource: 'acs:mq:*:*:*'}]}
"""

pytestmark = pytest.mark.django_db(transaction=True)
DOCUMENT = {"Version": "1", "Statement": [{"Effect": "Allow", "Action": "mq:SUB", "Resource": "acs:mq:*:*:*"}]}


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "gantry.yaml"


def _wanted(file: Path, cast: Cast, **changes: str) -> Path:
    """A new instance with everything in it, and a policy; `changes` replace texts of the file."""
    text = f"""\
version: 1
instances:
- name: stock
  remark: kept as code
  topics:
  - name: arrivals
    orderType: delayed
    perm: read-only
    grants:
    - account: "{cast.charlies.tenant.uid}"
      relation: subscribe
    - user: "{cast.bob.uid}"
      relation: both
  - name: departures
  groups:
  - groupId: GID_stock
    remark: readers
    deliveryOrder: orderly
policies:
- name: stock-readers
  description: may read
  document: {json.dumps(DOCUMENT)}
"""
    for old, new in changes.items():
        assert old in text
        text = text.replace(old, new)
    file.write_text(text)
    return file


def _apply(gantry: Run, file: Path, *options: str) -> Ended:
    return gantry("apply", str(file), "--yes", *options)


def test_everything_is_made_and_the_second_time_nothing_is_to_do(
    gantry: Run, profile: config.Profile, cast: Cast, file: Path
) -> None:
    first = _apply(gantry, _wanted(file, cast))
    assert first.status == 0, first.err
    assert "7 to create, 0 to change, 0 to delete." in first.out
    arrivals = Topic.objects.get(instance__name="stock", name="arrivals")
    assert (arrivals.order_type, arrivals.perm) == (5, 4)
    assert sorted(arrivals.grants.values_list("relation", flat=True)) == [4, 6]
    assert Group.objects.get(instance__name="stock").remark == "readers"
    assert Policy.objects.get(name="stock-readers").document == DOCUMENT
    assert _apply(gantry, file).out == "Nothing to do.\n"


def test_an_export_applied_at_once_has_nothing_to_do(
    gantry: Run, profile: config.Profile, cast: Cast, file: Path
) -> None:
    _apply(gantry, _wanted(file, cast))
    for form in ("yaml", "json"):
        exported = gantry("export", "--format", form)
        assert exported.status == 0, exported.err
        again = file.with_name(f"export.{form}")
        again.write_text(exported.out)
        assert _apply(gantry, again, "--prune", "--prune-instances").out == "Nothing to do.\n"


def test_export_takes_the_instances_that_are_named(gantry: Run, profile: config.Profile, cast: Cast) -> None:
    ended = gantry("export", "--instance", "orders")
    assert "name: orders" in ended.out and "policies" not in ended.out
    ended = gantry("export", "--instance", "nothing")
    assert ended.status == 2 and ended.out == ""


def test_the_plan_is_a_diff_and_a_dry_run_changes_nothing(
    gantry: Run, profile: config.Profile, cast: Cast, file: Path
) -> None:
    ended = gantry("apply", str(_wanted(file, cast)), "--dry-run")
    assert ended.status == 0 and "+ instance stock" in ended.out and "  + topic arrivals" in ended.out
    order = [ended.out.index(word) for word in ("instance stock", "topic arrivals", "group GID_stock", "grant on")]
    assert order == sorted(order)
    assert not Instance.objects.filter(name="stock").exists()


def test_changes_are_made_and_shown(gantry: Run, profile: config.Profile, cast: Cast, file: Path) -> None:
    _apply(gantry, _wanted(file, cast))
    changes = {
        "kept as code": "other words",
        "perm: read-only": "perm: read-write",
        "relation: subscribe": "relation: both",
        "deliveryOrder: orderly": "deliveryOrder: concurrently",
        '"mq:SUB"': '"mq:PUB"',
    }
    ended = _apply(gantry, _wanted(file, cast, **changes))
    assert ended.status == 0, ended.err
    assert "perm: read-only → read-write" in ended.out and "relation: subscribe → both" in ended.out
    assert '-      "Action": "mq:SUB"' in ended.out and "0 to create, 5 to change, 0 to delete." in ended.out
    assert set(Topic.objects.get(name="arrivals").grants.values_list("relation", flat=True)) == {6}
    assert "deliveryOrder: orderly → concurrently" in ended.out
    assert Group.objects.get(group_id="GID_stock").delivery_order == "Concurrently"
    assert _apply(gantry, file).out == "Nothing to do.\n"


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (("orderType: delayed", "orderType: normal"), "orderType of the topic arrivals cannot be changed"),
        (("remark: readers", "remark: others"), "remark of the group GID_stock cannot be changed"),
        (("remark: kept as code", "maxSendTps: 7"), "maxSendTps of the instance stock cannot be changed"),
        (("remark: kept as code", "independentNaming: false"), "independentNaming of the instance stock cannot"),
    ],
)
def test_what_cannot_change_is_refused_before_anything_is_done(
    gantry: Run, profile: config.Profile, cast: Cast, file: Path, *, change: tuple[str, str], said: str
) -> None:
    _apply(gantry, _wanted(file, cast))
    ended = _apply(gantry, _wanted(file, cast, **{change[0]: change[1], "name: departures": "name: brand-new"}))
    assert ended.status == 2 and said in ended.err and f"{file}:" in ended.err
    assert not Topic.objects.filter(name="brand-new").exists()


def test_what_the_file_does_not_name_stays_without_prune(
    gantry: Run, profile: config.Profile, cast: Cast, file: Path
) -> None:
    make_topic(cast.alice, cast.instance, "unnamed")
    make_group(cast.alice, cast.instance, "GID_unnamed")
    file.write_text("version: 1\ninstances:\n- name: orders\n  topics: []\n")
    assert _apply(gantry, file).out == "Nothing to do.\n"
    ended = _apply(gantry, file, "--prune")
    assert ended.status == 0 and "- topic unnamed" in ended.out, ended.err
    assert not Topic.objects.filter(name="unnamed").exists()
    # The file says nothing of groups, so they are none of its business.
    assert Group.objects.filter(group_id="GID_unnamed").exists()


def test_instances_go_only_when_that_is_asked_for(gantry: Run, profile: config.Profile, cast: Cast, file: Path) -> None:
    _apply(gantry, _wanted(file, cast))
    only_orders = file.with_name("orders.yaml")
    only_orders.write_text("version: 1\ninstances:\n- name: orders\npolicies: []\n")
    assert _apply(gantry, only_orders, "--prune-instances").status == 2
    pruned = _apply(gantry, only_orders, "--prune")
    assert "- policy stock-readers" in pruned.out and Instance.objects.filter(name="stock").exists()
    ended = _apply(gantry, only_orders, "--prune", "--prune-instances")
    assert ended.status == 0, ended.err
    assert list(Instance.objects.filter(tenant=cast.acme).values_list("name", flat=True)) == ["orders"]


def test_queues_are_made_changed_and_kept(gantry: Run, profile: config.Profile, cast: Cast, file: Path) -> None:
    orders = "- name: orders\n  visibilityTimeout: 60\n  loggingEnabled: true\n"
    file.write_text(f"version: 1\nqueues:\n{orders}- name: late\n")
    made = _apply(gantry, file)
    assert made.status == 0 and "visibilityTimeout: 30 → 60" in made.out, made.err
    assert "2 to create, 0 to change, 0 to delete." in made.out
    assert _apply(gantry, file).out == "Nothing to do.\n"
    exported = gantry("export", "--no-policies")
    assert f"queues:\n- name: late\n{orders}" in exported.out
    assert "queues" not in gantry("export", "--no-policies", "--no-queues").out
    file.write_text("version: 1\nqueues:\n- name: orders\n  delaySeconds: 5\n")
    changed = _apply(gantry, file)
    assert "visibilityTimeout: 60 → 30" in changed.out and "0 to create, 1 to change, 0 to delete." in changed.out
    with queues_of(cast.acme) as client:
        state = client.queue("orders")
        assert (state.attributes["VisibilityTimeout"], state.attributes["DelaySeconds"]) == (30, 5)
        assert not state.is_logged
        assert "- queue late" in _apply(gantry, file, "--prune").out
        assert client.queue_names() == (["orders"], "")


def test_topics_of_queues_are_made_with_their_subscriptions(
    gantry: Run, profile: config.Profile, cast: Cast, file: Path
) -> None:
    topic = "queueTopics:\n- name: news\n  subscriptions:\n  - name: to-orders\n    receiver: orders\n    tag: red\n"
    file.write_text(f"version: 1\nqueues:\n- name: orders\n{topic}")
    made = _apply(gantry, file)
    assert made.status == 0 and "3 to create, 0 to change, 0 to delete." in made.out, made.err
    assert _apply(gantry, file).out == "Nothing to do.\n"
    exported = gantry("export", "--no-policies")
    assert topic in exported.out
    again = file.with_name("export.yaml")
    again.write_text(exported.out)
    assert _apply(gantry, again, "--prune").out == "Nothing to do.\n"
    changes = {
        "tag: red": "format: JSON",
        "- name: news\n": "- name: news\n  maximumMessageSize: 2048\n  loggingEnabled: true\n",
    }
    for old, new in changes.items():
        file.write_text(file.read_text().replace(old, new))
    changed = _apply(gantry, file)
    assert "0 to create, 2 to change, 0 to delete." in changed.out, changed.err
    with topics_of(cast.acme) as client:
        (one,) = client.subscriptions("news")[0]
        assert (one.subscription.tag, one.subscription.format, client.topic("news").attributes) == (
            "", "JSON", {"MaximumMessageSize": 2048},
        )  # fmt: skip
        file.write_text("version: 1\nqueueTopics: []\n")
        assert "- topic of queues news" in _apply(gantry, file, "--prune").out
        assert client.topics() == ([], "")


def test_a_subscription_is_changed_in_place_where_it_can_be(
    gantry: Run, profile: config.Profile, cast: Cast, file: Path
) -> None:
    head = "version: 1\nqueues:\n- name: orders\nqueueTopics:\n- name: news\n  subscriptions:\n"
    file.write_text(f"{head}  - name: to-orders\n    receiver: orders\n    tag: red\n")
    assert _apply(gantry, file).status == 0
    with topics_of(cast.acme) as client:
        client.publish("news", b"one", tag="red")
        file.write_text(f"{head}  - name: to-orders\n    receiver: orders\n    strategy: EXPONENTIAL_DECAY_RETRY\n")
        changed = _apply(gantry, file)
        assert "strategy: BACKOFF_RETRY → EXPONENTIAL_DECAY_RETRY" in changed.out, changed.err
        assert "tag: red → nothing" in changed.out
        one = client.subscription("news", "to-orders")
        assert (one.subscription.tag, one.subscription.strategy) == ("", "EXPONENTIAL_DECAY_RETRY")
        assert one.result.delivered == 1
    assert _apply(gantry, file).out == "Nothing to do.\n"


def test_a_queue_holds_what_the_service_gives_it_unless_it_is_said() -> None:
    given = {name[0].lower() + name[1:]: value.default for name, value in RANGES.items()} | {"loggingEnabled": False}
    assert given == files.QUEUE_DEFAULTS


def test_a_failure_midway_says_what_is_done_and_the_next_time_goes_on(
    gantry: Run, profile: config.Profile, cast: Cast, file: Path
) -> None:
    ended = _apply(gantry, _wanted(file, cast, **{"name: departures": "name: GID_is_no_topic"}))
    assert ended.status == 5, ended
    assert "topic GID_is_no_topic: BIZ_FIELD_CHECK_INVALID" in ended.err and "3 of 7 steps are done" in ended.err
    assert Topic.objects.filter(name="arrivals").exists()
    again = _apply(gantry, _wanted(file, cast))
    assert again.status == 0 and "4 to create" in again.out, again.err
    assert _apply(gantry, file).out == "Nothing to do.\n"


def test_without_a_terminal_nothing_is_changed_unless_yes_is_said(
    gantry: Run, profile: config.Profile, cast: Cast, file: Path
) -> None:
    ended = gantry("apply", str(_wanted(file, cast)))
    assert ended.status == 2 and "--yes" in ended.err and not Instance.objects.filter(name="stock").exists()
    from_stdin = gantry("apply", "-", "--yes", stdin=file.read_text())
    assert from_stdin.status == 0, from_stdin.err


def test_a_caller_without_the_rights_is_told_so(
    gantry: Run, profile: config.Profile, ritas: config.Profile, cast: Cast, file: Path
) -> None:
    ended = gantry("--profile", "rita", "apply", str(_wanted(file, cast)), "--yes")
    assert ended.status == 3 and "AUTH_PERMISSION_DENIED" in ended.err


def test_unknown_fields_are_refused_before_anything_is_asked(gantry: Run, file: Path) -> None:
    file.write_text("version: 1\ninstances:\n- name: a\n  topic: []\n")
    ended = gantry("--url", "http://127.0.0.1:9", "apply", str(file))
    assert ended.status == 2 and ended.err == f"gantry: {file}:4: unknown field topic; is topics meant.\n"


def test_rules_of_buckets_are_made_changed_and_kept(
    gantry: Run, profile: config.Profile, cast: Cast, file: Path
) -> None:
    rule = (
        "buckets:\n- name: acme-lake\n  rules:\n  - name: csv\n    queue: orders\n    events:\n"
        "    - ObjectCreated:*\n    - ObjectRemoved:DeleteObject\n    prefix: in/\n    suffix: .csv\n"
    )
    Bucket.objects.create(tenant=cast.acme, name="acme-plain")
    file.write_text(f"version: 1\nqueues:\n- name: orders\n{rule}")
    made = _apply(gantry, file)
    assert made.status == 0 and "3 to create, 0 to change, 0 to delete." in made.out, made.err
    assert _apply(gantry, file).out == "Nothing to do.\n"
    exported = gantry("export", "--no-policies")
    assert rule in exported.out and "acme-plain" not in exported.out
    assert "buckets:" not in gantry("export", "--no-buckets").out
    again = file.with_name("export.yaml")
    again.write_text(exported.out)
    assert _apply(gantry, again, "--prune").out == "Nothing to do.\n"
    file.write_text(file.read_text().replace("    suffix: .csv\n", ""))
    changed = _apply(gantry, file)
    assert "0 to create, 1 to change, 0 to delete." in changed.out, changed.err
    assert BucketRule.objects.get(bucket__name="acme-lake").suffix == ""
    file.write_text("version: 1\nbuckets: []\n")
    assert "- rule csv of acme-lake" in _apply(gantry, file, "--prune").out
    assert not BucketRule.objects.exists()
    assert Bucket.objects.filter(tenant=cast.acme).count() == 2


@pytest.mark.process
def test_an_account_goes_into_a_fresh_one_whole(
    gantry: Run, profile: config.Profile, charlies: config.Profile, cast: Cast, file: Path
) -> None:
    """With all that a file knows; but instances have names of the broker, and a bucket has one account."""
    file.write_text(_ALL)
    alice = cast.actor("alice")
    pipelines.set_secret(actor=alice, name="key_id", value="of-nobodys-business")
    made = _apply(gantry, file)
    assert made.status == 0, made.err
    exported = gantry("export")
    assert exported.status == 0 and "of-nobodys-business" not in exported.out
    document = yaml.safe_load(exported.out)
    assert {name: len(entries) for name, entries in document.items() if name != "version"} == {
        "instances": 2, "queues": 2, "queueTopics": 1, "buckets": 1, "jobSecrets": 1, "jobVariables": 1, "jobs": 2,
        "trackingTasks": 0, "inflowTasks": 0, "policies": 1,
        "alarmRecipients": 0, "alarmRules": 0,
    }  # fmt: skip
    Bucket.objects.filter(tenant=cast.acme).delete()
    document["instances"] = [one for one in document["instances"] if one["name"] != "orders"]
    file.write_text(yaml.safe_dump(document))
    refused = gantry("--profile", "charlie", "apply", str(file), "--yes")
    assert refused.status == 2 and "secret key_id is not there" in refused.err
    assert queues_of_charlie(cast) == []
    pipelines.set_secret(actor=cast.actor("charlie"), name="key_id", value="another")
    applied = gantry("--profile", "charlie", "apply", str(file), "--yes")
    assert applied.status == 0, applied.err
    there = yaml.safe_load(gantry("--profile", "charlie", "export").out)
    there["instances"] = [one for one in there["instances"] if one["name"] != "charlies"]
    assert there == document
    assert gantry("--profile", "charlie", "apply", str(file), "--yes").out == "Nothing to do.\n"


def queues_of_charlie(cast: Cast) -> list[str]:
    with queues_of(cast.charlies.tenant) as client:
        return client.queue_names()[0]


@pytest.mark.process
def test_jobs_are_made_deployed_changed_and_kept(gantry: Run, profile: config.Profile, cast: Cast, file: Path) -> None:
    text = "SELECT id\nFROM seen;\n"
    table = "CREATE TEMPORARY TABLE seen (id BIGINT) WITH ('connector' = 'datagen');\n"
    indented = "".join(f"    {line}\n" for line in (table + text).splitlines())
    late = f"- name: late\n  text: |\n{indented}"
    file.write_text(f"version: 1\njobs:\n{late}- name: wrong\n  deployed: false\n  text: select\n")
    made = _apply(gantry, file)
    assert made.status == 0 and "2 to create, 0 to change, 0 to delete." in made.out, made.err
    assert _apply(gantry, file).out == "Nothing to do.\n"
    exported = gantry("export")
    assert late in exported.out and "- name: wrong\n  deployed: false\n  text: select\n" in exported.out
    assert "jobs:" not in gantry("export", "--no-jobs").out
    again = file.with_name("export.yaml")
    again.write_text(exported.out)
    assert _apply(gantry, again, "--prune").out == "Nothing to do.\n"
    file.write_text(file.read_text().replace("SELECT id", "SELECT id + 1"))
    changed = _apply(gantry, file)
    assert "-SELECT id" in changed.out and "0 to create, 1 to change, 0 to delete." in changed.out, changed.err
    (job, draft) = Pipeline.objects.filter(tenant=cast.acme).select_related("version")
    assert job.version is not None and (job.version.number, draft.version) == (2, None)
    file.write_text(f"version: 1\njobs:\n{late.replace('text:', 'deployed: false' + chr(10) + '  text:')}")
    assert "late" in _apply(gantry, file).err
    file.write_text("version: 1\njobs: []\n")
    assert "- job late" in _apply(gantry, file, "--prune").out
    assert not Pipeline.objects.filter(tenant=cast.acme).exists()
