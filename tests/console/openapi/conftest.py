"""Everybody with a key, on a running broker."""

from __future__ import annotations

import pytest

from tests.console.openapi.caller import Caller
from tests.console.openapi.stage import Stage
from tests.support.cast import Cast


@pytest.fixture
def stage(cast: Cast) -> Stage:
    return Stage.build(cast)


@pytest.fixture
def alice(cast: Cast) -> Caller:
    """The administrator of acme, with a key."""
    return Caller.of(cast.alice)
