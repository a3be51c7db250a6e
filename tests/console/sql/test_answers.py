"""What `show`, `describe` and `information_schema` tell, to whom."""

from __future__ import annotations

import warnings

import pytest

from console import statements
from console.catalog.describe import Answer, UnknownSchemaError, UnknownTableError
from console.catalog.information_schema import definitions, runner
from console.catalog.models import ExternalTable, Schema
from console.sql import answers
from console.web.errors import Refused
from tests.support.sql_cast import Cast, allow

pytestmark = pytest.mark.django_db


def ask(actor: object, text: str, schema: str = "demo") -> Answer:
    """The answer to a statement; it must be one of the console's own."""
    answer = answers.answer(actor, statements.parse(text), schema)  # type: ignore[arg-type]
    assert answer is not None, text
    return answer


def test_who_has_no_connection_is_told_nothing_of_one(cast: Cast) -> None:
    for text in ("show warnings", "show count(*) errors", "show status like 'Ssl%'", "show privileges"):
        assert ask(cast.alice, text).rows == []
    for text in ("show processlist", "show grants"):
        assert answers.answer(cast.alice, statements.parse(text), "demo") is None


@pytest.fixture
def orders(cast: Cast) -> ExternalTable:
    """A partitioned CSV table with comments and nested types."""
    return ExternalTable.objects.create(
        schema=Schema.objects.get(name="demo"),
        name="orders",
        location="oss://demo/orders/",
        format="csv",
        columns=[
            {"name": "id", "type": "bigint", "comment": "it's the number"},
            {"name": "price", "type": "decimal(10,2)"},
            {"name": "at", "type": "timestamp"},
            {"name": "note", "type": "string"},
            {"name": "day", "type": "date"},
        ],
        partitions=["day"],
        options={"delimiter": ";"},
        comment="what was ordered",
    )


def test_it_lists_schemas_and_tables(cast: Cast, orders: ExternalTable) -> None:
    assert ask(cast.alice, "show databases").rows == [("demo",), ("mq",), ("gantry",), ("information_schema",)]
    assert ask(cast.alice, "show schemas like 'D%'").rows == [("demo",)]
    assert ask(cast.alice, "show databases where `Database` != 'mq' and `Database` like 'm%'").rows == []
    assert ask(cast.alice, "show tables").rows == [("airlines",), ("flights",), ("orders",)]
    full = ask(cast.alice, "show full tables from DEMO like 'o%'")
    assert (full.columns, full.rows) == (("Tables_in_DEMO (o%)", "Table_type"), [("orders", "BASE TABLE")])
    assert ask(cast.alice, "show full tables where Table_type != 'VIEW' and Tables_in_demo = 'ORDERS'").rows == [
        ("orders", "BASE TABLE")
    ]
    assert ("COLUMNS", "SYSTEM VIEW") in ask(cast.alice, "show full tables from information_schema").rows
    assert ("query_tasks", "VIEW") in ask(cast.alice, "show full tables from gantry").rows


def test_types_are_sparks_for_people_and_mysqls_for_drivers(cast: Cast, orders: ExternalTable) -> None:
    assert [row[:2] for row in ask(cast.alice, "describe orders").rows] == [
        ("id", "bigint"),
        ("price", "decimal(10,2)"),
        ("at", "timestamp"),
        ("note", "string"),
        ("day", "date"),
    ]
    full = ask(cast.alice, "show full columns from `orders` from `demo` like '%'")
    assert [row[1] for row in full.rows] == ["bigint", "decimal(10,2)", "datetime(6)", "text", "date"]
    assert full.rows[0][-1] == "it's the number"
    assert ask(cast.alice, "show columns from orders where Field = 'ID'").rows[0][0] == "id"
    assert [row[0] for row in ask(cast.alice, "describe gantry.query_tasks").rows][:2] == ["id", "mpp_query_id"]


def test_a_table_is_told_as_the_definition_that_makes_it(cast: Cast, orders: ExternalTable) -> None:
    text = str(ask(cast.alice, "show create table demo.orders").rows[0][1])
    assert text == (
        "CREATE EXTERNAL TABLE `demo`.`orders` (\n"
        "  `id` bigint COMMENT 'it''s the number',\n"
        "  `price` decimal(10,2),\n"
        "  `at` timestamp,\n"
        "  `note` varchar(65535),\n"
        "  `day` date\n"
        ") COMMENT 'what was ordered' USING CSV OPTIONS ('delimiter' = ';') PARTITIONED BY (`day`)"
        " LOCATION 'oss://demo/orders/'"
    )
    from console.catalog import ddl
    from console.statements.ddl import definition, grammar

    again = grammar.parse(text)
    assert isinstance(again, definition.CreateTable)
    assert ddl.stored(again.columns) == orders.columns
    assert (again.options, list(again.partitions), again.location, again.format, again.comment) == (
        orders.options,
        orders.partitions,
        orders.location,
        orders.format,
        orders.comment,
    )


def test_sqlalchemy_reads_the_columns_out_of_the_definition(cast: Cast, orders: ExternalTable) -> None:
    from sqlalchemy.dialects.mysql import pymysql, reflection

    text = str(ask(cast.alice, "show create table demo.orders").rows[0][1])
    dialect = pymysql.dialect()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        read = reflection.MySQLTableDefinitionParser(dialect, dialect.identifier_preparer).parse(text, "utf8mb4")
    assert [(c["name"], str(c["type"])) for c in read.columns] == [
        ("id", "BIGINT"),
        ("price", "DECIMAL(10, 2)"),
        ("at", "TIMESTAMP"),
        ("note", "VARCHAR(65535)"),
        ("day", "DATE"),
    ]


def test_more_is_told_about_tables_and_schemas(cast: Cast, orders: ExternalTable) -> None:
    Schema.objects.filter(name="demo").update(location="oss://demo/", comment="all of it")
    assert ask(cast.alice, "show create schema demo").rows == [
        ("demo", "CREATE SCHEMA `demo`\nCOMMENT 'all of it'\nLOCATION 'oss://demo/'")
    ]
    facts = {row[0]: row[1] for row in ask(cast.alice, "describe formatted orders").rows}
    assert (facts["Type"], facts["Location"], facts["Options"]) == ("EXTERNAL", "oss://demo/orders/", "delimiter=;")
    status = ask(cast.alice, "show table status like 'orders'")
    assert dict(zip(status.columns, status.rows[0], strict=True))["Create_options"] == "external partitioned"
    assert ask(cast.alice, "show character set like 'utf8mb4'").rows[0][2] == "utf8mb4_0900_ai_ci"
    assert ask(cast.alice, "show collation where Charset = 'binary'").rows[0][0] == "binary"
    assert ask(cast.alice, "show index from orders").rows == []


QUESTIONS = [
    ("select schema_name from information_schema.schemata where schema_name = 'DEMO'", [("demo",)]),
    (
        "SELECT TABLE_NAME, TABLE_TYPE FROM INFORMATION_SCHEMA.TABLES WHERE TABLE_SCHEMA = database() ORDER BY 1 DESC"
        " LIMIT 2",
        [("orders", "BASE TABLE"), ("flights", "BASE TABLE")],
    ),
    (
        "select c.column_name, c.data_type as kind from information_schema.columns c join information_schema.tables t"
        " on t.table_schema = c.table_schema and t.table_name = c.table_name where t.table_name like 'ord%'"
        " and c.ordinal_position <= 2 order by c.ordinal_position",
        [("id", "bigint"), ("price", "decimal")],
    ),
    ("select count(*) from information_schema.key_column_usage", [(0,)]),
    (
        "select if(table_comment like '%order%', 'yes', upper(left(table_name, 3))) x from information_schema.tables"
        " where table_schema = 'demo' order by table_name",
        [("AIR",), ("FLI",), ("yes",)],
    ),
    (
        "select concat(table_schema, '.', table_name), case when table_type = 'BASE TABLE' then 'TABLE' else table_type"
        " end from information_schema.tables where table_name in ('flights', 'x')",
        [("demo.flights", "TABLE")],
    ),
    (
        "select distinct numeric_precision, numeric_scale, convert(case data_type when 'year' then null else null end,"
        " signed) from information_schema.columns where table_name = 'orders' and data_type = 'decimal'",
        [(10, 2, None)],
    ),
    (r"select table_name from information_schema.tables where table_name like 'fl\_ghts'", []),
    ("select table_name from information_schema.tables where table_name like 'fl_ghts'", [("flights",)]),
    ("select group_concat(column_name order by ordinal_position) from information_schema.columns"
     " where table_name = 'flights'", [("carrier,hour",)]),
    ("select version(), @@version, user() from information_schema.engines",
     [("8.0.36-gantry", "8.0.36-gantry", "admin@demo@%")]),
    ("with t as (select table_name n from information_schema.tables where table_schema = 'demo')"
     " select max(n) from t", [("orders",)]),
    ("select table_schema from information_schema.tables where table_schema = 'secret'", []),
    # Connector/J, DatabaseMetaData.getTables and getColumns with useInformationSchema
    ("SELECT TABLE_SCHEMA AS TABLE_CAT, NULL AS TABLE_SCHEM, TABLE_NAME, CASE WHEN TABLE_TYPE='BASE TABLE' THEN CASE"
     " WHEN TABLE_SCHEMA = 'mysql' OR TABLE_SCHEMA = 'performance_schema' THEN 'SYSTEM TABLE' ELSE 'TABLE' END WHEN"
     " TABLE_TYPE='TEMPORARY' THEN 'LOCAL_TEMPORARY' ELSE TABLE_TYPE END AS TABLE_TYPE FROM INFORMATION_SCHEMA.TABLES"
     " WHERE TABLE_SCHEMA = 'demo' AND TABLE_NAME LIKE 'o%' HAVING TABLE_TYPE IN ('TABLE','VIEW',null) ORDER BY"
     " TABLE_TYPE, TABLE_SCHEMA, TABLE_NAME", [("demo", None, "orders", "TABLE")]),
    ("SELECT COLUMN_NAME, UPPER(CASE WHEN LOCATE('UNSIGNED', UPPER(COLUMN_TYPE)) != 0 AND LOCATE('SET',"
     " UPPER(DATA_TYPE)) <> 1 THEN CONCAT(DATA_TYPE, ' UNSIGNED') ELSE CASE WHEN UPPER(COLUMN_TYPE)='TINYINT(1)' THEN"
     " 'BIT' ELSE DATA_TYPE END END) AS TYPE_NAME, UPPER(CASE WHEN UPPER(DATA_TYPE)='DATE' THEN 10 WHEN"
     " NUMERIC_PRECISION IS NOT NULL THEN NUMERIC_PRECISION ELSE 19+DATETIME_PRECISION END) AS COLUMN_SIZE,"
     " IF (EXTRA LIKE '%auto_increment%','YES','NO') AS IS_AUTOINCREMENT FROM INFORMATION_SCHEMA.COLUMNS WHERE"
     " TABLE_SCHEMA = 'demo' AND TABLE_NAME LIKE 'orders' AND COLUMN_NAME LIKE '%' ORDER BY TABLE_SCHEMA,"
     " ORDINAL_POSITION LIMIT 3",
     [("id", "BIGINT", "19", "NO"), ("price", "DECIMAL", "10", "NO"), ("at", "DATETIME", "25", "NO")]),
    # SQLAlchemy and DBeaver
    ("SELECT table_name FROM information_schema.views WHERE table_schema = 'demo'", []),
    ("SELECT TC.CONSTRAINT_NAME, KCU.COLUMN_NAME FROM INFORMATION_SCHEMA.KEY_COLUMN_USAGE AS KCU JOIN"
     " INFORMATION_SCHEMA.TABLE_CONSTRAINTS AS TC ON TC.CONSTRAINT_NAME = KCU.CONSTRAINT_NAME AND TC.TABLE_SCHEMA ="
     " KCU.TABLE_SCHEMA WHERE KCU.TABLE_SCHEMA = BINARY 'demo' ORDER BY KCU.ORDINAL_POSITION", []),
    ("SELECT cc.*, tc.TABLE_NAME FROM (SELECT CONSTRAINT_NAME, CHECK_CLAUSE FROM"
     " information_schema.CHECK_CONSTRAINTS) cc, information_schema.TABLE_CONSTRAINTS tc WHERE"
     " cc.CONSTRAINT_NAME = tc.CONSTRAINT_NAME", []),
    ("select count(*) > 3, min(id) from information_schema.collations", [(1, 45)]),
]  # fmt: skip


def test_information_schema_answers_what_tools_ask(cast: Cast, orders: ExternalTable) -> None:
    for text, expected in QUESTIONS:
        assert ask(cast.alice, text).rows == expected, text
    plain = answers.answer(cast.alice, statements.parse("select table_name from tables where table_name='orders'"),
                           "information_schema")  # fmt: skip
    assert ask(cast.alice, "select count(*) from columns where table_schema = 'demo'", "information_schema").rows == [
        (9,)
    ]
    assert plain is not None
    assert (plain.columns, plain.rows) == (("TABLE_NAME",), [("orders",)])
    for table in definitions.TABLES:
        ask(cast.alice, f"select * from information_schema.`{table}`")


REFUSALS = [
    ("select x from information_schema.tables", "UNKNOWN_COLUMN", "Unknown column 'x'"),
    ("select * from information_schema.tables join demo.flights", "STATEMENT_NOT_OFFERED", "demo.flights is not in"),
    ("select load_extension('x') from information_schema.tables", "STATEMENT_NOT_OFFERED", "load_extension"),
    ("select randomblob(1000000000) from information_schema.engines", "STATEMENT_NOT_OFFERED", "randomblob"),
    ("select printf('%1000000d', 1) from information_schema.engines", "STATEMENT_NOT_OFFERED", "printf"),
    ("select * from information_schema.sqlite_master", None, "no table 'sqlite_master'"),
    ("with recursive t as (select 1 n from information_schema.engines union all select n + 1 from t) select * from t",
     "STATEMENT_NOT_OFFERED", "not authorized"),
    ("select from information_schema.tables where", "SYNTAX_ERROR", "cannot be"),
    ("select * from information_schema.tables where " + "(" * 5000 + "1" + ")" * 5000, "SYNTAX_ERROR", "too deeply"),
    ("select count(*) from information_schema.columns a, information_schema.columns b, information_schema.columns c,"
     " information_schema.columns d", "STATEMENT_TIME_LIMIT", "took longer than"),
    ("select a.column_name from information_schema.columns a, information_schema.columns b", "RESULT_TOO_LARGE",
     "narrow it"),
    ("show tables where nowhere = 1", "UNKNOWN_COLUMN", "nowhere"),
    ("show tables where 1 = 1 union select name from sqlite_master", "SYNTAX_ERROR", "a condition"),
    ("show partitions flights", "STATEMENT_NOT_OFFERED", "is not partitioned"),
]  # fmt: skip


def test_information_schema_evaluates_nothing_else(cast: Cast, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runner, "MOST_ROWS", 1000)
    for text, symbol, message in REFUSALS:
        # The others are refused for what they say, however slow the machine is.
        monkeypatch.setattr(runner, "LONGEST_S", 0.2 if symbol == "STATEMENT_TIME_LIMIT" else 60.0)
        with pytest.raises((Refused, UnknownTableError)) as refused:
            ask(cast.alice, text)
        assert getattr(refused.value, "symbol", None) == symbol, text
        assert message.lower() in str(refused.value).lower(), text


def test_nobody_learns_of_what_they_may_not_query(cast: Cast, orders: ExternalTable) -> None:
    assert ask(cast.bob, "show databases").rows == [("information_schema",)]
    document = {
        "Version": "1",
        "Statement": [{"Effect": "Allow", "Action": "dla:SubmitQuery", "Resource": "acs:dla:*:*:demo/flights"}],
    }
    bob = allow(cast.bob.person, document)
    assert ask(bob, "show tables").rows == [("flights",)]
    assert ask(bob, "select table_name from information_schema.columns where table_schema = 'demo'").rows == [
        ("flights",),
        ("flights",),
    ]
    for text in ("describe orders", "show create table orders", "show partitions orders", "describe formatted orders"):
        with pytest.raises(UnknownTableError):
            ask(bob, text)
    for text in ("show tables from secret", "show create schema secret", "show tables from mq"):
        with pytest.raises(UnknownSchemaError):
            ask(bob, text)
