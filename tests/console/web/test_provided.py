"""What an app needs of one above it is given at the start, or its lack is told there."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from importlib import import_module

import pytest
from django.conf import settings
from django.core.exceptions import ImproperlyConfigured

from console.celery import app
from console.web.checks import all_is_given, require_ready
from console.web.provided import Provided


@pytest.fixture
def place() -> Iterator[Provided[str]]:
    made = Provided[str]("console.somewhere.place", "console.nobody")
    yield made
    Provided.places.remove(made)


def test_every_app_has_given_what_it_owes() -> None:
    assert all_is_given() == []


def test_what_nobody_gave_is_told_at_the_start_and_to_who_asks(place: Provided[str]) -> None:
    (error,) = all_is_given()
    assert error.id == "console.E003"
    assert error.msg.startswith("console.nobody has not given console.somewhere.place;")
    for asks in (place.get, require_ready):
        with pytest.raises(ImproperlyConfigured, match=r"console\.nobody has not given console\.somewhere\.place"):
            asks()


def test_every_promise_has_a_place_and_is_kept() -> None:
    """Places are promised by name, which no type checker sees; all are there once the pages and the tasks are."""
    import_module(settings.ROOT_URLCONF)
    app.loader.import_default_modules()
    assert {place.name for place in Provided.places} == Provided.promised.keys()
    assert [place.name for place in Provided.places if place.get() is None] == []


def test_what_was_promised_is_fetched_once_and_when_it_is_asked_for(
    place: Provided[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    fetched = iter(["it", "another"])
    monkeypatch.setitem(Provided.promised, place.name, lambda: next(fetched))
    assert all_is_given() == []
    assert [place.get(), place.get(), *fetched] == ["it", "it", "another"]


def test_a_command_loads_only_what_it_needs() -> None:
    """Every command and every process begins with `setup()`; what most never ask for is left to those that do."""
    dear = ["celery", "kombu", "redis", "brokercore.client", "console.statements", "mysqlwire", "analytics.lake"]
    code = f"import sys, django; django.setup(); print([name for name in {dear} if name in sys.modules])"
    environ = os.environ | {"DJANGO_SETTINGS_MODULE": "console.settings"}
    done = subprocess.run([sys.executable, "-c", code], env=environ, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"


def test_what_was_given_is_there(place: Provided[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Provided, "promised", dict(Provided.promised))
    Provided.promise(place.name, lambda: "it")
    assert place.get() == "it"
    assert all_is_given() == []


def test_a_worker_finds_every_task_of_the_schedule() -> None:
    """Wherever a task stands, such as the one that publishes rights again each minute."""
    app.loader.import_default_modules()
    scheduled = {entry["task"] for entry in app.conf.beat_schedule.values()}
    assert scheduled - app.tasks.keys() == set()
