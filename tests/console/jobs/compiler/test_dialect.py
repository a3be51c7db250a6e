"""Queries as Spark gets them: functions, casts, indexes, windows, joins; and what Spark cannot do, at its place."""

from __future__ import annotations

import pytest
from sqlglot import exp

from analytics.pipelines.plan import Watermark
from analytics.sql.functions import ALLOWED
from console.jobs.compiler import functions
from console.jobs.compiler.rows import CatalogTable
from tests.console.jobs.compiler.texts import LINES, TABLES, checked, flights, plan, process, refused_query, sql

pytestmark = process


def expression(written: str) -> str:
    """What Spark gets for an expression over the table clicks."""
    found = sql(f"SELECT 1, {written} FROM clicks")
    return found.removeprefix("SELECT 1, ").removesuffix(" FROM `clicks`")


@pytest.mark.parametrize(
    ("written", "spark"),
    [
        ("CAST(SUBSTRING(page,0,5) AS VARBINARY)", "CAST(SUBSTRING(`page`, 0, 5) AS binary)"),
        ("cast(page as varchar)", "CAST(`page` AS string)"),
        ("CAST(n AS DECIMAL(10, 2))", "CAST(`n` AS decimal(10,2))"),
        ("CAST(page AS TIMESTAMP(3))", "CAST(`page` AS timestamp)"),
        ("TRY_CAST(page AS BIGINT)", "TRY_CAST(`page` AS bigint)"),
        ("CAST(ROW(1, arr) AS ROW<a INT, b ARRAY<VARCHAR(3)>>)",
         "CAST(NAMED_STRUCT('f0', 1, 'f1', `arr`) AS struct<a:int,b:array<string>>)"),
        ("CAST(page AS BYTES)", "CAST(`page` AS binary)"),
        (r"'a\b'", r"'a\\b'"),
        ("'it''s'", r"'it\'s'"),
        ("X'ab'", "X'ab'"),
        ("`page`", "`page`"),
        ("page || '-' || page", "`page` || '-' || `page`"),
        ("arr[1]", "TRY_ELEMENT_AT(`arr`, 1) AS `arr[1]`"),
        ("arr[n + 1] + 1", "TRY_ELEMENT_AT(`arr`, `n` + 1) + 1"),
        ("m['x'] + 1", "TRY_ELEMENT_AT(`m`, 'x') + 1"),
        ("ARRAY[1, 2]", "ARRAY(1, 2)"),
        ("MAP['a', 1]", "MAP('a', 1)"),
        ("ROW(1, 'a')", "NAMED_STRUCT('f0', 1, 'f1', 'a')"),
        ("n / 2", "DIV(`n`, 2)"),
        ("(n + 1) / (2 * n)", "DIV((`n` + 1), (2 * `n`))"),
        ("n / 2.0", "`n` / 2.0"),
        ("CAST(n AS DOUBLE) / 2", "CAST(`n` AS double) / 2"),
        ("DATE_FORMAT(`at`, 'yyyy-MM-dd HH:mm:ss.SSS')", "DATE_FORMAT(`at`, 'yyyy-MM-dd HH:mm:ss.SSS')"),
        ("TO_TIMESTAMP(page)", "TRY_TO_TIMESTAMP(`page`)"),
        ("TO_TIMESTAMP(page, 'yyyy')", "TRY_TO_TIMESTAMP(`page`, 'yyyy')"),
        ("TO_DATE(page)", "TRY_TO_DATE(`page`)"),
        ("TO_TIMESTAMP_LTZ(n, 3)", "TIMESTAMP_MILLIS(`n`)"),
        ("TO_TIMESTAMP_LTZ(n, 0)", "TIMESTAMP_SECONDS(`n`)"),
        ("TIMESTAMPADD(DAY, 1, `at`)", "TIMESTAMPADD(DAY, 1, `at`)"),
        ("TIMESTAMPDIFF(minute, `at`, NOW())", "TIMESTAMPDIFF(MINUTE, `at`, NOW())"),
        ("UNIX_TIMESTAMP()", "UNIX_TIMESTAMP()"),
        ("FROM_UNIXTIME(n)", "FROM_UNIXTIME(`n`)"),
        ("CONVERT_TZ(page, 'UTC', 'Asia/Shanghai')",
         "DATE_FORMAT(CONVERT_TIMEZONE('UTC', 'Asia/Shanghai', TO_TIMESTAMP_NTZ(`page`)), 'yyyy-MM-dd HH:mm:ss')"),
        ("EXTRACT(HOUR FROM `at`)", "EXTRACT(HOUR FROM `at`)"),
        ("FLOOR(`at` TO HOUR)", "DATE_TRUNC('hour', `at`)"),
        ("FLOOR(n)", "FLOOR(`n`)"),
        ("WEEK(`at`)", "WEEKOFYEAR(`at`)"),
        ("CURRENT_TIMESTAMP", "CURRENT_TIMESTAMP()"),
        ("LOCALTIMESTAMP", "CURRENT_TIMESTAMP() AS `localtimestamp`"),
        ("PROCTIME()", "CURRENT_TIMESTAMP()"),
        ("CURRENT_DATE", "CURRENT_DATE"),
        ("SPLIT_INDEX(page, '|', 0)", r"GET(SPLIT(`page`, CONCAT('\\Q', '|', '\\E')), 0)"),
        ("SPLIT(page, '.')", r"SPLIT(`page`, CONCAT('\\Q', '.', '\\E'))"),
        ("REGEXP_EXTRACT(page, 'a(b)')", "REGEXP_EXTRACT(`page`, 'a(b)', 0)"),
        ("REGEXP_EXTRACT(page, 'a(b)', 1)", "REGEXP_EXTRACT(`page`, 'a(b)', 1)"),
        ("REGEXP(page, 'a')", "REGEXP_LIKE(`page`, 'a')"),
        ("STR_TO_MAP(page)", "STR_TO_MAP(`page`, ',', '=')"),
        ("STR_TO_MAP(page, ';')", "STR_TO_MAP(`page`, ';', '=')"),
        ("JSON_VALUE(page, '$.x')", "GET_JSON_OBJECT(`page`, '$.x')"),
        ("JSON_VALUE(page, 'lax $.x')", "GET_JSON_OBJECT(`page`, '$.x')"),
        ("REGEXP_REPLACE(page, 'a', 'b')", "REGEXP_REPLACE(`page`, 'a', 'b')"),
        ("ARRAY_SLICE(arr, 2, 3)", "SLICE(`arr`, 2, GREATEST(0, (3) - (2) + 1))"),
        ("JSON_EXISTS(page, '$.x')", "(NOT GET_JSON_OBJECT(`page`, '$.x') IS NULL)"),
        ("SHA256(page)", "SHA2(`page`, 256)"),
        ("MD5(page)", "MD5(`page`)"),
        ("FROM_BASE64(page)", "CAST(UNBASE64(`page`) AS string)"),
        ("TO_BASE64(page)", "BASE64(CAST(`page` AS binary))"),
        ("RAND_INTEGER(10)", "CAST(FLOOR(RAND() * 10) AS int)"),
        ("GREATEST(n, 1)", "CASE WHEN `n` IS NULL OR 1 IS NULL THEN NULL ELSE GREATEST(`n`, 1) END"),
        ("BITAND(n, 3)", "(`n` & 3)"),
        ("IF(n > 1, 'a', 'b')", "IF(`n` > 1, 'a', 'b')"),
        ("COALESCE(page, '')", "COALESCE(`page`, '')"),
        ("CASE WHEN n IN (1, 2) THEN 'a' ELSE 'b' END", "CASE WHEN `n` IN (1, 2) THEN 'a' ELSE 'b' END"),
        ("TRIM(BOTH 'x' FROM page)", "TRIM(BOTH 'x' FROM `page`)"),
        ("POSITION('a' IN page)", "LOCATE('a', `page`)"),
        ("UPPER(CONCAT_WS('-', page, page))", "UPPER(CONCAT_WS('-', `page`, `page`))"),
        ("n IS NOT DISTINCT FROM 1", "`n` IS NOT DISTINCT FROM 1"),
        ("page LIKE 'ObjectCreated:%'", "`page` LIKE 'ObjectCreated:%'"),
    ],
)  # fmt: skip
def test_an_expression_means_the_same_in_spark(written: str, spark: str) -> None:
    assert expression(written) == spark


def test_a_reserved_name_needs_no_quotes_where_it_can_only_be_a_name() -> None:
    text = "CREATE TABLE t (`timestamp` TIMESTAMP(3)) WITH ('connector' = 'datagen'); SELECT timestamp FROM t"
    assert plan(text).inserts[0].sql == "SELECT `timestamp` FROM `t`"


def test_comments_are_no_part_of_the_query() -> None:
    assert sql("SELECT 1, -- one ' \n /* two ; */ page FROM clicks") == "SELECT 1, `page` FROM `clicks`"


@pytest.mark.parametrize(
    ("query", "spark"),
    [
        (
            "SELECT count(*), page FROM TABLE(TUMBLE(TABLE clicks, DESCRIPTOR(`at`), INTERVAL '10' MINUTES))"
            " GROUP BY window_start, window_end, page",
            "SELECT COUNT(*), `page` FROM `clicks` GROUP BY `page`, WINDOW(`at`, '10 minutes')",
        ),
        (
            "SELECT count(*), CAST(window_start AS STRING)"
            " FROM TUMBLE(TABLE clicks, DESCRIPTOR(`at`), INTERVAL '1' HOUR)"
            " GROUP BY window_start, window_end HAVING window_end > NOW()",
            "SELECT COUNT(*), CAST(`window`.`start` AS string) FROM `clicks` GROUP BY WINDOW(`at`, '1 hour')"
            " HAVING `window`.`end` > NOW()",
        ),
        (
            "SELECT count(*), w.window_end FROM TABLE(HOP(TABLE clicks, DESCRIPTOR(`at`), INTERVAL '1' MINUTE,"
            " INTERVAL '5' MINUTE)) AS w GROUP BY w.window_start, w.window_end",
            "SELECT COUNT(*), `window`.`end` AS `window_end` FROM `clicks` AS `w`"
            " GROUP BY WINDOW(`at`, '5 minutes', '1 minute')",
        ),
        (
            "SELECT count(*), page"
            " FROM TABLE(SESSION(TABLE clicks PARTITION BY page, DESCRIPTOR(`at`), INTERVAL '90' SECOND))"
            " GROUP BY page, window_start, window_end",
            "SELECT COUNT(*), `page` FROM `clicks` GROUP BY `page`, SESSION_WINDOW(`at`, '90 seconds')",
        ),
        (
            "SELECT count(*), '' FROM TABLE(TUMBLE(DATA => TABLE clicks, TIMECOL => DESCRIPTOR(`at`),"
            " SIZE => INTERVAL '1' DAY, OFFSET => INTERVAL '8' HOUR)) GROUP BY window_start, window_end",
            "SELECT COUNT(*), '' FROM `clicks` GROUP BY WINDOW(`at`, '1 day', '1 day', '8 hours')",
        ),
        (
            "SELECT count(*), page FROM clicks GROUP BY page, TUMBLE(`at`, INTERVAL '1' MINUTE)",
            "SELECT COUNT(*), `page` FROM `clicks` GROUP BY `page`, WINDOW(`at`, '1 minute')",
        ),
        (
            "SELECT count(*), CAST(HOP_END(`at`, INTERVAL '1' MINUTE, INTERVAL '2' MINUTE) AS STRING) FROM clicks"
            " GROUP BY HOP(`at`, INTERVAL '1' MINUTE, INTERVAL '2' MINUTE)",
            "SELECT COUNT(*), CAST(`window`.`end` AS string) FROM `clicks`"
            " GROUP BY WINDOW(`at`, '2 minutes', '1 minute')",
        ),
        (
            "SELECT count(*), SESSION_START(`at`, INTERVAL '1' MINUTE) AS s FROM clicks"
            " GROUP BY page, SESSION(`at`, INTERVAL '1' MINUTE)",
            "SELECT COUNT(*), `session_window`.`start` AS `s` FROM `clicks`"
            " GROUP BY `page`, SESSION_WINDOW(`at`, '1 minute')",
        ),
        (
            "SELECT visitor, window_start FROM TABLE(TUMBLE(TABLE clicks, DESCRIPTOR(`at`), INTERVAL '5' MINUTE))",
            "SELECT `visitor`, `window_start` FROM (SELECT *, WINDOW(`at`, '5 minutes').`start` AS `window_start`,"
            " WINDOW(`at`, '5 minutes').`end` AS `window_end`, (WINDOW(`at`, '5 minutes').`end` - INTERVAL '1'"
            " MILLISECOND) AS `window_time` FROM `clicks`) AS `clicks`",
        ),
    ],
)
def test_a_window_is_sparks_window(query: str, spark: str) -> None:
    found = plan(f"{TABLES}INSERT INTO shown {query}").inserts[0]
    assert found.sql == spark
    assert found.output == "append"


def test_a_window_over_the_clock_gives_its_table_a_watermark() -> None:
    query = (
        "SELECT count(*), '' FROM TABLE(TUMBLE(TABLE bare, DESCRIPTOR(p),"
        " INTERVAL '1' MINUTE)) GROUP BY window_start, window_end"
    )
    found = plan(f"{TABLES}INSERT INTO sent {query}")
    assert [(one.name, one.watermark) for one in found.sources] == [("bare", Watermark("p", 0))]


def test_a_window_over_a_view_ends_by_the_watermark_below_it() -> None:
    view = "CREATE TEMPORARY VIEW v AS SELECT page, `at` AS t FROM clicks WHERE n > 1;\n"
    query = (
        "SELECT count(*), page FROM TABLE(TUMBLE(TABLE v, DESCRIPTOR(t),"
        " INTERVAL '1' MINUTE)) GROUP BY page, window_start, window_end"
    )
    found = plan(f"{TABLES}{view}INSERT INTO sent {query}")
    assert found.views[0].sql == "SELECT `page`, `at` AS `t` FROM `clicks` WHERE `n` > 1"
    assert found.inserts[0].sql == "SELECT COUNT(*), `page` FROM `v` GROUP BY `page`, WINDOW(`t`, '1 minute')"


@pytest.mark.parametrize(
    ("query", "spark"),
    [
        (
            "SELECT c.visitor, f.carrier FROM clicks AS c JOIN demo.flights AS f ON c.visitor = f.id",
            "SELECT `c`.`visitor`, `f`.`carrier` FROM `clicks` AS `c` JOIN `demo`.`flights`"
            " AS `f` ON `c`.`visitor` = `f`.`id`",
        ),
        (
            "SELECT visitor, airlines.name FROM clicks LEFT JOIN airlines ON visitor = airlines.id",
            "SELECT `visitor`, `airlines`.`name` FROM `clicks` LEFT JOIN `demo`.`airlines` AS `airlines`"
            " ON `visitor` = `airlines`.`id`",
        ),
        (
            "SELECT c.visitor, f.name FROM clicks AS c JOIN flights FOR SYSTEM_TIME AS OF c.p AS f ON c.visitor = f.id",
            "SELECT `c`.`visitor`, `f`.`name` FROM `clicks` AS `c` JOIN `demo`.`flights` AS `f`"
            " ON `c`.`visitor` = `f`.`id`",
        ),
        (
            "SELECT visitor, u.x FROM clicks CROSS JOIN UNNEST(arr) AS u(x)",
            "SELECT `visitor`, `u`.`x` FROM `clicks` LATERAL VIEW EXPLODE(`arr`) u AS `x`",
        ),
        (
            "WITH x AS (SELECT visitor, page FROM clicks) SELECT * FROM x",
            "WITH `x` AS (SELECT `visitor`, `page` FROM `clicks`) SELECT * FROM `x`",
        ),
        (
            "SELECT visitor, page FROM clicks UNION ALL SELECT visitor, '' FROM bare",
            "SELECT `visitor`, `page` FROM `clicks` UNION ALL SELECT `visitor`, '' FROM `bare`",
        ),
        ("VALUES (1, 'a'), (2, 'b')", "SELECT * FROM VALUES (1, 'a'), (2, 'b')"),
        (
            "SELECT visitor, carrier FROM fixed ORDER BY visitor LIMIT 3",
            "SELECT `visitor`, `carrier` FROM `fixed` ORDER BY `visitor` LIMIT 3",
        ),
        (
            "SELECT visitor, page FROM clicks WHERE visitor IN (SELECT id FROM flights)",
            "SELECT `visitor`, `page` FROM `clicks` WHERE `visitor` IN (SELECT `id`"
            " FROM `demo`.`flights` AS `flights`)",
        ),
    ],
)
def test_a_query_is_sparks_query(query: str, spark: str) -> None:
    assert sql(query) == spark


def test_tables_of_the_catalog_are_named_in_the_plan() -> None:
    text = f"{TABLES}INSERT INTO shown SELECT a.id, '' FROM airlines a JOIN demo.flights f ON a.id = f.id"
    assert plan(text, catalog=flights).tables == (("demo", "airlines"), ("demo", "flights"))


def airlines_with_columns(schema: str, name: str) -> CatalogTable | None:
    columns = {"iata": "iata", "name": "Name"} if name == "airlines" else None
    return CatalogTable("demo", name, columns) if name in {"airlines", "flights"} else None


@pytest.mark.parametrize(
    ("query", "refused"),
    [
        ("SELECT iata, nam FROM airlines", "2:14 there is no column nam here. Did you mean Name?"),
        ("SELECT a.iata, a.code FROM demo.airlines a", "2:16 there is no column code in a; there are iata, Name."),
        ("SELECT n, '' FROM clicks JOIN airlines ON page = cod", "2:50 there is no column cod here; there are visitor"),
        ("SELECT iata, code FROM (SELECT * FROM airlines) q", "2:14 there is no column code here; there are iata"),
        ("SELECT iata, NAME FROM airlines", ""),
        ("SELECT airlines.iata, demo.airlines.name FROM airlines", ""),
        ("SELECT iata, whatever FROM airlines a JOIN flights f ON a.iata = f.carrier", ""),
    ],
)
def test_columns_of_tables_of_the_catalog_are_judged_where_the_catalog_has_them(query: str, refused: str) -> None:
    found = checked(f"{TABLES}INSERT INTO shown\n{query}", catalog=airlines_with_columns)
    said = [f"{one.line - LINES}:{one.column} {one.sentence}" for one in found.refusals]
    assert len(said) == bool(refused) and all(one.startswith(refused) for one in said), said


def test_a_view_may_rename_its_columns_and_an_insert_name_some() -> None:
    text = "CREATE TEMPORARY VIEW v (x, y) AS SELECT visitor, page FROM clicks;\nINSERT INTO shown (b) SELECT y FROM v"
    found = plan(TABLES + text)
    assert found.views[0].sql == "SELECT * FROM (SELECT `visitor`, `page` FROM `clicks`) AS `given`(`x`, `y`)"
    assert found.inserts[0].sql == "SELECT CAST(NULL AS bigint) AS `a`, `b` FROM (SELECT `y` FROM `v`) AS `given`(`b`)"


@pytest.mark.parametrize(
    "query",
    [
        "SELECT count(*), page FROM clicks GROUP BY page",
        "SELECT DISTINCT visitor, page FROM clicks",
        "SELECT visitor, page FROM clicks UNION SELECT visitor, page FROM clicks",
        "SELECT a, b FROM (SELECT max(n) AS a, page AS b FROM clicks GROUP BY page) AS x",
    ],
)
def test_rows_that_come_again_go_into_print_but_not_into_a_topic(query: str) -> None:
    assert plan(f"{TABLES}INSERT INTO shown {query}").inserts[0].output == "update"
    assert "the connector mq takes new rows only" in refused_query(query, into="sent")


def test_a_batch_job_may_do_what_a_stream_cannot() -> None:
    query = """INSERT INTO sent SELECT row_number() OVER (PARTITION BY page ORDER BY n), page FROM clicks LIMIT 5;
    INSERT INTO sent SELECT count(*), page FROM clicks GROUP BY ROLLUP (page)"""
    found = plan(f"SET 'execution.runtime-mode' = 'batch';\n{TABLES}{query}")
    assert [one.output for one in found.inserts] == ["append", "append"]


@pytest.mark.parametrize(
    ("query", "refused"),
    [
        ("SELECT visitor,\n foo(page) FROM clicks", "2:2 there is no function foo."),
        ("SELECT visitor, uper(page) FROM clicks", "1:17 there is no function uper. Did you mean upper?"),
        ("SELECT FROM clicks", "SELECT names no column; write SELECT * for all of them."),
        ("SELECT visitor, page FROM (SELECT FROM clicks)", "SELECT names no column"),
        ("SELECT visitor, a.f(page) FROM clicks", "1:19 there is no function a.f(page); a job has the built-in ones."),
        ("SELECT 1, CURRENT_WATERMARK(`at`)"
         " FROM clicks", "1:11 CURRENT_WATERMARK is not possible: Spark does not tell"),
        ("SELECT 1, TO_TIMESTAMP_LTZ(n, 6) FROM clicks", "1:11 TO_TIMESTAMP_LTZ has a number and its precision: 0 for"),
        ("SELECT 1, SPLIT_INDEX(page) FROM clicks", "1:11 SPLIT_INDEX has 3 arguments."),
        ("SELECT 1, CEIL(`at` TO DAY) FROM clicks", "1:16 CEIL(… TO DAY) is not possible"),
        ("SELECT 1, CAST(page AS TIME) FROM clicks", "1:16 a value cannot be cast to TIME here."),
        ("SELECT 1, CAST(page AS TIMESTAMP(9))"
         " FROM clicks", "1:16 TIMESTAMP(9) is not possible"),
        ("SELECT 1, page IS JSON FROM clicks", "1:11 Spark has no IS JSON; write JSON_EXISTS(text, '$')."),
        ("SELECT 1, (`at`, `at`) OVERLAPS (`at`, `at`) FROM clicks", "1:12 Spark has no OVERLAPS; compare starts and"),
        ("SELECT 1, n = SOME (SELECT id FROM flights) FROM clicks", "ANY and SOME of a query are not possible; write"),
        ("SELECT 1, n > ALL (SELECT id FROM flights) FROM clicks", "ALL of a query is not possible; write NOT IN"),
        ("SELECT 1, CURRENT_USER FROM clicks", "CURRENT_USER() is not possible here."),
        ("SELECT 1, page COLLATE de FROM clicks", "1:11 page COLLATE de is not possible here."),
        ("SELECT 1, CAST(page AS INT FORMAT 'x') FROM clicks", "is not possible here."),
        ("SELECT 1, EXTRACT(EPOCH FROM `at`) FROM clicks", "a time has no EPOCH to extract; allowed are DAY, DOW, DOY"),
        ("SELECT 1, page SIMILAR TO 'x' FROM clicks", "1:11 Spark has no SIMILAR TO; write REGEXP(text, pattern)."),
        ("SELECT 1,\n  page"
         " FROM clikcs", "2:13 there is no table clikcs in this job, nor in the catalog. Did you mean clicks?"),
        ("SELECT 1, x FROM demo.nothing", "1:18 there is no table nothing in schema demo."),
        ("SELECT 1, x FROM a.b.c", "1:18 a.b.c has a catalog; write schema.table."),
        ("SELECT 1,\n page FRM clicks", "2:11 the query cannot be read near `clicks`."),
        ("SELECT 1, (page FROM clicks", "1:17 the query cannot be read near `FROM`."),
        ("SELECT 1, page FROM clicks WHERE", "1:28 the query cannot be read near `WHERE`."),
        ("SELECT visitor, page FROM clicks ORDER BY n", "1:43 ORDER BY is not possible over rows that keep coming"),
        ("SELECT visitor, page FROM clicks LIMIT 5", "1:40 LIMIT is not possible over rows that keep coming"),
        ("SELECT row_number() OVER (ORDER BY n), page FROM clicks", "1:8 OVER (…) is not possible over rows that keep"),
        ("SELECT visitor, page FROM clicks INTERSECT SELECT visitor, page FROM clicks",
         "1:51 INTERSECT and EXCEPT are not possible over rows that keep coming."),
        ("SELECT visitor, page FROM clicks UNION ALL SELECT visitor FROM clicks",
         "1:51 this side gives 1 columns, and the one in front of it 2."),
        ("SELECT visitor, page FROM clicks UNION ALL SELECT visitor, carrier FROM fixed",
         "1:51 rows that keep coming and rows that end cannot be one; make both sides streams."),
        ("SELECT count(*), '' FROM clicks GROUP BY SESSION(`at`, INTERVAL '1' MINUTE)",
         "1:42 SESSION over rows that keep coming needs a column beside it in GROUP BY."),
        ("SELECT visitor, x FROM clicks, LATERAL TABLE(f(page)) AS t(x)", "1:40 table functions are not possible"),
        ("SELECT * FROM clicks MATCH_RECOGNIZE (PARTITION BY n)", "1:22 Spark has no MATCH_RECOGNIZE."),
        ("SELECT visitor, page"
         " FROM clicks /*+ OPTIONS('a'='b') */", "1:34 hints are not possible"),
        ("SELECT visitor, ${x} FROM clicks", "1:17 a variable stands within quotes: '${name}'."),
        ("SELECT visitor, '${secret_values.k}' FROM clicks",
         "1:17 ${secret_values.k} cannot stand here; a secret is allowed as accessId, accessKey, accessKeyId,"
         " accessKeySecret in WITH (…)."),
        ("SELECT visitor FROM clicks", "0:13 the query gives 1 column, and shown takes 2: a, b."),
        ("SELECT c.visitor, f.name FROM clicks c RIGHT JOIN flights f ON c.visitor = f.id",
         "RIGHT JOIN keeps all rows of a table that does not stream, and waits for ever; turn it round."),
        ("SELECT c.visitor, d.p FROM clicks c LEFT JOIN bare d ON c.visitor = d.visitor",
         "LEFT JOIN of two streams needs a watermark on both tables, and a condition on their times."),
        ("SELECT c.visitor, d.page FROM bare c JOIN clicks FOR SYSTEM_TIME AS OF c.p AS d ON c.visitor = d.visitor",
         "FOR SYSTEM_TIME AS OF is for tables of the catalog; clicks keeps getting rows."),
        ("SELECT 1, page FROM CUMULATE(TABLE clicks, DESCRIPTOR(`at`), INTERVAL '1' MINUTE, INTERVAL '1' HOUR)",
         "1:21 Spark has no cumulating windows; allowed are TUMBLE, HOP and SESSION."),
        ("SELECT 1, page FROM TUMBEL(TABLE clicks, DESCRIPTOR(`at`), INTERVAL '1' MINUTE)",
         "1:21 there is no function TUMBEL."),
        ("SELECT 1, page FROM TUMBLE(TABLE clicks, `at`, INTERVAL '1' MINUTE)",
         "1:21 TUMBLE needs the column of time as DESCRIPTOR(column)"),
        ("SELECT 1, page FROM TUMBLE(TABLE clicks, DESCRIPTOR(`at`))", "1:21 TUMBLE needs 1 interval: TUMBLE(TABLE t"),
        ("SELECT 1, page FROM TUMBLE(TABLE clicks, DESCRIPTOR(`at`), INTERVAL '1' MONTH)",
         "1:21 an interval of a window is written INTERVAL '5' MINUTE"),
        ("SELECT 1, page FROM HOP(TABLE clicks, DESCRIPTOR(`at`), INTERVAL '5' MINUTE, INTERVAL '1' MINUTE)",
         "1:21 HOP has a slide above its size"),
        ("SELECT count(*), '' FROM TUMBLE(TABLE bare, DESCRIPTOR(ts),"
         " INTERVAL '1' MINUTE) GROUP BY window_start, window_end",
         "1:26 ts has no watermark, so no window over it ends; declare WATERMARK FOR ts AS … in table bare."),
        ("SELECT count(*), '' FROM TUMBLE(TABLE clicks, DESCRIPTOR(`at`), INTERVAL '1' MINUTE) GROUP BY window_start",
         "GROUP BY has a window without its window_end; a window is grouped by both."),
        ("SELECT count(*), page FROM SESSION(TABLE clicks PARTITION BY page, DESCRIPTOR(`at`), INTERVAL '1' MINUTE)"
         " GROUP BY window_start, window_end", "1:49 PARTITION BY names page, which GROUP BY does not"),
        ("SELECT 1, TUMBLE_START(`at`, INTERVAL '1' MINUTE) FROM clicks",
         "1:11 TUMBLE_START tells about a window, and GROUP BY has none."),
        ("SELECT 1, '' FROM TUMBLE(TABLE clicks, DESCRIPTOR(`at`), INTERVAL '1' MINUTE) a JOIN TUMBLE(TABLE clicks,"
         " DESCRIPTOR(`at`), INTERVAL '1' MINUTE) b"
          " ON a.window_start = b.window_start", "two windows cannot be joined"),
        ("SELECT count(*), page FROM clicks GROUP BY ROLLUP (page)", "write an INSERT for each grouping."),
    ],
)  # fmt: skip
def test_it_refuses_what_spark_cannot_do_at_its_place(query: str, refused: str) -> None:
    assert refused in refused_query(query)


@pytest.mark.parametrize(
    ("query", "refused"),
    [
        ("SELECT nope, page FROM clicks",
         "1:8 there is no column nope here; there are visitor, page, at, n, arr, m, p."),
        ("SELECT nope AS nope, page FROM clicks",
         "1:8 there is no column nope here; there are visitor, page, at,"),
        ("SELECT n,\n  clicks.pge FROM clicks", "2:3 there is no column pge in clicks. Did you mean page?"),
        ("SELECT klicks.n, page FROM clicks",
         "1:8 there is neither a table nor a column klicks here. Did you mean cl"),
        ("SELECT c.n, clicks.page FROM clicks c",
         "1:13 there is neither a table nor a column clicks here. There is c."),
        ("SELECT n, page FROM clicks WHERE nn.a > 1",
         "1:34 there is neither a table nor a column nn here. There is cl"),
        ("SELECT n, page FROM clicks GROUP BY n, pag", "1:40 there is no column pag here. Did you mean page?"),
        ("SELECT n, page FROM clicks WHERE visitor IN (SELECT visitr FROM fixed)",
         "1:53 there is no column visitr"),
        ("SELECT a.n, carrier FROM clicks a JOIN fixed b ON a.visitor = b.visitr",
         "1:63 there is no column visitr in b"),
        ("SELECT visitor, q FROM (SELECT visitor, page FROM clicks) AS a",
         "1:17 there is no column q here; there are v"),
        ("WITH a (v) AS (SELECT visitor FROM clicks) SELECT v, visitor FROM a",
         "1:54 there is no column visitor here;"),
        ("SELECT n, page FROM (SELECT * FROM fixed UNION ALL SELECT * FROM fixed)",
         "1:8 there is no column n here;"),
        ("SELECT COUNT(*), page FROM TABLE(TUMBLE(TABLE clicks, DESCRIPTOR(att), INTERVAL '1' MINUTE)) GROUP BY page,"
         " window_start, window_end", "1:66 there is no column att here. Did you mean at?"),
        ("SELECT nope, 'a'", "1:8 there is no column nope here."),
    ],
)  # fmt: skip
def test_a_column_that_there_is_not_is_refused_at_its_place(query: str, refused: str) -> None:
    assert refused_query(query).startswith(refused)


def test_a_column_of_a_view_that_there_is_not_is_refused() -> None:
    view = "CREATE TEMPORARY VIEW v (visits, page) AS SELECT COUNT(*), page FROM fixed, clicks;\n"
    refused = refused_query("SELECT visitor, page FROM v", before=view)
    assert refused == "1:8 there is no column visitor here. Did you mean visits?"


@pytest.mark.parametrize(
    "query",
    [
        "SELECT VISITOR, Clicks.PAGE FROM cliCKS",
        "SELECT n AS x, x + 1 FROM clicks WHERE arr[1] = 2 AND m['a'] = 3",
        "SELECT SUM(visitor) AS s, carrier AS c FROM fixed GROUP BY c HAVING s > 3",
        "SELECT t.x, page FROM clicks CROSS JOIN UNNEST(arr) AS t(x)",
        "SELECT t.a, b FROM (VALUES (1, 'a')) AS t(a, b)",
        "SELECT `COUNT(1)`, page FROM (SELECT COUNT(1), 'a' AS page FROM fixed)",
        "SELECT r.a, r.b FROM (SELECT ROW(1, 2) AS r FROM clicks)",
        "SELECT default.clicks.visitor, page FROM clicks",
        "SELECT n, f.anything FROM clicks, flights f WHERE f.nope = clicks.n AND unknown = 3",
        "SELECT visitor, q FROM (SELECT *, 1 AS z FROM flights)",
        "SELECT n, page FROM clicks WHERE EXISTS (SELECT 1 FROM fixed f WHERE f.visitor = clicks.n AND carrier = page)",
        "SELECT (SELECT MAX(visitor) FROM fixed WHERE carrier = q.page), page FROM clicks q",
        "SELECT v, q FROM (SELECT visitor, page FROM clicks) AS a(v, q)",
        "SELECT a.visitor, carrier FROM clicks a JOIN fixed USING (visitor)",
        "SELECT TIMESTAMPDIFF(SECOND, `at`, p), EXTRACT(DAY FROM `at`) FROM clicks WHERE (n > 1) IS UNKNOWN",
        "SELECT COUNT(*), x.page FROM TUMBLE(TABLE clicks, DESCRIPTOR(`at`), INTERVAL '1' MINUTE) AS x"
        " GROUP BY x.page, x.window_start, x.window_end",
        "SELECT visitor, window_time FROM TUMBLE(TABLE clicks, DESCRIPTOR(`at`), INTERVAL '1' MINUTE)",
    ],
)
def test_what_may_be_a_column_is_none_that_there_is_not(query: str) -> None:
    sql(query)


@pytest.mark.parametrize(
    ("statement", "sentence"),
    [
        ("INSERT INTO nowhere SELECT 1", "there is no table nowhere in this text to write into."),
        ("INSERT OVERWRITE shown SELECT 1, 'a'", "`OVERWRITE` is not expected here; expected is INTO"),
        (
            "INSERT INTO demo.flights SELECT 1",
            "a name without a schema, since a job writes into tables of its own text",
        ),
        ("INSERT INTO shown (a, c) SELECT 1, 'a'", "table shown has no column c to write."),
        ("INSERT INTO shown", "the end of the statement is not expected here; expected is a query."),
        ("CREATE TEMPORARY VIEW v (a) AS SELECT 1, 2; SELECT 1", "v has 1 column, and its query gives 2."),
        ("CREATE TEMPORARY VIEW clicks AS SELECT 1; SELECT 1", "there are two tables or views called clicks."),
        ("CREATE TEMPORARY VIEW v AS SELECT 1 FROM later; CREATE VIEW later AS SELECT 1; SELECT 1", "no table later"),
    ],
)
def test_it_refuses_a_statement_that_writes_nowhere(statement: str, sentence: str) -> None:
    assert sentence in refused_query("", before=f"{statement};\n", into="shown SELECT 1, 'a'")


@pytest.mark.parametrize("name", functions.NAMES)
def test_every_function_becomes_one_that_the_guard_lets_through(name: str) -> None:
    for count in (0, 1, 2, 3):
        try:
            made = functions.rewritten(name, [functions.number(3)] * count)
        except ValueError:
            continue
        called = {node.name.lower() for node in made.find_all(exp.Anonymous)}
        # These two are words of Spark's grammar.
        assert called <= {*ALLOWED, "timestampadd", "timestampdiff"}
        return
    raise AssertionError(f"{name} takes no number of arguments")
