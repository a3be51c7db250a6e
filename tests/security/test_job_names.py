"""Names of tables are anything in back quotes: none is a way out of the job's folder, or to what is another's."""

from __future__ import annotations

from pathlib import Path

import pytest

from analytics.pipelines import connectors
from analytics.pipelines.decoding import Format
from analytics.pipelines.queue_source import QueueSource
from tests.console.jobs.compiler.texts import DATAGEN, MNS, checked, plan, refusal, table

pytestmark = pytest.mark.process
NAMES = [
    "x/../../../victim/1/run-00000001/state/source-orders",
    "..",
    ".",
    "a b",
    "a'b",
    "订单",
    "客户",
    "%2e%2e",
    "é" * 80,
]


def queue(state: Path, name: str) -> QueueSource:
    import pyarrow as pa

    return QueueSource(
        name, "http://h:1", "q", "id", "secret", str(state), Format("raw", pa.schema([("a", pa.string())]))
    )


def test_the_folder_of_a_table_lies_in_the_jobs_state_whatever_the_table_is_called(tmp_path: Path) -> None:
    state = tmp_path / "mine" / "state"
    state.mkdir(parents=True)
    queue(state, "x").prepare()  # without it `x/..` leads nowhere
    for name in NAMES:
        source = queue(state, name)
        source.prepare()
        assert source.spool.resolve().parent == state.resolve(), name
        assert connectors.printed_file(state, name).resolve().parent == state.resolve(), name
    assert [found.name for found in tmp_path.iterdir()] == ["mine"]
    assert len(list(state.iterdir())) == len(NAMES) + 1


def test_two_tables_share_no_provider_no_file_and_no_folder() -> None:
    """Else the one that was made known last would be read under both names."""
    names = [*NAMES, "a_b", "a-b", "a.b", "订单2", "orders", "orderS"]
    assert len({connectors.label_of("mns", name) for name in names}) == len({name.lower() for name in names})
    assert len({connectors.printed_file(Path(), name) for name in names}) == len(names)
    assert len({queue(Path(), name).spool for name in names}) == len(names)


def test_tables_in_any_script_are_planned_apart() -> None:
    text = table("`订单`", "a INT", MNS) + table("`客户`", "a INT", MNS) + "SELECT * FROM `订单`; SELECT * FROM `客户`;"
    assert [source.name for source in plan(text).sources] == ["订单", "客户"]


@pytest.mark.parametrize("name", ["a\nERROR forged line", "a\x1b[2Jb", "a\u202eb", "x" * 256])
def test_a_name_with_control_characters_or_without_end_is_refused(name: str) -> None:
    assert "at most 255 characters" in refusal(table(f"`{name}`", "a INT", DATAGEN) + "SELECT 1;")
    assert "at most 255 characters" in refusal(table("t", f"`{name}` INT", DATAGEN) + "SELECT 1;")


def test_a_name_does_not_end_its_back_quotes_in_what_spark_runs() -> None:
    hostile = "a`` union all select 1 from ``b"
    found = checked(table(f"`{hostile}`", "`x`` y` INT", DATAGEN) + f"SELECT `x`` y` FROM `{hostile}`;")
    assert found.plan is not None, found.refusals
    assert found.plan.inserts[0].sql.count(hostile) == 1
