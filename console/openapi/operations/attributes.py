"""Attributes of queues and of their topics: the parameters beside the name, called as the service calls them."""

from __future__ import annotations

from console.openapi.envelope import FIELD
from console.openapi.registry import Parameters
from console.web.errors import Refused


def given(parameters: Parameters, name: str) -> dict[str, int]:
    """The attributes that were given; `name` is the parameter that is none."""
    values = parameters.model_dump(exclude={name}, exclude_none=True)
    return {one[0].upper() + one[1:]: int(value) for one, value in values.items()}


def needed(parameters: Parameters, name: str) -> dict[str, int]:
    """As `given`. Raises Refused when there is none."""
    found = given(parameters, name)
    if not found:
        first = next(field for field in type(parameters).model_fields if field != name)
        raise Refused(FIELD, "No attribute is given.", first)
    return found
