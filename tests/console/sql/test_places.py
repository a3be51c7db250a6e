"""Where the editor underlines an error."""

from __future__ import annotations

import pytest

from console.sql.plans import Place, placed


@pytest.mark.parametrize(
    ("message", "command", "place"),
    [
        ("no such column (line 1, position 7)", "select x", Place(1, 8)),
        ("not allowed. (line 1, column 15)", "select * from csv.`x`", Place(1, 15)),
        ("no such column (line 2, position 2)", "/*+ run_async=true */ select a,\n  x", Place(2, 3)),
        ("no such column (line 1, position 7)", "/*+ run_async=true */ select x", Place(1, 30)),
        ("no such column (line 1, position 7)", "-- mine\n-- and more\n select x", Place(3, 9)),
        ("out of memory", "select x", None),
    ],
)
def test_it_counts_in_the_text_as_it_was_submitted(message: str, command: str, place: Place | None) -> None:
    statement = command[command.index("select") :]
    assert placed(message, command, statement) == place
