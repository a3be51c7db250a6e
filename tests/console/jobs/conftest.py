"""Jobs of acme's on the console's pages."""

from __future__ import annotations

import pytest

from console.jobs import services
from console.pipelines import queries
from console.pipelines.models import Kind, Pipeline
from tests.support.cast import Cast

#: Generated rows, of which a view takes some, printed.
TEXT = """CREATE TEMPORARY TABLE seen (id BIGINT, name STRING) WITH ('connector' = 'datagen');
CREATE TEMPORARY TABLE shown (id BIGINT) WITH ('connector' = 'print');
CREATE TEMPORARY VIEW some AS SELECT id FROM seen WHERE id > 5;
INSERT INTO shown SELECT id FROM some;
"""


def reloaded(cast: Cast, name: str = "late") -> Pipeline:
    found = queries.pipeline(cast.acme, Kind.JOB, name)
    assert found is not None
    return found


@pytest.fixture
def job(cast: Cast) -> Pipeline:
    """A draft with a text that can be deployed."""
    return services.create(actor=cast.actor("alice"), name="late", text=TEXT)


@pytest.fixture
def deployed(cast: Cast, job: Pipeline) -> Pipeline:
    services.deploy(actor=cast.actor("alice"), pipeline=job, text=TEXT)
    return reloaded(cast)
