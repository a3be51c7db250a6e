"""Thousands of requests that the OpenAPI document allows and that it does not: none may end in a 500.

Schemathesis makes them from the document, in the order of a fixed seed. Signed by the account's administrator they
reach the services, a real broker and a real queue service; every ninth is garbled, so that the door itself is tried
too.
"""

from __future__ import annotations

import itertools
import time
from collections import Counter
from typing import Any

import jsonschema_rs
import pytest
import schemathesis
from django.conf import settings as django_settings
from django.core.cache import cache as django_cache
from django.test import Client
from hypothesis import HealthCheck, Phase, given, seed, settings
from schemathesis import GenerationMode

from console.accounts import services as accounts
from console.accounts.models import Tenant
from console.openapi.authentication import SIGNATURE, sign
from console.openapi.document import document
from console.openapi.envelope import CODES, SYSTEM
from console.openapi.operations import OPERATIONS
from tests.support.cast import Cast, make_group, make_topic
from tests.support.queue_service import QueueServiceProcess

REQUESTS = 5_000
METHODS = ("get", "post")
PER_OPERATION = -(-REQUESTS // (len(METHODS) * len(OPERATIONS)))
"""Sets of parameters that are drawn for an operation; rounded up. Each is sent by GET and by POST."""
SEED = 20_190_214
GARBLED_EVERY = 9

pytestmark = [pytest.mark.django_db, pytest.mark.slow]


class Tried:
    """What was sent and how it ended."""

    def __init__(self, cast: Cast, settings: Any) -> None:
        # The limits of calls would answer most of the requests; they have tests of their own.
        settings.API_STATUS_PER_MINUTE = settings.API_QUERIES_PER_MINUTE = settings.API_FAILURES_PER_MINUTE = 0
        django_cache.clear()
        Tenant.objects.filter(name="acme").update(may_adopt=True)
        self._key = accounts.create_access_key(actor=cast.actor("alice"), user=cast.alice)
        self._client = Client(raise_request_exception=False)
        self._known = {
            "instanceId": cast.instance.instance_id, "topic": make_topic(cast.alice, cast.instance).name,
            "groupId": make_group(cast.alice, cast.instance).group_id,
        }  # fmt: skip
        self._numbers = itertools.count()
        self.outcomes: Counter[str] = Counter()
        self.bad: list[str] = []

    @property
    def count(self) -> int:
        return sum(self.outcomes.values())

    def send(self, path: str, method: str, own: dict[str, Any]) -> dict[str, Any] | None:
        """The envelope; None for what never reached the API."""
        number = next(self._numbers)
        parameters = self._signed(path, {name: _text(value) for name, value in own.items()}, number)
        response = getattr(self._client, method)(f"/json/{path}", parameters)
        envelope = response.json() if response.status_code in (200, 413) else {"status": f"HTTP {response.status_code}"}
        self.outcomes[envelope["status"]] += 1
        if response.status_code not in (200, 413) or envelope["status"] == SYSTEM:
            self.bad.append(f"{method} {path} {own!r}: {envelope['status']}")
        return envelope if response.status_code == 200 else None

    def _signed(self, path: str, own: dict[str, str], number: int) -> dict[str, str]:
        """Half of the requests name what exists, so that they get past the look-up."""
        names = OPERATIONS[path].parameters.model_fields
        if number // len(METHODS) % 2:
            for name, value in self._known.items():
                own |= {n: value for n in names if n.lower() == name.lower()}
        parameters = own | {
            "_accesskey": self._key.access_key_id, "__preventCache": str(int(time.time() * 1000)),
            "_regionId": django_settings.REGION,
        }  # fmt: skip
        parameters[SIGNATURE] = sign(parameters, self._key.access_key_secret)
        if number % GARBLED_EVERY == 0:
            _garble(parameters, number // GARBLED_EVERY)
        return parameters


def _garble(parameters: dict[str, str], number: int) -> None:
    """Each common parameter in turn is missing, empty, or nonsense."""
    name = ("_accesskey", "__preventCache", "_regionId", SIGNATURE)[number % 4]
    nonsense = ("", "\x00", "é🛩️\ud83d".encode(errors="replace").decode(), "9" * 400, "-1", "' OR 1=1 --")
    parameters[name] = nonsense[number // 4 % len(nonsense)]
    if number % 3 == 0:
        del parameters[name]


def _text(value: Any) -> str:
    text = str(value).lower() if isinstance(value, bool) else str(value)
    return text.encode("utf-8", "replace").decode()


@pytest.mark.timeout(900)  # about a minute of an idle machine, which a busy one shares out
def test_no_request_of_5000_ends_in_a_500(cast: Cast, queues: QueueServiceProcess, settings: Any) -> None:
    tried = Tried(cast, settings)
    built = document()
    schema = schemathesis.openapi.from_dict(built)
    schema.config.generation.update(modes=[GenerationMode.POSITIVE, GenerationMode.NEGATIVE])
    for path in sorted(OPERATIONS):
        _try(tried, schema, path, _validator(built, path))
    reached = sum(n for symbol, n in tried.outcomes.items() if not symbol.startswith("AUTH_"))
    print(f"{tried.count} requests, {reached} past the signature: {dict(tried.outcomes.most_common())}")
    assert tried.bad == []
    assert tried.count >= REQUESTS and reached > REQUESTS / 2
    assert set(tried.outcomes) <= {"SUCCESS", *CODES} and tried.outcomes["SUCCESS"] > 100


def _validator(built: dict[str, Any], path: str) -> jsonschema_rs.Draft202012Validator:
    content = built["paths"][f"/json/{path}"]["post"]["responses"]["200"]["content"]["application/json"]
    return jsonschema_rs.Draft202012Validator(content["schema"] | {"components": built["components"]})


def _try(tried: Tried, schema: Any, path: str, validator: jsonschema_rs.Draft202012Validator) -> None:
    strategy = schema[f"/json/{path}"]["GET"].as_strategy()

    @seed(SEED)
    @settings(
        max_examples=PER_OPERATION, database=None, deadline=None, phases=[Phase.generate],
        suppress_health_check=list(HealthCheck), derandomize=False,
    )  # fmt: skip
    @given(case=strategy)
    def one(case: Any) -> None:
        own = {name: value for name, value in dict(case.query or {}).items() if not name.startswith("_")}
        for method in METHODS:
            envelope = tried.send(path, method, own)
            if envelope is not None:
                error = next(iter(validator.iter_errors(envelope)), None)
                assert error is None, f"{method} {path} {own!r}: {error and error.message}: {envelope}"

    started = tried.count
    one()
    # Few parameters have few values: what schemathesis does not find any more is sent without any.
    while tried.count - started < PER_OPERATION * len(METHODS):
        for method in METHODS:
            tried.send(path, method, {})
