"""A process that does nothing but read SQL: what a text makes the parser do costs nobody else anything (`parsers`).

Started by its path and alone, without settings and secrets. Each request on standard input is the name of a dialect, a
NUL and a text, each answer on standard output the outcome and the processor seconds that it took as JSON, both behind
their length in four bytes. It ends with its input.
"""

import json
import resource
import struct
import sys
import time
from typing import Any, BinaryIO

from sqlglot import ErrorLevel, TokenType, parse, serde
from sqlglot.dialects import MySQL, Spark
from sqlglot.errors import ParseError, SqlglotError

#: Processor time for a text, s; then the kernel ends the process (SIGXCPU), however busy the machine is.
LONGEST_CPU_S = 2
#: Address space, bytes: the parser itself takes a tenth of it.
_MOST_MEMORY = 1024**3


#: What is written in a way of its own; every other function is a name and its arguments, so that nothing is made of it.
_SPECIAL = ("CAST", "TRY_CAST", "CEIL", "FLOOR", "EXTRACT", "OVERLAY", "POSITION", "TRIM", "SUBSTRING")


class Job(Spark):  # type: ignore[misc]
    """The queries of jobs: a backslash is an ordinary character, `ROW<…>` is a type, functions are the vendor's."""

    class Tokenizer(Spark.Tokenizer):  # type: ignore[misc]
        """Texts in `'`, names in backticks, and no word that takes the rest of the text as it stands."""

        STRING_ESCAPES = ["'"]
        QUOTES = ["'"]
        IDENTIFIERS = ["`"]
        COMMENTS = ["--", ("/*", "*/")]
        COMMANDS: set[TokenType] = set()
        KEYWORDS = {
            **{word: kind for word, kind in Spark.Tokenizer.KEYWORDS.items() if word != "SESSION"},  # a window
            "ROW": TokenType.STRUCT,
            "BYTES": TokenType.VARBINARY,
            "TIMESTAMP_LTZ": TokenType.TIMESTAMPLTZ,
        }

    class Parser(Spark.Parser):  # type: ignore[misc]
        """Knows no function by its name."""

        FUNCTIONS: dict[str, Any] = {}
        FUNCTION_PARSERS = {name: Spark.Parser.FUNCTION_PARSERS[name] for name in _SPECIAL}


_DIALECTS = {"mysql": MySQL, "job": Job}


def main() -> None:
    """Answer until the input ends."""
    resource.setrlimit(resource.RLIMIT_AS, (_MOST_MEMORY, _MOST_MEMORY))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    _outcome("select 1", "mysql")  # the first parse loads what the others need
    source, sink = sys.stdin.buffer, sys.stdout.buffer
    while request := _read(source):
        dialect, _, text = request.partition("\0")
        _limit_cpu()
        began = time.process_time()
        kind, found = _outcome(text, dialect)
        answer = json.dumps((kind, found, time.process_time() - began)).encode()
        sink.write(struct.pack(">I", len(answer)) + answer)
        sink.flush()


def _read(source: BinaryIO) -> str:
    """The next request; empty at the end of the input."""
    head = source.read(4)
    return source.read(struct.unpack(">I", head)[0]).decode() if len(head) == 4 else ""


def _limit_cpu() -> None:
    used = resource.getrusage(resource.RUSAGE_SELF)
    soft = int(used.ru_utime + used.ru_stime) + 1 + LONGEST_CPU_S
    resource.setrlimit(resource.RLIMIT_CPU, (soft, resource.RLIM_INFINITY))


def _outcome(text: str, dialect: str) -> tuple[str, Any]:
    """`("trees", …)` or why there are none: `("syntax", line, column, near)`, `("unclosed", …)`, `("nested", …)`."""
    try:
        trees = parse(text, read=_DIALECTS[dialect], error_level=ErrorLevel.RAISE)
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
