"""A few processes that parse SQL for this one, which can be ended: a parser's time and memory are not ours to lend.

A text may keep sqlglot busy for minutes, and a thread cannot be ended. Each process reads one text at a time
(`parser_process`); one that takes too long is ended by the kernel, and another started for the next text. One account
never holds all of them, nor lets more than a few threads wait for them, and over all processes of the product it has so
much of their time a minute as its limit says (`Budget`).
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import re
import select
import struct
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, cast

from django.db import DatabaseError
from django.utils.translation import gettext as _
from redis.exceptions import RedisError
from sqlglot import exp, serde

from analytics import confined
from console.rights import limits
from console.statements.lexer import LINE_COMMENT, OPEN_COMMENT, OPEN_NAME, OPEN_TEXT
from console.statements.parser_process import LONGEST_CPU_S
from console.web.errors import Refused

log = logging.getLogger(__name__)

#: Time is written down for the other processes when there is so much of it, s: a tool's text takes a tenth of it.
_TOLD_S = 0.05
#: Accounts that are remembered; those of minutes that are over go first.
_MOST_ACCOUNTS = 10_000

#: Processes at most; each takes about 40 MB. One account uses all but one of them.
MOST = 3
#: How long an answer may take, and how long a free process is waited for, s. The limit of processor time comes first,
#: unless the machine is very busy.
_LONGEST_S = 15.0
#: Threads of one account that wait for a process at a time.
MOST_WAITING = 32
_PROGRAM = Path(__file__).with_name("parser_process.py")

#: Longer ones are refused: clients' own questions have a tenth of it.
LONGEST = 16 * 1024
#: Words, texts and signs: this process looks at the tree of all of them.
MOST_WORDS = 4000
#: Brackets and CASEs within each other; JOINs; those of them that wait for their ON or USING, each of which doubles the
#: parser's work. BI tools write ten joins.
DEEPEST, MOST_JOINS, MOST_BARE_JOINS = 32, 40, 8
#: Quoted texts and names, comments, words and signs, each read once: what is not closed goes to the end.
_PIECE = re.compile(rf"{OPEN_TEXT}|{OPEN_NAME}|{OPEN_COMMENT}|{LINE_COMMENT}|#[^\n]*+|\w+|\S")
_PIECE_OF_JOB = re.compile(rf"'[^']*+(?:'|\Z)|{OPEN_NAME}|{OPEN_COMMENT}|{LINE_COMMENT}|\w+|\S")


#: Makes a sentence of the line, the column (of the last character) and the word where a text cannot be read.
Told = Callable[[int | None, int | None, str], str]


@dataclass(slots=True)
class _Account:
    """What is known of an account: the minute that it is of, its seconds in it, those not told yet, and its limit."""

    minute: int
    seconds: float = 0.0
    untold: float = 0.0
    limit: int = 0


class Budget:
    """The time of all accounts; what other processes have used is learned when one's own is written down."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._accounts: dict[str, _Account] = {}

    def require(self, uid: str) -> None:
        """Raise Refused when the account has had its time for this minute; nobody's texts have no limit."""
        with self._lock:
            account = self._accounts.get(uid)
        if account is None or account.minute != _minute():
            return
        if account.limit and account.seconds >= account.limit:
            raise Refused(
                "PARSING_TIME_LIMIT",
                _(
                    "Reading this account's statements took %(limit)s s within the minute, which is its "
                    "limit; try again in the next minute, send simpler statements, or ask the platform's "
                    "administrator, who sets this limit."
                )
                % {"limit": account.limit},
                "text",
            )

    def charge(self, uid: str, seconds: float) -> None:
        """A text of the account took so long."""
        if not uid:
            return
        with self._lock:
            account = self._accounts.get(uid)
            if account is None or account.minute != _minute():
                self._forget_old()
                account = self._accounts[uid] = _Account(_minute())
            account.seconds += seconds
            account.untold += seconds
            if account.untold < _TOLD_S:
                return
            untold, account.untold = account.untold, 0.0
        try:
            account.limit = limits.of_account(uid, "parsing_seconds")
            account.seconds = max(account.seconds, limits.add_parsing_seconds(uid, untold))
        except (RedisError, DatabaseError) as error:
            log.warning("the time of reading statements of %s is counted by this process alone: %s", uid, error)

    def _forget_old(self) -> None:
        if len(self._accounts) >= _MOST_ACCOUNTS:
            now = _minute()
            self._accounts = {uid: account for uid, account in self._accounts.items() if account.minute == now}


def _minute() -> int:
    return int(time.time() // 60)


class ParserEnded(Exception):  # noqa: N818
    """The process ended, or was ended, over a text."""


class Parser:
    """One process."""

    def __init__(self) -> None:
        self._process = confined.start([sys.executable, "-I", str(_PROGRAM)], {"LANG": "C.UTF-8"})
        self._source, self._sink = cast("IO[bytes]", self._process.stdin), cast("IO[bytes]", self._process.stdout)
        #: Processor time of the last text, s.
        self.cpu_s = 0.0

    @property
    def pid(self) -> int:
        """Of the process."""
        return self._process.pid

    @property
    def lives(self) -> bool:
        """Whether it can be asked."""
        return self._process.poll() is None

    def ask(self, text: str, deadline: float, dialect: str) -> tuple[str, Any]:
        """The outcome for a text, as `parser_process` tells it. Raises ParserEnded; then this one is of no use."""
        request = f"{dialect}\0{text}".encode("utf-8", "replace")
        try:
            self._source.write(struct.pack(">I", len(request)) + request)
            self._source.flush()
            (length,) = struct.unpack(">I", self._read(4, deadline))
            kind, found, self.cpu_s = json.loads(self._read(length, deadline), object_hook=_checked)
            outcome = kind, [serde.load(tree) for tree in found] if kind == "trees" else found
        except (OSError, ValueError, ParserEnded) as error:
            self.end()
            raise ParserEnded from error
        return outcome

    def _read(self, length: int, deadline: float) -> bytes:
        file = self._sink.fileno()
        pieces = bytearray()
        poll = select.poll()  # not select(), which knows no file beyond 1023
        poll.register(file, select.POLLIN)
        while len(pieces) < length:
            left_ms = (deadline - time.monotonic()) * 1000
            if left_ms <= 0 or not poll.poll(left_ms):
                raise ParserEnded
            piece = os.read(file, length - len(pieces))
            if not piece:
                raise ParserEnded
            pieces += piece
        return bytes(pieces)

    def end(self) -> None:
        """End it at once."""
        self._process.kill()
        self._process.wait()
        for pipe in (self._source, self._sink):
            with contextlib.suppress(OSError):  # what was not written has no reader any more
                pipe.close()


def _checked(node: dict[str, Any]) -> dict[str, Any]:
    """A node of a tree as the process tells it, which may name classes of expressions and nothing else."""
    name = node.get(serde.CLASS, "")
    if "." in name and name != serde.DATA_TYPE and not name.startswith("sqlglot.expressions."):
        raise ValueError(f"{name} is not an expression")
    return node


class Parsers:
    """The processes of this one, started when first needed."""

    def __init__(self, budget: Budget | None = None) -> None:
        self._budget = budget
        self.forget()

    def forget(self) -> None:
        """Begin anew, without the processes that there were."""
        self._places = confined.Places(MOST, most_waiting=MOST_WAITING)
        self._lock = threading.Lock()
        self._idle: list[Parser] = []

    def ask(self, text: str, holder: str, dialect: str = "mysql") -> tuple[str, Any]:
        """The outcome for a text of `holder`, an account, in the way of writing of "mysql" or of a "job".

        Raises Refused when it takes too long, when none gets free, and when the account has had its time.
        """
        if self._budget is not None:
            self._budget.require(holder)
        deadline = time.monotonic() + _LONGEST_S
        parser = self._acquire(holder, deadline)
        try:
            outcome = parser.ask(text, deadline, dialect)
        except ParserEnded as error:
            self._release(holder, None)
            self._charge(holder, LONGEST_CPU_S)
            raise Refused(
                "STATEMENT_TIME_LIMIT",
                _("Reading the statement takes longer than %(longest_cpu_s)s s or too much memory; split it.")
                % {"longest_cpu_s": LONGEST_CPU_S},
                "text",
            ) from error
        except BaseException:
            parser.end()
            self._release(holder, None)
            raise
        self._release(holder, parser)
        self._charge(holder, parser.cpu_s)
        return outcome

    def _charge(self, holder: str, seconds: float) -> None:
        if self._budget is not None:
            self._budget.charge(holder, seconds)

    def warm(self) -> None:
        """Start one, so that the first statement does not wait for it."""
        with self._lock:
            if not self._idle and self._places.are_free:
                self._idle.append(Parser())

    def _acquire(self, holder: str, deadline: float) -> Parser:
        if not self._places.acquire(holder, deadline):
            raise Refused("TOO_MANY_WAITING", _("Too many statements are being read at the moment; try again."), "text")
        try:
            return self._idle_one() or Parser()
        except BaseException:
            self._release(holder, None)
            raise

    def _idle_one(self) -> Parser | None:
        with self._lock:
            while self._idle:
                parser = self._idle.pop()
                if parser.lives:
                    return parser
                parser.end()
        return None

    def _release(self, holder: str, parser: Parser | None) -> None:
        if parser is not None:
            with self._lock:
                self._idle.append(parser)
        self._places.release(holder)


parsers = Parsers(Budget())
# A process that was forked from this one has threads and pipes of its own to make.
os.register_at_fork(after_in_child=parsers.forget)


def query(text: str, holder: str = "") -> exp.Query:
    """The one query in a text, in MySQL's way of writing; `holder` is the account that asks.

    Raises Refused with line and column of what is wrong, and for a text that is too much for the parser.
    """
    return _query(text, holder, "mysql", _sentence)


def job_query(text: str, holder: str, told: Told) -> exp.Query:
    """The one query in a text, in a job's way of writing; `told` makes the sentence of a syntax error.

    Every function is an `exp.Anonymous` but those that are written in a way of their own, such as CAST. Raises Refused
    as `query` does.
    """
    return _query(text, holder, "job", told)


def _query(text: str, holder: str, dialect: str, told: Told) -> exp.Query:
    _require_bounded(text, _PIECE_OF_JOB if dialect == "job" else _PIECE)
    kind, found = parsers.ask(text, holder, dialect)
    if kind == "syntax":
        raise Refused("SYNTAX_ERROR", told(*found), "text")
    if kind == "unclosed":
        raise Refused("SYNTAX_ERROR", _("The statement cannot be read: a text or name is not closed."), "text")
    if kind == "nested":
        raise _too_deep()
    if len(found) != 1 or not isinstance(found[0], exp.Query):
        raise Refused("SYNTAX_ERROR", _("Only one query is allowed here: a SELECT."), "text")
    return found[0]


def _require_bounded(text: str, pieces: re.Pattern[str]) -> None:
    """Refuse by one pass over the text what the parser would take long for."""
    if len(text) > LONGEST:
        raise Refused(
            "STATEMENT_TOO_LONG",
            _("The statement has %(text)s characters; %(longest)s are allowed here.")
            % {"text": len(text), "longest": LONGEST},
            "text",
        )
    depth = joins = bare = 0
    before = ""
    for number, piece in enumerate(pieces.finditer(text), 1):
        if number > MOST_WORDS:
            raise Refused(
                "STATEMENT_TOO_LONG",
                _("The statement has more than %(most_words)s words and signs; split it.") % {"most_words": MOST_WORDS},
                "text",
            )
        word = piece[0].upper()
        if word in ("(", "[", "CASE"):
            depth += 1
        elif word in (")", "]", "END"):
            depth -= 1
        elif word == "JOIN":
            joins += 1
            bare += before not in ("CROSS", "NATURAL")
        elif word in ("ON", "USING"):
            bare = max(0, bare - 1)
        before = word
        if depth > DEEPEST:
            raise _too_deep()
        if joins > MOST_JOINS:
            raise Refused(
                "SYNTAX_ERROR",
                _("The statement has more than %(most_joins)s joins; split it.") % {"most_joins": MOST_JOINS},
                "text",
            )
        if bare > MOST_BARE_JOINS:
            raise Refused(
                "SYNTAX_ERROR",
                _(
                    "More than %(most_bare_joins)s joins wait for their ON or USING; write CROSS JOIN where "
                    "there is none."
                )
                % {"most_bare_joins": MOST_BARE_JOINS},
                "text",
            )


def _too_deep() -> Refused:
    return Refused(
        "SYNTAX_ERROR",
        _("The statement is nested too deeply: %(deepest)s levels are allowed.") % {"deepest": DEEPEST},
        "text",
    )


def _sentence(line: int | None, column: int | None, near: str) -> str:
    where = _("Line %(line)s, column %(column)s: ") % {"line": line, "column": column} if line else ""
    return (
        _("%(where)sthe statement cannot be read near `%(near)s`.") % {"where": where, "near": near}
        if near
        else _("%(where)sthe statement cannot be read.") % {"where": where}
    )
