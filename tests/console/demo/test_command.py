"""`manage.py demo` while the brokers are away."""

from __future__ import annotations

import json
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from django.core.management import call_command
from django.core.management.base import CommandError

from brokercore.client.errors import BrokerUnreachable, ClientError, NoPermission
from brokercore.smq.client import QueueServiceUnavailable
from console.demo import services
from console.instances.models import Cluster

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def home(settings: Any, tmp_path: Path) -> Path:
    settings.HOME, settings.NAMESRV, settings.EMBEDDED_BROKER = tmp_path, "10.0.0.5:9876", False
    return tmp_path


def fails(monkeypatch: pytest.MonkeyPatch, name: str, error: ClientError) -> None:
    def fail(cluster: Cluster) -> None:
        raise error

    monkeypatch.setattr(services, name, fail)


KNOWN = {"username": "admin@demo", "instance_id": "MQ_INST_1_a", "sql": {}, "job": "late-flights"}
AWAY = BrokerUnreachable("10.0.0.5:9876", "Connection refused")


def test_the_first_start_ends_with_the_cluster_that_does_not_serve(monkeypatch: pytest.MonkeyPatch) -> None:
    fails(monkeypatch, "create", AWAY)
    with pytest.raises(CommandError, match=r"GANTRY_NAMESRV names, 10\.0\.0\.5:9876, does not serve: No connection"):
        call_command("demo")


def test_a_key_that_is_no_super_user_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    fails(monkeypatch, "create", NoPermission(16, "User:x is not found.", "10.0.0.5:10911"))
    with pytest.raises(CommandError, match="GANTRY_BROKER_ACCESS_KEY_SECRET must be a super user of it"):
        call_command("demo")


def test_a_later_start_goes_on_and_says_that_pages_show_an_outage(monkeypatch: pytest.MonkeyPatch, home: Path) -> None:
    (home / "demo.json").write_text(json.dumps(KNOWN))
    monkeypatch.setattr(services, "exists", lambda: True)
    fails(monkeypatch, "mend", AWAY)
    said = StringIO()
    call_command("demo", stderr=said)
    assert "does not serve" in said.getvalue()
    assert "Pages show an outage until it does." in said.getvalue()
    assert json.loads((home / "demo.json").read_text())["namesrv"] == "10.0.0.5:9876"


def test_without_its_own_broker_nothing_starts(monkeypatch: pytest.MonkeyPatch, home: Path, settings: Any) -> None:
    settings.EMBEDDED_BROKER = True
    (home / "demo.json").write_text(json.dumps(KNOWN))
    monkeypatch.setattr(services, "exists", lambda: True)
    fails(monkeypatch, "mend", AWAY)
    with pytest.raises(CommandError, match=r"The broker at 10\.0\.0\.5:9876 does not serve"):
        call_command("demo")


def test_without_a_queue_service_only_the_job_waits_for_the_next_start(
    monkeypatch: pytest.MonkeyPatch, home: Path
) -> None:
    earlier = {name: value for name, value in KNOWN.items() if name != "job"}
    (home / "demo.json").write_text(json.dumps(earlier))
    monkeypatch.setattr(services, "exists", lambda: True)
    monkeypatch.setattr(services, "mend", lambda cluster: None)
    asked: list[str] = []

    def ensure(instance_id: str) -> None:
        asked.append(instance_id)
        if len(asked) == 1:
            raise QueueServiceUnavailable("The queue service at http://127.0.0.1:1 does not answer.")

    monkeypatch.setattr(services, "ensure_job", ensure)
    said = StringIO()
    call_command("demo", stderr=said)
    assert "no SQL job late-flights until the next start: The queue service" in said.getvalue()
    assert "job" not in json.loads((home / "demo.json").read_text())
    call_command("demo")
    call_command("demo")  # who has deleted it does not get it again
    assert json.loads((home / "demo.json").read_text())["job"] == "late-flights"
    assert asked == ["MQ_INST_1_a"] * 2
