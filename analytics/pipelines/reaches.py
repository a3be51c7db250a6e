"""Where the sources of inflow tasks stand, in the state of their pipeline: written by the reader, read for reports.

<state>/source-<name>/reached.json      `reports.Reached`
"""

from __future__ import annotations

import contextlib
import json
import os
from dataclasses import asdict
from pathlib import Path

from analytics.pipelines.plan import file_name
from analytics.pipelines.reports import Reached

_REACHED = "reached.json"


def folder_of(state: str | Path, source: str) -> Path:
    """The folder of a source in the pipeline's state."""
    return Path(state) / f"source-{file_name(source)}"


def tell(state: str | Path, source: str, reached: Reached) -> None:
    """Write down where a source stands, whole or not at all. Raises OSError where the state is gone."""
    file = folder_of(state, source) / _REACHED
    draft = file.with_suffix(".draft")
    draft.write_text(json.dumps(asdict(reached)), encoding="utf-8")
    os.replace(draft, file)


def reached(state: str | Path, source: str) -> Reached | None:
    """Where a source stands, as far as it was told; None before that."""
    with contextlib.suppress(OSError, ValueError, TypeError):  # it moves with the state, which the runner notices
        return Reached(**json.loads((folder_of(state, source) / _REACHED).read_text(encoding="utf-8")))
    return None
