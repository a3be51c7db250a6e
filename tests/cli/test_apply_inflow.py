"""`gantry export` and `gantry apply` of change tracking and inflow tasks, against a real console."""

from __future__ import annotations

from pathlib import Path

import pytest

from console.accounts.crypto import decrypt
from console.pipelines import services as pipelines
from console.pipelines.models import Pipeline
from console.tracking import lifecycle
from console.tracking.models import ConsumerGroup, TrackingTask
from gantry_cli import config
from gantry_cli.state import commands
from tests.cli.conftest import Ended, Run
from tests.support.broker import BrokerProcess
from tests.support.cast import Cast, make_topic

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.process]

_TRACKING = """\
version: 1
trackingTasks:
- name: shop
  kind: postgresql
  host: 8.8.8.8
  port: 5432
  user: reader
  tables:
  - public.orders
  - public.items
  database: shop
  retentionDays: 3
  groups:
  - name: topic-reader
    account: demo
"""
_INFLOW = """\
inflowTasks:
- name: orders-to-topic
  source:
    task: shop
    group: topic-reader
    messages: 200
  sink:
    topic: order_changes
    instanceID: orders
"""
#: What is called as said nothing of it in the file.
_PASSWORDS = {"GANTRY_PASSWORD_SHOP": "read-it-all", "GANTRY_PASSWORD_SHOP_TOPIC_READER": "group-password"}


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "gantry.yaml"


@pytest.fixture
def passwords(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in _PASSWORDS.items():
        monkeypatch.setenv(name, value)


@pytest.fixture
def captured(cast: Cast, broker: BrokerProcess, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each task is captured as soon as it is made: in the place of the process, and of the database, that is not here.

    Nobody takes the message of a start, for which it would wait seconds.
    """
    monkeypatch.setattr(pipelines, "hand_over", lambda: None)
    make_topic(cast.alice, cast.instance, "order_changes")
    real = commands._wait_for_source

    def wait(*arguments: object) -> None:
        for pk in lifecycle.waiting():
            lease = lifecycle.claim(pk, "test")
            assert lease is not None
            lifecycle.normal(lease)
        real(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(commands, "_wait_for_source", wait)


def _apply(gantry: Run, file: Path, *options: str) -> Ended:
    return gantry("apply", str(file), "--yes", *options)


@pytest.mark.usefixtures("captured", "passwords")
def test_tasks_are_made_kept_exported_and_deleted(gantry: Run, profile: config.Profile, cast: Cast, file: Path) -> None:
    file.write_text(_TRACKING + _INFLOW)
    made = _apply(gantry, file)
    assert made.status == 0 and "3 to create, 0 to change, 0 to delete." in made.out, made.err + made.out
    order = [made.out.index(f"+ {kind}") for kind in ("change tracking task", "consumer group", "inflow task")]
    assert order == sorted(order)
    source, group, task = TrackingTask.objects.get(), ConsumerGroup.objects.get(), Pipeline.objects.get()
    assert decrypt(source.password_encrypted) == "read-it-all"
    assert group.holder == f"inflow-{task.pk}"
    assert source.task_id in task.draft and cast.instance.instance_id in task.draft
    assert _apply(gantry, file).out == "Nothing to do.\n"
    exported = gantry("export")
    assert _TRACKING.partition("\n")[2] in exported.out and _INFLOW in exported.out, exported.err
    assert all(value not in made.out + exported.out for value in _PASSWORDS.values())
    again = file.with_name("export.yaml")
    again.write_text(exported.out)
    assert _apply(gantry, again, "--prune").out == "Nothing to do.\n"
    assert "Tasks" not in gantry("export", "--no-inflow").out
    file.write_text("version: 1\ntrackingTasks: []\ninflowTasks: []\n")
    assert _apply(gantry, file).out == "Nothing to do.\n"
    gone = _apply(gantry, file, "--prune")
    assert gone.status == 0 and gone.out.index("- inflow task") < gone.out.index("- change tracking task"), gone.err
    assert not Pipeline.objects.exists() and [one.state for one in TrackingTask.objects.all()] == ["deleting"]


@pytest.mark.usefixtures("captured")
def test_a_password_that_is_missing_is_asked_for_before_anything_is_done(
    gantry: Run, profile: config.Profile, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file.write_text(_TRACKING.replace("    account: demo\n", "    account: demo\n    passwordVariable: OF_GROUP\n"))
    for name, where in (("GANTRY_PASSWORD_SHOP", ":3:"), ("OF_GROUP", ":14:")):
        refused = _apply(gantry, file)
        assert refused.status == 2 and name in refused.err and where in refused.err, refused.err
        assert not TrackingTask.objects.exists()
        monkeypatch.setenv(name, "read-it-all")
    assert _apply(gantry, file).status == 0


@pytest.mark.usefixtures("captured", "passwords")
def test_changes_are_shown_and_what_cannot_change_is_refused(
    gantry: Run, profile: config.Profile, cast: Cast, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file.write_text(_TRACKING + _INFLOW)
    assert _apply(gantry, file).status == 0
    monkeypatch.delenv("GANTRY_PASSWORD_SHOP_TOPIC_READER")  # needed no more: the task has the group
    file.write_text((_TRACKING + _INFLOW).replace("  - public.items\n", "").replace("200", "300"))
    changed = _apply(gantry, file)
    assert "tables: public.orders,public.items → public.orders" in changed.out, changed.err
    assert '-    "messages": 200' in changed.out and "0 to create, 2 to change, 0 to delete." in changed.out
    assert (
        TrackingTask.objects.get().patterns == ["public.orders"] and '"messages": 300' in Pipeline.objects.get().draft
    )
    assert _apply(gantry, file).out == "Nothing to do.\n"
    kept = file.read_text()
    for old, new, said in (
        ("database: shop", "database: other", "database of the change tracking task shop cannot be changed"),
        ("account: demo", "account: other", "account of the consumer group topic-reader of shop cannot be changed"),
        ("tls: maybe", "tls: maybe", "'maybe' is not one of off, required, verified"),
    ):
        text = kept.replace(old, new) if old in kept else kept.replace("  port:", f"  {new}\n  port:")
        file.write_text(text)
        refused = _apply(gantry, file)
        assert refused.status == 2 and said in refused.err and f"{file}:" in refused.err, refused.err
    monkeypatch.delenv("GANTRY_PASSWORD_SHOP")
    file.write_text(kept.replace("8.8.8.8", "8.8.4.4"))
    assert "GANTRY_PASSWORD_SHOP" in _apply(gantry, file).err
    monkeypatch.setenv("GANTRY_PASSWORD_SHOP", "another")
    moved = _apply(gantry, file)
    assert "host: 8.8.8.8 → 8.8.4.4" in moved.out and "another" not in moved.out, moved.err
    assert decrypt(TrackingTask.objects.get().password_encrypted) == "another"


@pytest.mark.usefixtures("captured", "passwords")
def test_another_group_is_made_and_held_before_the_first_one_goes(
    gantry: Run, profile: config.Profile, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file.write_text(_TRACKING + _INFLOW)
    assert _apply(gantry, file).status == 0
    monkeypatch.setenv("GANTRY_PASSWORD_SHOP_NEXT", "next-password")
    file.write_text((_TRACKING + _INFLOW).replace("topic-reader", "next"))
    moved = _apply(gantry, file, "--prune")
    assert moved.status == 0 and "1 to create, 1 to change, 1 to delete." in moved.out, moved.err + moved.out
    assert [(one.name, bool(one.holder)) for one in ConsumerGroup.objects.all()] == [("next", True)]


@pytest.mark.usefixtures("captured", "passwords")
def test_tasks_go_into_a_fresh_account_by_their_names(
    gantry: Run, profile: config.Profile, charlies: config.Profile, cast: Cast, file: Path
) -> None:
    make_topic(cast.charlie, cast.charlies, "order_changes")
    file.write_text(_TRACKING + _INFLOW)
    assert _apply(gantry, file).status == 0
    exported = gantry("export", "--no-policies", "--no-queues", "--no-buckets", "--no-jobs").out
    file.write_text("version: 1\n" + exported[exported.index("trackingTasks:") :].replace(": orders\n", ": charlies\n"))
    made = gantry("--profile", "charlie", "apply", str(file), "--yes")
    assert made.status == 0 and "3 to create" in made.out, made.err
    hers, his = TrackingTask.objects.order_by("pk")
    assert hers.tenant == cast.acme and his.task_id in Pipeline.objects.get(tenant=his.tenant).draft
    assert cast.charlies.instance_id in Pipeline.objects.get(tenant=his.tenant).draft
    assert gantry("--profile", "charlie", "apply", str(file), "--yes", "--prune").out == "Nothing to do.\n"
