"""Every difference between the clusters is told to users."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.brokercore.contract.differences import DIFFERENCES

DOCUMENT = Path(__file__).parents[3] / "docs" / "operate" / "broker.md"


@pytest.mark.parametrize("name", sorted(DIFFERENCES))
def test_a_difference_is_documented(name: str) -> None:
    section = DOCUMENT.read_text("utf-8").partition("## Differences from Apache RocketMQ")[2].partition("\n## ")[0]
    assert " ".join(DIFFERENCES[name].documented.split()) in " ".join(section.split())
