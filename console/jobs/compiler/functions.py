"""The vendor's functions: which are Spark's, what the others are written as, and which cannot be. Pure.

Every function that a job may call stands here. A rewriting takes the arguments and makes the expression for Spark; it
raises ValueError with what the arguments are, to go on a sentence.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from sqlglot import exp

Arguments = Sequence[exp.Expr]
Rewriting = Callable[[Arguments], exp.Expr]


def call(name: str, *arguments: exp.Expr) -> exp.Expr:
    """A call of Spark's function."""
    return exp.Anonymous(this=name, expressions=[*arguments])


def text(value: str) -> exp.Expr:
    """A text in quotes."""
    return exp.Literal.string(value)


def number(value: int) -> exp.Expr:
    """A whole number."""
    return exp.Literal.number(value)


def cast(value: exp.Expr, spark_type: str) -> exp.Expr:
    """The value as a type, by Spark's name of it."""
    return exp.Cast(this=value, to=exp.DataType(this=exp.DataType.Type.USERDEFINED, kind=spark_type))


def _words(listed: str) -> frozenset[str]:
    return frozenset(listed.split())


#: Aggregates, which Spark has under the same names.
AGGREGATES = _words(
    """avg collect count first_value last_value listagg max min stddev_pop stddev_samp stddev sum var_pop var_samp
    variance approx_count_distinct any_value percentile"""
)
#: Of windows of rows; batch jobs alone have them.
OF_ROWS = _words("cume_dist dense_rank lag lead ntile percent_rank rank row_number")
SAME = _words(
    """abs acos array_append array_contains array_distinct array_except array_intersect array_join array_max array_min
    array_position array_prepend array_remove array_union ascii asin atan atan2 bin cardinality cbrt ceil ceiling
    char_length character_length coalesce concat concat_ws cos cosh cot date_add date_format date_sub datediff
    dayofmonth dayofweek dayofyear degrees e elt encode exp floor from_unixtime greatest hex hour hypot if ifnull
    initcap instr isnan least left length ln locate log log10 log2 lower lpad ltrim map_entries map_from_arrays map_keys
    map_values md5 minute mod month now nullif nvl overlay parse_url pi position power quarter radians rand regexp_count
    regexp_instr regexp_replace regexp_substr repeat replace reverse right round rpad rtrim second sha1 sha2 sign sin
    sinh size sqrt substr substring tan tanh to_json translate trim typeof unhex unix_timestamp upper uuid year
    grouping grouping_id array_sort bit_length decode endswith last_day startswith url_decode url_encode"""
)
_RENAMED = {
    "btrim": "trim",
    "array_concat": "concat",
    "array_reverse": "reverse",
    "chr": "char",
    "current_row_timestamp": "current_timestamp",
    "proctime": "current_timestamp",
    "collect": "collect_list",
    "localtimestamp": "current_timestamp",
    "regexp": "regexp_like",
    "week": "weekofyear",
    "lcase": "lower",
    "ucase": "upper",
}
_NO_TYPE = "Spark has no function for it"
REFUSED = {
    "json_object": "write to_json(…) of a row",
    "json_array": "write to_json(…) of an array",
    "json_objectagg": "write to_json(…) of a map",
    "json_arrayagg": "write to_json(…) of an array",
    "json_string": "write to_json(…)",
    "json_quote": _NO_TYPE,
    "json_unquote": "write json_value(…)",
    "current_watermark": "Spark does not tell a query its watermark",
    "current_time": "there is no type for a time of day; write date_format(now(), 'HH:mm:ss')",
    "localtime": "there is no type for a time of day; write date_format(now(), 'HH:mm:ss')",
    "current_database": "a job's tables are in no database",
    "source_watermark": "the connectors tell none; write the column, or the column less an interval",
    "truncate": "write floor(…) or round(…)",
    "element": "write the array's first element: a[1]",
    "cumulate": "Spark has no cumulating windows; allowed are TUMBLE, HOP and SESSION",
    "ml_predict": "there are no models here",
    "keyvalue": "write str_to_map(…)['key']",
}


def _few(arguments: Arguments, least: int, most: int) -> None:
    if not least <= len(arguments) <= most:
        count = str(least) if least == most else f"{least} to {most}"
        raise ValueError(f"{count} argument{'' if count == '1' else 's'}")


def _to_timestamp(arguments: Arguments) -> exp.Expr:
    _few(arguments, 1, 2)
    return call("try_to_timestamp", *arguments)


def _to_date(arguments: Arguments) -> exp.Expr:
    _few(arguments, 1, 2)
    return call("try_to_date", *arguments)


def _to_timestamp_ltz(arguments: Arguments) -> exp.Expr:
    _few(arguments, 1, 2)
    digits = arguments[1].name if len(arguments) == 2 else "3"
    names = {"0": "timestamp_seconds", "3": "timestamp_millis"}
    if digits not in names:
        raise ValueError("a number and its precision: 0 for seconds, 3 for milliseconds")
    return call(names[digits], arguments[0])


def _of_unit(name: str) -> Rewriting:
    def rewrite(arguments: Arguments) -> exp.Expr:
        _few(arguments, 3, 3)
        return call(name, exp.Var(this=arguments[0].name.upper()), *arguments[1:])

    return rewrite


def _regexp_extract(arguments: Arguments) -> exp.Expr:
    _few(arguments, 2, 3)
    return call("regexp_extract", *arguments[:2], arguments[2] if len(arguments) == 3 else number(0))


def _literally(value: exp.Expr) -> exp.Expr:
    """A pattern that matches a text and nothing else."""
    return call("concat", text("\\Q"), value, text("\\E"))


def _split_index(arguments: Arguments) -> exp.Expr:
    _few(arguments, 3, 3)
    separator = arguments[1]
    if not separator.is_string and separator.is_number:  # a character's code
        separator = call("char", separator)
    return call("get", call("split", arguments[0], _literally(separator)), arguments[2])


def _split(arguments: Arguments) -> exp.Expr:
    _few(arguments, 2, 2)
    return call("split", arguments[0], _literally(arguments[1]))


def _str_to_map(arguments: Arguments) -> exp.Expr:
    _few(arguments, 1, 3)
    given = [*arguments[1:], *[text(","), text("=")][len(arguments) - 1 :]]
    return call("str_to_map", arguments[0], *given)


def _array_slice(arguments: Arguments) -> exp.Expr:
    """From a place to another one, both in it; Spark wants how many."""
    _few(arguments, 2, 3)
    start = arguments[1]
    count = call("size", arguments[0]) if len(arguments) == 2 else arguments[2]
    if len(arguments) == 3:
        less = exp.Sub(this=exp.Paren(this=arguments[2]), expression=exp.Paren(this=start.copy()))
        count = call("greatest", number(0), exp.Add(this=less, expression=number(1)))
    return call("slice", arguments[0], start, count)


def _of_path(name: str) -> Rewriting:
    """Spark's paths are neither lax nor strict, and have no word for it in front."""

    def rewrite(arguments: Arguments) -> exp.Expr:
        _few(arguments, 2, 2)
        path = arguments[1]
        if path.is_string:
            path = text(path.name.removeprefix("lax ").removeprefix("strict ").strip())
        return call(name, arguments[0], path)

    return rewrite


def _convert_tz(arguments: Arguments) -> exp.Expr:
    _few(arguments, 3, 3)
    moved = call("convert_timezone", arguments[1], arguments[2], call("to_timestamp_ntz", arguments[0]))
    return call("date_format", moved, text("yyyy-MM-dd HH:mm:ss"))


def _sha(bits: int) -> Rewriting:
    def rewrite(arguments: Arguments) -> exp.Expr:
        _few(arguments, 1, 1)
        return call("sha2", arguments[0], number(bits))

    return rewrite


def _from_base64(arguments: Arguments) -> exp.Expr:
    _few(arguments, 1, 1)
    return cast(call("unbase64", arguments[0]), "string")


def _to_base64(arguments: Arguments) -> exp.Expr:
    _few(arguments, 1, 1)
    return call("base64", cast(arguments[0], "binary"))


def _rand_integer(arguments: Arguments) -> exp.Expr:
    _few(arguments, 1, 2)
    drawn = call("rand", *arguments[:-1])
    return cast(call("floor", exp.Mul(this=drawn, expression=arguments[-1])), "int")


_path = _of_path("get_json_object")


def _json_exists(arguments: Arguments) -> exp.Expr:
    found = exp.Is(this=_path(arguments), expression=exp.Null())
    return exp.Paren(this=exp.Not(this=found))


def _unless_null(name: str) -> Rewriting:
    """The vendor's answer is NULL when any argument is, Spark's is not."""

    def rewrite(arguments: Arguments) -> exp.Expr:
        if len(arguments) < 2:
            raise ValueError("2 and more arguments")
        conditions = [exp.Is(this=one.copy(), expression=exp.Null()) for one in arguments]
        either: exp.Expr = conditions[0]
        for condition in conditions[1:]:
            either = exp.Or(this=either, expression=condition)
        return exp.Case(ifs=[exp.If(this=either, true=exp.Null())], default=call(name, *arguments))

    return rewrite


def _row(arguments: Arguments) -> exp.Expr:
    names = [part for at, value in enumerate(arguments) for part in (text(f"f{at}"), value)]
    return call("named_struct", *names)


def _listagg(arguments: Arguments) -> exp.Expr:
    _few(arguments, 1, 2)
    separator = arguments[1] if len(arguments) == 2 else text(",")
    return call("listagg", cast(arguments[0], "string"), separator)


def _bitwise(kind: type[exp.Binary]) -> Rewriting:
    def rewrite(arguments: Arguments) -> exp.Expr:
        _few(arguments, 2, 2)
        return exp.Paren(this=kind(this=arguments[0], expression=arguments[1]))

    return rewrite


_REWRITTEN: dict[str, Rewriting] = {
    "to_timestamp": _to_timestamp,
    "to_date": _to_date,
    "to_timestamp_ltz": _to_timestamp_ltz,
    "timestampadd": _of_unit("timestampadd"),
    "timestampdiff": _of_unit("timestampdiff"),
    "regexp_extract": _regexp_extract,
    "split_index": _split_index,
    "split": _split,
    "str_to_map": _str_to_map,
    "convert_tz": _convert_tz,
    "sha224": _sha(224),
    "sha256": _sha(256),
    "sha384": _sha(384),
    "sha512": _sha(512),
    "from_base64": _from_base64,
    "to_base64": _to_base64,
    "rand_integer": _rand_integer,
    "json_exists": _json_exists,
    "json_query": _path,
    "json_value": _path,
    "array_slice": _array_slice,
    "greatest": _unless_null("greatest"),
    "least": _unless_null("least"),
    "row": _row,
    "listagg": _listagg,
    "bitand": _bitwise(exp.BitwiseAnd),
    "bitor": _bitwise(exp.BitwiseOr),
    "bitxor": _bitwise(exp.BitwiseXor),
}
NAMES = sorted(SAME | AGGREGATES | OF_ROWS | _RENAMED.keys() | _REWRITTEN.keys())


@dataclass(slots=True)
class Unknown(Exception):  # noqa: N818
    """No function of this name can be called; `sentence` says what to write instead, or nothing is known of it."""

    sentence: str = ""


def rewritten(name: str, arguments: Arguments) -> exp.Expr:
    """The call as Spark has it. Raises Unknown, and ValueError with what the arguments are."""
    small = name.lower()
    if small in _REWRITTEN:
        return _REWRITTEN[small](arguments)
    if small in _RENAMED:
        return call(_RENAMED[small], *arguments)
    if small in SAME or small in AGGREGATES or small in OF_ROWS:
        return call(small, *arguments)
    raise Unknown(REFUSED.get(small, ""))
