"""What one account notices: its sends, its pages and its small queries, each measured by a process of its own.

`python -m tests.bench.fairness_probes send|page|query`: the first line of its input is the account; each further line
is a number of seconds, after which it answers with the durations in ms as a JSON list. An attempt that failed counts
with the time that it took, and its text goes to standard error.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from typing import Any

from brokercore.protocol.codes import RequestCode
from tests.bench.pages import sign_in
from tests.brokercore.server.wire import Wire, properties
from tests.support.sql_client import SqlClient

SMALL = "select carrier, count(*) as flights from flights where month = 1 group by carrier"
BODY = bytes(1024)
#: Seconds between two attempts: a client that works, not one that presses.
PAUSES = {"send": 0.02, "page": 0.2, "query": 0.5}
Account = dict[str, Any]


def sender(account: Account) -> Callable[[], object]:
    """Sends 1 KB on a connection that stays open."""
    wire = Wire(account["broker"], (account["key"][0], account["key"][1]))
    wire.socket.settimeout(60)

    def send() -> None:
        answer = wire.publish(account["topic"], BODY, properties(UNIQ_KEY="probe"))
        if answer.code:
            raise RuntimeError(f"{RequestCode.SEND_MESSAGE_V2.name}: {answer.remark}")

    return send


def visitor(account: Account) -> Callable[[], object]:
    """Looks at the overview and at its topics by turns, signed in once."""
    browser = sign_in(account)
    addresses = [f"{account['console']}/", f"{account['console']}/i/{account['instance']}/topics/"]

    def visit() -> None:
        addresses.reverse()
        with browser.open(addresses[0], timeout=60) as answer:
            answer.read()

    return visit


def analyst(account: Account) -> Callable[[], object]:
    """Asks a small question on a connection that stays open, and waits for its answer."""
    client = SqlClient(account, user=account["key"][0], password=account["key"][1], database="bench")
    return lambda: client.run(SMALL)


PROBES = {"send": sender, "page": visitor, "query": analyst}


def measure(attempt: Callable[[], object], seconds: float, pause: float) -> list[float]:
    """The durations of attempts, in ms."""
    durations, end = [], time.monotonic() + seconds
    while time.monotonic() < end:
        began = time.monotonic()
        try:
            attempt()
        except Exception as error:  # noqa: BLE001 (whatever it is, it counts as an attempt)
            sys.stderr.write(f"{type(error).__name__}: {error}\n")
        durations.append((time.monotonic() - began) * 1000)
        time.sleep(pause)
    return durations


def main() -> None:
    """Measure as long as somebody asks."""
    kind = sys.argv[1]
    attempt = PROBES[kind](json.loads(sys.stdin.readline()))
    for line in sys.stdin:
        print(json.dumps(measure(attempt, float(line), PAUSES[kind])), flush=True)


if __name__ == "__main__":
    main()
