"""A disk that is really full: one sentence at every door, no flood of lines, and no attempt missing in the trail."""

from __future__ import annotations

import io
import logging
import sqlite3
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pymysql
import pytest
from django.db import connection, connections
from django.test import Client
from django.urls import reverse

from analytics.errors import LakeUnavailable
from analytics.lake.folder import FolderStore
from analytics.lake.locations import parse_location
from brokercore.full_disk import is_full
from brokercore.logs import FloodFilter
from console.accounts.actor import Actor
from console.accounts.models import User
from console.audit.models import Entry
from console.audit.record import unwritten
from launcher.output import Output
from tests.console.openapi.caller import Caller
from tests.console.sql.mysql.conftest import connect, endpoint, tls_context
from tests.support.disk import fill, small_disk
from tests.support.product import eventually
from tests.support.redis_server import RedisServer
from tests.support.sql_cast import Cast, cast, handed_over, no_acl

__all__ = ["cast", "endpoint", "handed_over", "no_acl", "tls_context"]
SENTENCE = "is full: nothing can be saved. Make room there, then try again."


@dataclass
class Disk:
    """A small disk with the console's database on it."""

    folder: Path
    ballast: Path | None = None

    def fill(self) -> None:
        """Take all room."""
        self.ballast = fill(self.folder)

    def make_room(self) -> None:
        """Give it back."""
        if self.ballast:
            self.ballast.unlink()
        self.ballast = None

    @property
    def sentence(self) -> str:
        return f"The disk of {self.folder} {SENTENCE}"


@pytest.fixture
def disk(cast: Cast) -> Iterator[Disk]:
    """The database of the test moved to a small disk for its time."""
    if connection.vendor != "sqlite":
        pytest.skip("PostgreSQL keeps its own disk")
    with small_disk(32 << 20) as folder:
        connection.close()
        values = connections.settings["default"]
        before, values["NAME"] = values["NAME"], str(folder / "console.sqlite3")
        with sqlite3.connect(before) as source:
            source.execute("VACUUM INTO ?", [values["NAME"]])
        source.close()
        connection.settings_dict["NAME"] = values["NAME"]
        found = Disk(folder)
        try:
            User.objects.update(first_name="warm")  # the files beside the database are there now
            yield found
        finally:
            found.make_room()
            unwritten.write()
            connection.close()
            values["NAME"] = connection.settings_dict["NAME"] = before


pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.broker]


def signed_in(actor: Actor) -> Client:
    client = Client(raise_request_exception=False)
    client.force_login(actor.person)
    return client


def test_a_page_says_so_and_the_attempt_is_in_the_trail_afterwards(disk: Disk, cast: Cast) -> None:
    alice = signed_in(cast.alice)
    disk.fill()
    asked = [alice.post(reverse("accounts.user_create"), {"name": f"late-{n}"}) for n in range(25)]
    assert {answer.status_code for answer in asked} == {503}
    assert all(disk.sentence in answer.text for answer in asked)
    assert all("Redis" not in answer.text and "does not answer" not in answer.text for answer in asked)
    read = alice.get(reverse("sql.tasks"))
    assert read.status_code == 200, read.text[-1500:]  # what is there can be read
    disk.make_room()
    entries = Entry.objects.filter(result="failed", action__in=("accounts.user_create", "accounts.user.create"))
    eventually(lambda: entries.count() >= len(asked), seconds=30, what="the attempts are in the trail")
    assert entries.count() == len(asked)
    assert alice.post(reverse("accounts.user_create"), {"name": "early"}).status_code in (200, 302)


def test_the_management_api_says_so(disk: Disk, cast: Cast, redis: RedisServer, settings: Any) -> None:
    backend = "django.core.cache.backends.redis.RedisCache"
    settings.CACHES = {"default": {"BACKEND": backend, "LOCATION": f"{redis.url}?db=2"}}
    caller = Caller(cast.key.access_key_id, cast.key.access_key_secret)
    document = '{"Version": "1", "Statement": [{"Effect": "Allow", "Action": "mq:SUB", "Resource": "acs:mq:*:*:*"}]}'
    disk.fill()
    answer = caller("policy/create", "post", policy="late", document=document)
    assert (answer["success"], answer["dynamicMessage"]) == (False, disk.sentence)
    disk.make_room()
    assert caller("policy/create", "post", policy="late", document=document)["success"]


def test_the_management_api_says_so_when_it_is_the_disk_of_redis(cast: Cast, settings: Any) -> None:
    caller = Caller(cast.key.access_key_id, cast.key.access_key_secret)
    with small_disk() as folder:
        server = RedisServer(folder, "--auto-aof-rewrite-percentage", "0")
        server.start()
        try:
            backend = "django.core.cache.backends.redis.RedisCache"
            settings.CACHES = {"default": {"BACKEND": backend, "LOCATION": f"{server.url}?db=2"}}
            assert caller("policy/list")["success"]
            ballast = fill(folder)

            def refused() -> str:
                return str(caller("policy/list")["dynamicMessage"])

            eventually(lambda: SENTENCE in refused(), seconds=60)
            ballast.unlink()
            eventually(lambda: caller("policy/list")["success"], seconds=60)
        finally:
            server.kill()


def test_the_mysql_port_says_so(disk: Disk, cast: Cast, endpoint: int, handed_over: list[str]) -> None:
    with connect(endpoint) as session, session.cursor() as cursor:
        disk.fill()
        with pytest.raises(pymysql.err.Error) as refused:
            cursor.execute("/*+ run_async=true */ select 1")
        assert refused.value.args == (1021, disk.sentence)
        disk.make_room()
        cursor.execute("/*+ run_async=true */ select 1")
    assert len(handed_over) == 1


def test_the_lake_says_so() -> None:
    with small_disk() as folder:
        (folder / "bucket").mkdir()
        store = FolderStore(str(folder))
        ballast = fill(folder)
        with pytest.raises(LakeUnavailable) as refused:
            store.write(parse_location("oss://bucket/a.csv"), io.BytesIO(bytes(1 << 16)))
        assert refused.value.user_message == f"The disk of the lake {SENTENCE}"
        assert is_full(refused.value)
        ballast.unlink()
        store.write(parse_location("oss://bucket/a.csv"), io.BytesIO(bytes(1 << 16)))


def test_the_launchers_logs_count_what_they_could_not_take(capfd: pytest.CaptureFixture[str]) -> None:
    with small_disk() as folder:
        terminal = io.StringIO()
        output = Output(folder, terminal, colour=False)
        output.line("web", "before")
        ballast = fill(folder)
        for number in range(300):
            output.line("web", f"while it is full {number} ".ljust(200, "."))
        ballast.unlink()
        output.line("web", "after")
        output.close()
        kept = (folder / "web.log").read_text()
        assert "before" in kept and "after" in kept
        assert f"lines were not written: The disk of {folder} is full" in kept
        assert terminal.getvalue().count(f"The disk of {folder} is full") == 2
    assert "Traceback" not in capfd.readouterr().err


def test_a_flood_of_lines_of_one_kind_is_cut_and_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(FloodFilter, "SECONDS", 5.0)  # so long a pause of the machine may fall into the flood
    written = io.StringIO()
    handler = logging.StreamHandler(written)
    handler.addFilter(FloodFilter())
    log = logging.getLogger("tests.flood")
    log.addHandler(handler)
    try:
        for number in range(500):
            log.error("request %d failed", number)
        log.error("another kind")
        assert written.getvalue().count("failed") == FloodFilter.MOST
        assert "another kind" in written.getvalue()
        told = f"{500 - FloodFilter.MOST} more lines like this one were not written: request 499 failed"
        eventually(lambda: told in written.getvalue(), seconds=30)
    finally:
        log.removeHandler(handler)
