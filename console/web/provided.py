"""What an app needs of one that stands above it: the lower one says the shape, the upper one gives it at the start.

So imports go one way (docs/develop/architecture.md). An app promises what it owes in `ready()` of its `apps.py`; what
nobody gave is told at the start (`console.web.checks`), and is an error for who asks for it.

It is promised by the place's name and fetched when it is asked for first: every command runs `ready()`, and most need
neither the place nor what is in it, nor what those import (Celery, Redis, the broker's client, the grammar of SQL).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, Generic, TypeVar

from django.core.exceptions import ImproperlyConfigured

T = TypeVar("T")


class Provided(Generic[T]):
    """A place for one thing that another app gives: `tasks = Provided[Tasks](f"{__name__}.tasks", "console.sql")`."""

    places: ClassVar[list[Provided[Any]]] = []
    """All that there are, of the modules that are imported by now."""
    promised: ClassVar[dict[str, Callable[[], Any]]] = {}
    """By the name of a place, what fetches the thing for it."""

    def __init__(self, name: str, giver: str) -> None:
        """`name` says where it stands, `giver` which app gives it, for the error when nobody did."""
        self.name, self.giver = name, giver
        self._given: T | None = None
        self.places.append(self)

    @classmethod
    def promise(cls, name: str, fetch: Callable[[], Any]) -> None:
        """Give the place of that name what `fetch` returns, when it is asked for it first.

        The annotation of what `fetch` returns is the place's type.
        """
        cls.promised[name] = fetch

    @property
    def is_given(self) -> bool:
        """Whether the giver has promised it."""
        return self.name in self.promised

    @property
    def lack(self) -> str:
        """The error when nothing was given."""
        return f"{self.giver} has not given {self.name}; see INSTALLED_APPS, and `ready` in its apps.py."

    def get(self) -> T:
        """What was given. Raises ImproperlyConfigured when nothing was: the app is not installed, or forgets to."""
        if not self.is_given:
            raise ImproperlyConfigured(self.lack)
        if self._given is None:
            self._given = self.promised[self.name]()
        return self._given
