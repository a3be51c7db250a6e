"""What `make up` leaves: a copy that is ready, a file that only its owner can read, nothing open to the network."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import urllib.request

import pytest

from tests.compat.servers import wants_apache
from tests.support.product import PORTS, ROOT, Product, eventually


def test_demo_json_has_every_field_and_is_the_owners_alone(product: Product) -> None:
    demo = product.demo
    own = set() if wants_apache() else {"database", "flow"}
    assert set(demo) == own | {
        "console", "username", "password", "access_key_id", "access_key_secret", "region", "instance_id", "namesrv",
        "smq_endpoint", "sql", "topic", "group", "job", "platform",
    }  # fmt: skip
    assert set(demo["sql"]) == {"host", "port", "user", "password", "database"}
    assert set(demo["platform"]) == {"username", "password"}
    assert (product.home / "demo.json").stat().st_mode & 0o777 == 0o600
    assert demo["console"].endswith(product.environ["GANTRY_WEB_PORT"])


def test_the_console_answers_and_signs_nobody_in_by_itself(product: Product) -> None:
    with urllib.request.urlopen(product.demo["console"] + "/healthz") as response:
        assert json.load(response) == {"status": "ok"}
    with urllib.request.urlopen(product.demo["console"] + "/") as response:
        assert "/account/login/" in response.url


@pytest.mark.parametrize("name", [name for name in PORTS if name != "GANTRY_DEMO_PORT" or not wants_apache()])
def test_every_port_is_bound_to_this_machine_alone(product: Product, name: str) -> None:
    port = f"{int(product.environ[name]):04X}"
    with open("/proc/net/tcp") as table:
        listening = [line.split()[1] for line in table if line.split()[3] == "0A" and line.split()[1].endswith(port)]
    assert listening == [f"0100007F:{port}"]


def test_a_second_copy_on_the_same_ports_says_which_port_and_ends(product: Product) -> None:
    environ = product.environ | {"GANTRY_HOME": str(product.home.parent / "second")}
    second = subprocess.run(
        [sys.executable, "-m", "launcher", "up"], cwd=ROOT, env=environ, capture_output=True, text=True, check=False
    )
    assert second.returncode == 1
    lines = [line for line in second.stderr.splitlines() if line.strip()]
    assert len(lines) == 1
    assert any(environ[name] in lines[0] and name in lines[0] for name in PORTS)


def test_a_broken_frame_closes_that_connection_only(product: Product) -> None:
    port = int(product.environ["GANTRY_BROKER_PORT"])
    with socket.create_connection(("127.0.0.1", port), timeout=60) as broken:
        broken.sendall(b"GET / HTTP/1.1\r\n\r\n")
        assert broken.recv(100) == b""
    with socket.create_connection(("127.0.0.1", port), timeout=60):
        pass


def test_prometheus_gets_the_figures_of_every_process_of_the_console(product: Product) -> None:
    def figures() -> str:
        port = product.environ["GANTRY_CONSOLE_METRICS_PORT"]
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics") as response:
            return str(response.read().decode())

    urllib.request.urlopen(product.demo["console"] + "/healthz").close()
    # Of the web server, of a worker, of the database and of Redis.
    eventually(lambda: 'gantry_tasks_total{result="success",task="console.outbox.tasks.sweep"}' in figures())
    told = figures()
    assert 'gantry_web_responses_total{status="200",view="health"}' in told
    assert "gantry_console_ready 1.0" in told
    assert 'gantry_celery_waiting{queue="spark"}' in told
