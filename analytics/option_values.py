"""Which values an option of Spark's readers and writers may have: for tables, and for functions with options. Pure.

Spark takes whatever is no value it knows for something else: the name of a class that it loads, a text of a megabyte
that it searches every line for, or it fails by an error of its own that says nothing. What is not listed is refused.
"""

import re
from collections.abc import Callable, Mapping

#: What `pathGlobFilter` may be: it is compared with names of files, and never becomes a path.
NAME_PATTERN = re.compile(r"[A-Za-z0-9_.=@+*?-]{1,200}")
#: What `compression` may be: Spark takes any other word for the name of a class, and loads it.
COMPRESSIONS = ("none", "uncompressed", "gzip", "bzip2", "deflate", "snappy", "zlib", "lz4", "zstd")
#: What Spark itself reads texts in.
ENCODINGS = ("utf-8", "utf8", "us-ascii", "iso-8859-1", "utf-16", "utf-16be", "utf-16le", "utf-32")
MODES = ("permissive", "dropmalformed", "failfast")
LONGEST_DELIMITER, LONGEST_PATTERN, LONGEST_TEXT = 16, 200, 1000

_LOCALE = re.compile(r"[A-Za-z0-9-]{1,35}")
_ZONE = re.compile(r"[A-Za-z0-9/_+:-]{1,40}")
_NAME = re.compile(r"[^\x00-\x1f]{1,255}")
_NUL = "\\u0000"


def _one_of(words: tuple[str, ...]) -> Callable[[str], str]:
    return lambda value: "" if value.lower() in words else f"allowed are {', '.join(words)}"


def _like(pattern: re.Pattern[str], told: str) -> Callable[[str], str]:
    return lambda value: "" if pattern.fullmatch(value) else told


def _at_most(characters: int) -> Callable[[str], str]:
    return lambda value: "" if len(value) <= characters else f"at most {characters} characters are allowed"


def _sign(value: str) -> str:
    return "" if len(value) <= 1 or value == _NUL else "one character is allowed, or none"


def _delimiter(value: str) -> str:
    if value and len(value) <= LONGEST_DELIMITER and value != "\\":
        return ""
    return f"1 to {LONGEST_DELIMITER} characters are allowed, and a backslash is written as two"


def _line_end(value: str) -> str:
    return "" if 1 <= len(value) <= 2 else "one or two characters are allowed"


def _each(names: str, judge: Callable[[str], str]) -> dict[str, Callable[[str], str]]:
    return dict.fromkeys(names.split(), judge)


_switch = _one_of(("true", "false"))
#: By the option's name in small letters: why a value cannot be, or nothing.
_JUDGES: Mapping[str, Callable[[str], str]] = {
    **_each("recursivefilelookup mergeschema header multiline enforceschema primitivesasstring", _switch),
    **_each("ignoreleadingwhitespace ignoretrailingwhitespace dropfieldifallnull prefersdecimal", _switch),
    **_each("allowcomments allowsinglequotes allowunquotedfieldnames", _switch),
    # of functions alone
    **_each("allownumericleadingzeros allowbackslashescapinganycharacter allowunquotedcontrolchars", _switch),
    **_each("allownonnumericnumbers ignorenullfields pretty quoteall escapequotes inferschema preferdate", _switch),
    "timezone": _like(_ZONE, "write it as Europe/Berlin or +01:00"),
    # of both
    "mode": _one_of(MODES),
    **_each("encoding charset", _one_of(ENCODINGS)),
    "compression": _one_of(COMPRESSIONS),
    **_each("delimiter sep", _delimiter),
    **_each("quote escape comment chartoescapequoteescaping", _sign),
    "linesep": _line_end,
    **_each("nullvalue emptyvalue nanvalue", _at_most(LONGEST_TEXT)),
    **_each("dateformat timestampformat timestampntzformat", _at_most(LONGEST_PATTERN)),
    "locale": _like(_LOCALE, "write it as en-US"),
    "columnnameofcorruptrecord": _like(_NAME, "255 characters are allowed, without control characters"),
    "pathglobfilter": _like(NAME_PATTERN, "letters, digits, * and ? are allowed"),
}
#: Options that are about files, which a function has not; its `codec` and `compression` would be loaded all the same.
_OF_FILES = frozenset({"pathglobfilter", "recursivefilelookup", "mergeschema", "compression"})


def problem(name: str, value: str) -> str:
    """Why the option cannot have the value: what is allowed, to go on a sentence; empty when it can."""
    judge = _JUDGES.get(name.lower())
    return "no value of it is known" if judge is None else judge(value)


def problem_of_function(name: str, value: str) -> str:
    """As `problem`, for an option that is given to a function."""
    if name.lower() not in _JUDGES or name.lower() in _OF_FILES:
        return f"allowed are {', '.join(sorted(_JUDGES.keys() - _OF_FILES))}"
    return problem(name, value)
