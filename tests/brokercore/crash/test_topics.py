"""The broker is killed while topics are made and deleted: each is there as a whole or not at all."""

from __future__ import annotations

import re

from tests.brokercore.crash.field import BROKER_NAME, Field
from tests.brokercore.crash.figures import TABLE, Figures


def _hash(ground: Field, name: str) -> dict[str, str]:
    words = re.findall(r"\$\d+\r\n([^\r]*)\r\n", ground.command("HGETALL", f"gantry:{BROKER_NAME}:{name}").decode())
    return dict(zip(words[::2], words[1::2], strict=True))


def test_no_half_topic_is_left(ground: Field) -> None:
    changers = [ground.start("change", f"{name}-topic") for name in "ab"]
    for _ in range(3):
        changers[0].wait_for_more("created", 5)
        ground.restart_broker()
    changers[0].wait_for_more("created", 5)
    for changer in changers:
        changer.finish()
    ground.restart_broker()
    topics, queues = set(_hash(ground, "topics")), _hash(ground, "queues")
    assert {field.partition("@")[2] for field in queues} == topics
    numbers = list(queues.values())
    assert len(set(numbers)) == len(numbers)
    assert int(ground.command("GET", f"gantry:{BROKER_NAME}:queues:last").split(b"\r\n")[1]) >= max(map(int, numbers))
    streams = re.findall(r":q:(\d+)", ground.command("KEYS", f"gantry:{BROKER_NAME}:q:*").decode())
    assert set(streams) <= set(numbers)
    # A topic that was last created is there, one that was last deleted is not; of one under way either may be true.
    for changer in changers:
        last = {record.body: record.kind for record in changer.records}
        for topic, kind in last.items():
            if kind != "refused":
                assert (topic in topics) is (kind == "created"), (topic, kind)
    done = sum(changer.count("created") + changer.count("deleted") for changer in changers)
    asked = done + sum(changer.count("refused") for changer in changers)
    TABLE.append(Figures("broker killed during changes of topics", "Python", asked, done, done, 0, 0, "changes"))
