"""Many resources at a time: those that a pattern fits are found without asking about each."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate


class Lines:
    """Texts, and the resources that they stand for, of which those with a piece of text are found in one search."""

    def __init__(self, texts: Sequence[str], resources: Sequence[str]) -> None:
        self.texts, self.resources = texts, resources
        self._joined = "".join([f"{text}\n" for text in texts])
        self._ends = list(accumulate(len(text) + 1 for text in texts))

    def with_piece(self, piece: str) -> Iterator[tuple[str, str]]:
        """Every text that has this piece, with its resource, and a few others where the piece has the end of a line."""
        at, found = 0, self._joined.find(piece)
        while found >= 0 and at < len(self._joined):
            number = bisect_right(self._ends, found)
            yield self.texts[number], self.resources[number]
            at = self._ends[number]
            found = self._joined.find(piece, at)


class Crowd:
    """Resources as statements compare them: whole, and by the service and the name of `acs:<service>:…:<name>`."""

    def __init__(self, resources: Iterable[str]) -> None:
        self.resources = tuple(resources)
        self.whole = Lines(self.resources, self.resources)
        self.by_name: dict[tuple[str, str], list[str]] = {}
        named: dict[str, tuple[list[str], list[str]]] = {}
        for resource in self.resources:
            parts = resource.split(":", 4)
            if len(parts) == 5 and parts[0] == "acs":
                self.by_name.setdefault((parts[1], parts[4]), []).append(resource)
                names, whole = named.setdefault(parts[1], ([], []))
                names.append(parts[4])
                whole.append(resource)
        self.services = {service: Lines(names, whole) for service, (names, whole) in named.items()}
