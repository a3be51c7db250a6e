"""What a source `mq` reads of a topic. No Spark."""

from __future__ import annotations

import pyarrow as pa
import pytest

from analytics.pipelines.topic_source import TopicSource
from analytics.sources import mq
from brokercore.client import StoredMessage

SCHEMA = pa.schema([("body", pa.binary())])


def source(namesrv: str = "", topic: str = "words", key: tuple[str, str] = ("", ""), **more: str) -> TopicSource:
    return TopicSource(mq.Topic(namesrv, topic, *key), SCHEMA, ("",), "binary", **more)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("tag", "read"),
    [
        ("", ["", "a", "b"]),
        ("*", ["", "a", "b"]),
        (" * ", ["", "a", "b"]),
        ("a || *", ["", "a", "b"]),
        (" || ", ["", "a", "b"]),
        ("a", ["a"]),
        ("a || b||c", ["a", "b"]),
    ],
)
def test_it_reads_the_tags_that_it_names_or_all(tag: str, read: list[str]) -> None:
    messages = [StoredMessage("words", one.encode(), {"TAGS": one} if one else {}) for one in ("", "a", "b")]
    found = [row for message in messages for row in source(tag=tag).rows(message)]
    assert [body.decode() for (body,) in found] == read
