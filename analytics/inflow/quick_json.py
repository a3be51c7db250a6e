"""JSON of events by the quick library where it gives the same as Python's own, and by that where it does not.

The quick one makes a float of a whole number beyond 64 bits, and null of one that is NaN or infinite.
"""

from __future__ import annotations

import json
import re
from typing import Any

import orjson

#: Digits of a number that may be beyond 64 bits.
_LONG = re.compile(rb"-[0-9]{19}|[0-9]{20}")


def loads(content: bytes) -> Any:
    """What a text of JSON says. Raises ValueError and RecursionError as `json.loads` does."""
    if _LONG.search(content) is None:
        try:
            return orjson.loads(content)
        except orjson.JSONDecodeError:  # or what only the other one takes: NaN, half of a pair, deep nesting
            pass
    return json.loads(content)


def dumps(value: Any) -> bytes:
    """Compact JSON of what has no NaN and nothing infinite. Raises ValueError for what JSON has not."""
    try:
        return orjson.dumps(value)
    except TypeError:  # a long number, half of a pair, a key that is no text
        return json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode()
