"""`python -m tests.brokercore.crash.launched`: what `make up` starts, of its services Redis and broker only."""

from __future__ import annotations

import asyncio
import os
import sys

from launcher import checks, config, lock, plan, secrets
from launcher.__main__ import end_leftovers
from launcher.guard import Guard
from launcher.output import Output
from launcher.supervisor import Supervisor


def main() -> int:
    """Run until SIGTERM; returns the exit status."""
    settings = config.read(os.environ)
    checks.prepare_home(settings)
    held = lock.acquire(settings.home)
    end_leftovers(settings.home)
    secrets.draw(settings.home / "secrets")
    guard = Guard(settings.home, held.descriptors)
    output = Output(settings.home / "log", sys.stdout, colour=False)
    services = [service for service in plan.services(settings) if service.name in ("redis", "broker")]

    async def supervise() -> int:
        environ = plan.environment(settings, os.environ)
        return await Supervisor(services, environ, output, guard).run(lambda _: output.banner("all ready"))

    status = asyncio.run(supervise())
    output.close()
    guard.dismiss()
    return status


if __name__ == "__main__":
    sys.exit(main())
