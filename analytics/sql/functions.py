"""Every function of Spark 4.3: those that a statement may call, by Spark's groups, and those that it may not, and why.

A function is allowed when what it gives depends on its arguments, the clock or chance alone. A test compares the lists
with Spark's own registry, so a function that a new Spark brings is refused until somebody has looked at it.
"""

import difflib
import re

from analytics import option_values
from analytics.errors import QueryFailed, QueryRefused

_JAVA = "it calls any method of Java"
_PATHS = "it tells where the files of the lake are"
_XML = "an XML document and its schema can name other files and addresses"
_SCHEMA_FILES = "its options and its schema can name files and addresses"
_ENGINE = "it tells about the engine and not about the data"

#: Function → why it is refused.
REFUSED: dict[str, str] = {
    **dict.fromkeys(("reflect", "java_method", "try_reflect"), _JAVA),
    **dict.fromkeys(("input_file_name", "input_file_block_start", "input_file_block_length"), _PATHS),
    **dict.fromkeys(("from_xml", "schema_of_xml"), _XML),
    **dict.fromkeys(("xpath", "xpath_boolean", "xpath_double", "xpath_float", "xpath_int", "xpath_long"), _XML),
    **dict.fromkeys(("xpath_number", "xpath_short", "xpath_string"), _XML),
    **dict.fromkeys(("from_avro", "to_avro", "schema_of_avro", "from_protobuf", "to_protobuf"), _SCHEMA_FILES),
    **dict.fromkeys(("current_user", "user", "session_user"), "it tells the engine's user of the operating system"),
    **dict.fromkeys(("current_catalog", "current_path", "version", "python_worker_logs"), _ENGINE),
    "measure": "there are no metric views",
    "identifier": "it makes a name out of a text, which cannot be checked",
    "read_files": "it reads files",
}

_GROUPS = {
    "agg": """
        any any_value approx_count_distinct approx_percentile approx_top_k approx_top_k_accumulate approx_top_k_combine
        array_agg avg bit_and bit_or bit_xor bitmap_and_agg bitmap_construct_agg bitmap_or_agg bool_and bool_or
        collect_list collect_set collect_union corr count count_if count_min_sketch covar_pop covar_samp every first
        first_value grouping grouping_id histogram_numeric hll_sketch_agg hll_union_agg kll_merge_agg_bigint
        kll_merge_agg_double kll_merge_agg_float kll_sketch_agg_bigint kll_sketch_agg_double kll_sketch_agg_float
        kurtosis last last_value listagg max max_by mean median min min_by mode percentile percentile_approx
        percentile_cont percentile_disc regr_avgx regr_avgy regr_count regr_intercept regr_r2 regr_slope regr_sxx
        regr_sxy regr_syy skewness some std stddev stddev_pop stddev_samp string_agg sum theta_intersection_agg
        theta_sketch_agg theta_union_agg try_avg try_sum tuple_intersection_agg_double tuple_intersection_agg_integer
        tuple_sketch_agg_double tuple_sketch_agg_integer tuple_union_agg_double tuple_union_agg_integer var_pop var_samp
        variance
    """,
    "array": """
        array array_append array_compact array_contains array_distinct array_except array_insert array_intersect
        array_join array_max array_min array_position array_prepend array_remove array_repeat array_size array_union
        arrays_overlap arrays_zip flatten get sequence shuffle slice sort_array
    """,
    "bitwise": """
        & << >> >>> ^ bit_count bit_get getbit shiftleft shiftright shiftrightunsigned | ~
    """,
    "collection": """
        cardinality concat element_at reverse size try_element_at
    """,
    "conditional": """
        between coalesce if ifnull nanvl nullif nullifzero nvl nvl2 when zeroifnull
    """,
    "conversion": """
        bigint binary boolean cast date decimal double float int smallint string time timestamp tinyint
    """,
    "csv": """
        from_csv schema_of_csv to_csv
    """,
    "datetime": """
        add_months convert_timezone curdate current_date current_time current_timestamp current_timezone date_add
        date_diff date_format date_from_unix_date date_part date_sub date_trunc dateadd datediff datepart day dayname
        dayofmonth dayofweek dayofyear extract from_unixtime from_utc_timestamp hour last_day localtime localtimestamp
        make_date make_dt_interval make_interval make_time make_timestamp make_timestamp_ltz make_timestamp_ntz
        make_ym_interval minute month monthname months_between next_day now quarter second session_window time_bucket
        time_diff time_from_micros time_from_millis time_from_seconds time_to_micros time_to_millis time_to_seconds
        time_trunc timestamp_micros timestamp_millis timestamp_nanos timestamp_seconds to_date to_time to_timestamp
        to_timestamp_ltz to_timestamp_ntz to_unix_timestamp to_utc_timestamp trunc try_make_interval try_make_timestamp
        try_make_timestamp_ltz try_make_timestamp_ntz try_to_date try_to_time try_to_timestamp unix_date unix_micros
        unix_millis unix_nanos unix_seconds unix_timestamp weekday weekofyear window window_time year
    """,
    "generator": """
        explode explode_outer inline inline_outer posexplode posexplode_outer stack
    """,
    "hash": """
        crc32 hash md5 sha sha1 sha2 xxhash64
    """,
    "json": """
        from_json get_json_object json_array_length json_object_keys json_tuple schema_of_json to_json
    """,
    "lambda": """
        aggregate array_sort exists filter forall map_filter map_zip_with reduce transform transform_keys
        transform_values zip_with
    """,
    "map": """
        map map_concat map_contains_key map_entries map_from_arrays map_from_entries map_keys map_values str_to_map
    """,
    "math": """
        % * + - / abs acos acosh asin asinh atan atan2 atanh bin bround cbrt ceil ceiling conv cos cosh cot csc degrees
        div e exp expm1 factorial floor greatest hex hypot least ln log log10 log1p log2 mod negative pi pmod positive
        pow power radians rand randn random rint round sec sign signum sin sinh sqrt tan tanh try_add try_divide try_mod
        try_multiply try_subtract unhex uniform width_bucket
    """,
    "misc": """
        aes_decrypt aes_encrypt assert_true bitmap_bit_position bitmap_bucket_number bitmap_count current_database
        current_schema hmac monotonically_increasing_id raise_error spark_partition_id try_aes_decrypt typeof uuid
    """,
    "predicate": """
        ! < <= <=> = == > >= and equal_null ilike in isnan isnotnull isnull like not or regexp regexp_like rlike
    """,
    "sketch": """
        approx_top_k_estimate hll_sketch_estimate hll_union kll_sketch_get_n_bigint kll_sketch_get_n_double
        kll_sketch_get_n_float kll_sketch_get_quantile_bigint kll_sketch_get_quantile_double
        kll_sketch_get_quantile_float kll_sketch_get_rank_bigint kll_sketch_get_rank_double kll_sketch_get_rank_float
        kll_sketch_merge_bigint kll_sketch_merge_double kll_sketch_merge_float kll_sketch_to_string_bigint
        kll_sketch_to_string_double kll_sketch_to_string_float theta_difference theta_intersection theta_sketch_estimate
        theta_union tuple_difference_double tuple_difference_integer tuple_difference_theta_double
        tuple_difference_theta_integer tuple_intersection_double tuple_intersection_integer
        tuple_intersection_theta_double tuple_intersection_theta_integer tuple_sketch_estimate_double
        tuple_sketch_estimate_integer tuple_sketch_summary_double tuple_sketch_summary_integer tuple_sketch_theta_double
        tuple_sketch_theta_integer tuple_union_double tuple_union_integer tuple_union_theta_double
        tuple_union_theta_integer
    """,
    "st": """
        st_asbinary st_geogfromwkb st_geomfromwkb st_setsrid st_srid
    """,
    "string": """
        ascii base64 bit_length btrim char char_length character_length chr collate collation concat_ws contains decode
        elt encode endswith find_in_set format_number format_string from_base32 initcap instr is_valid_utf8
        jaro_winkler_similarity lcase left len length levenshtein locate lower lpad ltrim luhn_check make_valid_utf8
        mask octet_length overlay position printf quote randstr regexp_count regexp_extract regexp_extract_all
        regexp_instr regexp_replace regexp_substr repeat replace right rpad rtrim sentences soundex space split
        split_part startswith substr substring substring_index to_base32 to_binary to_char to_number to_varchar
        translate trim try_to_binary try_to_number try_validate_utf8 ucase unbase64 upper validate_utf8
    """,
    "struct": """
        named_struct struct
    """,
    "url": """
        parse_url try_parse_url try_url_decode url_decode url_encode
    """,
    "variant": """
        is_valid_variant is_variant_null parse_json schema_of_variant schema_of_variant_agg to_variant_object
        try_parse_json try_variant_array_append try_variant_get try_variant_insert try_variant_set variant_array_append
        variant_delete variant_get variant_insert variant_set variant_strip_nulls
    """,
    "vector": """
        vector_avg vector_cosine_similarity vector_inner_product vector_l2_distance vector_norm vector_normalize
        vector_sum
    """,
    "window": """
        counter_diff cume_dist dense_rank lag lead nth_value ntile percent_rank rank row_number
    """,
    "xml": """
        to_xml
    """,
}
#: Scalar functions, aggregates, window functions and generators.
ALLOWED = frozenset(name for names in _GROUPS.values() for name in names.split())

#: What the parser makes of special syntax and gives a name that the registry does not have, or only as a keyword.
_SYNTAX = "case if timestampadd timestampdiff date_add date_sub != <> || try_cast safe_cast"
ALLOWED_BY_SYNTAX = frozenset(_SYNTAX.split())

#: Functions that stand where a table may.
TABLE_FUNCTIONS = frozenset(
    [
        *("range", "explode", "explode_outer", "posexplode", "posexplode_outer", "inline", "inline_outer"),
        *("json_tuple", "stack", "variant_explode", "variant_explode_outer", "collations", "sql_keywords"),
    ]
)

#: How a type begins that is written as in CREATE TABLE: `id int, name string`, `array<int>`.
_TYPE = re.compile(r"\s*[\w`]")
#: Functions that give a type as such a text.
_GIVE_TYPES = frozenset({"schema_of_json", "schema_of_csv"})

_CATALYST = "org.apache.spark.sql.catalyst."

#: Every expression class the parser builds by itself; functions come as UnresolvedFunction and are judged by name.
EXPRESSIONS = _CATALYST + "expressions."

_LOGICAL = """
    Aggregate CTERelationRef Distinct Except Filter Generate GlobalLimit Intersect Join LateralJoin LocalLimit
    LocalRelation Offset OneRowRelation ParameterizedQuery Pivot Project Sample Sort SubqueryAlias Tail Transpose Union
    UnresolvedHint UnresolvedSubqueryColumnAliases UnresolvedWith Unpivot WithWindowDefinition
"""
_ANALYSIS = """
    MultiAlias NamedParameter PosParameter ResolvedInlineTable UnresolvedAlias UnresolvedAttribute
    UnresolvedExtractValue UnresolvedFunction UnresolvedGenerator UnresolvedHaving UnresolvedInlineTable
    UnresolvedOrdinal UnresolvedQualify UnresolvedRelation UnresolvedStar UnresolvedStarExceptOrReplace
    UnresolvedSubqueryColumnAliases UnresolvedTVFAliases UnresolvedTableValuedFunction UnresolvedWindowExpression
"""
PLAN_NODES = frozenset(
    [_CATALYST + "plans.logical." + name for name in _LOGICAL.split()]
    + [_CATALYST + "analysis." + name for name in _ANALYSIS.split()]
)

#: Functions that an editor does not offer; why, and what is allowed instead, is in `functions`.
REFUSED_FUNCTIONS = frozenset(REFUSED)

#: The hidden column of file tables: it tells the paths of the lake.
REFUSED_COLUMN = "_metadata"
#: Functions that Spark also takes without parentheses, where no column has the name; USER is too good a column's name,
#: and the session tells a name of its own for it (`session`).
REFUSED_NAMES = frozenset({"current_user", "session_user"})

#: What a refused plan node is in the words of SQL; other nodes are told by the first word of the statement.
NODE_WORDS = {
    "ScriptTransformation": "TRANSFORM … USING, which runs a program",
    "RelationTimeTravel": "VERSION AS OF and TIMESTAMP AS OF",
    "NamedStreamingRelation": "STREAM",
    "PlanWithUnresolvedIdentifier": "IDENTIFIER(…)",
    "ExpressionWithUnresolvedIdentifier": "IDENTIFIER(…)",
    "UnresolvedExecuteImmediate": "EXECUTE IMMEDIATE",
    "CompoundBody": "BEGIN … END",
    "InsertIntoDir": "INSERT OVERWRITE DIRECTORY",
    "InsertIntoStatement": "INSERT behind other words",
    "UnresolvedInsertTarget": "INSERT behind other words",
}


def require_type(function: str, kind: str, *said: str) -> None:
    """Judge the argument by which a function is told a type, as PlanWalk.java tells it.

    Spark takes such a text in a second form too, JSON, which can name a class of Java, a module of Python, whose
    content an error then shows, and expressions that nobody judges. So it has to be seen here. Raises QueryRefused.
    """
    if kind == "function" and len(said) == 1 and said[0].lower() in _GIVE_TYPES:
        return
    if kind != "text":
        raise QueryRefused(
            f"The type given to {function} must be a text in quotes, as 'id int, name string', or a call of"
            f" {' or '.join(sorted(_GIVE_TYPES))}."
        )
    if not _TYPE.match(said[0]):
        raise QueryRefused(
            f"The type given to {function} must be written as in CREATE TABLE, as 'id int, name string' or"
            " 'array<int>'; JSON is not allowed there."
        )


def require_options(function: str, kind: str, *said: str) -> None:
    """Judge the options that a function is told, as PlanWalk.java tells them.

    Among the options that Spark knows is one that names a class, which it would load. Raises QueryRefused.
    """
    if kind != "map":
        raise QueryRefused(f"The options of {function} must be written as map('name', 'value'), with texts in quotes.")
    for name, value in zip(said[::2], said[1::2], strict=True):
        if problem := option_values.problem_of_function(name, value):
            raise QueryRefused(f"The option {name[:80]!r} of {function} cannot be {value[:80]!r}; {problem}.")


def require_allowed(parts: tuple[str, ...]) -> None:
    """Judge the call of a function, by the parts of its name.

    Raises QueryRefused with the reason for one that is refused, QueryFailed as Spark does for one that there is not.
    """
    name = parts[-1].lower()
    if len(parts) > 1:
        raise QueryRefused(f"The function {'.'.join(parts)} is not allowed; name built-in functions without a schema.")
    if name in ALLOWED or name in ALLOWED_BY_SYNTAX or name in TABLE_FUNCTIONS:
        return
    if name in REFUSED:
        raise QueryRefused(f"The function {parts[0]} is not allowed: {REFUSED[name]}.")
    near = difflib.get_close_matches(name, ALLOWED, n=3)
    advice = f" Did you mean {' or '.join(near)}?" if near else ""
    raise QueryFailed(f"Cannot resolve routine `{parts[0]}`: there is no such function.{advice}", "UNRESOLVED_ROUTINE")


def require_table_function(name: str) -> None:
    """Judge a function that stands where a table may. Raises QueryRefused."""
    if name.lower() not in TABLE_FUNCTIONS:
        known = ", ".join(sorted(TABLE_FUNCTIONS))
        raise QueryRefused(f"The table function {name} is not allowed; there is {known}.")
