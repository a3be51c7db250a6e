"""Makes `.venv` what uv.lock says: `python3 launcher/bootstrap.py [--dev]`. Called by make before everything else.

Runs under whatever python3 a machine has, so it keeps to syntax that an old one can read before it is told so.
"""

import hashlib
import os
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
VENV = os.path.join(ROOT, ".venv")
PYTHON = os.path.join(VENV, "bin", "python")
UV = os.path.join(VENV, "bin", "uv")
#: Says what the environment was made from, and whether with the tools of development ("dev") or without ("run").
STAMP = os.path.join(VENV, "gantry-synced")
UV_VERSION = "0.13.8"
OLDEST = (3, 11)


def main(*arguments: str) -> None:
    """Make or renew the virtual environment unless it is what the lock file says already."""
    if sys.version_info < OLDEST:
        version = ".".join(str(part) for part in sys.version_info[:2])
        stop(
            f"{sys.executable} is Python {version} and Gantry needs 3.11 or later: "
            "install one and pass it, `make up PYTHON=/path/to/python3`."
        )
    if not os.path.exists(PYTHON):
        make_environment()
    found = read(STAMP)
    kind = "dev" if "--dev" in arguments or found.startswith("dev ") else "run"
    wanted = f"{kind} {lock_digest()}"
    if found == wanted:
        return
    if not os.path.exists(UV) or UV_VERSION not in said(UV, "--version").split():
        install_uv()
    say("installing the packages of uv.lock into .venv")
    # Inexact, since uv itself lives there and is not in the lock file.
    groups = [] if kind == "dev" else ["--no-dev"]
    call(
        "the dependencies could not be installed",
        UV,
        "sync",
        "--frozen",
        "--inexact",
        "--quiet",
        "--all-extras",
        *groups,
    )
    with open(STAMP, "w") as file:
        file.write(wanted)


def make_environment() -> None:
    """Make `.venv` with the running Python."""
    say("creating .venv")
    try:
        import ensurepip  # noqa: F401
        import venv  # noqa: F401
    except ImportError:
        stop(
            f"{sys.executable} comes without its venv module: install it "
            "(Debian, Ubuntu: apt-get install python3-venv), then run make again."
        )
    call("no virtual environment could be created", sys.executable, "-m", "venv", "--clear", VENV)


def install_uv() -> None:
    """Install the pinned uv into `.venv`; one that uv itself made has no pip yet."""
    if subprocess.run([PYTHON, "-c", "import pip"], stderr=subprocess.DEVNULL, check=False).returncode:  # noqa: S603
        call("pip could not be installed", PYTHON, "-m", "ensurepip")
    call("uv could not be installed", PYTHON, "-m", "pip", "install", "--quiet", f"uv=={UV_VERSION}")


def lock_digest() -> str:
    """Return what changes whenever the dependencies, their groups or the Python that made `.venv` change."""
    text = read(os.path.join(VENV, "pyvenv.cfg"))
    for name in ("uv.lock", "pyproject.toml"):
        text += read(os.path.join(ROOT, name))
    return hashlib.sha256(text.encode()).hexdigest()


def read(path: str) -> str:
    """Return the text of a file, nothing when it is not there."""
    if not os.path.exists(path):
        return ""
    with open(path, encoding="utf-8") as file:
        return file.read()


def said(*command: str) -> str:
    """Return what a command prints."""
    return subprocess.run(command, stdout=subprocess.PIPE, check=False).stdout.decode()  # noqa: S603 - ours


def call(failure: str, *command: str) -> None:
    """Run a command; end with `failure` in one sentence when it fails. It has said the details itself."""
    environ = dict(os.environ, UV_PROJECT_ENVIRONMENT=VENV, UV_PYTHON=PYTHON, UV_PYTHON_DOWNLOADS="never")
    environ.pop("VIRTUAL_ENV", None)
    if subprocess.run(command, cwd=ROOT, env=environ, check=False).returncode:  # noqa: S603 - ours
        stop(f"{failure}, for the reason above: fix it and run make again.")


def say(text: str) -> None:
    """Show progress."""
    sys.stdout.write(f"gantry: {text}\n")
    sys.stdout.flush()


def stop(text: str) -> None:
    """End with one sentence and status 1."""
    sys.exit(f"gantry: {text}")


if __name__ == "__main__":
    try:
        main(*sys.argv[1:])
    except KeyboardInterrupt:
        sys.exit(130)
