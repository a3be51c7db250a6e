"""The two signatures of the public cloud: RPC version 1 in the parameters, and ACS3-HMAC-SHA256 in headers.

Both SDK generations are in use: `aliyun-python-sdk-core` signs with the first, `alibabacloud-tea-openapi` with the
second (or with the first, when told `signature_algorithm='v2'`).
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import re
from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import quote

from console.openapi.requests import merged
from console.openapi.rpc.errors import GatewayError
from console.web.http import Request

ACS3 = "ACS3-HMAC-SHA256"
#: Parameters that belong to the call itself, not to the operation.
COMMON = frozenset(
    {
        "Action", "Version", "Format", "AccessKeyId", "Signature", "SignatureMethod", "SignatureVersion",
        "SignatureType", "SignatureNonce", "Timestamp", "SecurityToken", "RegionId",
    }
)  # fmt: skip
_AUTHORIZATION = re.compile(r"\S+\s+Credential=([^,\s]+),\s*SignedHeaders=([^,\s]+),\s*Signature=([0-9a-fA-F]+)\s*")


@dataclass(frozen=True)
class Signed:
    """A request as its signature covers it; nothing in it is to be believed before `matches`."""

    access_key_id: str
    security_token: str
    timestamp: str
    nonce: str
    action: str
    version: str
    xml: bool
    """The answer is wanted as XML."""
    parameters: Mapping[str, str]
    """Those of the operation."""
    signature: str
    text: str
    """What is signed."""

    def matches(self, secret: str) -> bool:
        """Compare the signature in constant time."""
        expected = _acs3(self.text, secret) if self.text.startswith(ACS3) else v1(self.text, secret)
        return hmac.compare_digest(expected.encode(), self.signature.encode())


def read(request: Request) -> Signed:
    """Take a request apart. Raises GatewayError when something that every request needs is missing, and Refused."""
    parameters = merged(request)
    authorization = request.headers.get("Authorization", "")
    return _read_acs3(request, parameters, authorization) if authorization else _read_v1(request, parameters)


def v1(text: str, secret: str) -> str:
    """Signature of version 1, in Base64."""
    return base64.b64encode(hmac.new(f"{secret}&".encode(), text.encode(), hashlib.sha1).digest()).decode()


def text_to_sign(method: str, parameters: Mapping[str, str]) -> str:
    """What version 1 signs: method, `/`, and all parameters but the signature, sorted and encoded, encoded again."""
    return f"{method}&%2F&{_encoded(_query({n: v for n, v in parameters.items() if n != 'Signature'}))}"


def _read_v1(request: Request, parameters: Mapping[str, str]) -> Signed:
    for name, code in (
        ("Action", "MissingAction"),
        ("Version", "MissingVersion"),
        ("AccessKeyId", "MissingAccessKeyId"),
        ("Signature", "MissingSignature"),
        ("SignatureNonce", "MissingSignatureNonce"),
        ("Timestamp", "MissingTimestamp"),
    ):
        if not parameters.get(name):
            raise GatewayError(code, f"The parameter {name} is missing; every request needs it.")
    method = parameters.get("SignatureMethod", "HMAC-SHA1")
    if method.upper() != "HMAC-SHA1":
        raise GatewayError("InvalidSignatureMethod", f"SignatureMethod is {method}; allowed is HMAC-SHA1.")
    return Signed(
        access_key_id=parameters["AccessKeyId"],
        security_token=parameters.get("SecurityToken", ""),
        timestamp=parameters["Timestamp"],
        nonce=parameters["SignatureNonce"],
        action=parameters["Action"],
        version=parameters["Version"],
        xml=parameters.get("Format", "XML").upper() != "JSON",
        parameters={name: value for name, value in parameters.items() if name not in COMMON},
        signature=parameters["Signature"],
        text=text_to_sign(str(request.method), parameters),
    )


def _read_acs3(request: Request, parameters: Mapping[str, str], authorization: str) -> Signed:
    if not authorization.startswith(f"{ACS3} "):
        scheme = authorization.split(" ", 1)[0]
        raise GatewayError("InvalidSignatureMethod", f"The request is signed with {scheme[:40]}; allowed is {ACS3}.")
    parts = _AUTHORIZATION.fullmatch(authorization)
    if parts is None:
        raise GatewayError("IncompleteSignature", "Authorization needs Credential, SignedHeaders and Signature.")
    for name, code in (
        ("x-acs-action", "MissingAction"),
        ("x-acs-version", "MissingVersion"),
        ("x-acs-date", "MissingTimestamp"),
        ("x-acs-signature-nonce", "MissingSignatureNonce"),
    ):
        if not request.headers.get(name):
            raise GatewayError(code, f"The header {name} is missing; every request needs it.")
    signed_headers = parts[2].lower().split(";")
    _refuse_unsigned(request, signed_headers)
    return Signed(
        access_key_id=parts[1],
        security_token=request.headers.get("x-acs-security-token", ""),
        timestamp=request.headers["x-acs-date"],
        nonce=request.headers["x-acs-signature-nonce"],
        action=request.headers["x-acs-action"],
        version=request.headers["x-acs-version"],
        xml="xml" in request.headers.get("Accept", "").lower() or parameters.get("Format", "").upper() == "XML",
        parameters={name: value for name, value in parameters.items() if name not in COMMON},
        signature=parts[3].lower(),
        text=_acs3_text(request, signed_headers),
    )


def _refuse_unsigned(request: Request, signed_headers: list[str]) -> None:
    """What decides the call must be signed: else a recorded request could be sent again with another action."""
    for name in request.headers:
        lower = name.lower()
        if (lower == "host" or lower.startswith("x-acs-")) and lower not in signed_headers:
            raise GatewayError("IncompleteSignature", f"The header {lower} is sent but not in SignedHeaders.")


def _acs3_text(request: Request, signed_headers: list[str]) -> str:
    payload = hashlib.sha256(request.body).hexdigest()
    headers = "".join(f"{name}:{request.headers.get(name, '').strip()}\n" for name in signed_headers)
    query = _query({name: str(values[0]) for name, values in request.GET.lists()})
    canonical = "\n".join([str(request.method), request.path, query, headers, ";".join(signed_headers), payload])
    return f"{ACS3}\n{hashlib.sha256(canonical.encode()).hexdigest()}"


def _acs3(text: str, secret: str) -> str:
    return hmac.new(secret.encode(), text.encode(), hashlib.sha256).hexdigest()


def _query(parameters: Mapping[str, str]) -> str:
    return "&".join(f"{_encoded(name)}={_encoded(parameters[name])}" for name in sorted(parameters))


def _encoded(text: str) -> str:
    return quote(text, safe="~")
