from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from launcher import checks, config, lock
from launcher.config import ROOT
from tests.support.product import free_ports

pytestmark = pytest.mark.process


def launcher(home: Path, *arguments: str, **environ: str) -> subprocess.CompletedProcess[str]:
    """Run the launcher on ports that are free now."""
    ports = dict(zip(config.PORTS, map(str, free_ports(len(config.PORTS))), strict=True))
    return subprocess.run(
        [sys.executable, "-m", "launcher", *arguments],
        cwd=ROOT,
        env={"PATH": os.environ["PATH"], "GANTRY_HOME": str(home), **ports, **environ},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def in_one_line(done: subprocess.CompletedProcess[str]) -> str:
    """What a start that failed says: one line, exit status 1."""
    assert done.returncode == 1
    assert done.stdout == ""
    assert done.stderr.startswith("gantry: ")
    assert done.stderr.count("\n") == 1
    return done.stderr


def test_a_port_in_use_ends_the_start(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = str(listener.getsockname()[1])
        said = in_one_line(launcher(tmp_path, "up", GANTRY_SQL_PORT=port))
    assert f"Port {port} on 127.0.0.1 is in use" in said
    assert "GANTRY_SQL_PORT" in said


def test_a_home_that_cannot_be_written_ends_the_start(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    assert "set GANTRY_HOME to a folder that you own" in in_one_line(launcher(tmp_path / "file" / "home", "up"))


def test_a_java_that_is_too_old_ends_the_start(tmp_path: Path) -> None:
    java = tmp_path / "jdk" / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text("#!/bin/sh\necho 'openjdk version \"11.0.2\" 2019-01-15' >&2\n")
    java.chmod(0o755)
    assert "17 or later" in in_one_line(launcher(tmp_path / "home", "up", JAVA_HOME=str(tmp_path / "jdk")))


def test_a_value_that_makes_no_sense_ends_the_start(tmp_path: Path) -> None:
    assert "GANTRY_WEB_PORT is 'http'" in in_one_line(launcher(tmp_path, "up", GANTRY_WEB_PORT="http"))


def test_a_second_start_on_the_same_home_ends(tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    held = lock.acquire(tmp_path)
    assert "already runs on" in in_one_line(launcher(tmp_path, "up"))
    held.release()


@pytest.mark.parametrize("arguments", [("up",), ("run", "true")])
def test_a_home_of_a_newer_release_is_refused(tmp_path: Path, arguments: tuple[str, ...]) -> None:
    (tmp_path / "version").write_text(f"{checks.HOME_VERSION + 1}\n")
    said = in_one_line(launcher(tmp_path, *arguments))
    assert f"was used by a newer release (version {checks.HOME_VERSION + 1}; this one knows up to" in said


def test_a_version_that_is_none_is_refused_and_a_home_without_one_gets_it(tmp_path: Path) -> None:
    launcher(tmp_path, "run", "true")
    assert (tmp_path / "version").read_text() == f"{checks.HOME_VERSION}\n"
    (tmp_path / "version").write_text("")
    assert "is not a valid home version" in in_one_line(launcher(tmp_path, "run", "true"))


@pytest.mark.parametrize("arguments", [(), ("down",), ("run",)])
def test_it_tells_its_use(tmp_path: Path, arguments: tuple[str, ...]) -> None:
    done = launcher(tmp_path, *arguments)
    assert done.returncode == 2
    assert "python -m launcher up" in done.stdout


def test_it_runs_a_command_with_the_environment_of_the_copy(tmp_path: Path) -> None:
    show = "import os; print(os.environ['REDIS_URL'], os.environ['GANTRY_MASTER_KEY_FILE'])"
    done = launcher(tmp_path, "run", sys.executable, "-c", show)
    assert done.stdout.split() == [f"unix://{tmp_path}/run/redis.sock", f"{tmp_path}/secrets/master_key"]


def test_it_says_when_a_command_is_not_there(tmp_path: Path) -> None:
    assert "no-such-command cannot be run" in in_one_line(launcher(tmp_path, "run", "no-such-command"))


def test_it_draws_secrets_without_anything_installed(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-S", "-m", "launcher", "secrets", "--compose", str(tmp_path / "secrets")],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "database_url" in done.stdout
