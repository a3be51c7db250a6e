"""Every command of mqadmin 5.3.3 gets what its user expects of it, or a sentence that says why not."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from brokercore.client import Admin, Credentials
from brokercore.client.errors import ClientError
from tests.compat import servers
from tests.compat.mqadmin_commands import AFTER_THE_WIPE, ALL, ENDLESS, FIRST, LAST, MAIN, RELAYED, Command
from tests.compat.programs import Keys, Program, Toolbox, build_programs
from tests.support.broker import SYSTEM_KEY, SYSTEM_SECRET, broker_process, eventually

PAGE = Path(__file__).resolve().parents[2] / "docs" / "operate" / "mqadmin.md"
TOPIC, GROUP, IDLE, PRODUCERS = "mqadmin-all", "GID_mqadmin", "GID_idle", "PG_mqadmin"
TRACES = "RMQ_SYS_TRACE_TOPIC"
KEYS = Keys(SYSTEM_KEY, SYSTEM_SECRET)

#: Two commands print for ever; everything else takes some 3 s, most of it the end of a rocketmq-client.
SECONDS, PATIENCE, ATTEMPTS = 12, 180, 3
#: What mqadmin's own connection says when a machine is too busy for the time that it waits.
TOO_SLOW = ("RemotingTimeoutException", "RemotingConnectException", "RemotingSendRequestException")


class Session(NamedTuple):
    """What each line printed, what mqadmin knows, and the names the lines were filled with."""

    printed: Mapping[str, str]
    commands: frozenset[str]
    scene: Mapping[str, str]


@pytest.fixture(scope="module")
def session(java_home: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Session]:
    if servers.wants_apache():
        pytest.skip("what the embedded broker answers")
    build_programs()
    with broker_process() as broker, Admin(broker.namesrv, Credentials(*KEYS), timeout_ms=10_000) as admin:
        tools = Toolbox(java_home, broker.namesrv, "")
        admin.topics.create(TOPIC, queues=2)
        for group in (GROUP, IDLE):
            admin.groups.create(group)
        try:
            folder = tmp_path_factory.mktemp("mqadmin")
            scene = _scene(tools, admin, folder) | {"broker": broker.address}
            program = tools.start(
                "MqadminCommands", KEYS, topic="", group="", seconds=SECONDS, threads=10,
                jvm=(f"-Djava.io.tmpdir={folder}",),  # some commands leave files there
            ).wait_ready()  # fmt: skip
            for step in (FIRST, *((one,) for one in RELAYED), (*ENDLESS, *MAIN), LAST, AFTER_THE_WIPE):
                _run(program, step, scene)
            commands = frozenset(program.named("ready")[0]["commands"])
            yield Session({e["name"]: e["text"] for e in program.named("printed")}, commands, scene)
        finally:
            tools.kill_since(0)


def _scene(tools: Toolbox, admin: Admin, folder: Path) -> dict[str, str]:
    """A consumer that is online, and a message of a producer that traces what it does."""
    consumer = tools.start("ApacheConsumer", KEYS, topic=TOPIC, group=GROUP).wait_ready()
    message = _send_traced(tools, admin)
    consumer.wait_received([message["body"]])
    (client,) = admin.clients.consumers(GROUP).connections
    _warm(admin, client.client_id, message["offsetId"])
    (folder / "topics.json").write_text(json.dumps([{"topicName": "Listed", "readQueueNums": 1, "writeQueueNums": 1}]))
    (folder / "groups.json").write_text(json.dumps([{"groupName": "GID_listed"}]))
    return {
        "cluster": "DefaultCluster", "name": "broker-a", "namesrv": tools.namesrv, "topic": TOPIC, "group": GROUP,
        "idle": IDLE, "producers": PRODUCERS, "client": client.client_id, "queue": str(message["queue"]),
        "offset_id": message["offsetId"], "unique_id": message["id"], "traced_id": message["id"],
        "topics": str(folder / "topics.json"), "groups": str(folder / "groups.json"), "exports": str(folder),
    }  # fmt: skip


def _send_traced(tools: Toolbox, admin: Admin) -> Mapping[str, Any]:
    """A message whose trace has come: rocketmq-client drops one that it cannot send within some seconds."""
    for _ in range(ATTEMPTS):
        sent = tools.run("ApacheProducer", KEYS, topic=TOPIC, group=PRODUCERS, key="K1", tag="TagA", trace="true")
        (message,) = [event for event in sent if event["event"] == "sent"]
        with suppress(AssertionError):
            eventually(lambda: any(queue.max_offset for queue in admin.topics.stats(TRACES).values()), 20)
            return message
    raise AssertionError(f"of {ATTEMPTS} messages that were sent, none left a trace")


def _warm(admin: Admin, client_id: str, offset_id: str) -> None:
    """Have the client answer both kinds of questions once: its first answer takes longer than mqadmin waits."""

    def answers() -> bool:
        try:
            admin.clients.running_info(GROUP, client_id, jstack=True)
            admin.clients.consume_directly(GROUP, client_id, offset_id, TOPIC)
        except ClientError:
            return False
        return True

    eventually(answers, 60)


def _run(program: Program, commands: Iterable[Command], scene: Mapping[str, str]) -> None:
    """Run commands; what a busy machine was too slow for is run again."""
    left = list(commands)
    for _ in range(ATTEMPTS):
        printed = _at_once(program, left, scene)
        left = [command for command in left if any(error in printed[command.line] for error in TOO_SLOW)]


def _at_once(program: Program, commands: Iterable[Command], scene: Mapping[str, str]) -> dict[str, str]:
    """Run several commands at once, and wait for what each of them prints."""
    before = len(program.named("printed"))
    lines = [command.line for command in commands]
    for command in commands:
        program.tell("\t".join((command.line, *command.words(scene))))
    program.wait_until(lambda: len(program.named("printed")) >= before + len(lines), "answers", PATIENCE)
    return {event["name"]: event["text"] for event in program.named("printed")[before:]}


@pytest.mark.parametrize("command", ALL, ids=lambda command: command.line)
def test_a_command_says_what_its_user_waits_for(session: Session, command: Command) -> None:
    said = session.printed[command.line]
    assert command.says.format_map(session.scene) in said, said


def test_every_command_of_mqadmin_is_tried(session: Session) -> None:
    assert {command.name for command in ALL} == session.commands


def test_the_page_lists_every_command(session: Session) -> None:
    listed = re.findall(r"`(\w+)`", "\n".join(re.findall(r"^\| (`.*?) \|", PAGE.read_text(encoding="utf-8"), re.M)))
    assert sorted(listed) == sorted(session.commands)
