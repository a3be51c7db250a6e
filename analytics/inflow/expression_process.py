"""A process that does nothing but evaluate a JMESPath expression: what that costs it costs nobody else (`expressions`).

Started by its path and alone, without settings and secrets. Every frame on standard input and output has its length in
four bytes in front. The first is the expression, and is answered by a frame. Each other one is an array of events, and
is answered by a frame for each event, as soon as that is known; an array of none begins a batch, whose processor time
is counted anew. A frame of an answer begins with what it is.
"""

import json
import os
import resource
import struct
import sys
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


def main() -> None:
    """Answer until the input ends. The argument is the most processor time for a batch, s."""
    resource.setrlimit(resource.RLIMIT_AS, (MOST_MEMORY, MOST_MEMORY))
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    source, longest_s = sys.stdin.buffer, int(sys.argv[1])
    _limit_cpu(longest_s)
    try:
        compiled = jmespath.compile(_read(source).decode())
    except (JMESPathError, RecursionError, ValueError, MemoryError) as error:
        _answer(FAILED, _syntax(error).encode())
        return
    _answer(MADE, b"")
    while request := _read(source):
        events = json.loads(request)
        if not events:
            _limit_cpu(longest_s)
        for event in events:
            _answer(*_outcome(compiled, event))


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


def _outcome(compiled: Any, event: Any) -> tuple[bytes, bytes]:
    try:
        content = json.dumps(compiled.search(event), separators=(",", ":"), allow_nan=False).encode()
    except MemoryError:
        return TOO_LITTLE, b"it takes too much memory"
    except RecursionError:
        return FAILED, b"it is nested too deeply"
    except TypeError:  # `&name` is an expression, and some functions do not look at their arguments
        return FAILED, b"a function gets, or the result has, something that is no JSON value"
    except (JMESPathError, ValueError, ArithmeticError, AttributeError, LookupError) as error:
        return FAILED, _sentence(error).encode()
    if len(content) > MOST_RESULT:
        return FAILED, b"its result has more than %d MiB of JSON" % (MOST_RESULT >> 20)
    return MADE, content


def _syntax(error: BaseException) -> str:
    """Where and why a text is no expression."""
    if isinstance(error, RecursionError | MemoryError):
        return "it is nested too deeply"
    place = getattr(error, "lex_position", None)
    token = getattr(error, "token_value", None)
    if isinstance(place, int) and token:
        return f"character {place + 1}: {str(token)[:40]!r} is not expected there"
    if isinstance(place, int):
        return f"character {place + 1}: something is missing or not closed"
    return _sentence(error)


def _sentence(error: BaseException) -> str:
    line = " ".join(str(error).split())[:_LONGEST_SENTENCE].rstrip(".")
    return line or type(error).__name__


if __name__ == "__main__":
    main()
