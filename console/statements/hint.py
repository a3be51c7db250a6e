"""The hint in front of a statement: `/*+ run_async=true, mq-notify-by=ons, … */ select …` (docs/use/sql.md).

The hint is split off the raw text before any SQL parser sees it: parsers throw comments away, and some fail on the
forms that users write. Pure: no database, no Django.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from django.utils.translation import gettext as _

#: Every option, in its canonical spelling.
RUN_ASYNC = "run_async"
NOTIFY_BY = "mq-notify-by"
TOPIC = "mq-topic"
QUEUE = "mq-queue"
PRODUCER_ID = "mq-producer-id"
ENDPOINT = "mq-endpoint"
OPTIONS = (RUN_ASYNC, NOTIFY_BY, TOPIC, QUEUE, PRODUCER_ID, ENDPOINT)
RECEIPT_OPTIONS = (NOTIFY_BY, TOPIC, QUEUE, PRODUCER_ID, ENDPOINT)
#: The values of `mq-notify-by`: to a topic, to a queue.
BY_TOPIC, BY_QUEUE = "ons", "mns"

#: Room for every option with the longest names; a longer hint is refused before it is taken apart.
HINT_CHARACTERS = 4096

_CANONICAL = {name.replace("_", "-"): name for name in OPTIONS}
_HINT_OPENING = re.compile(r"/\*\s*\+")
_TYPESET_END = re.compile(r"\*\s+/")
_BLANK_OR_LINE_COMMENT = re.compile(r"\s+|(?:--(?=\s|\Z)|#)[^\n]*(?:\n|\Z)")
# MySQL runs the text inside `/*!40101 … */`; clients send their settings that way.
_EXECUTED_COMMENT = re.compile(r"/\*!\d*")
_PAIR = re.compile(r"""\s*([A-Za-z_][\w-]*)\s*=\s*("[^"]*"|'[^']*'|[^,]*)\s*(?:,|\Z)""")


class HintError(ValueError):
    """The comment that carries the hint is not closed; the text says how to write it."""


@dataclass(frozen=True, slots=True)
class Hint:
    """What stood in front of a statement, and the statement without it."""

    statement: str
    options: dict[str, str] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()
    #: Where the statement begins in the text.
    start: int = 0
    #: Where the first comment in hint form begins and ends in the text.
    place: tuple[int, int] | None = None

    @property
    def run_async(self) -> bool:
        """True for `run_async=true` only: any other value means synchronous."""
        return self.options.get(RUN_ASYNC, "").lower() == "true"

    @property
    def receipt(self) -> dict[str, str] | None:
        """The `mq-…` options of an asynchronous statement, None when no notification is wanted.

        `mq-notify-by` is in lower case. With `mns` the queue may be written as `mq-topic`; it is `mq-queue` here too.
        """
        wanted = {name: self.options[name] for name in RECEIPT_OPTIONS if name in self.options}
        if not self.run_async or not wanted:
            return None
        if NOTIFY_BY in wanted:
            wanted[NOTIFY_BY] = wanted[NOTIFY_BY].lower()
        if wanted.get(NOTIFY_BY) == BY_QUEUE and wanted.get(TOPIC) and not wanted.get(QUEUE):
            wanted[QUEUE] = wanted[TOPIC]
        return wanted

    @property
    def destination(self) -> str:
        """The topic or the queue that is notified; empty for neither."""
        receipt = self.receipt or {}
        return receipt.get(QUEUE if receipt.get(NOTIFY_BY) == BY_QUEUE else TOPIC, "")


def written(topic: str, group_id: str, endpoint: str) -> str:
    """A hint that runs a statement asynchronously and sends the notification to a topic."""
    return _text({NOTIFY_BY: BY_TOPIC, TOPIC: topic, PRODUCER_ID: group_id, ENDPOINT: endpoint})


def written_to_queue(queue: str, endpoint: str) -> str:
    """A hint that runs a statement asynchronously and sends the notification to a queue."""
    return _text({NOTIFY_BY: BY_QUEUE, TOPIC: queue, ENDPOINT: endpoint})


def _text(receipt: dict[str, str]) -> str:
    values = {RUN_ASYNC: "true", **receipt}
    return f"/*+ {', '.join(f'{name}={value}' for name, value in values.items())} */"


def split(text: str) -> Hint:
    """Split leading comments off `text`; those in hint form give the options, the first one of a name counts.

    Raises HintError when a leading comment is never closed by `*/`, or a hint is longer than HINT_CHARACTERS.
    """
    options: dict[str, str] = {}
    warnings: list[str] = []
    place = None
    position, end = 0, len(text)
    while position < end:
        if blank := _BLANK_OR_LINE_COMMENT.match(text, position):
            position = blank.end()
        elif executed := _EXECUTED_COMMENT.match(text, position):
            closing = _closing(text, position)
            statement = text[executed.end() : closing] + text[closing + 2 :]
            return _hint(statement, options, warnings, executed.end(), place)
        elif text.startswith("/*", position):
            closing = _closing(text, position)
            if opening := _HINT_OPENING.match(text, position):
                _read_options(text[opening.end() : closing], options, warnings)
                place = place or (position, closing + 2)
            position = closing + 2
        else:
            break
    return _hint(text[position:], options, warnings, position, place)


def _hint(
    statement: str, options: dict[str, str], warnings: list[str], start: int, place: tuple[int, int] | None
) -> Hint:
    begun = statement.lstrip()
    start += len(statement) - len(begun)
    return Hint(begun.rstrip().rstrip("; \t\r\n"), options, tuple(warnings), start, place)


def _closing(text: str, position: int) -> int:
    """Where the comment that opens at `position` is closed."""
    closing = text.find("*/", position + 2)
    if closing < 0:
        slip = _(" `* /` with a blank does not end a comment.") if _TYPESET_END.search(text, position + 2) else ""
        raise HintError(
            _("The comment in front of the statement is not closed: end it with `*/`.%(slip)s") % {"slip": slip}
        )
    return closing


def _read_options(text: str, options: dict[str, str], warnings: list[str]) -> None:
    if len(text) > HINT_CHARACTERS:
        raise HintError(
            _("The hint has %(text)s characters; %(hint_characters)s are allowed.")
            % {"text": len(text), "hint_characters": HINT_CHARACTERS}
        )
    position = 0
    while text[position:].strip(" \t\r\n,"):
        pair = _PAIR.match(text, position)
        if pair is None:
            piece, _unused, _unused = text[position:].partition(",")
            position += len(piece) + 1
            if piece.strip():
                warnings.append(
                    _("`%(piece)s` in the hint is not of the form name=value and is ignored.")
                    % {"piece": piece.strip()}
                )
            continue
        position = pair.end()
        _set_option(pair.group(1), _unquoted(pair.group(2).strip()), options, warnings)


def _set_option(written: str, value: str, options: dict[str, str], warnings: list[str]) -> None:
    name = _CANONICAL.get(written.lower().replace("_", "-"))
    if name is None:
        warnings.append(
            _("The hint option %(written)s is unknown and is ignored; known are %(options)s.")
            % {"written": written, "options": ", ".join(OPTIONS)}
        )
    elif name in options:
        warnings.append(_("The hint option %(name)s is given twice; the first one counts.") % {"name": name})
    else:
        options[name] = value
        if name == RUN_ASYNC and value.lower() not in ("true", "false"):
            warnings.append(_("run_async is %(value)r; only true makes the statement asynchronous.") % {"value": value})


def _unquoted(value: str) -> str:
    return value[1:-1] if len(value) > 1 and value[0] in "'\"" and value[-1] == value[0] else value
