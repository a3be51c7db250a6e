"""A process that does nothing but read SQL: what a text makes the parser do costs nobody else anything (`parsers`).

Started by its path and alone, without settings and secrets. Each request is a text on standard input, each answer on
standard output the outcome and the processor seconds that it took as JSON, both behind their length in four bytes. It
ends with its input.
"""

import json
import resource
import struct
import sys
import time
from typing import Any, BinaryIO

from sqlglot import ErrorLevel, parse, serde
from sqlglot.errors import ParseError, SqlglotError

#: Processor time for a text, s; then the kernel ends the process (SIGXCPU), however busy the machine is.
LONGEST_CPU_S = 2
#: Address space, bytes: the parser itself takes a tenth of it.
_MOST_MEMORY = 1024**3


def main() -> None:
    """Answer until the input ends."""
    resource.setrlimit(resource.RLIMIT_AS, (_MOST_MEMORY, _MOST_MEMORY))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    _outcome("select 1")  # the first parse loads what the others need
    source, sink = sys.stdin.buffer, sys.stdout.buffer
    while text := _read(source):
        _limit_cpu()
        began = time.process_time()
        kind, found = _outcome(text)
        answer = json.dumps((kind, found, time.process_time() - began)).encode()
        sink.write(struct.pack(">I", len(answer)) + answer)
        sink.flush()


def _read(source: BinaryIO) -> str:
    """The next text; empty at the end of the input."""
    head = source.read(4)
    return source.read(struct.unpack(">I", head)[0]).decode() if len(head) == 4 else ""


def _limit_cpu() -> None:
    used = resource.getrusage(resource.RUSAGE_SELF)
    soft = int(used.ru_utime + used.ru_stime) + 1 + LONGEST_CPU_S
    resource.setrlimit(resource.RLIMIT_CPU, (soft, resource.RLIM_INFINITY))


def _outcome(text: str) -> tuple[str, Any]:
    """`("trees", …)` or why there are none: `("syntax", line, column, near)`, `("unclosed", …)`, `("nested", …)`."""
    try:
        trees = parse(text, read="mysql", error_level=ErrorLevel.RAISE)
        return "trees", [None if tree is None else serde.dump(tree) for tree in trees]
    except ParseError as error:
        first = error.errors[0] if error.errors else {}
        return "syntax", (first.get("line"), first.get("col"), str(first.get("highlight") or "").strip()[:40])
    except (SqlglotError, ValueError):
        return "unclosed", None
    except (RecursionError, MemoryError):
        return "nested", None


if __name__ == "__main__":
    main()
