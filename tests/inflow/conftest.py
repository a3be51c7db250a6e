"""Real parts: those of the pipelines' tests, one of each for the package."""

from __future__ import annotations

from tests.pipelines.conftest import ground, service, spark, topic

__all__ = ["ground", "service", "spark", "topic"]
