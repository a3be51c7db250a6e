"""Tag expressions."""

from __future__ import annotations

import pytest

from brokercore.protocol.errors import SubscriptionError
from brokercore.protocol.filters import parse_tags, tag_code


@pytest.mark.parametrize("expression", [None, "", "*"])
def test_a_star_or_nothing_lets_everything_through(expression: str | None) -> None:
    tags = parse_tags(expression)
    assert tags.matches("")
    assert tags.matches_code(tag_code("any"))


def test_a_list_lets_only_its_tags_through() -> None:
    tags = parse_tags(" tagA ||tagB||  || 中文")
    assert tags.tags == {"tagA", "tagB", "中文"}
    assert tags.matches("tagB")
    assert tags.matches_code(646394)
    assert not tags.matches("")
    assert not tags.matches_code(0)


def test_a_hash_collision_passes_the_broker_and_not_the_client() -> None:
    tags = parse_tags("Aa")
    assert tags.matches_code(tag_code("BB"))
    assert not tags.matches("BB")


@pytest.mark.parametrize("expression", ["||", " || ", " "])
def test_an_expression_without_a_tag_is_refused(expression: str) -> None:
    with pytest.raises(SubscriptionError):
        parse_tags(expression)
