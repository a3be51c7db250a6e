"""`gantry adopt`, and adopted names and rules in `gantry export` and `apply`, on a real console and broker."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from console.accounts.models import Tenant, TenantLimits
from console.adoption import worker
from console.adoption.models import Rule, Run
from console.instances import broker as clients
from console.topics.models import Grant, Group, Topic
from gantry_cli import config
from tests.cli.conftest import Run as Gantry
from tests.support.cast import Cast, make_instance, make_topic, on_broker

ODD = "cli|pay%eu_1"
pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def adopter(profile: config.Profile, cast: Cast, monkeypatch: pytest.MonkeyPatch) -> Iterator[Cast]:
    """Acme may adopt, and a worker does its runs as soon as somebody asks how far they are."""
    Tenant.objects.filter(name="acme").update(may_adopt=True)
    admin = clients.admin(cast.cluster)
    for name in (ODD, "cli-orders", "cli-test"):
        admin.topics.create(name)
    admin.groups.create("cli-service")
    from console.openapi.operations import adoption
    from console.openapi.registry import OPERATIONS

    shown = adoption.show_run

    def worked(call: object, parameters: object) -> object:
        for run in Run.objects.filter(ended_at=None):
            worker.work(run.pk)
        return shown(call, parameters)  # type: ignore[arg-type]

    operation = OPERATIONS["adoption/run"]
    monkeypatch.setitem(OPERATIONS, "adoption/run", type(operation)(**{**vars(operation), "handler": worked}))
    yield cast


def test_names_are_adopted_by_pattern_with_progress_and_forgotten(gantry: Gantry, adopter: Cast) -> None:
    before = on_broker(adopter.cluster)
    arguments = ("--pattern", "cli*", "--exclude", "*test")
    seen = gantry("adopt", *arguments, "--dry-run")
    assert seen.status == 0 and "2 topics and 1 groups" in seen.out and ODD in seen.out
    assert not Run.objects.exists()
    asked = gantry("adopt", *arguments)
    assert asked.status == 2 and "--yes" in asked.err and not Run.objects.exists()
    done = gantry("adopt", *arguments, "--yes", "--instance-name", "theirs")
    assert done.status == 0, done.err
    assert "Adopted 3 names" in done.out and "Adopting" in done.err
    assert set(Topic.objects.values_list("name", flat=True)) == {ODD, "cli-orders"}
    again = gantry("adopt", *arguments, "--yes")
    assert (again.status, "Nothing to adopt." in again.out) == (0, True)
    gone = gantry("adopt", "--forget", "--name", f"topic:{ODD}", "--yes")
    assert gone.status == 0 and "Forgotten: 1 name." in gone.out
    assert gantry("adopt", "--forget", "--run", str(Run.objects.earliest("pk").pk), "--yes").status == 1  # one is gone
    assert not Topic.objects.exists() and not Group.objects.exists() and on_broker(adopter.cluster) == before


def test_a_file_of_names_a_rule_and_what_cannot_be(gantry: Gantry, adopter: Cast, tmp_path: Path) -> None:
    file = tmp_path / "names"
    file.write_text(f"topic:cli-orders\n{ODD}\nnot-there\n")
    done = gantry("adopt", "--names-from", str(file), "--yes")
    assert done.status == 0 and Topic.objects.count() == 2, done.err
    ruled = gantry("adopt", "--pattern", "cli-s*", "--rule", "--yes")
    assert ruled.status == 0 and "cli-s* belongs to acme" in ruled.out
    assert Rule.objects.get().include == "cli-s*" and Group.objects.count() == 1
    TenantLimits.objects.create(tenant=adopter.acme, topics=2)
    refused = gantry("adopt", "--pattern", "cli-*", "--yes")
    assert refused.status == 1 and "may have 2 topics and has 2: 1 more are 1 too many" in refused.err
    for wrong, why in (
        (("--pattern", "orders"), "--name"),
        (("--pattern", "a*", "--name", "b"), "not both"),
        (("--rule", "--name", "b"), "--rule needs --pattern"),
        (("--forget",), "--forget needs --pattern"),
        (("--run", "3"), "--run needs --forget"),
        (("--account", "umbrella", "--pattern", "*", "--yes"), "umbrella"),
    ):
        ended = gantry("adopt", *wrong)
        assert ended.status in (1, 2) and why in ended.err


def test_who_may_not_adopt_is_told(gantry: Gantry, charlies: config.Profile) -> None:
    ended = gantry("--profile", "charlie", "adopt", "--pattern", "*")
    assert ended.status == 3


def test_what_is_adopted_and_rules_stand_in_the_file(gantry: Gantry, adopter: Cast, tmp_path: Path) -> None:
    bare = make_instance(adopter.alice, adopter.cluster, name="bare", independent_naming=False)
    make_topic(adopter.alice, bare, "made-here")
    assert gantry("adopt", "--pattern", "cli*", "--exclude", "*test", "--yes", "--rule").status == 0
    before = on_broker(adopter.cluster)
    file = tmp_path / "state.yaml"
    exported = gantry("export", "--instance", "bare")
    document = yaml.safe_load(exported.out)
    (instance,) = document["instances"]
    assert instance["adoptionRules"] == [{"include": "cli*", "exclude": "*test"}]
    adopted = {topic["name"] for topic in instance["topics"] if topic.get("adopted")}
    assert adopted == {ODD, "cli-orders"} and instance["groups"] == [{"groupId": "cli-service", "adopted": True}]
    instance["topics"][0]["grants"] = [{"account": adopter.charlies.tenant.uid, "relation": "subscribe"}]
    granted = instance["topics"][0]["name"]
    file.write_text(yaml.safe_dump(document))
    # All of it is let go of, and comes back from the file: names, rule and grant.
    worker.work(_forget_all(adopter).pk)
    Rule.objects.all().delete()
    applied = gantry("apply", str(file), "--yes")
    assert applied.status == 0, applied.err
    assert set(Topic.objects.filter(adopted=True).values_list("name", flat=True)) == {ODD, "cli-orders"}
    assert Group.objects.get().adopted and Rule.objects.get().exclude == "*test"
    assert Grant.objects.get().topic.name == granted
    assert "Nothing to do." in gantry("apply", str(file), "--yes").out
    # What the file does not name any more is forgotten with --prune, and never deleted from the cluster.
    instance["topics"] = [topic for topic in instance["topics"] if topic["name"] != "cli-orders"]
    instance["groups"], instance["adoptionRules"] = [], []
    file.write_text(yaml.safe_dump(document))
    pruned = gantry("apply", str(file), "--yes", "--prune")
    assert pruned.status == 0 and "names that the cluster keeps, 2" in pruned.out, pruned.err
    assert not Rule.objects.exists() and not Group.objects.exists()
    assert on_broker(adopter.cluster) == before


def test_a_file_that_adopts_into_an_instance_with_a_namespace_is_refused(
    gantry: Gantry, profile: config.Profile, tmp_path: Path
) -> None:
    file = tmp_path / "state.yaml"
    for lines in ("  topics:\n  - {name: x, adopted: true}\n", "  adoptionRules:\n  - include: x*\n"):
        file.write_text(f"version: 1\ninstances:\n- name: stock\n{lines}")
        ended = gantry("apply", str(file), "--dry-run")
        assert ended.status == 2 and "independentNaming: false" in ended.err and ":5:" in ended.err


def _forget_all(cast: Cast) -> Run:
    from console.adoption import queries, services

    (run,) = services.forget_each(actor=cast.actor("petra"), names=queries.adopted(cast.actor("petra"), cast.cluster))
    return run
