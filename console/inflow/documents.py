"""Documents of tasks as they are kept, whatever stands in them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any


def document_in(text: str) -> dict[str, Any]:
    """The document that a text is; empty for a text that is none."""
    try:
        found = json.loads(text)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def source_of(document: Mapping[str, Any]) -> Mapping[str, Any]:
    """The part `source` of a document; empty where that is none."""
    found = document.get("source")
    return found if isinstance(found, Mapping) else {}
