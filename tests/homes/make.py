"""Makes a home for the tests: `python -m tests.homes.make COMMIT`, or `make home-fixture` for this commit.

The product of that commit runs in a folder of its own, with its own libraries, and is used as a tenant uses it; then
it is stopped, and its home is packed with `facts.json`, which says what must be found in it for ever after. The secrets
in it belong to nothing.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tarfile
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

from brokercore.client import ConsumeResult, Credentials, Message, MessageView, Producer, PushConsumer
from tests.brokercore.server.wire import Wire
from tests.support.product import ROOT, Product, eventually
from tests.support.sql_client import SqlClient

KEYED = 60
#: What a start makes anew, what only says how this one went, and the two demo tables that are large.
LEFT_OUT = (
    "log",
    "run",
    "beat",
    "tmp",
    "spark",
    "cache",
    *(f"lake/gantry-demo/demo/{t}" for t in ("flights", "weather")),
)
DELAY_MS = 39 * 86_400_000

#: Runs inside the old product. A user, a key, a topic, an account that has a grant on it.
PEOPLE = """
import json
from console.accounts.models import User
from console.accounts.actor import Actor
from console.accounts.services import create_user, create_access_key
from console.instances.models import Instance
from console.topics.models import Topic
from console.topics.services import create_topic
from console.topics.grants import create_grant
admin = Actor(user=User.objects.get(username="admin@demo"), channel="command")
other = User.objects.get(username="admin@other")
user = create_user(actor=admin, name="ada", password="Analytical-engine-1843")
user.must_change_password = False
user.save(update_fields=["must_change_password"])
other.must_change_password = False
other.save(update_fields=["must_change_password"])
topic = create_topic(actor=admin, instance=Instance.objects.get(tenant=user.tenant), name="kept", order_type=0)
create_grant(actor=admin, topic=topic, relation=4, tenant=other.tenant)
key = create_access_key(actor=admin, user=user)
print("FACTS " + json.dumps({"user_key": key.access_key_id}))
"""


def make(commit: str, file: Path) -> None:
    """Run the product of `commit`, use it, and pack its home into `file`."""
    with tempfile.TemporaryDirectory(prefix="gantry-old-") as name:
        folder = Path(name)
        tree = _tree(commit, folder / "tree")
        product = Product(folder / "home", root=tree, python=tree / ".venv" / "bin" / "python").start(seconds=300)
        try:
            facts = {"commit": commit} | _messages(product) | _people(product) | _statements(product)
        finally:
            product.stop()
        (product.home / "facts.json").write_text(json.dumps(facts, indent=2) + "\n")
        _pack(product.home, file)
    sys.stdout.write(f"{file}: {file.stat().st_size / 1024:.0f} KiB of {commit}\n")


def _tree(commit: str, folder: Path) -> Path:
    folder.mkdir()
    packed = subprocess.run(["git", "archive", commit], cwd=ROOT, check=True, capture_output=True).stdout
    subprocess.run(["tar", "-x"], cwd=folder, input=packed, check=True)
    subprocess.run([sys.executable, "launcher/bootstrap.py"], cwd=folder, check=True)
    return folder


def _messages(product: Product) -> dict[str, Any]:
    demo = product.demo
    instance, namesrv = demo["instance_id"], demo["namesrv"]
    credentials = Credentials(demo["access_key_id"], demo["access_key_secret"])
    with Producer(namesrv, credentials, "GID_flights", namespace=instance) as producer:
        for number in range(KEYED):
            producer.send(Message("flights", f"kept {number}".encode(), keys=f"kept-{number} all", tags="kept"))
        due = int(time.time() * 1000) + DELAY_MS
        producer.send(Message("reminders", b"later", keys="kept-later", deliver_at_ms=due))
        producer.send(Message("reminders", b"hopeless", keys="kept-hopeless"))
    _bury(product, credentials)
    return {"keyed": KEYED, "due_ms": due}


def _bury(product: Product, credentials: Credentials) -> None:
    """Make `hopeless` a dead letter, and let the group commit its offsets."""
    demo = product.demo
    instance, namesrv = demo["instance_id"], demo["namesrv"]
    seen: list[MessageView] = []
    done = threading.Event()
    with PushConsumer(
        namesrv, credentials, "GID_reminders", namespace=instance, consume_from="CONSUME_FROM_FIRST_OFFSET"
    ) as consumer:

        @consumer.on_message
        def handle(message: MessageView) -> ConsumeResult:
            seen.append(message)
            done.set()
            return ConsumeResult.SUCCESS

        consumer.subscribe("reminders")
        consumer.start()
        if not done.wait(60):
            raise AssertionError("the message that is to be a dead letter did not come")
        (hopeless,) = seen
        broker = f"127.0.0.1:{product.environ['GANTRY_BROKER_PORT']}"
        with Wire(broker, (demo["access_key_id"], demo["access_key_secret"])) as wire:
            answer = wire.call(36, {
                "offset": int(hopeless.offset_message_id[16:], 16), "group": f"{instance}%GID_reminders",
                "originMsgId": hopeless.message_id, "originTopic": f"{instance}%reminders", "unitMode": "false",
                "delayLevel": -1, "maxReconsumeTimes": 16,
            })  # fmt: skip
            assert answer.code == 0, answer.remark


def _people(product: Product) -> dict[str, Any]:
    created = product.manage("create_account", "other", "--organization", "Head office/Sales")
    assert created.returncode == 0, created.stderr
    password = created.stdout.rpartition("sign-in: ")[2].split()[0]
    done = product.manage("shell", "-c", PEOPLE)
    assert done.returncode == 0, done.stderr
    told = next(line for line in done.stdout.splitlines() if line.startswith("FACTS "))
    return dict(json.loads(told.removeprefix("FACTS "))) | {"other_password": password}


def _statements(product: Product) -> dict[str, Any]:
    with SqlClient(product.demo) as client:
        client.run("create table kept as select id, concat('row ', id) as name from range(100)")
        task = client.submit("select count(*) as n, sum(id) as total from kept", notify=True)
        row = client.ended(task, notified=True, seconds=180)
        assert row["status"] == "SUCCESS", row
    # The figures of the sampler make the lake's other files; they are there within a minute or not at all.
    eventually(lambda: any((product.home / "lake").rglob("*.parquet")), seconds=30)
    return {"task": task, "total": sum(range(100))}


def _pack(home: Path, file: Path) -> None:
    for name in LEFT_OUT:
        shutil.rmtree(home / name, ignore_errors=True)

    def owned_by_nobody(entry: tarfile.TarInfo) -> tarfile.TarInfo | None:
        entry.uid = entry.gid = 0
        entry.uname = entry.gname = ""
        return entry if entry.isreg() or entry.isdir() else None

    with tarfile.open(file, "w:gz", compresslevel=9) as archive:
        archive.add(home, arcname=".", filter=owned_by_nobody)


if __name__ == "__main__":
    make(sys.argv[1], Path(__file__).with_name(f"{sys.argv[1]}.tar.gz"))
