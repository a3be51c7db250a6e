"""How much time of the parsers an account has had within the minute, over all processes of the product."""

from __future__ import annotations

import logging
import threading
import time
from dataclasses import dataclass

from django.db import DatabaseError
from redis.exceptions import RedisError

from console.accounts import limits
from console.web.errors import Refused

log = logging.getLogger(__name__)

#: Time is written down for the other processes when there is so much of it, s: a tool's text takes a tenth of it.
_TOLD_S = 0.05
#: Accounts that are remembered; those of minutes that are over go first.
_MOST_ACCOUNTS = 10_000


@dataclass(slots=True)
class _Account:
    """What is known of an account: the minute that it is of, its seconds in it, those not told yet, and its limit."""

    minute: int
    seconds: float = 0.0
    untold: float = 0.0
    limit: int = 0


class Budget:
    """The time of all accounts; what other processes have used is learned when one's own is written down."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._accounts: dict[str, _Account] = {}

    def require(self, uid: str) -> None:
        """Raise Refused when the account has had its time for this minute; nobody's texts have no limit."""
        with self._lock:
            account = self._accounts.get(uid)
        if account is None or account.minute != _minute():
            return
        if account.limit and account.seconds >= account.limit:
            raise Refused(
                "PARSING_TIME_LIMIT",
                f"To read this account's statements took {account.limit} s within the minute, which is its limit; send"
                " them in the next minute, simpler ones, or ask the platform's administrator, who sets this limit.",
                "text",
            )

    def charge(self, uid: str, seconds: float) -> None:
        """A text of the account took so long."""
        if not uid:
            return
        with self._lock:
            account = self._accounts.get(uid)
            if account is None or account.minute != _minute():
                self._forget_old()
                account = self._accounts[uid] = _Account(_minute())
            account.seconds += seconds
            account.untold += seconds
            if account.untold < _TOLD_S:
                return
            untold, account.untold = account.untold, 0.0
        try:
            account.limit = limits.of_account(uid, "parsing_seconds")
            account.seconds = max(account.seconds, limits.add_parsing_seconds(uid, untold))
        except (RedisError, DatabaseError) as error:
            log.warning("the time of reading statements of %s is counted by this process alone: %s", uid, error)

    def _forget_old(self) -> None:
        if len(self._accounts) >= _MOST_ACCOUNTS:
            now = _minute()
            self._accounts = {uid: account for uid, account in self._accounts.items() if account.minute == now}


def _minute() -> int:
    return int(time.time() // 60)
