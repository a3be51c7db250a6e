"""`python -m launcher up` runs a copy; the other commands are its helpers."""

from __future__ import annotations

import asyncio
import json
import os
import socket
import sys
from collections.abc import Callable
from pathlib import Path

from launcher import backup, checks, config, leftovers, lock, plan, secrets
from launcher.config import Config, LauncherError
from launcher.guard import GRACE, Guard
from launcher.output import Output
from launcher.supervisor import Supervisor

USAGE = """\
python -m launcher up              start every process of this installation; Ctrl-C stops them
python -m launcher run COMMAND …   run a command with the environment of this installation
python -m launcher backup FILE     back up this installation into a new archive, also while it runs
python -m launcher restore FILE    restore the installation in an archive into an empty home
python -m launcher secrets FOLDER  generate secrets of an installation; with --compose FOLDER, those of compose.yaml"""


def main(arguments: list[str]) -> int:  # noqa: PLR0911 - one a command
    """Run one command; return the exit status."""
    try:
        match arguments:
            case ["up"]:
                return up()
            case ["run", *command] if command:
                run(command)
            case ["backup", file]:
                return back_up(Path(file))
            case ["restore", file]:
                return restore(Path(file))
            case ["secrets", folder]:
                return draw(folder, secrets.draw)
            case ["secrets", "--compose", folder]:
                return draw(folder, secrets.draw_for_compose)
            case _:
                _print(USAGE)
                return 2
    except LauncherError as error:
        _print(f"gantry: {error}", trouble=True)
    except KeyboardInterrupt:
        return 130
    return 1


def up() -> int:
    """Check, start, wait, stop."""
    settings = config.read(os.environ)
    # Messages, results and the database are as private as the secrets: for this process and all that it starts.
    os.umask(0o077)
    checks.raise_file_limit()
    checks.prepare_home(settings)
    held = lock.acquire(settings.home)
    checks.check_version(settings.home)
    end_leftovers(settings.home)
    plan.forget_figures(settings)
    settings, left_out = checks.leave_out_taken(settings, os.environ)
    checks.check_ports(settings)
    settings, no_database = checks.place_demo_database(settings, os.environ)
    name_server = plan.open_name_server(settings)
    secrets.draw(settings.home / "secrets")
    environ = plan.environment(settings, os.environ)
    checks.check_java(environ)
    remarks = [text for text in (*left_out, no_database, checks.engine_wall(environ)) if text]
    guard = Guard(settings.home, held.descriptors)
    colour = sys.stdout.isatty() and "NO_COLOR" not in os.environ
    output = Output(settings.home / "log", sys.stdout, colour=colour)
    try:
        status = asyncio.run(_supervise(settings, name_server, environ, output, guard, remarks))
    finally:
        output.close()
    # Not in the finally: had the supervisor failed itself, the guard would have to end its children.
    guard.dismiss()
    return status


def end_leftovers(home: Path) -> None:
    """End what an earlier start on this home has left, whose launcher and guard were both killed."""
    if count := leftovers.end(leftovers.of_home(home), grace=GRACE):
        _print(f"gantry: ended {count} processes that an earlier start had left")


async def _supervise(  # noqa: PLR0917  what a start is made of
    settings: Config,
    name_server: socket.socket | None,
    environ: dict[str, str],
    output: Output,
    guard: Guard,
    remarks: list[str],
) -> int:
    plans = plan.services(settings, name_server.fileno() if name_server else None)
    supervisor = Supervisor(plans, environ, output, guard)
    return await supervisor.run(lambda seconds: output.banner(_welcome(settings, seconds, remarks)))


def _welcome(settings: Config, seconds: float, remarks: list[str]) -> str:
    file = settings.home / "demo.json"
    try:
        demo = json.loads(file.read_text())
    except (OSError, ValueError) as error:
        raise LauncherError(f"{file}, which the demo set-up writes, cannot be read: {error}") from error
    return "\n".join(
        [
            "",
            f"  Gantry is ready, {seconds:.1f} s after the start.",
            "",
            f"    console    {demo['console']}",
            f"    user name  {demo['username']}",
            f"    password   {demo['password']}",
            "",
            *(f"  {remark}" for remark in remarks),
            *([""] if remarks else []),
            f"  Keys, instance, addresses for clients, and the platform's administrator: {file}",
            f"  Logs: {settings.home / 'log'}",
            "  Ctrl-C stops everything.",
            "",
        ]
    )


def run(command: list[str]) -> None:
    """Become `command`, which finds Redis, the secrets and the ports as this copy's own processes do."""
    settings = config.read(os.environ)
    if settings.home.exists():
        checks.check_version(settings.home)
    environ = plan.environment(settings, os.environ)
    program = [sys.executable, *command] if command[0].endswith(".py") else command
    try:
        os.execvpe(program[0], program, environ)  # noqa: S606 - the caller's own command
    except OSError as error:
        raise LauncherError(f"{program[0]} cannot be run: {error.strerror}.") from error


def back_up(file: Path) -> int:
    """Back this copy up and say what was done."""
    settings = config.read(os.environ)
    os.umask(0o077)
    # The brokers of a running copy need the processor more.
    os.nice(10)
    told = backup.back_up(settings, os.environ, file.absolute())
    _print(f"{file}: {told.files} files of {settings.home}, {told.bytes / 1e6:.1f} MB, in {told.seconds:.1f} s.")
    for sentence in told.left_out:
        _print(sentence)
    _print("It holds every secret of this installation: keep it where nobody else can read it.")
    return 0


def restore(file: Path) -> int:
    """Restore into the home and say what was done."""
    home = config.read(os.environ).home
    os.umask(0o077)
    told = backup.restore(home, file)
    _print(f"{home}: {told.files} files, {told.bytes / 1e6:.1f} MB, checked, in {told.seconds:.1f} s.")
    return 0


def draw(folder: str, drawing: Callable[[Path], list[str]]) -> int:
    """Draw secrets into `folder`; those that are there stay."""
    try:
        names = drawing(Path(folder))
    except OSError as error:
        raise LauncherError(f"{folder} cannot be written: {error.strerror}.") from error
    _print(f"Generated in {folder}: {', '.join(names) or 'nothing, all exist'}.")
    return 0


def _print(text: str, *, trouble: bool = False) -> None:
    print(text, file=sys.stderr if trouble else sys.stdout)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
