"""What an event pattern means, as plainly as it can be said: a slow interpreter of the pattern's JSON.

It is written from the rules, not from the compiler, and knows only patterns that are correct.
"""

from __future__ import annotations

import ipaddress
import json
from typing import Any


class Absent:
    """The value of a field that an event has not."""


def passes(pattern_text: str, event: dict[str, Any]) -> bool:
    """Whether the event passes the pattern."""
    return object_matches(json.loads(pattern_text), event)


def object_matches(pattern: dict[str, Any], value: Any) -> bool:
    if isinstance(value, list):
        return any(object_matches(pattern, element) for element in flat(value) or [Absent()])
    for name, part in pattern.items():
        own = value[name] if isinstance(value, dict) and name in value else Absent()
        if isinstance(part, dict):
            if not object_matches(part, own):
                return False
        elif not any(item_matches(item, own) for item in part):
            return False
    return True


def flat(value: Any) -> list[Any]:
    return [one for element in value for one in flat(element)] if isinstance(value, list) else [value]


def item_matches(item: Any, value: Any) -> bool:
    if isinstance(item, dict) and "exists" in item:
        if item["exists"] == isinstance(value, Absent):
            return False
        others = {name: operand for name, operand in item.items() if name != "exists"}
        return others == {} or item_matches(others, value)
    if isinstance(value, Absent):
        return False
    if isinstance(value, list):
        return any(item_matches(item, element) for element in value)
    if isinstance(item, dict):
        return all(satisfies(name, operand, value) for name, operand in item.items())
    return same(item, value)


def satisfies(name: str, operand: Any, value: Any) -> bool:  # noqa: PLR0911  one answer for each operator
    match name:
        case "prefix":
            return isinstance(value, str) and value[: len(operand)] == operand
        case "suffix":
            return isinstance(value, str) and value.endswith(operand)
        case "contains":
            return isinstance(value, str) and value.find(operand) >= 0
        case "anything-but" if isinstance(operand, dict):
            return not satisfies("prefix", operand["prefix"], value)
        case "anything-but" if isinstance(operand, list):
            return not any(same(one, value) for one in operand)
        case "anything-but":
            return not same(operand, value)
        case "numeric":
            return kind(value) == "number" and in_range(operand, value)
        case "cidr":
            return isinstance(value, str) and in_block(operand, value)
    raise AssertionError(name)


def in_range(operand: list[Any], value: float) -> bool:
    if not operand:
        return True
    sign, bound, *rest = operand
    holds = {"=": value == bound, "<": value < bound, ">": value > bound}
    holds |= {"<=": value < bound or value == bound, ">=": value > bound or value == bound}
    return holds[sign] and in_range(rest, value)


def in_block(block: str, value: str) -> bool:
    first, length = block.split("/")
    try:
        address = ipaddress.ip_address(value)
    except ValueError:
        return False
    begin = ipaddress.ip_address(first)
    shift = begin.max_prefixlen - int(length)
    return address.version == begin.version and int(address) >> shift == int(begin) >> shift


def kind(value: Any) -> str:
    if value is True or value is False or value is None:
        return str(value)
    return {str: "text", int: "number", float: "number"}.get(type(value), "other")


def same(one: Any, other: Any) -> bool:
    return kind(one) == kind(other) != "other" and bool(one == other)
