"""Many resources at a time: those that a pattern fits are found without asking about each."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from itertools import accumulate


class Lines:
    """Texts, and the resources that they stand for, of which those with a piece of text are found in one search."""

    def __init__(self, texts: Sequence[str], resources: Sequence[str]) -> None:
        self.texts, self.resources = texts, resources

    def with_piece(self, piece: str) -> Iterator[tuple[str, str]]:
        """Every text that has this piece, with its resource, and a few others where the piece has the end of a line."""
        joined, ends = self._joined
        at, found = 0, joined.find(piece)
        while found >= 0 and at < len(joined):
            number = bisect_right(ends, found)
            yield self.texts[number], self.resources[number]
            at = ends[number]
            found = joined.find(piece, at)

    @cached_property
    def _joined(self) -> tuple[str, list[int]]:
        """All texts, each with the end of its line, and where each of them is over."""
        return "".join([f"{text}\n" for text in self.texts]), list(accumulate(len(text) + 1 for text in self.texts))


class Crowd:
    """Resources as statements compare them: whole, and by the service and the name of `acs:<service>:…:<name>`."""

    def __init__(self, resources: Iterable[str]) -> None:
        self.resources = tuple(resources)
        self.whole = Lines(self.resources, self.resources)

    @cached_property
    def services(self) -> dict[str, Lines]:
        """The names of each service's resources."""
        found: dict[str, tuple[list[str], list[str]]] = {}
        for resource in self.resources:
            parts = resource.split(":", 4)
            if len(parts) == 5 and parts[0] == "acs":
                names, whole = found.setdefault(parts[1], ([], []))
                names.append(parts[4])
                whole.append(resource)
        return {service: Lines(names, whole) for service, (names, whole) in found.items()}

    @cached_property
    def by_name(self) -> dict[tuple[str, str], list[str]]:
        """The resources of each service and name, which differ in region or account."""
        found: dict[tuple[str, str], list[str]] = {}
        for service, lines in self.services.items():
            for name, resource in zip(lines.texts, lines.resources, strict=True):
                found.setdefault((service, name), []).append(resource)
        return found
