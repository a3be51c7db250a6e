"""The product of this commit starts on the homes of earlier ones, and everything in them is there and works."""

from __future__ import annotations

import json
import re
import tarfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
import redis

from brokercore.client import Admin, Credentials, Message, Producer
from launcher import config
from tests.support.product import Product, eventually
from tests.support.sql_client import SqlClient

#: Nothing of an old home leaves because it is old; the longest that the setting allows.
KEEP_FOR_EVER = {"GANTRY_STORE_RETENTION_HOURS": str(24 * 3650)}
HOMES = sorted(Path(__file__).parent.glob("*.tar.gz"))
#: What no process may have said while it met what an older release wrote.
TROUBLE = re.compile(r"WRONGTYPE|Traceback|CRITICAL|OperationalError|redis: \d+ fields")
pytestmark = pytest.mark.timeout(600)


@pytest.fixture(scope="module", params=HOMES, ids=lambda file: file.name.removesuffix(".tar.gz"))
def old(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Product]:
    """A running copy on one of the homes."""
    home = tmp_path_factory.mktemp("old") / "home"
    with tarfile.open(request.param) as archive:
        archive.extractall(home, filter="data")
    product = Product(home, environ=dict(KEEP_FOR_EVER))
    try:
        yield product.start(seconds=400)
        product.stop()
    finally:
        if product.process is not None:
            product.process.kill()
            product.process.wait()


@pytest.fixture(scope="module")
def facts(old: Product) -> dict[str, Any]:
    """What the home's maker put into it."""
    return dict(json.loads((old.home / "facts.json").read_text()))


@pytest.fixture
def admin(old: Product) -> Iterator[Admin]:
    with Admin(old.demo["namesrv"], credentials(old)) as admin:
        yield admin


def credentials(old: Product) -> Credentials:
    return Credentials(old.demo["access_key_id"], old.demo["access_key_secret"])


def signed_in(old: Product, login: str, password: str) -> httpx.Client:
    """A client with the session of a user."""
    client = httpx.Client(base_url=old.demo["console"], follow_redirects=True, timeout=60)
    page = client.get("/account/login/").text
    token = re.search(r'name="csrfmiddlewaretoken" value="([^"]+)"', page)
    assert token, page
    form = {"csrfmiddlewaretoken": token[1], "login": login, "password": password}
    answer = client.post("/account/login/", data=form, headers={"Referer": old.demo["console"]})
    assert answer.status_code == 200, answer.text
    assert not answer.url.path.startswith("/account/"), answer.url
    return client


def test_every_message_is_found_by_its_key(old: Product, facts: dict[str, Any], admin: Admin) -> None:
    topic = f"{old.demo['instance_id']}%flights"
    for number in range(facts["keyed"]):
        (message,) = admin.messages.query(topic, f"kept-{number}")
        assert message.body == f"kept {number}".encode()
    assert len(admin.messages.query(topic, "all", max_messages=64)) == facts["keyed"]


def test_new_messages_are_sent_and_found_beside_the_old_ones(old: Product, admin: Admin) -> None:
    instance = old.demo["instance_id"]
    with Producer(old.demo["namesrv"], credentials(old), "GID_flights", namespace=instance) as producer:
        producer.send(Message("flights", b"of today", keys="today"))
    found = eventually(lambda: admin.messages.query(f"{instance}%flights", "today"))
    assert [message.body for message in found] == [b"of today"]


def test_a_dead_letter_is_kept(old: Product, admin: Admin) -> None:
    instance = old.demo["instance_id"]
    found = admin.messages.query(f"%DLQ%{instance}%GID_reminders", "kept-hopeless")
    assert [message.body for message in found] == [b"hopeless"]


def test_a_delayed_message_waits_for_its_time_or_has_come(old: Product, facts: dict[str, Any], admin: Admin) -> None:
    def come() -> list[bytes]:
        return [message.body for message in admin.messages.query(f"{old.demo['instance_id']}%reminders", "kept-later")]

    if time.time() * 1000 > facts["due_ms"]:
        eventually(come, what="the delayed message, which is due")
    assert come() in ([], [b"later"])
    store = redis.Redis(unix_socket_path=str(config.read(old.environ).redis_socket))
    assert store.zcard("gantry:broker-a:timers") == (0 if come() else 1)


def test_a_group_goes_on_where_it_was(old: Product, admin: Admin) -> None:
    instance = old.demo["instance_id"]
    stats = admin.groups.stats(f"{instance}%GID_reminders", f"{instance}%reminders")
    assert sum(queue.consumer_offset for queue in stats.queues.values()) >= 1


def test_everybody_signs_in(old: Product, facts: dict[str, Any]) -> None:
    signed_in(old, old.demo["username"], old.demo["password"])
    signed_in(old, "ada@demo", "Analytical-engine-1843")
    signed_in(old, "admin@other", facts["other_password"])
    signed_in(old, old.demo["platform"]["username"], old.demo["platform"]["password"])


def test_a_grant_and_a_key_are_kept(old: Product, facts: dict[str, Any]) -> None:
    code = (
        "from console.topics.models import Grant; from console.accounts.models import AccessKey;"
        "grant = Grant.objects.get(topic__name='kept'); "
        f"key = AccessKey.objects.get(access_key_id={facts['user_key']!r});"
        "print('GRANT', grant.tenant.name, grant.relation, key.user.username)"
    )
    told = old.manage("shell", "-c", code)
    assert "GRANT other 4 ada@demo" in told.stdout, told.stderr


def test_statements_and_their_results_are_kept_and_tables_are_read(old: Product, facts: dict[str, Any]) -> None:
    with SqlClient(old.demo) as client:
        row = client.task(facts["task"])
        assert (row["status"], row["row_count"], row["mq_status"]) == ("SUCCESS", 1, "SUCCESS")
        assert client.run("select count(*) as n, sum(id) as total from kept") == [{"n": 100, "total": facts["total"]}]
    page = signed_in(old, old.demo["username"], old.demo["password"])
    assert str(facts["total"]) in page.get(f"/sql/tasks/{facts['task']}/result.csv").text


def test_no_process_was_troubled_by_what_it_found(old: Product) -> None:
    lines = [
        f"{file.name}: {line}"
        for file in sorted((old.home / "log").iterdir())
        for line in file.read_text().splitlines()
    ]
    assert [line for line in lines if TROUBLE.search(line)] == []
