"""What clients do with the running copy meanwhile. Each deed is written down before the next one begins."""

from __future__ import annotations

import itertools
import json
import random
import re
import threading
import time
from collections import Counter
from collections.abc import Callable
from http.cookiejar import CookieJar
from pathlib import Path
from typing import Any
from urllib.error import HTTPError, URLError
from urllib.parse import urlencode
from urllib.request import HTTPCookieProcessor, OpenerDirector, Request, build_opener

import pymysql

from brokercore.smq.client import QueueClient, QueueServiceUnavailable
from brokercore.smq.wire.errors import SmqError
from console.openapi.authentication import SIGNATURE, sign
from tests.brokercore.crash.records import Client, Notebook
from tests.chaos.inflow_load import Inflow
from tests.chaos.shops import Shop
from tests.support.sql_client import SqlClient

#: Seconds after which an answer is not waited for any longer.
ANSWER_SECONDS = 30.0

#: The queue of the queue service that is sent to.
QUEUE = "chaos"

#: Changes a second of rows of a database; they are caught up with between two kills on a machine that is busy, too.
CHANGES = 25

#: Threads that send.
SENDERS = 4

#: Tasks that were not told of yet, beyond which none is submitted: a slow machine is to settle, too.
MOST_OPEN = 30

#: Small ones, and some that take the engine a second or two; none can fail but for what is done to the copy.
STATEMENTS = (
    "select {n} as n",
    "select count(*) as flights, avg(dep_delay) as delay from flights",
    "select sum(id % 7) as n from range(0, 2000000, 1, 4)",
)


class Load:
    """Producers and consumers in processes of their own, SQL and pages in threads; `stop` ends what makes new work."""

    def __init__(self, demo: dict[str, Any], folder: Path, shop: Shop, *, rate: int, seed: int) -> None:
        self.demo = demo
        self.inflow = Inflow(demo, shop, rate=CHANGES, seed=seed)
        keys = demo["access_key_id"], demo["access_key_secret"]
        place = {"namespace": demo["instance_id"], "keys": keys}
        pause = SENDERS / rate
        self.producer = Client(
            demo["namesrv"], "produce", demo["topic"], group=demo["group"], threads=SENDERS, pause=pause,
            size=600, name=f"chaos-{seed}-", **place,
        )  # fmt: skip
        self.consumer = Client(demo["namesrv"], "consume", demo["topic"], group=demo["group"], **place)
        self.notices = Client(demo["namesrv"], "consume", "query-done", group="GID_query", **place)
        chance = random.Random(f"{seed} statements")
        self.statements = Statements(demo, folder / "statements", chance, lambda: len(self.told))
        self.pages = Pages(demo, folder / "pages")
        self.queue_sender = QueueSender(demo, folder / "queue-sent")
        self.queue_receiver = QueueReceiver(demo, folder / "queue-received")

    def stop(self) -> None:
        """End producers, statements and pages; consumers go on."""
        self.statements.stop()
        self.pages.stop()
        self.queue_sender.stop()
        self.inflow.stop()
        self.producer.finish()

    def close(self) -> None:
        """End all."""
        self.statements.stop()
        self.pages.stop()
        self.queue_sender.stop()
        self.queue_receiver.stop()
        self.inflow.close()
        for client in (self.producer, self.consumer, self.notices):
            client.close()

    @property
    def told(self) -> set[str]:
        """Tasks whose notice has come."""
        return {json.loads(body)["id"] for body in self.notices.bodies("received")}


class Worker:
    """A thread that does something again and again, with a pause between."""

    def __init__(self, notebook: Path, pause: float) -> None:
        self.counts: Counter[str] = Counter()
        self._notebook = Notebook(str(notebook))
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._work, args=(pause,), daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """End after what is being done."""
        self._stopped.set()
        self._thread.join(2 * ANSWER_SECONDS)

    def note(self, kind: str, what: str, more: str = "") -> None:
        """Write down and count."""
        self._notebook.write(kind, what, more)
        self.counts[kind] += 1

    def once(self) -> None:
        """The deed; it notes itself what came of it."""
        raise NotImplementedError

    def _work(self, pause: float) -> None:
        while not self._stopped.is_set():
            self.once()
            self._stopped.wait(pause)


class Statements(Worker):
    """Submits asynchronous statements that are to be told of; `tasks` are those that the endpoint has taken."""

    def __init__(self, demo: dict[str, Any], notebook: Path, chance: random.Random, told: Callable[[], int]) -> None:
        self._demo, self._chance, self._told = demo, chance, told
        self._client: SqlClient | None = None
        self._numbers = itertools.count(1)
        self.tasks: list[str] = []
        super().__init__(notebook, pause=1.0)

    def once(self) -> None:
        """Submit one, unless many are open."""
        if len(self.tasks) - self._told() >= MOST_OPEN:
            return
        statement = self._chance.choice(STATEMENTS).format(n=next(self._numbers))
        try:
            if self._client is None:
                self._client = SqlClient(self._demo, timeout=ANSWER_SECONDS)
            task = self._client.submit(statement, notify=True)
        except (pymysql.err.Error, OSError) as error:
            self.note("refused", statement, str(error))
            self._client = None
        else:
            self.tasks.append(task)
            self.note("submitted", task, statement)


class QueueSender(Worker):
    """Sends numbered messages to a queue, which it makes first; `acknowledged` are those that the service has taken."""

    def __init__(self, demo: dict[str, Any], notebook: Path) -> None:
        self._client = queue_client(demo)
        self._numbers = itertools.count(1)
        self._is_made = False
        self.acknowledged: set[str] = set()
        super().__init__(notebook, pause=0.05)

    def once(self) -> None:
        """Send one."""
        body = f"number {next(self._numbers)}"
        try:
            if not self._is_made:
                self._client.create_queue(QUEUE)
                self._is_made = True
            self._client.send(QUEUE, body.encode())
        except (SmqError, QueueServiceUnavailable) as error:
            self.note("refused", body, str(error))
        else:
            self.acknowledged.add(body)
            self.note("acknowledged", body)


class QueueReceiver(Worker):
    """Receives from the queue and deletes; `received` counts each message."""

    def __init__(self, demo: dict[str, Any], notebook: Path) -> None:
        self._client = queue_client(demo)
        self.received: Counter[str] = Counter()
        super().__init__(notebook, pause=0.05)

    def once(self) -> None:
        """Receive a batch; what was received is deleted."""
        try:
            deliveries = self._client.receive(QUEUE, 16, wait_s=1)
            for delivery in deliveries:
                self.received[delivery.body.decode()] += 1
                self.note("received", delivery.body.decode())
            self._client.delete(QUEUE, [delivery.handle for delivery in deliveries])
        except (SmqError, QueueServiceUnavailable) as error:
            self.note("refused", "receive", str(error))


def queue_client(demo: dict[str, Any]) -> QueueClient:
    """A client of the copy's queue service."""
    return QueueClient(demo["smq_endpoint"], demo["access_key_id"], demo["access_key_secret"], timeout_s=ANSWER_SECONDS)


class Pages(Worker):
    """Opens pages of the console and calls its API by turns."""

    def __init__(self, demo: dict[str, Any], notebook: Path) -> None:
        self._demo = demo
        self._browser: OpenerDirector | None = None
        instance = f"/i/{demo['instance_id']}"
        own = itertools.cycle(
            [f"{instance}/topics/", "api", f"{instance}/groups/{demo['group']}/", "/sql/tasks/", "api", "/"]
        )
        self._next: Callable[[], str] = lambda: next(own)
        super().__init__(notebook, pause=0.5)

    def once(self) -> None:
        """Open one: answered, refused (no answer, or one that says so: 503), or broken (another 5xx)."""
        what = self._next()
        try:
            if what == "api":
                self._call_api()
            else:
                self._open(what)
        except HTTPError as error:
            text = error.read().decode(errors="replace")
            kind = "refused" if error.code in (429, 502, 503, 504) else "broken"
            self.note(kind, what, f"{error.code} {text[:2000]}")
        except (URLError, OSError, EOFError) as error:
            self.note("refused", what, str(error))
        except SignedOutError:
            self._browser = None
            self.note("refused", what, "signed out")
        else:
            self.note("answered", what)

    def _open(self, path: str) -> None:
        if self._browser is None:
            self._browser = self._signed_in()
        with self._browser.open(self._demo["console"] + path, timeout=ANSWER_SECONDS) as answer:
            answer.read()
            if "/account/login" in answer.geturl():
                raise SignedOutError

    def _signed_in(self) -> OpenerDirector:
        browser = build_opener(HTTPCookieProcessor(CookieJar()))
        address = f"{self._demo['console']}/account/login/"
        with browser.open(address, timeout=ANSWER_SECONDS) as answer:
            token = re.search(r'name="csrfmiddlewaretoken" value="([^"]+)"', answer.read().decode())
        fields = {
            "csrfmiddlewaretoken": token[1] if token else "",
            "login": self._demo["username"],
            "password": self._demo["password"],
        }
        request = Request(address, urlencode(fields).encode(), {"Referer": address})
        with browser.open(request, timeout=ANSWER_SECONDS) as answer:
            if "/account/login" in answer.geturl():
                raise SignedOutError
        return browser

    def _call_api(self) -> None:
        demo = self._demo
        parameters = {
            "_accesskey": demo["access_key_id"],
            "__preventCache": str(int(time.time() * 1000)),
            "_regionId": demo["region"],
            "instanceId": demo["instance_id"],
        }
        signed = parameters | {SIGNATURE: sign(parameters, demo["access_key_secret"])}
        with build_opener().open(
            f"{demo['console']}/json/topic/listNames?{urlencode(signed)}", timeout=ANSWER_SECONDS
        ) as a:
            answer = json.load(a)
        if not answer["success"]:
            raise URLError(f"{answer}")


class SignedOutError(Exception):
    """The console did not let us in, or not any longer."""
