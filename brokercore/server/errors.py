"""What can go wrong in the broker.

BrokerServerError
├── SettingsError        an environment value makes no sense; the process does not start
├── Refusal              a request is answered with a response code and one sentence
│   ├── StoreFull        SYSTEM_BUSY: the store's cap is reached
│   └── StoreUnavailable SYSTEM_BUSY: Redis is gone, or did not take the write
│       └── NameInUse    another broker of the same name writes to this Redis
└── RedisError           Redis answered a command with an error
"""

from __future__ import annotations

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


class StoreUnavailable(Refusal):
    """Redis cannot be reached, or did not take what was written."""

    def __init__(self, reason: str) -> None:
        super().__init__(ResponseCode.SYSTEM_BUSY, f"the message store is not available: {reason}")
        self.reason = reason


class NameInUse(StoreUnavailable):
    """Another broker of the same name writes to this Redis."""
