"""The patterns of the short forms. Each is matched against the whole statement, and never against a long one."""

from __future__ import annotations

import re

_NAME = r"(?:`(?:[^`]|``)+`|[\w$-]+)"
#: Possessive, so that a text that is not closed is gone over once.
_TEXT = r"(?:'(?:[^'\\]|''|\\.)*+'|\"(?:[^\"\\]|\"\"|\\.)*+\")"
_LIKE = rf"(?:\s+like\s+(?P<like>{_TEXT})|\s+where\s+(?P<condition>.+))?"
_FROM_SCHEMA = rf"(?:\s+(?:from|in)\s+(?P<schema>{_NAME}))?"
_TABLE = rf"(?:(?P<before>{_NAME})\s*\.\s*)?(?P<table>{_NAME})"


def _form(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern, re.IGNORECASE | re.DOTALL)


SHOW_TASK = _form(rf"show\s+query_task\s+where\s+id\s*=\s*(?P<id>{_TEXT})")
SEARCH_TASKS = _form(rf"show\s+query_tasks?\b(?:\s+like\s+(?P<like>{_TEXT}))?(?P<clauses>.*)")
CANCEL_TASK = _form(
    rf"cancel\s+query_task\s+where\s+id\s*(?:=\s*(?P<id>{_TEXT})|in\s*\((?P<ids>\s*{_TEXT}(?:\s*,\s*{_TEXT})*)\s*\))"
)
TEXT = _form(_TEXT)
SHOW_DATABASES = _form(rf"show\s+(?:databases|schemas){_LIKE}")
SHOW_TABLES = _form(rf"show\s+(?:extended\s+)?(?P<full>full\s+)?tables{_FROM_SCHEMA}{_LIKE}")
SHOW_TABLE_STATUS = _form(rf"show\s+table\s+status{_FROM_SCHEMA}{_LIKE}")
SHOW_COLUMNS = _form(
    rf"show\s+(?:extended\s+)?(?P<full>full\s+)?(?:columns|fields)\s+(?:from|in)\s+{_TABLE}{_FROM_SCHEMA}{_LIKE}"
)
SHOW_CREATE_TABLE = _form(rf"show\s+create\s+table\s+{_TABLE}")
SHOW_CREATE_SCHEMA = _form(rf"show\s+create\s+(?:schema|database)\s+(?:if\s+not\s+exists\s+)?(?P<schema>{_NAME})")
SHOW_PARTITIONS = _form(rf"show\s+partitions\s+(?:from\s+)?{_TABLE}")
DESCRIBE = _form(rf"(?:describe|desc|explain)\s+(?:table\s+)?{_TABLE}")
DESCRIBE_TABLE = _form(rf"(?:describe|desc)\s+(?:table\s+)?(?:formatted|extended)\s+{_TABLE}")
SHOW_VARIABLES = _form(
    rf"show\s+(?:(?:session|global|local)\s+)?variables(?:\s+like\s+(?P<like>{_TEXT})|\s+where\s+(?P<where>.+))?"
)
VARIABLE_NAME = _form(rf"variable_name\s*(?:=|like)\s*(?P<name>{_TEXT})")
USE = _form(rf"use\s+(?P<schema>{_NAME})")
TRANSACTION = _form(r"(?:begin|start\s+transaction|commit|rollback)(?:\s+.{0,64})?")
KILL = _form(r"kill\s+(?:(?P<kind>connection|query)\s+)?(?P<id>\d{1,19})")
#: Stands in front of the query, which may be long.
EXPLAIN = _form(
    r"(?:explain|describe|desc)\s+(?:(?P<mode>extended|formatted|codegen|cost)\s+|format\s*=\s*\w+\s+)?(?=[\w(])"
)
#: A table of it behind FROM, JOIN or a comma; `without_texts` first.
INFORMATION_SCHEMA = _form(r"(?:\bfrom|\bjoin|,)[\s(]*+`?information_schema`?\s*+\.")
#: What is not closed goes to the end, or each sign in it would be tried as a beginning.
_TEXT_OR_COMMENT = _form(r"'(?:[^'\\]|''|\\.?)*+(?:'|\Z)|\"(?:[^\"\\]|\"\"|\\.?)*+(?:\"|\Z)|--[^\n]*+|/\*.*?(?:\*/|\Z)")
#: Lists that stay the same, from the table of `information_schema` of that name.
LISTS = (
    (_form(rf"show\s+collation{_LIKE}"), "COLLATIONS"),
    (_form(rf"show\s+(?:character\s+set|charset){_LIKE}"), "CHARACTER_SETS"),
    (_form(rf"show\s+(?:storage\s+)?engines{_LIKE}"), "ENGINES"),
)
_INDEX = (
    "Table", "Non_unique", "Key_name", "Seq_in_index", "Column_name", "Collation", "Cardinality", "Sub_part", "Packed",
    "Null", "Index_type", "Comment", "Index_comment", "Visible", "Expression",
)  # fmt: skip
_ROUTINE = (
    "Db", "Name", "Type", "Definer", "Modified", "Created", "Security_type", "Comment", "character_set_client",
    "collation_connection", "Database Collation",
)  # fmt: skip
_TRIGGER = (
    "Trigger", "Event", "Table", "Statement", "Timing", "Created", "sql_mode", "Definer", "character_set_client",
    "collation_connection", "Database Collation",
)  # fmt: skip
_EVENT = (
    "Db", "Name", "Definer", "Time zone", "Type", "Execute at", "Interval value", "Interval field", "Starts", "Ends",
    "Status", "Originator", "character_set_client", "collation_connection", "Database Collation",
)  # fmt: skip
NOTHING = (
    (_form(r"show\s+(?:extended\s+)?(?:index|indexes|keys)\s+(?:from|in)\s+.+"), _INDEX),
    (_form(rf"show\s+(?:procedure|function)\s+status{_LIKE}"), _ROUTINE),
    (_form(rf"show\s+triggers{_FROM_SCHEMA}{_LIKE}"), _TRIGGER),
    (_form(rf"show\s+events{_FROM_SCHEMA}{_LIKE}"), _EVENT),
    (_form(rf"show\s+open\s+tables{_FROM_SCHEMA}{_LIKE}"), ("Database", "Table", "In_use", "Name_locked")),
    (_form(r"show\s+privileges"), ("Privilege", "Context", "Comment")),
    (
        _form(rf"show\s+(?:count\(\*\)\s+)?(?:warnings|errors)(?:\s+limit\s+[\d\s,]+)?{_LIKE}"),
        ("Level", "Code", "Message"),
    ),
    (_form(rf"show\s+(?:(?:session|global)\s+)?status{_LIKE}"), ("Variable_name", "Value")),
    (_form(r"show\s+plugins"), ("Name", "Status", "Type", "Library", "License")),
)


def without_texts(text: str) -> str:
    """The statement with its texts and comments blanked, so that words in them are not taken for SQL."""
    return _TEXT_OR_COMMENT.sub(" ", text)
