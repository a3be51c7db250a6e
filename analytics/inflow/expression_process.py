"""A process that does nothing but evaluate an expression: what that costs it costs nobody else (`expressions`).

Started by its path and alone, without settings and secrets. It is told the most processor time for a batch (s) and the
language, `jmespath` or `jsonata`. Every frame on standard input and output has its length in
four bytes in front. The first is the expression, and is answered by a frame. Each other one is an array of events, and
is answered by a frame for each event, as soon as that is known; an array of none begins a batch, whose processor time
is counted anew. A frame of an answer begins with what it is.
"""

import json
import os
import re
import resource
import struct
import sys
from collections.abc import Callable, Iterator
from typing import Any, BinaryIO

import jmespath
from jmespath.exceptions import JMESPathError

#: Address space, bytes: the interpreter itself takes a tenth of it.
MOST_MEMORY = 512 << 20
#: Bytes of JSON that one event may become.
MOST_RESULT = 8 << 20
#: What a frame of an answer is: JSON, a sentence, or a sentence by a process that had too little memory.
MADE, FAILED, TOO_LITTLE = b"=", b"!", b"m"
_LONGEST_SENTENCE = 300
#: Bounds of JSONata's engine: what would not fit is told before memory is asked for.
_JSONATA_BOUNDS: dict[str, Any] = {
    "max_string_length": MOST_RESULT,
    "max_array_length": 1_000_000,
    "max_result_size": MOST_RESULT,
}
#: The largest number up to which every whole number is one of JSONata's, whose numbers are those of JavaScript.
_MOST_EXACT = 1 << 53
_LONG_NUMBER = re.compile(rb"\d{16}")

Evaluate = Callable[[Any], Any]
"""What an expression makes of an event. Raises Unfit and what Python raises."""


class Unfit(Exception):  # noqa: N818
    """A text is no expression of its language, or cannot be evaluated; the message says why."""


def main() -> None:
    """Answer until the input ends."""
    resource.setrlimit(resource.RLIMIT_AS, (MOST_MEMORY, MOST_MEMORY))
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    source, longest_s, language = sys.stdin.buffer, int(sys.argv[1]), sys.argv[2]
    _limit_cpu(longest_s)
    try:
        plain, exact = _LANGUAGES[language](_read(source).decode())
    except (Unfit, RecursionError, ValueError, MemoryError) as error:
        _answer(FAILED, _sentence(error).encode())
        return
    _answer(MADE, b"")
    while request := _read(source):
        events = json.loads(request)
        if not events:
            _limit_cpu(longest_s)
        evaluate = exact if _LONG_NUMBER.search(request) else plain
        for event in events:
            _answer(*_outcome(evaluate, event))


def _jmespath(text: str) -> tuple[Evaluate, Evaluate]:
    try:
        expression = jmespath.compile(text)
    except JMESPathError as error:
        raise Unfit(_misplaced(error)) from error

    def search(event: Any) -> Any:
        try:
            return expression.search(event)
        except JMESPathError as error:
            raise Unfit(str(error)) from error

    return search, search


def _jsonata(text: str) -> tuple[Evaluate, Evaluate]:
    """For events in which no number is beyond what JavaScript can hold, and for all others."""
    # Its allocator takes as much address space for itself as it is let: the limit has to be there before.
    import jlens

    def told(error: jlens.JlensError) -> str:
        return str(error) if error.start is None else f"character {error.start + 1}: {error}"

    try:
        expression = jlens.Expression(text)
    except jlens.JlensError as error:
        raise Unfit(told(error)) from error

    def plain(event: Any) -> Any:
        try:
            return expression.evaluate(event, **_JSONATA_BOUNDS)
        except jlens.JlensError as error:
            raise Unfit(told(error)) from error

    def exact(event: Any) -> Any:
        originals: dict[float, set[int]] = {}
        for number in _large(event):
            originals.setdefault(float(number), set()).add(number)
        return _restored(plain(event), originals)

    return plain, exact


_LANGUAGES = {"jmespath": _jmespath, "jsonata": _jsonata}


def _large(event: Any) -> Iterator[int]:
    """Whole numbers that JSONata would round."""
    left = [event]
    while left:
        found = left.pop()
        if isinstance(found, dict):
            left += found.values()
        elif isinstance(found, list):
            left += found
        elif isinstance(found, int) and abs(found) > _MOST_EXACT:
            yield found


def _restored(made: Any, originals: dict[float, set[int]]) -> Any:
    """What was made, with the numbers of the event in the places of what they were rounded to.

    Raises ValueError where two numbers of the event were rounded to one.
    """
    if isinstance(made, dict):
        return {name: _restored(one, originals) for name, one in made.items()}
    if isinstance(made, list):
        return [_restored(one, originals) for one in made]
    if isinstance(made, bool) or not isinstance(made, int | float):
        return made
    found = originals.get(float(made))
    if found is None:
        return made
    if len(found) > 1:
        raise ValueError(f"{' and '.join(map(str, sorted(found)[:2]))} are one number in JSONata, which rounds them")
    return next(iter(found))


def _read(source: BinaryIO) -> bytes:
    """The next frame; empty at the end of the input."""
    front = source.read(4)
    return source.read(struct.unpack(">I", front)[0]) if len(front) == 4 else b""


def _answer(kind: bytes, content: bytes) -> None:
    left = memoryview(struct.pack(">cI", kind, len(content)) + content)
    while left:
        left = left[os.write(1, left) :]


def _limit_cpu(longest_s: int) -> None:
    """The kernel ends what takes longer (SIGXCPU), however busy the machine is, and also if the parent has gone."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    soft = int(used.ru_utime + used.ru_stime) + 1 + longest_s
    resource.setrlimit(resource.RLIMIT_CPU, (soft, resource.RLIM_INFINITY))


def _outcome(evaluate: Evaluate, event: Any) -> tuple[bytes, bytes]:
    try:
        content = json.dumps(evaluate(event), separators=(",", ":"), allow_nan=False).encode()
    except MemoryError:
        return TOO_LITTLE, b"it takes too much memory"
    except RecursionError:
        return FAILED, b"it is nested too deeply"
    except TypeError:  # `&name` is an expression, and some functions do not look at their arguments
        return FAILED, b"a function gets, or the result has, something that is no JSON value"
    except (Unfit, ValueError, ArithmeticError, AttributeError, LookupError) as error:
        return FAILED, _sentence(error).encode()
    if len(content) > MOST_RESULT:
        return FAILED, b"its result has more than %d MiB of JSON" % (MOST_RESULT >> 20)
    return MADE, content


def _misplaced(error: JMESPathError) -> str:
    """Where and why a text is no JMESPath."""
    place = getattr(error, "lex_position", None)
    token = getattr(error, "token_value", None)
    if isinstance(place, int) and token:
        return f"character {place + 1}: {str(token)[:40]!r} is not expected there"
    if isinstance(place, int):
        return f"character {place + 1}: something is missing or not closed"
    return str(error)


def _sentence(error: BaseException) -> str:
    if isinstance(error, RecursionError | MemoryError):
        return "it is nested too deeply"
    line = " ".join(str(error).split())[:_LONGEST_SENTENCE].rstrip(".")
    return line or type(error).__name__


if __name__ == "__main__":
    main()
