"""Questions about the connection itself that tools ask: warnings, status, processes, grants. Pure recognition.

What schemas and tables hold is `console.sql.answers`' affair; everything here is answered without a database call,
grants excepted.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum

from console.sql import constants
from console.sql.catalog import Answer, Cells
from console.sql.definitions import quoted
from console.sql.patterns import like_pattern


class Subject(Enum):
    """What is asked for."""

    WARNINGS = "warnings"
    ERRORS = "errors"
    WARNING_COUNT = "count(*) warnings"
    ERROR_COUNT = "count(*) errors"
    STATUS = "status"
    PROCESSES = "processlist"
    GRANTS = "grants"
    PRIVILEGES = "privileges"
    OPEN_TABLES = "open tables"


@dataclass(frozen=True, slots=True)
class Question:
    """A question; `like` narrows the names of a status, `full` asks for whole statements."""

    subject: Subject
    like: str | None = None
    full: bool = False


@dataclass(frozen=True, slots=True)
class Warned:
    """What the last statement was warned of, or failed with, in the words of `show warnings`."""

    level: str
    code: int
    message: str


_TEXT = r"(?:'(?:[^'\\]|''|\\.)*+'|\"(?:[^\"\\]|\"\"|\\.)*+\")"
_LIKE = rf"(?:\s+like\s+(?P<like>{_TEXT})|\s+where\s+variable_name\s*(?:=|like)\s*(?P<name>{_TEXT}))?"
_FORMS = tuple(
    (re.compile(rf"show\s+{pattern}", re.IGNORECASE | re.DOTALL), subject)
    for pattern, subject in (
        (r"warnings(?:\s+limit\s+[\d\s,]+)?", Subject.WARNINGS),
        (r"errors(?:\s+limit\s+[\d\s,]+)?", Subject.ERRORS),
        (r"count\s*\(\s*\*\s*\)\s+warnings", Subject.WARNING_COUNT),
        (r"count\s*\(\s*\*\s*\)\s+errors", Subject.ERROR_COUNT),
        (rf"(?:(?:session|global|local)\s+)?status{_LIKE}", Subject.STATUS),
        (r"(?P<full>full\s+)?processlist", Subject.PROCESSES),
        (r"grants(?:\s+for\s+[^;]{1,200})?", Subject.GRANTS),
        (r"privileges", Subject.PRIVILEGES),
        (rf"open\s+tables(?:\s+(?:from|in)\s+\S+)?{_LIKE}", Subject.OPEN_TABLES),
    )
)
#: No form is longer.
_LONGEST = 1024


def read(text: str) -> Question | None:
    """The question of a statement, None when it is none of these."""
    if len(text) > _LONGEST or text[:4].lower() != "show":
        return None
    for form, subject in _FORMS:
        if match := form.fullmatch(text):
            parts = match.groupdict()
            like = parts.get("like") or parts.get("name")
            return Question(subject, constants.text_of(like) if like else None, bool(parts.get("full")))
    return None


def warnings(subject: Subject, warned: list[Warned]) -> Answer:
    """The answer to the four questions about warnings and errors."""
    if subject in (Subject.ERRORS, Subject.ERROR_COUNT):
        warned = [w for w in warned if w.level == "Error"]
    if subject in (Subject.WARNING_COUNT, Subject.ERROR_COUNT):
        name = "@@session.warning_count" if subject is Subject.WARNING_COUNT else "@@session.error_count"
        return Answer((name,), [(len(warned),)])
    return Answer(
        ("Level", "Code", "Message"), [(w.level, w.code, w.message) for w in warned], integers=frozenset({"Code"})
    )


def status(values: dict[str, str | int], like: str | None) -> Answer:
    """`show status`: a few values of many that MySQL has."""
    pattern = like_pattern(like) if like is not None else None
    rows: list[Cells] = [
        (name, str(value)) for name, value in sorted(values.items()) if not pattern or pattern.fullmatch(name)
    ]
    return Answer(("Variable_name", "Value"), rows)


def grants(user: str, schemas: list[str]) -> Answer:
    """`show grants`: what the account may query. The rules themselves are the console's policies."""
    name = f"{quoted(user)}@`%`"
    rows: list[Cells] = [(f"GRANT USAGE ON *.* TO {name}",)]
    rows += [(f"GRANT SELECT ON {quoted(schema)}.* TO {name}",) for schema in schemas]
    return Answer((f"Grants for {user}@%",), rows)


PRIVILEGES = Answer(
    ("Privilege", "Context", "Comment"),
    [("Select", "Tables", "To run statements on tables"), ("Usage", "Server Admin", "No privileges - sign in only")],
)
OPEN_TABLES = Answer(("Database", "Table", "In_use", "Name_locked"), [])
