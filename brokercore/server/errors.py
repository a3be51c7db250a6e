"""What can go wrong in the broker.

BrokerServerError
├── SettingsError        an environment value makes no sense; the process does not start
├── Refusal              a request is answered with a response code and one sentence
│   ├── StoreFull        SYSTEM_BUSY: the store's cap is reached
│   └── StoreUnavailable SYSTEM_BUSY: Redis is gone, or did not take the write
│       └── StoreNotOurs what is there is not this broker's to write to: it ends
│           ├── NameInUse   another broker of the same name writes to this Redis
│           └── StoreNewer  a newer release has written it
└── RedisError           Redis answered a command with an error
"""

from __future__ import annotations

from brokercore.full_disk import says_full, sentence
from brokercore.protocol.codes import ResponseCode


class BrokerServerError(Exception):
    """Base of the broker's own errors."""


class SettingsError(BrokerServerError):
    """An environment value makes no sense."""


class RedisError(BrokerServerError):
    """Redis answered a command with an error; the text is Redis' own."""


class Refusal(BrokerServerError):  # noqa: N818 (an answer, not a failure)
    """The request is answered with `code` and `remark`.

    Only a refusal for want of rights, of a right signature or of room has a `kind`, one word for logs and figures;
    `resource` is the topic or group that it is about, when the kind alone does not say enough.
    """

    def __init__(self, code: int, remark: str, *, kind: str = "", resource: str = "", action: str = "") -> None:
        super().__init__(remark)
        self.code = code
        self.remark = remark
        self.kind, self.resource = kind, resource
        self.action = action
        """The permission that was missing."""


class StoreFull(Refusal):
    """The store holds as much as it may; nothing acknowledged is thrown away for new messages."""

    def __init__(self, used: int, limit: int) -> None:
        super().__init__(
            ResponseCode.SYSTEM_BUSY,
            f"the message store is full: {used} of {limit} bytes are used (GANTRY_STORE_MAX_BYTES); "
            "messages leave after GANTRY_STORE_RETENTION_HOURS",
        )


def store_trouble(reason: object) -> str:
    """The one sentence for a store that does not take or give messages; a full disk is called that."""
    told = f"{sentence('Redis')} ({reason})" if says_full(str(reason)) else reason
    return f"the message store is not available: {told}"


class StoreUnavailable(Refusal):
    """Redis cannot be reached, or did not take what was written."""

    def __init__(self, reason: str) -> None:
        super().__init__(ResponseCode.SYSTEM_BUSY, store_trouble(reason))
        self.reason = reason


class StoreNotOurs(StoreUnavailable):
    """Redis is there and well, and waiting would not make its store this broker's to write to."""


class NameInUse(StoreNotOurs):
    """Another broker of the same name writes to this Redis."""


class StoreNewer(StoreNotOurs):
    """A newer release has written the store, in a layout that this one does not know."""
