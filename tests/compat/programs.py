"""Runs the Java programs of tests/compat/java and reads the JSON lines that they print."""

from __future__ import annotations

import json
import os
import subprocess
import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from tests.support.java import QUICK_START, compile_java, maven_jars
from tests.support.needs import need_tool

JAVA = Path(__file__).parent / "java"
TARGET = JAVA / "target"

#: Enough for a message to pass on a busy machine with 2 cores; what passes is seen at once, so only failures wait.
PATIENCE_SECONDS = 40.0

Event = dict[str, Any]


class Keys(NamedTuple):
    """An AccessKey pair; an empty id means that requests are not signed."""

    access_key_id: str
    secret: str


def build_programs() -> None:
    """Fetch the clients and compile the programs, once for each change. Skips without Java and Maven."""
    need_tool("java")
    maven_jars(JAVA / "pom.xml", TARGET / "jars.stamp")
    for module in ("ons", "apache", "grpc", "mns", "spring"):
        sources = sorted([*(JAVA / "common").rglob("*.java"), *(JAVA / module).rglob("*.java")])
        compile_java(sources, f"{TARGET / module}/*", TARGET / "classes" / module)


def java_command(home: Path, module: str, *options: str) -> list[str]:
    """The command line of a JVM, with this user's home and the class path of a module, up to the name of the class."""
    class_path = f"{TARGET / 'classes' / module}:{TARGET / module}/*"
    return ["java", *QUICK_START, f"-Duser.home={home}", *options, "-cp", class_path]


@dataclass(frozen=True)
class Toolbox:
    """The built programs; `home` is the user's home of the JVMs, where the clients write their logs."""

    home: Path
    namesrv: str
    instance_id: str
    running: list[Program] = field(default_factory=list)

    def start(
        self, name: str, keys: Keys, *, topic: str, group: str, jvm: tuple[str, ...] = (), **options: object
    ) -> Program:
        """Start a program by its class name; an option `max_reconsume_times=1` becomes `--max-reconsume-times 1`.

        `jvm` are options of the JVM.
        """
        module = "ons" if name.startswith("Ons") else "apache"
        arguments = {"namesrv": self.namesrv, "instance": self.instance_id, "topic": topic, "group": group} | options
        command = [*self.java(module, *jvm), f"gantry.compat.{name}"]
        for option, value in arguments.items():
            command += ["--" + option.replace("_", "-"), str(value)]
        environment = os.environ | {"ACCESS_KEY": keys.access_key_id, "SECRET_KEY": keys.secret}
        program = Program(name, command, environment)
        self.running.append(program)
        return program

    def run(self, name: str, keys: Keys, *, topic: str, group: str, **options: Any) -> list[Event]:
        """Run a program that ends by itself and return its events, as soon as its work is done.

        Its client closes meanwhile: rocketmq-client idles for up to 3 s then.
        """
        program = self.start(name, keys, topic=topic, group=group, **options)
        program.wait_for("done")
        return program.events()

    def java(self, module: str, *options: str) -> list[str]:
        """The command line of a JVM with the class path of a module, up to the name of the class."""
        return java_command(self.home, module, *options)

    def kill_since(self, count: int = 0) -> None:
        """End all but the first `count` that run, at once: an orderly end of rocketmq-client idles for up to 3 s."""
        for program in self.running[count:]:
            program.kill()
            self.running.remove(program)


class Program:
    """One JVM: its events as they come, and its end."""

    def __init__(self, name: str, command: list[str], environment: dict[str, str]) -> None:
        self.name = name
        self._events: list[Event] = []
        self._other_lines: list[str] = []
        self._changed = threading.Condition()
        self._process = subprocess.Popen(
            command,
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            encoding="utf-8",
        )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def events(self) -> list[Event]:
        """All events until now."""
        with self._changed:
            return list(self._events)

    def named(self, event: str) -> list[Event]:
        """The events of one name."""
        return [e for e in self.events() if e["event"] == event]

    def bodies(self) -> list[str]:
        """The bodies received until now, in order, duplicates included."""
        return [e["body"] for e in self.named("received")]

    def wait_until(self, condition: Callable[[], bool], what: str, seconds: float = PATIENCE_SECONDS) -> None:
        """Wait until `condition` holds; it is looked at again with each line. Fails with all that was printed."""
        deadline = time.monotonic() + seconds
        with self._changed:
            while not condition():
                rest = deadline - time.monotonic()
                ended = self._process.poll() is not None and not self._reader.is_alive()
                if rest <= 0 or ended:
                    raise AssertionError(f"{self.name}: {what} did not come; it printed:\n{self._printed()}")
                self._changed.wait(min(rest, 0.5))

    def wait_ready(self) -> Program:
        """Wait until the client has started."""
        return self.wait_for("ready")

    def wait_for(self, event: str) -> Program:
        """Wait until an event of this name was printed."""
        self.wait_until(lambda: bool(self.named(event)), event)
        return self

    def wait_received(self, bodies: Iterable[str], seconds: float = PATIENCE_SECONDS) -> list[Event]:
        """Wait until each of `bodies` was received at least once and return all deliveries."""
        wanted = set(bodies)
        self.wait_until(lambda: wanted <= set(self.bodies()), f"receiving {sorted(wanted)}", seconds)
        return self.named("received")

    def tell(self, line: str) -> None:
        """Write a line to its input."""
        assert self._process.stdin
        self._process.stdin.write(line + "\n")
        self._process.stdin.flush()

    def stop(self) -> None:
        """Close its input and wait for its end: a consumer then commits its offsets and leaves its group."""
        assert self._process.stdin
        self._process.stdin.close()
        self.wait_for("closed")
        self.kill()

    def kill(self) -> None:
        """End it at once."""
        assert self._process.stdin and self._process.stdout
        self._process.kill()
        self._process.wait()
        self._reader.join()
        self._process.stdin.close()
        self._process.stdout.close()

    def _read(self) -> None:
        assert self._process.stdout
        for line in self._process.stdout:
            with self._changed:
                if line.startswith('{"event"'):
                    self._events.append(json.loads(line))
                else:
                    self._other_lines.append(line)
                self._changed.notify_all()

    def _printed(self) -> str:
        events = "".join(json.dumps(e, ensure_ascii=False) + "\n" for e in self._events[-40:])
        return events + "".join(self._other_lines[-40:])
