"""Assistants: the official SDK's client at a live server, and plain requests for what a client would not send."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any, TypeVar

import httpx2
import pytest
from django.core.cache import cache as django_cache
from django.http import HttpResponse
from mcp import Client, types
from mcp.client.streamable_http import streamable_http_client

from console.accounts import services as accounts
from console.accounts.services import IssuedKey
from tests.support.browser import browser
from tests.support.cast import Cast

T = TypeVar("T")
BEARER, BASIC = "Bearer", "Basic"


def authorization(key: IssuedKey, scheme: str = BEARER) -> dict[str, str]:
    """The headers with which a client signs in."""
    pair = f"{key.access_key_id}:{key.access_key_secret}"
    token = {"x-acs-security-token": key.security_token} if key.security_token else {}
    given = base64.b64encode(pair.encode()).decode() if scheme == BASIC else pair
    return {"Authorization": f"{scheme} {given}"} | token


def first_of(error: BaseException) -> BaseException:
    """What went wrong in a group of tasks."""
    return first_of(error.exceptions[0]) if isinstance(error, BaseExceptionGroup) else error


@dataclass
class Assistant:
    """The official client, which connects anew for each thing it is asked to do."""

    url: str
    headers: dict[str, str]

    def do(self, what: Callable[[Client], Coroutine[Any, Any, T]], mode: str = "auto") -> T:
        """The outcome of `what` with a connected client."""

        async def connected() -> T:
            async with httpx2.AsyncClient(headers=self.headers, timeout=30) as http:
                transport = streamable_http_client(self.url, http_client=http)
                async with Client(transport, mode=mode) as client:
                    return await what(client)

        try:
            return asyncio.run(connected())
        except BaseExceptionGroup as group:
            raise first_of(group) from None

    def tools(self) -> dict[str, types.Tool]:
        """What it is shown, by name."""
        return {tool.name: tool for tool in self.do(lambda client: client.list_tools()).tools}

    def call(self, name: str, **arguments: Any) -> types.CallToolResult:
        """What a call of a tool is answered."""
        return self.do(lambda client: client.call_tool(name, arguments))

    def data(self, name: str, **arguments: Any) -> Any:
        """`data` of a call that succeeds."""
        result = self.call(name, **arguments)
        assert not result.is_error, result
        return result.structured_content["data"]

    def symbol(self, name: str, **arguments: Any) -> str:
        """The symbol of a call that does not."""
        result = self.call(name, **arguments)
        assert result.is_error, result
        return str(result.structured_content["status"])


@pytest.fixture
def keys(cast: Cast) -> Callable[[str], IssuedKey]:
    """Makes a key of somebody of the cast."""
    return lambda name: accounts.create_access_key(actor=cast.actor(name), user=cast.users[name])


@pytest.fixture
def assistant(cast: Cast, live_server: Any, keys: Callable[[str], IssuedKey]) -> Callable[[str], Assistant]:
    """Makes the assistant of somebody of the cast."""
    django_cache.clear()
    return lambda name: Assistant(f"{live_server.url}/mcp", authorization(keys(name)))


def post(message: object, headers: dict[str, str], **more: Any) -> HttpResponse:
    """The answer to a message, as bytes or as what JSON is made from."""
    body = message if isinstance(message, bytes) else json.dumps(message).encode()
    fields = {"content_type": "application/json", "headers": headers} | more
    return browser().post("/mcp", body, **fields)  # type: ignore[return-value]


def request(method: str, **params: Any) -> dict[str, Any]:
    """A request of JSON-RPC."""
    return {"jsonrpc": "2.0", "id": 7, "method": method, "params": params}


PING = request("ping")
