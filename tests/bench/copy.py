"""The running copy that the SQL and page figures are taken from: one that runs already, or one of their own."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.support.product import Product


@contextmanager
def running_copy(demo_file: Path | None) -> Iterator[dict[str, Any]]:
    """The content of demo.json of the copy given, or of one that is started for the figures and stopped again."""
    if demo_file is not None:
        yield json.loads(demo_file.read_text())
        return
    with tempfile.TemporaryDirectory(prefix="gantry-bench-") as folder:
        product = Product(Path(folder) / "home").start()
        try:
            yield product.demo
        finally:
            product.stop()
