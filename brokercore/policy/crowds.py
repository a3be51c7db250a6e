"""Many resources at a time: those that a pattern fits are found without asking about each."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Collection, Iterable, Iterator, Sequence
from functools import cached_property
from itertools import accumulate

Place = tuple[str, str, str]
"""Service, region and account, as the names of resources have them."""

_SAMPLE = 256
_MANY = 8
"""Of a piece that one text in so many has, no text is looked for: all of them are asked."""


class Lines:
    """Texts, and the resources that they stand for, of which those with a piece of text are found in one search."""

    def __init__(self, texts: Sequence[str], resources: Sequence[str]) -> None:
        self.texts, self.resources = texts, resources

    def equal_to(self, text: str) -> Sequence[str]:
        """The resources of this text."""
        if text not in self._by_text:
            return ()
        return self._twins[text] if text in self._twins else (self._by_text[text],)

    def with_any(self, pieces: Iterable[str]) -> Iterator[tuple[str, str]]:
        """Every text that has all these pieces, with its resource, and others: the rarest piece says which.

        A piece has `\\n` before it that stands at the beginning of the text, and behind it at the end.
        """
        rarest = min(pieces, key=lambda piece: (self._sample.count(piece), -len(piece)))
        if self._sample.count(rarest) * _MANY > min(_SAMPLE, len(self.texts)):
            return iter(zip(self.texts, self.resources, strict=True))
        return self._with(rarest)

    def _with(self, piece: str) -> Iterator[tuple[str, str]]:
        joined, ends = self._joined
        # The end of a line before a piece belongs to the line before, unless texts have such a sign themselves.
        before = 1 if piece.startswith("\n") else 0
        found = joined.find(piece)
        while found >= 0:
            number = bisect_right(ends, found + before)
            if number == len(ends):
                break
            yield self.texts[number], self.resources[number]
            found = joined.find(piece, ends[number] - before)

    @cached_property
    def _joined(self) -> tuple[str, list[int]]:
        """All texts, each with the end of a line before and behind it, and where each of them is over."""
        lines = "\n".join(self.texts)
        return f"\n{lines}\n", [end + at for at, end in enumerate(accumulate(map(len, self.texts)), 2)]

    @cached_property
    def _sample(self) -> str:
        """Some of the texts, from all over."""
        lines = "\n".join(self.texts[:: max(1, len(self.texts) // _SAMPLE)])
        return f"\n{lines}\n"

    @cached_property
    def _by_text(self) -> dict[str, str]:
        """One resource of each text: no new object for each, of which thousands make Python look through all it has."""
        return dict(zip(self.texts, self.resources, strict=True))

    @cached_property
    def _twins(self) -> dict[str, list[str]]:
        """All resources of each text, where one text is that of several."""
        found: dict[str, list[str]] = {}
        if len(self._by_text) < len(self.texts):
            for text, resource in zip(self.texts, self.resources, strict=True):
                found.setdefault(text, []).append(resource)
        return found


class Crowd:
    """Resources as statements compare them: whole, and the names of each place (`acs:<its three parts>:<name>`)."""

    def __init__(self, resources: Collection[str]) -> None:
        self.resources = tuple(resources)
        self.whole = Lines(self.resources, self.resources)

    def without(self, those: Collection[str]) -> Crowd:
        """The others."""
        return Crowd([resource for resource in self.resources if resource not in those])

    @cached_property
    def places(self) -> dict[Place, Lines]:
        """The names of the resources of each place; those without a place are left out."""
        if not self.resources:
            return {}
        # What the first and the last in the alphabet begin with, all do: mostly they differ in the name alone.
        first, last = min(self.resources).split(":", 4), max(self.resources).split(":", 4)
        if len(first) == len(last) == 5 and first[0] == "acs" and first[:4] == last[:4]:
            size = sum(map(len, first[:4])) + 4
            return {_place(first): Lines([resource[size:] for resource in self.resources], self.resources)}
        found: dict[Place, tuple[list[str], list[str]]] = {}
        for resource in self.resources:
            parts = resource.split(":", 4)
            if len(parts) == 5 and parts[0] == "acs":
                names, whole = found.setdefault(_place(parts), ([], []))
                names.append(parts[4])
                whole.append(resource)
        return {place: Lines(names, whole) for place, (names, whole) in found.items()}


def _place(parts: Sequence[str]) -> Place:
    return parts[1], parts[2], parts[3]
