"""compose.yaml: valid by the Compose schema, sound as a deployment, and documented."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from launcher import secrets

ROOT = Path(__file__).resolve().parent.parent
COMPOSE: dict[str, Any] = yaml.safe_load((ROOT / "compose.yaml").read_text())
SERVICES: dict[str, dict[str, Any]] = COMPOSE["services"]
OURS = ("migrate", "web", "worker", "spark", "pipelines", "beat", "sql", "smq", "tracking")
each_service = pytest.mark.parametrize("name", SERVICES)


def test_it_is_valid_by_the_compose_schema() -> None:
    schema = json.loads((ROOT / "tests/support/compose-spec/schema.json").read_text())
    jsonschema.Draft7Validator(schema).validate(COMPOSE)


def test_the_schema_refuses_a_misspelt_key() -> None:
    schema = json.loads((ROOT / "tests/support/compose-spec/schema.json").read_text())
    broken = {**COMPOSE, "services": {"web": {**SERVICES["web"], "helthcheck": {}}}}
    with pytest.raises(jsonschema.ValidationError, match="helthcheck"):
        jsonschema.Draft7Validator(schema).validate(broken)


def test_every_part_of_the_production_shape_is_there() -> None:
    parts = {"postgres", "redis", "namesrv", "broker", "spark-master", "spark-worker"}
    assert set(SERVICES) == parts | set(OURS)


@each_service
def test_every_service_has_a_health_check_unless_it_ends_by_itself(name: str) -> None:
    service = SERVICES[name]
    assert service["restart"] == "no" or {"test", "interval", "timeout", "retries"} <= service["healthcheck"].keys()


@each_service
def test_what_a_service_depends_on_is_there_and_has_the_condition_it_waits_for(name: str) -> None:
    for other, wait in SERVICES[name].get("depends_on", {}).items():
        ends = SERVICES[other]["restart"] == "no"
        assert wait["condition"] == ("service_completed_successfully" if ends else "service_healthy")


@each_service
def test_nothing_is_published_beyond_this_machine(name: str) -> None:
    for port in SERVICES[name].get("ports", []):
        assert port.startswith("127.0.0.1:")
        assert name in ("web", "sql", "smq")


@each_service
def test_only_what_is_published_can_reach_the_outside(name: str) -> None:
    assert COMPOSE["networks"]["inside"]["internal"] is True
    # What captures changes reaches databases of customers, and nobody reaches it.
    assert ("outside" in SERVICES[name]["networks"]) == (bool(SERVICES[name].get("ports")) or name == "tracking")


@pytest.mark.parametrize("name", ["spark", "pipelines", "spark-master", "spark-worker"])
def test_what_runs_statements_can_change_the_lake_and_its_scratch_folder_only(name: str) -> None:
    service = SERVICES[name]
    assert service["read_only"] is True
    assert service["cap_drop"] == ["ALL"]
    assert service["security_opt"] == ["no-new-privileges:true"]
    assert "privileged" not in service
    assert "cap_add" not in service
    assert service["tmpfs"] == ["/tmp"]
    assert service["volumes"] == ["lake:/var/lib/gantry/lake", "/var/lib/gantry/spark"]
    made = re.search(r"install -d -o gantry .*", (ROOT / "Dockerfile").read_text())
    assert made and "/var/lib/gantry/spark" in made[0].split()


@pytest.mark.parametrize("name", ["spark-master", "spark-worker"])
def test_executors_have_no_secret_and_reach_neither_the_database_nor_redis(name: str) -> None:
    service = SERVICES[name]
    assert service["networks"] == ["engine"]
    assert not service["secrets"]
    assert not service["environment"].keys() & COMPOSE["x-settings"].keys()
    assert COMPOSE["networks"]["engine"]["internal"] is True
    reached = {other for other, settings in SERVICES.items() if "engine" in settings["networks"]}
    assert reached == {"spark", "pipelines", "spark-master", "spark-worker", "broker", "namesrv"}


@pytest.mark.parametrize("name", OURS)
def test_no_process_of_ours_has_capabilities(name: str) -> None:
    assert SERVICES[name]["cap_drop"] == ["ALL"]
    assert SERVICES[name]["security_opt"] == ["no-new-privileges:true"]


@each_service
def test_secrets_come_by_file_and_are_declared(name: str) -> None:
    service = SERVICES[name]
    mounted = set(service.get("secrets", []))
    assert mounted <= COMPOSE["secrets"].keys()
    named = set(re.findall(r"/run/secrets/(\w+)", json.dumps(service)))
    assert named <= mounted
    for variable in service.get("environment", {}):
        assert not re.search(r"(SECRET|PASSWORD|_KEY|DATABASE_URL|REDIS_URL|ACCESS_KEY_ID)$", variable)


def test_every_secret_file_is_drawn_by_the_launcher(tmp_path: Path) -> None:
    secrets.draw_for_compose(tmp_path)
    for name, secret in COMPOSE["secrets"].items():
        assert secret["file"] == f"./secrets/{name}"
        assert (tmp_path / name).is_file()


@each_service
def test_every_variable_of_a_service_is_documented(name: str) -> None:
    page = (ROOT / "docs" / "operate" / "settings.md").read_text()
    for variable in SERVICES[name].get("environment", {}):
        assert f"`{variable.removesuffix('_FILE')}`" in page or f"`{variable}`" in page


def test_every_substituted_variable_is_documented() -> None:
    page = (ROOT / "docs" / "operate" / "settings.md").read_text()
    for variable in re.findall(r"(?<!\$)\$\{(\w+)", (ROOT / "compose.yaml").read_text()):
        assert f"`{variable}`" in page


def test_the_image_takes_the_same_uv_as_make() -> None:
    pinned = re.search(r'UV_VERSION = "(.+)"', (ROOT / "launcher" / "bootstrap.py").read_text())
    assert pinned
    assert f"uv=={pinned[1]}" in (ROOT / "Dockerfile").read_text()


def test_the_image_has_nothing_that_only_the_demo_needs() -> None:
    assert "--all-extras --no-extra demo" in (ROOT / "Dockerfile").read_text()
    assert "GANTRY_DEMO" not in json.dumps(COMPOSE)
    assert "demo" not in json.dumps([service.get("command", []) for service in SERVICES.values()])


def test_the_image_holds_every_folder_that_is_run() -> None:
    ignored = (ROOT / ".dockerignore").read_text().split()
    dockerfile = (ROOT / "Dockerfile").read_text()
    for folder in ("console", "brokercore", "mysqlwire", "analytics", "launcher", "templates", "static"):
        assert f"!{folder}" in ignored
        assert f"COPY {folder} {folder}" in dockerfile
