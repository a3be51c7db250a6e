"""The page of figures: written in pieces, so that it holds nobody up, and read as one."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

from prometheus_client.parser import text_string_to_metric_families

from brokercore.server.figures import BrokerFigures
from brokercore.server.statistics import PUT, Statistics
from brokercore.server.watching import Figures


class OnlyStatistics(BrokerFigures):
    """The part that grows with the topics."""

    def _of_the_broker(self) -> Any:
        return iter(())

    _of_the_store = _of_the_tenants = _of_the_broker


async def test_figures_of_thousands_of_topics_leave_the_loop_to_others_and_say_each_thing_once() -> None:
    statistics = Statistics()
    for number in range(5000):
        statistics.counter(PUT, f"topic-{number}").add(number)
    rounds, over = [0], asyncio.Event()

    async def count() -> None:
        while not over.is_set():
            rounds[0] += 1
            await asyncio.sleep(0)

    counting = asyncio.ensure_future(count())
    figures = OnlyStatistics(SimpleNamespace(statistics=statistics))  # type: ignore[arg-type]
    text = (await Figures(figures).text()).decode()
    over.set()
    await counting
    assert rounds[0] > 5, "others had their turn"
    assert text.count("# TYPE gantry_messages_in_total counter") == 1
    found = {family.name: family for family in text_string_to_metric_families(text)}
    values = {sample.labels["topic"]: sample.value for sample in found["gantry_messages_in"].samples}
    assert values == {f"topic-{number}": number for number in range(5000)}
