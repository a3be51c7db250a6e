"""Choosing names by pattern: `*` stands for any characters, `?` for one; several are separated by spaces or commas."""

from __future__ import annotations

import re
from collections.abc import Callable

from django.utils.translation import gettext as _

from brokercore.globs import expression
from console.web.errors import Refused

MOST = 512
"""Characters of all patterns of a field."""

_ALLOWED = re.compile(r"[%|A-Za-z0-9_*?-]+")


def checked(text: str, field: str) -> str:
    """The patterns, separated by single spaces. Raises Refused for characters that no name has, naming `field`."""
    words = text.replace(",", " ").split()
    for word in words:
        if not _ALLOWED.fullmatch(word):
            message = _("%(word)r is no pattern: names have letters, digits, %%, |, - and _, patterns * and ? too.") % {
                "word": word[:64]
            }
            raise Refused("BIZ_FIELD_CHECK_INVALID", message, field)
    joined = " ".join(words)
    if len(joined) > MOST:
        raise Refused(
            "BIZ_FIELD_CHECK_INVALID", _("Patterns have at most %(most)s characters.") % {"most": MOST}, field
        )
    return joined


def matcher(include: str, exclude: str = "") -> Callable[[str], bool]:
    """Tells whether a name fits one of `include` and none of `exclude`; without `include` every name fits."""
    wanted, unwanted = _expression(include), _expression(exclude)

    def fits(name: str) -> bool:
        if unwanted is not None and unwanted.fullmatch(name):
            return False
        return wanted is None or wanted.fullmatch(name) is not None

    return fits


def closeness(include: str) -> Callable[[str], int]:
    """Tells how closely the patterns name what fits: the most characters of a fitting one that are no wildcards."""
    words = [(matcher(word), _literal(word)) for word in include.split()]
    return lambda name: max((literal for fits, literal in words if fits(name)), default=0)


def _literal(word: str) -> int:
    return sum(character not in "*?" for character in word)


def _expression(text: str) -> re.Pattern[str] | None:
    words = text.split()
    if not words:
        return None
    return re.compile("|".join(map(expression, words)))
