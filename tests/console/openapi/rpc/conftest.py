"""A caller that signs with version 1, without any SDK."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable
from typing import Any

import pytest
from django.test import Client

from console.accounts import services as accounts
from console.accounts.services import IssuedKey
from console.openapi.rpc import authentication
from tests.support.browser import browser
from tests.support.cast import Cast


class Caller:
    """Sends an action to the root of the console; the answer is whatever comes."""

    def __init__(self, key: IssuedKey, client: Client | None = None) -> None:
        self.key, self.client = key, client or browser()

    def parameters(self, action: str, **own: str) -> dict[str, str]:
        """What is sent but for the signature; an empty text leaves a parameter out."""
        common = {
            "Action": action,
            "Version": "2019-02-14",
            "Format": "JSON",
            "AccessKeyId": self.key.access_key_id,
            "SignatureMethod": "HMAC-SHA1",
            "SignatureVersion": "1.0",
            "SignatureNonce": str(uuid.uuid4()),
            "Timestamp": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
            "SecurityToken": self.key.security_token,
        }
        return {name: value for name, value in (common | own).items() if value}

    def __call__(self, action: str, path: str = "/", **own: str) -> Any:
        return self.send(self.parameters(action, **own), path)

    def send(self, parameters: dict[str, str], path: str = "/") -> Any:
        """Sign and send."""
        text = authentication.text_to_sign("GET", parameters)
        signature = authentication.v1(text, self.key.access_key_secret)
        return self.client.get(path, parameters | {"Signature": signature})


@pytest.fixture
def caller(cast: Cast) -> Callable[[str], Caller]:
    """Makes the caller of somebody of the cast."""

    def make(name: str) -> Caller:
        return Caller(accounts.create_access_key(actor=cast.actor(name), user=cast.users[name]))

    return make
