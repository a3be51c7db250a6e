"""A page of what is not there is a 404, whatever else the service says of it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from django.http import Http404

from console.web.errors import Refused


@contextmanager
def page_of(what: str, *symbols: str, field: str = "") -> Iterator[None]:
    """A refusal inside `with` that has one of the symbols, or is of the field, is a 404: there is no such `what`."""
    try:
        yield
    except Refused as refused:
        if refused.symbol in symbols or (field and refused.field == field):
            raise Http404(f"no such {what}") from refused
        raise
