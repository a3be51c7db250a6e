"""Refusals of the gateway itself: the codes that the public cloud's SDKs know, each with its HTTP status."""

from __future__ import annotations

from console.openapi import codes

#: Status and sentence of each code. The sentences end a request before an operation is asked.
STATUSES: dict[str, int] = {
    "MissingAction": 400,
    "MissingVersion": 400,
    "MissingAccessKeyId": 400,
    "MissingSignature": 400,
    "MissingSignatureNonce": 400,
    "MissingTimestamp": 400,
    "InvalidVersion": 400,
    "InvalidAction.NotFound": 404,
    "InvalidParameter": 400,
    "InvalidSignatureMethod": 400,
    "IncompleteSignature": 400,
    "InvalidTimeStamp.Format": 400,
    "InvalidTimeStamp.Expired": 400,
    "InvalidAccessKeyId.NotFound": 404,
    "InvalidSecurityToken.MismatchWithAccessKey": 400,
    # The SDK of the RPC style turns exactly this pair into "the secret is wrong".
    "SignatureDoesNotMatch": 400,
    "SignatureNonceUsed": 400,
    "Forbidden.RAM": 403,
    "RequestEntityTooLarge": 413,
    "Throttling.User": 429,
    "ServiceUnavailable": 503,
}

#: What the gateway calls a refusal that `/json/…` has a symbol of its own for.
_GATEWAY_NAMES = {codes.PERMISSION: "Forbidden.RAM", "BIZ_THROTTLED": "Throttling.User"}


class GatewayError(Exception):
    """The request is refused with `code` of STATUSES and one sentence."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.status = STATUSES[code]


def of_symbol(symbol: str) -> tuple[str, int]:
    """Code and HTTP status for a symbol of the management API."""
    name = _GATEWAY_NAMES.get(symbol, symbol)
    return (name, STATUSES[name]) if name in STATUSES else (name, codes.CODES[symbol].code)
