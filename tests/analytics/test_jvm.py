"""A JVM ends with the process that started it, also before it has told how it is reached; what its Pythons import."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from analytics import jvm
from tests.support.broker import eventually
from tests.support.processes import children

#: A program that never tells its port, and reads nothing: so is a JVM that could not write to a full disk.
STUCK = """
import sys, threading
from pathlib import Path
from analytics import jvm
threading.Thread(target=jvm._started, args=(["sleep", "600"], {}, Path(sys.argv[1]) / "told" / "gateway")).start()
"""


def test_a_jvm_that_is_stuck_ends_with_its_process(tmp_path: Path) -> None:
    process = subprocess.Popen([sys.executable, "-c", STUCK, str(tmp_path)], env=os.environ)
    try:
        (stuck,) = eventually(lambda: [pid for pid in children(process.pid) if name_of(pid) == "sleep"], 60)
    finally:
        process.kill()
        process.wait()
    eventually(lambda: name_of(stuck) != "sleep", 10)


def name_of(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/comm").read_text().strip()
    except OSError:
        return ""


def imported(folder: Path, *first: Path) -> list[str]:
    """From where a Python process of the JVM imports Py4J and PySpark; Spark puts the `first` of its path there."""
    path = os.pathsep.join(str(entry) for entry in (*first, jvm._python_path(folder)))
    code = "import py4j, pyspark; print(py4j.__file__); print(pyspark.__file__)"
    environment = {**os.environ, "PYTHONPATH": path, "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    return done.stdout.split()


@pytest.mark.process
def test_its_python_processes_import_the_installed_pyspark_and_no_archive_of_it(tmp_path: Path) -> None:
    archives = sorted((jvm._spark_home() / "python" / "lib").glob("*.zip"))
    assert len(archives) == 2
    installed = jvm._spark_home().parent
    assert imported(tmp_path, *archives) == [str(installed / name / "__init__.py") for name in ("py4j", "pyspark")]


@pytest.mark.process
def test_an_archive_that_is_not_installed_stays(tmp_path: Path) -> None:
    folder = tmp_path / "elsewhere" / "pyspark" / "python" / "lib"
    folder.mkdir(parents=True)
    for name in ("py4j", "pyspark"):
        with zipfile.ZipFile(folder / f"{name}.zip", "w") as archive:
            archive.writestr(f"{name}/__init__.py", "")
    found = imported(tmp_path, *sorted(folder.iterdir()))
    assert found == [f"{folder / name}.zip/{name}/__init__.py" for name in ("py4j", "pyspark")]


@pytest.mark.process
def test_its_python_processes_do_without_pandas(tmp_path: Path) -> None:
    """Arrow imports it when it is there, with the first value that becomes part of an array."""
    code = "import sys, pyarrow; print(pyarrow.array([1]).to_pylist()); print('pandas' in sys.modules); import pandas"
    environment = {**os.environ, "PYTHONPATH": str(jvm._python_path(tmp_path)), "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=False)
    assert done.stdout.split() == ["[1]", "False"]
    assert "ModuleNotFoundError" in done.stderr
