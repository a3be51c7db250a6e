"""A job whose text was changed goes on from its state: what the console lets through is what Spark takes."""

from __future__ import annotations

import pytest

from analytics.pipelines import runner
from console.pipelines.fitting import misfit
from tests.console.jobs.compiler.texts import plan
from tests.pipelines.jobs import Ground, lines_of, until

pytestmark = [pytest.mark.usefixtures("spark"), pytest.mark.process]
TABLES = """SET 'execution.checkpointing.interval' = '1s';
SET 'execution.batch-interval' = '200ms';
CREATE TABLE made (k INT, word STRING, n INT, at_once AS PROCTIME()) WITH ('connector' = 'datagen',
  'rows-per-second' = '20', 'fields.k.min' = '1', 'fields.k.max' = '1', 'fields.word.length' = '1');
CREATE TABLE plain (a INT, b STRING) WITH ('connector' = 'print');
CREATE TABLE counted (k INT, n BIGINT) WITH ('connector' = 'print');
CREATE TABLE words (word STRING, n BIGINT) WITH ('connector' = 'print');
CREATE TABLE windows (since TIMESTAMP(3), n BIGINT) WITH ('connector' = 'print');
CREATE TABLE viewed (a STRING, n BIGINT) WITH ('connector' = 'print');
CREATE TABLE gone (a INT) WITH ('connector' = 'print');
CREATE TABLE added (a INT) WITH ('connector' = 'print');
"""
BEFORE = f"""{TABLES}
CREATE TEMPORARY VIEW v AS SELECT k, word FROM made;
CREATE TEMPORARY VIEW g AS SELECT word, COUNT(*) AS n, MAX(k) AS m FROM v GROUP BY word;
INSERT INTO gone SELECT k FROM made;
INSERT INTO plain SELECT k, word FROM made;
INSERT INTO counted SELECT k, COUNT(*) FROM made GROUP BY k;
INSERT INTO words SELECT word, COUNT(*) FROM made WHERE word > '0' GROUP BY word;
INSERT INTO windows SELECT window_start, COUNT(*)
  FROM TABLE(TUMBLE(TABLE made, DESCRIPTOR(at_once), INTERVAL '1' SECOND)) GROUP BY window_start, window_end;
INSERT INTO viewed SELECT word, n FROM g;
SELECT n FROM made;
"""
#: Another place for each INSERT, a condition more or less, other columns; one INSERT less, and one more.
AFTER = f"""{TABLES}
-- a line more
INSERT INTO added SELECT k FROM made;
CREATE TEMPORARY VIEW v AS SELECT k, word FROM made WHERE word <> 'x';
CREATE TEMPORARY VIEW g AS SELECT word, COUNT(*) AS n, MAX(k) AS m FROM v GROUP BY word;
INSERT INTO viewed SELECT word, n FROM g;
INSERT INTO counted SELECT k, COUNT(*) FROM made WHERE k > 0 AND word IS NOT NULL GROUP BY k;
INSERT INTO words SELECT word, COUNT(*) FROM made GROUP BY word;
INSERT INTO plain SELECT k + 10, CONCAT(word, '!') FROM made WHERE n IS NOT NULL;
INSERT INTO windows SELECT window_start, COUNT(*)
  FROM TABLE(TUMBLE(TABLE made, DESCRIPTOR(at_once), INTERVAL '1' SECOND)) WHERE k = 1
  GROUP BY window_start, window_end;
SELECT n + 1 AS n FROM made;
"""


def test_what_fits_goes_on_from_the_state(ground: Ground) -> None:
    before, after = plan(BEFORE), plan(AFTER)
    assert misfit(before, after) == ""
    first = runner.start(ground.spec(before))
    until(lambda: all((insert.batch or 0) >= 1 for insert in first.report().inserts), first)
    first.stop()
    reached = {insert.sink: insert.batch or 0 for insert in first.report().inserts}
    printed = len(lines_of(first, "counted"))
    counted = max(int(line[3:-1].split(", ")[1]) for line in lines_of(first, "counted"))

    second = runner.start(ground.spec(after, location=first.spec.location, number=2))
    until(lambda: all((insert.batch or 0) >= 1 for insert in second.report().inserts), second)
    second.stop()
    for insert in second.report().inserts:
        assert (insert.batch or 0) > reached.get(insert.sink, 0)
    # A batch that a stop cut off is printed again, with what was counted then.
    new = [int(line[3:-1].split(", ")[1]) for line in lines_of(second, "counted")[printed:]]
    assert new[0] >= counted and new[-1] > counted
    assert lines_of(second, "added")
    assert any(line.startswith("+I(11, ") and line.endswith("!)") for line in lines_of(second, "plain"))
