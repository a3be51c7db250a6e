"""Signed calls over HTTP. Everything that goes wrong on the way becomes one sentence."""

from __future__ import annotations

import base64
import hashlib
import hmac
import time
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, NamedTuple

import httpx

from gantry_cli.config import Profile
from gantry_cli.errors import UNREACHABLE, ApiError, CliError
from gantry_cli.texts import _

TIMEOUT_SECONDS = 60.0
DOCUMENT_TIMEOUT_SECONDS = 10.0
DOCUMENT_PATH = "/json/openapi.json"


class Fetched(NamedTuple):
    """The document as it is now; `text` is empty when it is the one of `etag` still."""

    text: str
    etag: str


def call(profile: Profile, path: str, parameters: Mapping[str, str], *, region: bool = True) -> dict[str, Any]:
    """Sign and send one call; the envelope of its success. Raises ApiError, or CliError when nothing sensible came."""
    profile.require_key()
    sent = dict(parameters) | {"_accesskey": profile.access_key_id, "__preventCache": str(int(time.time() * 1000))}
    if region:
        sent["_regionId"] = profile.region
    if profile.security_token:
        sent["_securityToken"] = profile.security_token
    sent["_signature"] = sign(sent, profile.access_key_secret)
    # As a form: what is long or secret does not end in the logs of proxies.
    response = _send(profile, "POST", f"/json/{path}", data=sent)
    envelope = _envelope(profile, response)
    if not envelope["success"]:
        said = envelope.get("dynamicMessage") or envelope.get("message", "")
        raise ApiError(str(envelope.get("status", "")), str(said), str(envelope.get("requestId", "")))
    return envelope


def fetch_document(profile: Profile, etag: str = "") -> Fetched:
    """The server's OpenAPI document. Raises CliError."""
    headers = {"If-None-Match": etag} if etag else {}
    response = _send(profile, "GET", DOCUMENT_PATH, headers=headers, timeout=DOCUMENT_TIMEOUT_SECONDS)
    if response.status_code == httpx.codes.NOT_MODIFIED:
        return Fetched("", etag)
    if response.status_code != httpx.codes.OK:
        said = {"url": profile.url, "status": response.status_code, "path": DOCUMENT_PATH}
        raise CliError(_("%(url)s answers %(status)s for %(path)s: is it Gantry?") % said, UNREACHABLE)
    return Fetched(response.text, response.headers.get("etag", ""))


@lru_cache(maxsize=1)
def _client() -> httpx.Client:
    """One for the whole command: connections are kept, and certificates are read once."""
    return httpx.Client(headers={"User-Agent": "gantry"})


def _send(profile: Profile, method: str, path: str, **options: Any) -> httpx.Response:
    try:
        return _client().request(method, profile.url + path, **{"timeout": TIMEOUT_SECONDS, **options})
    except httpx.TimeoutException as error:
        raise CliError(_("%(url)s did not answer in time.") % {"url": profile.url}, UNREACHABLE) from error
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        said = {"url": profile.url, "error": error}
        raise CliError(_("%(url)s cannot be reached: %(error)s.") % said, UNREACHABLE) from error


def _envelope(profile: Profile, response: httpx.Response) -> dict[str, Any]:
    try:
        envelope = response.json()
    except ValueError:
        envelope = None
    if isinstance(envelope, dict) and isinstance(envelope.get("success"), bool):
        return envelope
    said = {"url": profile.url, "status": response.status_code}
    raise CliError(_("%(url)s answers %(status)s without an envelope: is it Gantry?") % said, UNREACHABLE)


def sign(parameters: Mapping[str, str], secret: str) -> str:
    """The value of `_signature`."""
    text = "".join(parameters[name] for name in sorted(parameters))
    return base64.b64encode(hmac.new(secret.encode(), text.encode(), hashlib.sha1).digest()).decode()
