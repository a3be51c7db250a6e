"""Event patterns: JSON that says which events pass.

A pattern has the shape of the events: an object of fields, each of which is an object of fields again, or an array of
what its value may be. All fields of an object must match (AND), one item of an array is enough (OR), and fields that
the pattern does not name are ignored. An item is a text, a number, true, false or null, which the value must equal, or
an object of operators, all of which the value must satisfy:

    {"prefix": "a."}  {"suffix": ".z"}  {"contains": "x"}   texts only, by their characters, case-sensitive
    {"numeric": [">", 0, "<=", 5]}                          numbers only: one comparison, or a lower and an upper bound
    {"cidr": "10.0.0.0/24"}                                 texts that are an address of the block, IPv4 or IPv6
    {"anything-but": …}                                     not this value, none of a list of values, or, for
                                                            {"prefix": "a."}, nothing that begins so
    {"exists": true}  {"exists": false}                     whether the event has the field, whatever its value is

What the operators leave open is decided so:

- Numbers are equal by their value: 1 is 1.0 and 1e0. True and false are no numbers, and "1" is none.
- If the value of a field is an array, one of its elements is enough, and those of arrays in it count as well; with
  `{"anything-but": "a"}` the array ["a", "b"] therefore matches by its "b". An object in the pattern is matched by one
  element as a whole. Only `exists` looks at the array itself: an empty one exists, and nothing else matches it.
- A field that is missing matches nothing but `{"exists": false}`, so it is no `anything-but` either. A field with the
  value null exists.
- What is no object has no fields: where the event has null, a text, an array without elements or nothing, all fields of
  the pattern's object are missing.
- `anything-but` takes an object for what it is, no text and no number: `[{"anything-but": null}]` is "not null".
- A pattern without fields, `{}` or a blank text, lets every event pass.

Compiling bounds the text, and makes one closure of each part; matching takes at most the values of the pattern times
those of the event, whatever both are.
"""

from __future__ import annotations

import ipaddress
import json
import math
import operator
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple, NoReturn

from analytics.errors import AnalyticsError

MAX_TEXT = 64 * 1024
"""Largest pattern in bytes of UTF-8."""

MAX_DEPTH = 32
"""Deepest nesting of objects and arrays in a pattern."""

MAX_VALUES = 2_000
"""Most texts, numbers, trues, falses and nulls in a pattern."""

#: Digits of the longest whole number: those of the largest double, which other readers of JSON take it for.
_MAX_DIGITS = 309
#: Characters of a value, and values, in a sentence.
_SHOWN, _LISTED = 60, 5
#: The longest text of an IPv6 address is 45 characters; a zone (`%eth0`) may follow.
_MAX_ADDRESS = 64
_PLAIN_NAME = re.compile(r"[A-Za-z_][\w-]*", re.ASCII)
_BLOCK = re.compile(r"[0-9A-Fa-f:.]{2,45}/[0-9]{1,3}")
_COMPARISONS: dict[str, Callable[[Any, Any], bool]] = {
    "=": operator.eq,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
_MISSING = object()

#: Says whether a value matches; `_MISSING` is the value of a field that the event has not.
Test = Callable[[object], bool]
#: Says which parts do not match: the path of each and a sentence. Only called with a value that does not match.
Explain = Callable[[object], Iterator[tuple[str, str]]]


class PatternError(AnalyticsError):
    """A text is no event pattern. The message says where and what is allowed.

    `path` is the part to blame, such as `data.tableName[0].prefix`, empty for the whole; `line` and `column` (from 1)
    are known when the text is no JSON.
    """

    def __init__(self, message: str, path: str = "", line: int | None = None, column: int | None = None) -> None:
        super().__init__(message)
        self.path = path
        self.line = line
        self.column = column


class _Part(NamedTuple):
    test: Test
    explain: Explain


class _Condition(NamedTuple):
    """What an operator asks of one value, and how it is called in a sentence."""

    holds: Test
    wanted: str


class _Object(tuple[tuple[str, Any], ...]):
    """An object of the pattern with all its names, those that stand there twice too."""

    __slots__ = ()


class Pattern:
    """A compiled event pattern. Made by `compile`; unchangeable, and safe in threads."""

    __slots__ = ("_is_empty", "_part", "text")

    def __init__(self, text: str, part: _Part, *, is_empty: bool) -> None:
        self.text = text
        self._part, self._is_empty = part, is_empty

    @classmethod
    def compile(cls, text: str) -> Pattern:
        """The pattern of a JSON text. Raises PatternError."""
        found = _read(text) if text.strip() else _Object()
        if not isinstance(found, _Object):
            raise PatternError(f"A pattern is a JSON object of fields, not {_kind(found)}.")
        _check_size(found)
        return cls(text, _fields(found, "", is_root=True), is_empty=not found)

    def matches(self, event: object) -> bool:
        """Whether the event passes. What is no object never does."""
        return isinstance(event, dict) and (self._is_empty or self._part.test(event))

    def explain(self, event: object) -> list[tuple[str, str]]:
        """Which parts of the pattern say no to the event: their paths, each with a sentence; none if it passes."""
        if not isinstance(event, dict):
            return [("", f"An event is an object, not {_kind(event)}.")]
        return [] if self._part.test(event) else list(self._part.explain(event))


def _read(text: str) -> Any:
    size = len(text.encode(errors="surrogatepass"))
    if size > MAX_TEXT:
        raise PatternError(f"The pattern has {size:,} bytes; at most {MAX_TEXT:,} are allowed.")
    try:
        return json.loads(text, object_pairs_hook=_Object, parse_int=_whole_number)
    except json.JSONDecodeError as error:
        reason = error.msg[:1].lower() + error.msg[1:]
        raise PatternError(
            f"Line {error.lineno}, column {error.colno}: the pattern is no JSON there: {reason}.",
            line=error.lineno,
            column=error.colno,
        ) from None
    except RecursionError:
        raise _too_deep() from None


def _whole_number(digits: str) -> int | float:
    # Python takes a time for long numbers that grows with the square of their length, and refuses the longest.
    return int(digits) if len(digits) <= _MAX_DIGITS else math.inf


def _check_size(whole: _Object) -> None:
    """Raises PatternError for what is too deep or too much, before anything walks down the pattern by recursion."""
    values = depth = 0
    level: list[Any] = [whole]
    while level:
        following: list[Any] = []
        for found in level:
            if isinstance(found, _Object):
                following += (item for _, item in found)
            elif isinstance(found, list):
                following += found
            else:
                values += 1
        level, depth = following, depth + 1
        if depth >= MAX_DEPTH and any(isinstance(item, _Object | list) for item in level):
            raise _too_deep()
    if values > MAX_VALUES:
        raise PatternError(f"The pattern has {values:,} values; at most {MAX_VALUES:,} are allowed.")


def _too_deep() -> PatternError:
    return PatternError(f"The pattern is nested deeper than {MAX_DEPTH} levels.")


def _join(path: str, name: str) -> str:
    if len(name) > _SHOWN or not _PLAIN_NAME.fullmatch(name):
        return f"{path}[{_shown(name)}]"
    return f"{path}.{name}" if path else name


def _refuse(path: str, sentence: str) -> NoReturn:
    raise PatternError(f"{path}: {sentence}" if path else sentence[0].upper() + sentence[1:], path)


def _check_names(found: _Object, path: str) -> None:
    seen: set[str] = set()
    for name, _ in found:
        if name in seen:
            _refuse(path, f"the name {_shown(name)} stands twice in one object.")
        seen.add(name)


def _fields(found: _Object, path: str, *, is_root: bool = False) -> _Part:
    """An object of fields, which an object of the event must match as a whole."""
    if not found and not is_root:
        _refuse(path, 'an object has at least one field; to ask for the field itself write [{"exists": true}].')
    _check_names(found, path)
    parts = [(name, _field(item, _join(path, name))) for name, item in found]
    tests = [(name, part.test) for name, part in parts]

    def holds(value: object) -> bool:
        if isinstance(value, dict):
            return all(test(value.get(name, _MISSING)) for name, test in tests)
        return all(test(_MISSING) for _, test in tests)

    def test(value: object) -> bool:
        if not isinstance(value, list):
            return holds(value)
        is_empty = True
        for element in _elements(value):
            if holds(element):
                return True
            is_empty = False
        return is_empty and holds(_MISSING)

    def explain(value: object) -> Iterator[tuple[str, str]]:
        if isinstance(value, list):
            elements = list(_elements(value)) or [_MISSING]
            if len(elements) != 1:
                yield path, f"None of the {len(elements):,} elements of the array matches all fields of the pattern."
                return
            value = elements[0]
        for name, part in parts:
            own = value.get(name, _MISSING) if isinstance(value, dict) else _MISSING
            if not part.test(own):
                yield from part.explain(own)

    return _Part(test, explain)


def _elements(value: list[Any]) -> Iterator[object]:
    """The elements of an array and of all arrays in it, without recursion: an event may be nested without end."""
    waiting: list[Iterator[Any]] = [iter(value)]
    while waiting:
        for item in waiting[-1]:
            if isinstance(item, list):
                waiting.append(iter(item))
                break
            yield item
        else:
            waiting.pop()


def _field(found: Any, path: str) -> _Part:
    if isinstance(found, _Object):
        return _fields(found, path)
    if isinstance(found, list):
        return _alternatives(found, path)
    _refuse(path, f'a field has an array of values, such as ["a"], or an object of fields, not {_kind(found)}.')


def _alternatives(found: list[Any], path: str) -> _Part:
    """An array of what a value may be. Values to equal are looked up together, so that many cost no more than one."""
    if not found:
        _refuse(path, "an array has at least one value.")
    exact = _Values()
    of_value: list[Test] = []
    of_field: list[Test] = []
    wanted: list[str] = []
    for at, item in enumerate(found):
        place = f"{path}[{at}]"
        if not isinstance(item, _Object):
            exact.add(item, place)
            wanted.append(_shown(item))
            continue
        exists, conditions = _conditions(item, place)
        wanted.append(" that is ".join(_words(exists, conditions)))
        own = _all_of([condition.holds for condition in conditions])
        if exists is None:
            of_value.append(own)
        elif conditions:
            of_value.append(own)  # that it exists is no more than what the other operators ask for
        else:
            of_field.append(_is_there if exists else _is_missing)

    def holds(value: object) -> bool:
        return value in exact or any(test(value) for test in of_value)

    def test(value: object) -> bool:
        if of_field and any(test(value) for test in of_field):
            return True
        if value is _MISSING:
            return False
        return any(map(holds, _elements(value))) if isinstance(value, list) else holds(value)

    listed = _listed(wanted)

    def explain(value: object) -> Iterator[tuple[str, str]]:
        if value is _MISSING:
            yield path, f"The event has no such field; allowed is {listed}."
        else:
            yield path, f"The event has {_shown(value)} there; allowed is {listed}."

    return _Part(test, explain)


def _is_there(value: object) -> bool:
    return value is not _MISSING


def _is_missing(value: object) -> bool:
    return value is _MISSING


def _all_of(tests: list[Test]) -> Test:
    if len(tests) == 1:
        return tests[0]
    return lambda value: all(test(value) for test in tests)


def _words(exists: bool | None, conditions: list[_Condition]) -> list[str]:
    words = [condition.wanted for condition in conditions]
    if not words:
        words.append("any value" if exists else "no such field")
    return words


def _listed(wanted: list[str]) -> str:
    shown = wanted if len(wanted) <= _LISTED else [*wanted[:_LISTED], f"{len(wanted) - _LISTED:,} more"]
    return " or ".join(shown)


class _Values:
    """Values to equal. Python's true equals 1, JSON's does not."""

    __slots__ = ("_numbers", "_single", "_texts")

    def __init__(self) -> None:
        self._texts: set[str] = set()
        self._numbers: set[int | float] = set()
        self._single: list[object] = []

    def add(self, value: Any, path: str) -> None:
        """Take another one. Raises PatternError."""
        if isinstance(value, str):
            self._texts.add(value)
        elif isinstance(value, bool) or value is None:
            self._single.append(value)
        elif isinstance(value, list):
            _refuse(path, "a value is a text, a number, true, false, null or an object of operators, not an array.")
        else:
            self._numbers.add(_number(value, path))

    def __contains__(self, value: object) -> bool:
        if isinstance(value, str):
            return value in self._texts
        if isinstance(value, bool) or value is None:
            return any(value is one for one in self._single)
        return isinstance(value, int | float) and value in self._numbers


def _number(value: Any, path: str) -> int | float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        _refuse(path, f"this is a number, not {_kind(value)}.")
    try:
        is_finite = math.isfinite(value)
    except OverflowError:  # a whole number beyond the largest double
        is_finite = False
    if not is_finite:
        _refuse(path, "a number is finite and of the range of a double, up to 1.79e308.")
    return value


def _conditions(found: _Object, path: str) -> tuple[bool | None, list[_Condition]]:
    """What an object of operators asks: for the field's existence (None: nothing), and for its value."""
    if not found:
        _refuse(path, f"an object in an array has an operator: {_OPERATOR_NAMES}.")
    _check_names(found, path)
    exists: bool | None = None
    conditions: list[_Condition] = []
    for name, operand in found:
        place = _join(path, name)
        if name == "exists":
            if not isinstance(operand, bool):
                _refuse(place, f"exists is true or false, not {_kind(operand)}.")
            exists = operand
        elif name in _OPERATORS:
            conditions.append(_OPERATORS[name](operand, place))
        else:
            _refuse(path, f"{_shown(name)} is no operator; there are {_OPERATOR_NAMES}.")
    if exists is False and conditions:
        _refuse(_join(path, "exists"), "a field that is missing has no value, so false stands without other operators.")
    return exists, conditions


def _text_operator(name: str, example: str, holds: Callable[[str, str], bool], words: str) -> _Operator:
    def make(operand: Any, path: str) -> _Condition:
        if not isinstance(operand, str):
            _refuse(path, f"{name} takes a text, such as {example}, not {_kind(operand)}.")
        return _Condition(
            lambda value: isinstance(value, str) and holds(value, operand), f"a text that {words} {_shown(operand)}"
        )

    return make


_prefix = _text_operator("prefix", '"a."', str.startswith, "begins with")
_suffix = _text_operator("suffix", '".z"', str.endswith, "ends with")
_contains = _text_operator("contains", '"x"', operator.contains, "contains")


def _anything_but(operand: Any, path: str) -> _Condition:
    if isinstance(operand, _Object):
        _check_names(operand, path)
        if [name for name, _ in operand] != ["prefix"]:
            _refuse(path, 'the object of anything-but has the one operator prefix, such as {"prefix": "a."}.')
        begins = _prefix(operand[0][1], _join(path, "prefix"))
        return _Condition(lambda value: not begins.holds(value), f"anything but {begins.wanted}")
    listed = operand if isinstance(operand, list) else [operand]
    if not listed:
        _refuse(path, "the list of anything-but has at least one value.")
    values = _Values()
    for at, item in enumerate(listed):
        place = f"{path}[{at}]" if isinstance(operand, list) else path
        if isinstance(item, _Object):
            _refuse(place, "a list of anything-but has texts, numbers, true, false and null, not an object.")
        values.add(item, place)
    return _Condition(lambda value: value not in values, f"anything but {_listed([_shown(item) for item in listed])}")


def _numeric(operand: Any, path: str) -> _Condition:
    if not isinstance(operand, list) or len(operand) not in (2, 4):
        _refuse(path, 'numeric takes one comparison or two, such as [">", 0] or [">", 0, "<=", 5].')
    comparisons: list[tuple[str, int | float]] = []
    for at in range(0, len(operand), 2):
        sign = operand[at]
        if not isinstance(sign, str) or sign not in _COMPARISONS:
            _refuse(f"{path}[{at}]", f"a comparison is one of {', '.join(_COMPARISONS)}, not {_shown(sign)}.")
        comparisons.append((sign, _number(operand[at + 1], f"{path}[{at + 1}]")))
    if len(comparisons) == 2:
        _check_range(comparisons, path)
    tests = [(_COMPARISONS[sign], bound) for sign, bound in comparisons]

    def holds(value: object) -> bool:
        if isinstance(value, bool) or not isinstance(value, int | float):
            return False
        return all(compare(value, bound) for compare, bound in tests)

    return _Condition(holds, "a number " + " and ".join(f"{sign} {_shown(bound)}" for sign, bound in comparisons))


def _check_range(comparisons: list[tuple[str, int | float]], path: str) -> None:
    bounds = {sign[0]: (sign, bound) for sign, bound in comparisons}
    if set(bounds) != {">", "<"}:
        _refuse(path, "two comparisons are a lower bound (> or >=) and an upper one (< or <=).")
    (low_sign, low), (high_sign, high) = bounds[">"], bounds["<"]
    if low > high or (low == high and (low_sign, high_sign) != (">=", "<=")):
        _refuse(path, f"no number is {low_sign} {_shown(low)} and {high_sign} {_shown(high)}.")


def _cidr(operand: Any, path: str) -> _Condition:
    if not isinstance(operand, str) or not _BLOCK.fullmatch(operand):
        _refuse(path, f'cidr takes a block of addresses, such as "10.0.0.0/24", not {_shown(operand)}.')
    try:
        block = ipaddress.ip_network(operand, strict=False)
    except ValueError:
        _refuse(path, f'{_shown(operand)} is no block of addresses; one is "10.0.0.0/24".')
    if str(block.network_address) != str(ipaddress.ip_address(operand.partition("/")[0])):
        _refuse(path, f'{_shown(operand)} begins inside of a block; the block is "{block}".')

    def holds(value: object) -> bool:
        if not isinstance(value, str) or len(value) > _MAX_ADDRESS:
            return False
        try:
            return ipaddress.ip_address(value) in block
        except ValueError:
            return False

    return _Condition(holds, f"an address of {block}")


_Operator = Callable[[Any, str], _Condition]
_OPERATORS: dict[str, _Operator] = {
    "prefix": _prefix,
    "suffix": _suffix,
    "contains": _contains,
    "anything-but": _anything_but,
    "numeric": _numeric,
    "cidr": _cidr,
}
_OPERATOR_NAMES = ", ".join([*_OPERATORS, "exists"])


def _kind(value: object) -> str:
    """What a value is, with its article."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if value is None:
        return "null"
    kinds: list[tuple[type | tuple[type, ...], str]] = [
        (str, "a text"), ((int, float), "a number"), (list, "an array"), ((_Object, Mapping), "an object"),
    ]  # fmt: skip
    return next((words for types, words in kinds if isinstance(value, types)), "something that JSON has not")


def _shown(value: object) -> str:
    """A value in a sentence: as JSON, short, and of characters that every page can show."""
    if isinstance(value, str):
        text = json.dumps(value[: _SHOWN + 1], ensure_ascii=False)
    elif isinstance(value, bool | float) or value is None:
        text = json.dumps(value)
    elif isinstance(value, int):
        text = str(value) if value.bit_length() < 4 * _SHOWN else "a long number"
    elif isinstance(value, list | Mapping):
        return "an empty array" if value == [] else _kind(value)
    else:
        return _kind(value)
    text = text.encode(errors="backslashreplace").decode()
    return text if len(text) <= _SHOWN + 2 else text[:_SHOWN] + "…"
