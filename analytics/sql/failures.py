"""Turns what Spark, py4j and the JVM throw into one clean sentence for the user."""

import logging
import re
import secrets
import time

from analytics import session as spark_session
from analytics.errors import AnalyticsError, EngineLost, QueryFailed
from analytics.lake import as_locations
from brokercore import full_disk

_log = logging.getLogger(__name__)
#: An error condition of Spark (error-conditions.json) and its text, up to the SQLSTATE, the position or the plan.
_CONDITION = re.compile(
    r"\[([A-Z][A-Z0-9_]+(?:\.[A-Z0-9_]+)*)\]\s*(.*?)(?:\s*SQLSTATE:|; line \d+ pos|\n\s*\n|\n={2,} |\n\tat |$)",
    re.DOTALL,
)
_POSITION = re.compile(r"\(?line (\d+),? pos(?:ition)? (\d+)\)?")
#: Advice that a tenant cannot follow.
_USELESS = re.compile(r"\s*(?:If necessary s|S)et \"?spark\.[\w.]+\"? (?:config )?to \"?\w+\"?[^.]*\.")
#: What Spark puts in front of the reason: the task and the machine that it failed on, classes of errors.
_WRAPPING = re.compile(
    r"^(?:Job aborted due to stage failure: Task \d+ in stage [\d.]+ failed .*?\(TID \d+\) \(.*?\): "
    r"|requirement failed: "
    r"|(?:[a-z]\w*\.)+[A-Z][\w$]*(?:: |$))+"
)
#: What is all that an error of Spark says when its cause has the reason.
_SAYS_NOTHING = re.compile(r"Exception thrown in awaitResult: *|Task failed while writing rows.*|")
#: The condition where only the machine is to blame.
BUSY = "ENGINE_BUSY"
#: What the engine has too little of, as a sign in what Spark says: what to say, and the condition.
_EXHAUSTED = {
    "StackOverflowError": (
        "The statement is nested too deeply or has too many operators in a row; split it.",
        "FAILED_TO_PARSE_TOO_COMPLEX",
    ),
    "OutOfMemoryError": ("The statement needs more memory than the SQL engine has.", "OUT_OF_MEMORY"),
    "Python worker failed to connect back": (
        "The machine is so busy that a process of the SQL engine did not start within 10 s; try again.",
        BUSY,
    ),
}
#: What the JVM says when it cannot write: Spark's exceptions around it do not tell.
_FULL = re.compile(r"java\.n?io\.[\w.]*Exception: [^\n]*(?:No space left on device|Disk quota exceeded)")
#: An error that our source of messages raised in a Python worker; the rest is its traceback.
_MESSAGES = re.compile(r"MessagesUnreadable: (.+)")
_LONGEST = 800
_MOST_CAUSES = 6
#: How long the JVM may take to be gone after its connection broke, s.
_GRACE_S = 3.0
_LOST = "The SQL engine stopped while the statement ran, most likely out of memory. Read less, or try again."
_ENDED = "The SQL engine was ended because a statement on it could not be stopped."


def translate(error: BaseException) -> AnalyticsError:
    """The error of analytics for anything that a statement raised."""
    if isinstance(error, AnalyticsError):
        return error
    if lost := _loss(error):
        return lost
    if not _is_of_spark(error):
        number = secrets.token_hex(4)
        _log.error("A statement ended by an error of ours, %s", number, exc_info=error)
        return QueryFailed(f"The SQL engine failed by an error of its own; its log has it under {number}.")
    return _of_text(text_of(error))


def _of_text(text: str) -> QueryFailed:
    """What Spark said, as one sentence with its condition."""
    for sign, failure in _EXHAUSTED.items():
        if sign in text:
            return QueryFailed(*failure)
    unreadable = _MESSAGES.search(text)
    if unreadable is not None:
        return QueryFailed(_cleaned(unreadable[1]), "MESSAGES_UNREADABLE")
    if _FULL.search(text):
        return QueryFailed(full_disk.sentence("the SQL engine"), "DISK_FULL")
    found = _CONDITION.search(text)
    if found is None:
        return QueryFailed(_cleaned(_reason(text)))
    return QueryFailed(_cleaned(found[2]) + _position(text), found[1])


def _reason(text: str) -> str:
    """The first line that says something, without the classes, tasks and machines that the engine is made of."""
    said = (_WRAPPING.sub("", line.strip()) for line in text.splitlines() if not line.startswith(("\tat ", "== ")))
    found = next((line for line in said if not _SAYS_NOTHING.fullmatch(line)), "")
    if not found:
        _log.error("Spark gave no reason for the end of a statement: %s", text)
    return found or "The SQL engine gives no reason; its log has what it said."


def _is_of_spark(error: BaseException) -> bool:
    from py4j.protocol import Py4JJavaError
    from pyspark.errors import PySparkException

    return isinstance(error, PySparkException | Py4JJavaError)


def _loss(error: BaseException) -> AnalyticsError | None:
    """EngineLost, when that is what the error comes from."""
    if not _engine_is_lost(error):
        return None
    culprit = spark_session.culprit()
    return EngineLost(_ENDED if culprit else _LOST, culprit=culprit)


def _engine_is_lost(error: BaseException) -> bool:
    from py4j.protocol import Py4JError, Py4JJavaError, Py4JNetworkError

    broken = isinstance(error, Py4JNetworkError | ConnectionError | EOFError) or (
        isinstance(error, Py4JError) and not isinstance(error, Py4JJavaError)
    )
    deadline = time.monotonic() + (_GRACE_S if broken else 0)
    while spark_session.is_alive():
        if time.monotonic() >= deadline:
            return isinstance(error, Py4JNetworkError)
        time.sleep(0.05)
    return True


def text_of(error: BaseException) -> str:
    """All that an error says, with the causes inside the JVM, which Spark wraps more than once."""
    from py4j.protocol import Py4JJavaError

    said: list[str] = []
    cause = error.java_exception if isinstance(error, Py4JJavaError) else error
    while cause is not None and len(said) < _MOST_CAUSES:
        said.append(str(cause) if isinstance(cause, BaseException) else str(cause.toString()))
        # PySpark keeps the cause of an exception that it knows in `_cause`, already made one of its own.
        cause = getattr(cause, "_cause", None) if isinstance(cause, BaseException) else cause.getCause()
    return "\n".join(said)


def _position(text: str) -> str:
    found = _POSITION.search(text)
    return f" (line {found[1]}, position {found[2]})" if found else ""


def _cleaned(text: str) -> str:
    """One line, without our paths, without the name of Spark's inner catalog."""
    line = as_locations(" ".join(_USELESS.sub("", text).split())).replace("`spark_catalog`.", "")
    return line if len(line) <= _LONGEST else line[:_LONGEST] + "…"
