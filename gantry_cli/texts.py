"""What the command says, in the language of who reads it: that of LANGUAGE, LC_ALL, LC_MESSAGES or LANG, as of gettext.

Click asks gettext for its own words and names no catalogue: then it is asked for ours, which has them too. What the
server says (operations, refusals) stays as the server says it.
"""

from __future__ import annotations

import gettext
import os
from itertools import takewhile
from pathlib import Path

_DOMAIN = "gantry"
_FOLDER = Path(__file__).parent / "locale"
_VARIABLES = ("LANGUAGE", "LC_ALL", "LC_MESSAGES", "LANG")
_ENGLISH = ("en", "C", "POSIX")


def languages() -> list[str]:
    """What is wanted, best first, as far as English, which needs no catalogue; with LC_ALL=C nothing else counts."""
    if os.environ.get("LC_ALL") in _ENGLISH:
        return []
    wanted = next((os.environ[name] for name in _VARIABLES if os.environ.get(name)), "")
    return list(takewhile(lambda language: not language.startswith(_ENGLISH), wanted.split(":")))


_found = gettext.translation(_DOMAIN, _FOLDER, languages(), fallback=True)
_ = _found.gettext
ngettext = _found.ngettext
if isinstance(_found, gettext.GNUTranslations):
    gettext.bindtextdomain(_DOMAIN, str(_FOLDER))
    gettext.textdomain(_DOMAIN)

#: What kinds of things are called, by the names that they have in the code.
_KINDS = {
    "adoption rule": _("adoption rule"),
    "alarm rule": _("alarm rule"),
    "bucket": _("bucket"),
    "change tracking task": _("change tracking task"),
    "consumer group": _("consumer group"),
    "grant": _("grant"),
    "grant to": _("grant to"),
    "group": _("group"),
    "inflow task": _("inflow task"),
    "instance": _("instance"),
    "job": _("job"),
    "names": _("names"),
    "policy": _("policy"),
    "queue": _("queue"),
    "recipient of alarms": _("recipient of alarms"),
    "rule": _("rule"),
    "secret": _("secret"),
    "subscription": _("subscription"),
    "topic": _("topic"),
    "topic of queues": _("topic of queues"),
    "variable": _("variable"),
}


def kind_word(kind: str) -> str:
    """What a kind of things is called; one without a word here goes by its name in the code."""
    return _KINDS.get(kind, kind)
