"""Many resources at a time: those that a pattern fits are found without asking about each."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Collection, Iterable, Sequence
from functools import cached_property
from itertools import accumulate

Place = tuple[str, str, str]
"""Service, region and account, as the names of resources have them."""

_SAMPLE = 256
"""So many texts tell which piece is rare."""


class Lines:
    """Texts, and the resources that they stand for, of which those with a piece of text are found in one search."""

    def __init__(self, texts: Sequence[str], resources: Sequence[str]) -> None:
        self.texts, self.resources = texts, resources

    def equal_to(self, text: str) -> Sequence[str]:
        """The resources of this text."""
        if text not in self._by_text:
            return ()
        return self._twins[text] if text in self._twins else (self._by_text[text],)

    def with_any(self, pieces: Iterable[str]) -> Sequence[int]:
        """The numbers of all texts that have all these pieces, and of others: the rarest piece says which.

        A piece has `\\n` before it that stands at the beginning of the text, and behind it at the end. Of one piece in
        texts that are `single_lines` there are no others.
        """
        rarest = min(pieces, key=lambda piece: (self._sample.count(piece), -len(piece)))
        return self._with(rarest) if self._letters.issuperset(rarest) else ()

    def _with(self, piece: str) -> list[int]:
        joined, ends = self._joined
        # The end of a line before a piece belongs to the line before, unless texts have such a sign themselves.
        before, numbers = 1 if piece.startswith("\n") else 0, list[int]()
        found = joined.find(piece)
        while found >= 0:
            number = bisect_right(ends, found + before)
            if number == len(ends):
                break
            numbers.append(number)
            found = joined.find(piece, ends[number] - before)
        return numbers

    @cached_property
    def single_lines(self) -> bool:
        """True when no text has the end of a line in it."""
        return self._joined[0].count("\n") == len(self.texts) + 1

    @cached_property
    def _joined(self) -> tuple[str, list[int]]:
        """All texts, each with the end of a line before and behind it, and where each of them is over."""
        lines = "\n".join(self.texts)
        return f"\n{lines}\n", [end + at for at, end in enumerate(accumulate(map(len, self.texts)), 2)]

    @cached_property
    def _letters(self) -> frozenset[str]:
        """What there is of characters: many denials are of names that are nothing like these."""
        return frozenset(self._joined[0])

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
        self.all = frozenset(resources)
        self.resources = tuple(self.all)
        self.whole = Lines(self.resources, self.resources)

    def without(self, those: Collection[str]) -> Crowd:
        """The others."""
        return Crowd(self.all.difference(those))

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
