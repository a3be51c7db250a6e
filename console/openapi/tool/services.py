"""A call that the console signs for a user: as one from outside, with the secret never leaving the server."""

from __future__ import annotations

import io
import json
import time
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, cast
from urllib.parse import urlencode

from django.conf import settings
from django.core.handlers.wsgi import WSGIRequest

from console.accounts.crypto import decrypt
from console.accounts.models import AccessKey
from console.openapi import views as api
from console.openapi.authentication import REGION, TIMESTAMP
from console.openapi.reference import Reference
from console.openapi.samples import Wanted
from console.openapi.signature import ACCESS_KEY, SIGNATURE, sign
from console.web.http import Request

# Where the caller is, as the middlewares left it; cookies and everything else of the session stay behind.
_CIRCUMSTANCES = ("REMOTE_ADDR", "SERVER_NAME", "SERVER_PORT", "HTTP_HOST")


@dataclass(frozen=True)
class Outcome:
    """What came back: the envelope, and how long the call took."""

    envelope: dict[str, Any]
    milliseconds: float

    @property
    def text(self) -> str:
        """The envelope for people."""
        return json.dumps(self.envelope, indent=2, ensure_ascii=False)


def signed_request(outer: Request, path: str, parameters: Mapping[str, str]) -> Request:
    """The request that a program of the user would have sent from where the page was asked for."""
    body = urlencode(parameters).encode()
    environ = {name: outer.META[name] for name in _CIRCUMSTANCES if name in outer.META} | {
        "REQUEST_METHOD": "POST",
        "PATH_INFO": f"/json/{path}",
        "CONTENT_TYPE": "application/x-www-form-urlencoded",
        "CONTENT_LENGTH": str(len(body)),
        "wsgi.input": io.BytesIO(body),
        "wsgi.url_scheme": outer.scheme,
    }
    request = cast(Request, WSGIRequest(environ))
    request.request_id = str(uuid.uuid4())
    return request


def send(request: Request, reference: Reference, key: AccessKey, values: Mapping[str, str]) -> Outcome:
    """Sign `values` with the user's key, and call the operation through the door that everybody uses."""
    parameters = dict(values) | {ACCESS_KEY: key.access_key_id, TIMESTAMP: str(int(time.time() * 1000))}
    parameters |= common(reference)
    parameters[SIGNATURE] = sign(parameters, decrypt(key.secret_encrypted))
    begin = time.perf_counter()
    response = api.call(signed_request(request, reference.path, parameters), reference.path)
    return Outcome(json.loads(response.content), (time.perf_counter() - begin) * 1000)


def common(reference: Reference) -> dict[str, str]:
    """The region, for operations that want it."""
    return {REGION: settings.REGION} if reference.region_required else {}


def wanted(request: Request, reference: Reference, access_key_id: str, values: Mapping[str, str]) -> Wanted:
    """The same call for a program outside."""
    url = request.build_absolute_uri(f"/json/{reference.path}")
    return Wanted(url, reference.changes, access_key_id, common(reference).get(REGION, ""), values)
