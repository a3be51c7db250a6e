"""Who sends a request, and whether policies let them.

A right is such as `mns:SendMessage` on `acs:mns:<region>:<account>:/queues/orders/messages`. Refusals for want of a
right or of a right signature are logged, and told to the account's audit trail, as those of brokers are.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime

from brokercore.policy import Context, mns_resource
from brokercore.policy.table import Changed
from brokercore.protocol.codes import ResponseCode
from brokercore.server.errors import Refusal, StoreUnavailable
from brokercore.server.rights.authentication import Caller, Security, unproven
from brokercore.server.rights.refusals import Refusals
from brokercore.smq.wire.errors import Code, SmqError
from brokercore.smq.wire.requests import Call, Operation
from brokercore.smq.wire.signature import credentials, is_signed, require_fresh, text_to_sign

CHANGES = {
    Operation.CREATE_QUEUE: "queues.queue.create",
    Operation.SET_QUEUE_ATTRIBUTES: "queues.queue.update",
    Operation.DELETE_QUEUE: "queues.queue.delete",
    Operation.CREATE_TOPIC: "queues.topic.create",
    Operation.SET_TOPIC_ATTRIBUTES: "queues.topic.update",
    Operation.DELETE_TOPIC: "queues.topic.delete",
    Operation.SUBSCRIBE: "queues.subscription.create",
    Operation.SET_SUBSCRIPTION_ATTRIBUTES: "queues.subscription.update",
    Operation.UNSUBSCRIBE: "queues.subscription.delete",
}
"""What is written into the account's trail, and what the console calls it there."""

_TOKEN_HEADER = "security-token"  # noqa: S105  the name of a header


@dataclass(frozen=True, slots=True)
class _Client:
    """A client as refusals are told of it; it has no name but its address."""

    host: str
    client_id: str = ""

    @property
    def peer(self) -> tuple[str, int]:
        return self.host, 0

    @property
    def address(self) -> str:
        return self.host


class Rights:
    """The table of AccessKeys, asked for each request."""

    def __init__(self, security: Security, refusals: Refusals) -> None:
        self._security, self._refusals = security, refusals

    @property
    def trouble(self) -> str:
        """Why nobody's rights are known; empty while they are."""
        return self._security.trouble

    def caller(self, method: str, target: str, headers: Mapping[str, str], peer: str) -> Caller:
        """Whose signature a request has. Raises SmqError."""
        key_id, signature = credentials(headers)
        require_fresh(headers, datetime.now(UTC))
        try:
            candidate = self._security.candidate(key_id)
        except StoreUnavailable as error:
            raise SmqError(Code.INTERNAL_ERROR, "The service cannot read the table of AccessKeys.") from error
        if not is_signed(candidate.secret, text_to_sign(method, target, headers), signature) or not candidate.key_id:
            self._note(peer, method, key_id, unproven(candidate, key_id))
            # Which AccessKeys there are is nobody's business: an unknown one is refused as a wrong signature is.
            raise SmqError(
                Code.SIGNATURE_DOES_NOT_MATCH,
                "The signature is not made with the secret of this AccessKey, or there is no such AccessKey.",
            )
        try:
            self._security.accept(candidate, headers.get(_TOKEN_HEADER, ""), peer)
        except Refusal as error:
            self._note(peer, method, key_id, error)
            raise SmqError(Code.ACCESS_DENIED, f"{error}.") from error
        return candidate

    def require(self, caller: Caller, call: Call, peer: str) -> None:
        """Refuse what no policy allows. Raises SmqError."""
        action = call.operation.right
        resource = mns_resource(caller.tenant, call.resource)
        if caller.allows(action, resource, Context(peer)):
            return
        reason = f"{caller.name} has no right {action} on {call.resource}"
        refusal = Refusal(ResponseCode.NO_PERMISSION, reason, kind="permission", resource=resource, action=action)
        self._note(peer, call.operation.value, caller.key_id, refusal)
        raise SmqError(Code.ACCESS_DENIED, f"{reason}.")

    def change(
        self, caller: Caller, call: Call, peer: str, request_id: str, detail: Mapping[str, object] | None = None
    ) -> bytes:
        """What the account's trail is told when the operation changes something; Gantry's own processes tell it
        themselves, with who is behind them.
        """
        if caller.is_system:
            return b""
        row = Changed(
            tenant=caller.tenant,
            name=caller.name,
            key=caller.key_id,
            action=CHANGES[call.operation],
            resource=mns_resource(caller.tenant, call.resource),
            address=peer,
            request_id=request_id,
            at_ms=time.time_ns() // 1_000_000,
            detail=detail or {},
        )
        return row.encode()

    def _note(self, peer: str, request: str, key_id: str, refusal: Refusal) -> None:
        self._refusals.note_call(_Client(peer), request, key_id, refusal)
