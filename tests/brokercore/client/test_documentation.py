"""The examples of docs/use/client.md run, one after the other, as a reader would type them."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from tests.brokercore.client.conftest import ClusterUnderTest

pytestmark = pytest.mark.broker

DOCUMENT = Path(__file__).parents[3] / "docs" / "use" / "client.md"
EXAMPLES = re.findall(r"```python\n(.*?)```", DOCUMENT.read_text("utf-8"), re.DOTALL)


def test_every_example_runs(cluster: ClusterUnderTest, capsys: pytest.CaptureFixture[str]) -> None:
    if cluster.credentials is None:
        pytest.skip("the examples sign their requests, and this cluster checks no signatures")
    names: dict[str, Any] = {
        "access_key_id": cluster.credentials.access_key_id,
        "access_key_secret": cluster.credentials.access_key_secret,
    }
    assert len(EXAMPLES) >= 8
    for example in EXAMPLES:
        exec(compile(example.replace("127.0.0.1:9876", cluster.namesrv), str(DOCUMENT), "exec"), names)
    printed = capsys.readouterr().out
    assert "b'gate 12'" in printed  # the reply to the question
    assert "17 The topic does not exist" in printed  # the error
    assert "N14228" in printed  # the message with the wanted property
