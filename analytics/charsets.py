"""Character sets that somebody else names: what Python decodes bytes by that nobody trusts. Pure."""

from __future__ import annotations

import codecs

#: Python's own ways to write a text, which are no character sets: the time of some grows with the square of the length,
#: so that a megabyte takes minutes; others fail always.
_NONE = frozenset({"idna", "punycode", "unicode-escape", "raw-unicode-escape", "undefined"})


def is_charset(name: str) -> bool:
    """Whether it is the name of a character set, such as `utf-8`, `gbk` or `iso-8859-1`, as it is usually written."""
    try:
        found = codecs.lookup(name)
    except (LookupError, ValueError):
        return False
    return found._is_text_encoding and found.name.replace("_", "-") not in _NONE  # rot13 and hex are codecs too
