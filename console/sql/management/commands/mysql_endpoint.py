"""`manage.py mysql_endpoint`: the MySQL endpoint of async SQL."""

from __future__ import annotations

import asyncio
import resource
import signal
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError

from brokercore.certificates import server_context
from console.sql.mysql.server import MySqlEndpoint


class Command(BaseCommand):
    """Serves until SIGTERM or SIGINT."""

    help = "Serve the MySQL protocol on GANTRY_HOST:GANTRY_SQL_PORT."

    def handle(self, *args: Any, **options: Any) -> None:
        """Run the endpoint. Raises CommandError when the port is in use."""
        # Every connection is a file, and so is the result that it reads; shells often start with room for a thousand.
        _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (8192 if most == resource.RLIM_INFINITY else min(most, 8192), most))
        try:
            asyncio.run(self._serve())
        except OSError as error:
            raise CommandError(
                f"Cannot listen on {settings.HOST}:{settings.SQL_PORT}: {error.strerror or error}."
                " Set GANTRY_SQL_PORT to a free port."
            ) from error

    async def _serve(self) -> None:
        stop = asyncio.Event()
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, stop.set)
        context = server_context(
            settings.HOME / "tls", "sql", ["localhost", "127.0.0.1", settings.ENDPOINT_HOST, settings.HOST]
        )
        endpoint = MySqlEndpoint(context)
        host, port = await endpoint.start(settings.HOST, settings.SQL_PORT)
        self.stdout.write(f"ready sql={host}:{port}")
        self.stdout.flush()
        await stop.wait()
        await endpoint.stop()
