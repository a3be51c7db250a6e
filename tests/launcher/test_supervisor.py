from __future__ import annotations

import os
import re
import signal
import time
from collections.abc import Callable
from pathlib import Path

from launcher.supervisor import STOP_LIMIT
from tests.launcher.conftest import Launched, poll

Launch = Callable[..., Launched]


def test_it_starts_a_service_once_what_it_needs_is_ready(launch: Launch) -> None:
    launched = launch(
        """service("base", GETS_READY_LATE), one_off("set-up", "print('done')", "base"),
        service("top", GETS_READY, "base", "set-up")"""
    )
    launched.await_line("all ready")
    assert launched.index("base    | ready") < launched.index("set-up  | done") < launched.index("top     | ready")
    launched.ask()
    assert launched.end() == 0


def test_it_stops_in_the_reverse_order_and_leaves_none_behind(launch: Launch) -> None:
    launched = launch("""service("base", GETS_READY), service("top", LEAVES_GRANDCHILDREN, "base")""")
    launched.await_line("all ready")
    assert len(launched.living()) == 4
    launched.ask(signal.SIGINT)
    assert launched.end() == 0
    assert launched.index("top stopped") < launched.index("base stopped")
    assert launched.living() == []


def test_it_kills_who_does_not_listen_within_the_limit(launch: Launch) -> None:
    launched = launch(
        """service("base", IGNORES_SIGTERM), service("deaf", IGNORES_SIGTERM, "base", grace=60.0),
        service("good", GETS_READY, "base")"""
    )
    launched.await_line("all ready")
    began = time.monotonic()
    launched.ask()
    assert launched.end() == 0
    assert time.monotonic() - began < STOP_LIMIT + 10, "and not after the minute that it has"
    assert launched.has("deaf killed")
    assert launched.has("good stopped")
    assert launched.living() == []


def test_it_hurries_at_a_second_signal(launch: Launch) -> None:
    launched = launch("""service("deaf", IGNORES_SIGTERM, grace=10.0)""")
    launched.await_line("all ready")
    began = time.monotonic()
    launched.ask(signal.SIGINT)
    launched.await_line("stopping")
    poll(lambda: time.monotonic() - began > 1.1, 5, lambda: launched.text)
    launched.ask(signal.SIGINT)
    assert launched.end() == 0
    assert time.monotonic() - began < 9, "and not after the ten seconds that it has"
    assert launched.has("deaf killed")


def test_it_takes_the_same_signal_sent_twice_at_once_as_one(launch: Launch) -> None:
    slow = "import signal, sys, time; signal.signal(15, lambda *_: (time.sleep(0.5), sys.exit())); "
    launched = launch(f"""service("slow", {slow!r} + GETS_READY)""")
    launched.await_line("all ready")
    launched.ask()
    launched.ask()
    assert launched.end() == 0
    assert launched.has("slow stopped")


def test_it_starts_again_what_dies_and_ends_what_that_left(launch: Launch) -> None:
    launched = launch("""service("fragile", LEAVES_GRANDCHILDREN)""")
    launched.await_line("all ready")
    before = launched.living()
    os.kill(min(before), signal.SIGKILL)
    launched.await_line("fragile is ready again")
    assert launched.has("fragile was ended by SIGKILL; starting it again in 1 s")
    assert not set(before) & set(launched.living())
    launched.ask()
    assert launched.end() == 0
    assert launched.living() == []


def test_it_waits_longer_with_each_death_in_a_row(launch: Launch) -> None:
    launched = launch("""service("hopeless", "print('ready'); import time; time.sleep(0.1)")""")
    launched.await_line("starting it again in 1 s")
    launched.await_line("starting it again in 2 s")
    launched.ask()
    assert launched.end() == 0


def test_it_ends_with_the_last_lines_of_what_cannot_start(launch: Launch) -> None:
    launched = launch("""service("base", GETS_READY), one_off("set-up", DIES_AT_ONCE, "base")""")
    assert launched.end() == 1
    assert launched.has("set-up ended with exit status 3 before it was ready; its last lines:")
    assert launched.has("    no such table: things")
    assert not launched.has("Traceback")
    assert not launched.has("all ready")
    assert launched.living() == []


def test_it_ends_when_a_service_is_not_ready_in_time(launch: Launch) -> None:
    launched = launch("""service("late", NEVER_READY, deadline=0.5)""")
    assert launched.end() == 1
    assert launched.has("late was not ready within 0 s") or launched.has("late was not ready within 1 s")
    assert launched.living() == []


def test_it_gives_what_starts_slowly_again_more_time_until_it_is_ready(launch: Launch, tmp_path: Path) -> None:
    """A machine may be so busy that nothing starts in its usual time: killed each time, it would never be there."""
    slow_from_then_on = """
import os, pathlib, signal, time
mark = pathlib.Path({mark!r})
if mark.exists():
    time.sleep(2.5)
mark.touch()
print("ready", flush=True)
signal.pause()
""".format(mark=str(tmp_path / "mark"))
    launched = launch(f"""service("slow", {slow_from_then_on!r}, deadline=2.0)""")
    launched.await_line("all ready")
    os.kill(launched.living()[0], signal.SIGKILL)
    launched.await_line("slow was not ready within 2 s")
    launched.await_line("slow is ready again")


def test_it_stops_while_it_still_starts(launch: Launch) -> None:
    launched = launch("""service("late", NEVER_READY), service("top", GETS_READY, "late")""")
    launched.await_line("still trying")
    launched.ask()
    assert launched.end() == 0
    assert launched.living() == []


def test_its_children_end_when_it_is_killed_itself(launch: Launch) -> None:
    launched = launch("""service("base", GETS_READY), service("top", LEAVES_GRANDCHILDREN, "base")""")
    launched.await_line("all ready")
    assert launched.living()
    launched.process.kill()
    poll(lambda: not launched.living(), 15, lambda: launched.text)


def test_a_line_is_kept_in_the_log_of_its_process(launch: Launch) -> None:
    launched = launch("""service("base", GETS_READY)""")
    launched.await_line("all ready")
    launched.ask()
    launched.end()
    log = launched.home / "log" / "base.log"
    assert re.fullmatch(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3} ready\n", log.read_text())
    assert log.stat().st_mode & 0o777 == 0o600


def test_what_a_process_says_while_it_stops_is_for_its_log(launch: Launch) -> None:
    code = "import signal; signal.signal(15, lambda *_: 1 / 0); print('ready'); signal.pause()"
    launched = launch(f"""service("base", {code!r})""")
    launched.await_line("all ready")
    launched.ask()
    launched.end()
    assert not launched.has("Traceback")
    assert "Traceback" in (launched.home / "log" / "base.log").read_text()
    assert launched.has("base stopped")


def test_it_goes_on_without_its_terminal(launch: Launch) -> None:
    launched = launch("""service("base", GETS_READY), service("chatty", GETS_READY_LATE, "base")""", listen=False)
    assert launched.process.stdout
    launched.process.stdout.close()
    log = launched.home / "log" / "chatty.log"
    poll(lambda: log.exists() and log.read_text().endswith(" ready\n"), 20, lambda: "no output is read")
    launched.ask(signal.SIGHUP)
    assert launched.process.wait(20) == 0


def test_it_starts_an_expendable_service_again_at_once_however_often(launch: Launch, tmp_path: Path) -> None:
    dies_thrice = """
import pathlib, time
print("ready", flush=True)
mark = pathlib.Path({mark!r})
deaths = len(mark.read_text()) if mark.exists() else 0
mark.write_text("x" * (deaths + 1))
if deaths < 3:
    raise SystemExit(70)
time.sleep(600)
""".format(mark=str(tmp_path / "deaths"))
    launched = launch(f"""service("jvm", {dies_thrice!r}, expendable=70)""")
    launched.await_line("jvm ended with exit status 70; starting it again in 0 s", count=3)
    launched.ask()
    assert launched.end() == 0
