"""Changing an AccessKey without a moment in which no key works: where a user stands, read from its pairs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta

from django.utils import timezone

from console.accounts.key_use import KeyUse
from console.accounts.models import AccessKey

#: A key that is older is worth a warning: it has been in too many files and hands by then.
OLD_AFTER = timedelta(days=90)


@dataclass(frozen=True, slots=True)
class Pair:
    """An AccessKey with what the page says about it."""

    key: AccessKey
    use: KeyUse | None

    @property
    def is_old(self) -> bool:
        """True when the pair should be replaced by a new one."""
        return timezone.now() - self.key.created_at > OLD_AFTER


@dataclass(frozen=True, slots=True)
class Rotation:
    """The step that comes next: 0 create the first pair, 1 create the second, 2 move over, 3 delete the older."""

    step: int
    older: Pair | None = None
    newer: Pair | None = None

    @property
    def older_in_use(self) -> bool:
        """True when something still signed with the older pair after the newer one was made."""
        if self.older is None or self.newer is None or self.older.use is None:
            return False
        return self.older.use.at > self.newer.key.created_at


def pairs_of(keys: Sequence[AccessKey], uses: Mapping[str, KeyUse]) -> list[Pair]:
    """The pairs of one user with their last uses, oldest first."""
    ordered = sorted(keys, key=lambda key: (key.created_at, key.pk))
    return [Pair(key, uses.get(key.access_key_id)) for key in ordered]


def rotation_of(pairs: Sequence[Pair]) -> Rotation:
    """Where the user stands, from the pairs in the order of their making."""
    if not pairs:
        return Rotation(0)
    if len(pairs) == 1:
        return Rotation(1, pairs[0])
    older, newer = pairs[0], pairs[1]
    return Rotation(2 if older.key.enabled else 3, older, newer)
