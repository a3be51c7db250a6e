"""What is done once a transaction has committed: it can fail, and what was committed is answered all the same."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import ParamSpec

from django.db import transaction
from kombu.exceptions import KombuError
from redis.exceptions import RedisError

log = logging.getLogger(__name__)
_P = ParamSpec("_P")
#: What somebody else mends: told in one line each, since a server that is away brings them by the hundred.
_OUTAGES = (OSError, KombuError, RedisError)


def after_commit(action: Callable[_P, object], *args: _P.args, **kwargs: _P.kwargs) -> None:
    """Call `action` once the transaction has committed; at once outside of one.

    No error of it reaches the caller, who would take a committed change for a failed one and make it twice: it is
    logged. So something else has to mend what was left undone, such as a sweep. This is the only use of
    `transaction.on_commit`: Django's `robust=True` lets errors of what has no `__qualname__`, such as a `partial`,
    escape from its own handler.
    """

    def act() -> None:
        try:
            action(*args, **kwargs)
        except _OUTAGES as error:
            log.error("after a commit %s failed: %s", _name_of(action), error)
        except Exception:
            # The border of the transaction: whatever fails here, the change is made.
            log.exception("after a commit %s failed", _name_of(action))

    transaction.on_commit(act)


def _name_of(action: Callable[..., object]) -> str:
    return getattr(action, "__qualname__", None) or repr(action)
