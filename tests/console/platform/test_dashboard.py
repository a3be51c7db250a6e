"""The dashboard and the rules that the docs offer ask for figures that there are."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[3]
DOCS = ROOT / "docs" / "operate"
DASHBOARD, RULES = DOCS / "grafana-dashboard.json", DOCS / "prometheus-rules.yml"
#: What Prometheus' client adds to a name.
_ENDINGS = re.compile(r"_(?:total|bucket|count|sum)$")


def figures_in_code() -> set[str]:
    found = set()
    for package in ("console", "brokercore"):
        for file in (ROOT / package).rglob("*.py"):
            found |= set(re.findall(r"\"(gantry_[a-z_]+)\"", file.read_text()))
    return {_ENDINGS.sub("", name) for name in found}


@pytest.mark.parametrize("file", [DASHBOARD, RULES], ids=lambda file: file.name)
def test_each_figure_is_there(file: Path) -> None:
    asked = {_ENDINGS.sub("", name) for name in re.findall(r"gantry_[a-z_]+", file.read_text())}
    assert len(asked) > 4
    assert asked - figures_in_code() == set()


def test_the_dashboard_is_one() -> None:
    board = json.loads(DASHBOARD.read_text())
    charts = [panel for panel in board["panels"] if panel["type"] != "row"]
    assert all(target["expr"] for panel in charts for target in panel["targets"])
    places = [tuple(panel["gridPos"].values()) for panel in board["panels"]]
    assert len(set(places)) == len(places)
    assert len({panel["id"] for panel in board["panels"]}) == len(places)


def test_each_rule_says_how_bad_it_is_and_what_to_do() -> None:
    (group,) = yaml.safe_load(RULES.read_text())["groups"]
    for rule in group["rules"]:
        assert rule["labels"]["severity"] in ("critical", "warning")
        assert rule["annotations"]["summary"].endswith(".")
