"""`gantry export` and `gantry apply` against a real console and broker."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from cli import config
from console.accounts.models import Policy
from console.instances.models import Instance
from console.topics.models import Group, Topic
from tests.cli.conftest import Ended, Run
from tests.support.cast import Cast, make_group, make_topic

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
        '"mq:SUB"': '"mq:PUB"',
    }
    ended = _apply(gantry, _wanted(file, cast, **changes))
    assert ended.status == 0, ended.err
    assert "perm: read-only → read-write" in ended.out and "relation: subscribe → both" in ended.out
    assert '-      "Action": "mq:SUB"' in ended.out and "0 to create, 4 to change, 0 to delete." in ended.out
    assert set(Topic.objects.get(name="arrivals").grants.values_list("relation", flat=True)) == {6}
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
