"""What is left of pipelines that are no more."""

from __future__ import annotations

import io

from analytics import lake
from console.pipelines import queries, tasks
from console.pipelines.models import Pipeline


def test_the_state_of_a_deleted_pipeline_is_removed(pipeline: Pipeline) -> None:
    kept = queries.location_of(pipeline)
    gone = kept.replace(f"/{pipeline.pk}/", f"/{pipeline.pk + 1000}/")
    for location in (kept, gone):
        lake.write_file(f"{location}run-00000001/fence", io.BytesIO(b"1"))
    tasks.expire()
    assert lake.file(f"{kept}run-00000001/fence") is not None
    assert lake.file(f"{gone}run-00000001/fence") is None
    tasks.remove(kept)
    assert lake.file(f"{kept}run-00000001/fence") is None
