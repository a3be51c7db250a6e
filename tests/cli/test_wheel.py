"""The wheel, installed where nothing else of ours is, and what its extras bring with them."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from tests.support.needs import need
from tests.support.product import ROOT

pytestmark = [pytest.mark.process, pytest.mark.slow]
UV = Path(sys.prefix) / "bin" / "uv"


def uv(*arguments: str) -> str:
    done = subprocess.run([UV, *arguments], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    need(UV.exists(), "uv is not in the virtual environment: make tools")
    folder = tmp_path_factory.mktemp("wheel")
    uv("build", "--quiet", "--wheel", "--out-dir", str(folder))
    (found,) = folder.glob("gantry-*.whl")
    return found


def installed(what: str, folder: Path) -> str:
    """The Python of a new environment with `what` in it."""
    environment = folder / "environment"
    uv("venv", "--quiet", "--python", sys.executable, str(environment))
    python = str(environment / "bin" / "python")
    uv("pip", "install", "--quiet", "--python", python, what)
    return python


def names(python: str) -> set[str]:
    """What is installed beside it."""
    return {re.split("==| @ ", line)[0] for line in uv("pip", "freeze", "--python", python).splitlines()}


def test_it_holds_names_that_collide_with_nobodys(wheel: Path) -> None:
    held = {name.partition("/")[0] for name in zipfile.ZipFile(wheel).namelist()}
    assert {name for name in held if "." not in name} == {"brokercore", "gantry_cli"}


def test_the_command_line_runs_with_its_three_libraries_alone(wheel: Path, tmp_path: Path) -> None:
    python = installed(f"{wheel}[cli]", tmp_path)
    of_httpx = {"anyio", "certifi", "h11", "httpcore", "idna", "sniffio", "typing-extensions"}
    assert names(python) - of_httpx == {"click", "gantry", "httpx", "pyyaml"}
    for language, words in {"en": "calls any operation", "zh": "调用任意操作"}.items():
        said = subprocess.run(
            [Path(python).with_name("gantry"), "--help"],
            cwd=tmp_path, env={"PATH": os.environ["PATH"], "HOME": str(tmp_path), "LANGUAGE": language},
            capture_output=True, encoding="utf-8", check=True,
        )  # fmt: skip
        assert "gantry SERVICE OPERATION" in said.stdout and words in said.stdout


def test_the_client_library_needs_orjson_alone(wheel: Path, tmp_path: Path) -> None:
    python = installed(f"{wheel}[client]", tmp_path)
    assert names(python) == {"gantry", "orjson"}
    subprocess.run([python, "-c", "import brokercore.client"], cwd=tmp_path, env={}, check=True)
