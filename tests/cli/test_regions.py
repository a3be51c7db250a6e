"""The command line with several regions: calls, export and apply."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from console.instances.models import Cluster, Instance
from console.topics.models import Topic
from gantry_cli import config
from tests.cli.conftest import Run
from tests.console.east import EAST, HERE, east, several
from tests.support.cast import Cast, make_instance, make_topic

__all__ = ["east", "several"]
pytestmark = pytest.mark.django_db(transaction=True)

_FILE = """\
version: 1
instances:
- name: stock
  topics:
  - name: arrivals
    orderType: normal
- name: stock
  region: eu-2
  topics:
  - name: departures
    orderType: normal
"""


def test_calls_ask_in_the_region_that_is_said(gantry: Run, profile: config.Profile, cast: Cast, east: Cluster) -> None:
    make_instance(cast.alice, east, name="stock")
    assert "stock" in gantry("--region", EAST, "instance", "list").out
    assert "stock" not in gantry("instance", "list").out
    ended = gantry("--region", "mars", "instance", "list")
    assert ended.status == 1
    assert "The region mars does not exist; allowed are mq-private, eu-2." in ended.err


def test_a_file_makes_instances_in_their_regions(
    gantry: Run, profile: config.Profile, cast: Cast, east: Cluster, tmp_path: Path
) -> None:
    file = tmp_path / "state.yaml"
    file.write_text(_FILE)
    ended = gantry("apply", str(file), "--yes")
    assert ended.status == 0, ended.err
    assert "instance eu-2/stock" in ended.out and "instance mq-private/stock" in ended.out
    made = {one.region: one for one in Instance.objects.filter(name="stock")}
    assert {region: one.cluster.name for region, one in made.items()} == {HERE: "DefaultCluster", EAST: "east"}
    assert Topic.objects.get(name="departures").instance == made[EAST]
    assert gantry("apply", str(file), "--yes").out == "Nothing to do.\n"
    ended = gantry("export", "--no-policies")
    assert ended.status == 0, ended.err
    told = yaml.safe_load(ended.out)["instances"]
    assert {(one["region"], one["name"]) for one in told} == {(HERE, "stock"), (EAST, "stock"), (HERE, "orders")}
    file.write_text(gantry("export").out)
    assert gantry("apply", str(file), "--yes").out == "Nothing to do.\n"
    only = yaml.safe_load(gantry("export", "--instance", "eu-2/stock").out)["instances"]
    assert [(one["region"], one["name"]) for one in only] == [(EAST, "stock")]


def test_what_is_pruned_is_deleted_in_its_region(
    gantry: Run, profile: config.Profile, cast: Cast, east: Cluster, tmp_path: Path
) -> None:
    make_topic(cast.alice, make_instance(cast.alice, east, name="stock"), "old")
    file = tmp_path / "state.yaml"
    file.write_text("version: 1\ninstances:\n- {name: stock, region: eu-2, topics: []}\n")
    assert gantry("apply", str(file), "--yes", "--prune").status == 0
    assert not Topic.objects.filter(name="old").exists()


def test_a_file_with_an_unknown_region_or_twins_is_refused_before_anything_is_sent(
    gantry: Run, profile: config.Profile, cast: Cast, east: Cluster, tmp_path: Path
) -> None:
    file = tmp_path / "state.yaml"
    file.write_text("version: 1\ninstances:\n- {name: stock, region: mars}\n")
    ended = gantry("apply", str(file), "--yes")
    assert ended.status == 2
    assert f"{file}:3: the region mars does not exist; allowed are mq-private, eu-2." in ended.err
    file.write_text("version: 1\ninstances:\n- name: stock\n- {name: stock, region: mq-private}\n")
    ended = gantry("apply", str(file), "--yes")
    assert ended.status == 2
    assert "the instance mq-private/stock appears twice" in ended.err
    assert not Instance.objects.filter(name="stock").exists()


def test_with_one_region_a_file_may_say_it_and_an_export_does_not(
    gantry: Run, profile: config.Profile, cast: Cast, tmp_path: Path
) -> None:
    file = tmp_path / "state.yaml"
    file.write_text("version: 1\ninstances:\n- {name: stock, region: mq-private}\n")
    ended = gantry("apply", str(file), "--yes")
    assert ended.status == 0, ended.err
    assert "created instance stock\n" in ended.out
    assert all("region" not in one for one in yaml.safe_load(gantry("export").out)["instances"])
    file.write_text("version: 1\ninstances:\n- {name: stock, region: eu-2}\n")
    assert "the region eu-2 does not exist; allowed is mq-private." in gantry("apply", str(file), "--yes").err
