"""One database: fill it, time the lists, the decision and the signatures, count queries; JSON on standard output."""

from __future__ import annotations

import functools
import json
import sys
import time
import uuid
from collections.abc import Callable
from typing import Any

import django

django.setup()

from django.db import connection  # noqa: E402
from django.test import Client, RequestFactory  # noqa: E402
from django.test.utils import CaptureQueriesContext  # noqa: E402
from django.urls import reverse  # noqa: E402

from console.accounts.actor import Actor  # noqa: E402
from console.accounts.crypto import decrypt  # noqa: E402
from console.accounts.models import AccessKey, User  # noqa: E402
from console.alarms import rounds  # noqa: E402
from console.openapi.authentication import (  # noqa: E402
    SIGNATURE,
    authenticate,
    sign,
    verify,
)
from console.openapi.operations import OPERATIONS  # noqa: E402
from console.openapi.rpc import authentication  # noqa: E402
from console.openapi.rpc.authentication import authenticate as authenticate_rpc  # noqa: E402
from tests.bench import console_data  # noqa: E402
from tests.bench.console_data import LARGE, MIDDLE, SECRET, SMALL, World  # noqa: E402

WARM_UP, ROUNDS, DECISIONS = 5, 60, 2000
MOST_MS = 5_000
API_MS, DECISION_MS, SIGNATURE_MS, PAGE_MS, ROUND_MS = 50, 0.2, 1, 100, 1000
HOST = "127.0.0.1"
PAGES: dict[str, Callable[[str], str]] = {
    "instances": lambda instance: reverse("instances.list"),
    "topics": lambda instance: reverse("topics.list", args=[instance]),
    "groups": lambda instance: reverse("groups.list", args=[instance]),
    "users": lambda instance: reverse("accounts.users"),
    "user groups": lambda instance: reverse("accounts.groups"),
    "roles": lambda instance: reverse("accounts.roles"),
    "policies": lambda instance: reverse("accounts.policies"),
    "grants": lambda instance: reverse("grants.index"),
    "audit": lambda instance: reverse("audit.list"),
}
#: Pages on which a RAM user with many policies sees a narrowed list.
FOR_MEMBERS = ("topics", "groups")
CALLS = {"topic/listInPage": {"currentPage": "2", "pageSize": "100"}, "group/list": {}}
Rows = dict[str, dict[str, Any]]


def main() -> None:
    """Print the rows as JSON."""
    began = time.perf_counter()
    world = console_data.build()
    print(f"{connection.vendor}: filled in {time.perf_counter() - began:.0f} s", file=sys.stderr, flush=True)
    rows: Rows = {}
    rows |= _lists(world)
    rows |= _decision(world) | _signatures(world) | _query_counts(world) | _alarms(world)
    json.dump(rows, sys.stdout)


def _lists(world: World) -> Rows:
    """Lists through Django's request handler with all middleware, in this process."""
    admin, member = world.admins[LARGE], world.members[LARGE]
    instance = world.instances[LARGE].instance_id
    rows: Rows = {}
    for path, own in CALLS.items():
        for who, user in (("account", admin), ("RAM user, 50 policies", member)):
            rows[f"{path}, {who}"] = _timed(functools.partial(_call, path, own, user, instance), API_MS)
    middle = world.instances[MIDDLE].instance_id
    rows["group/list of 200"] = _timed(functools.partial(_call, "group/list", {}, world.admins[MIDDLE], middle), API_MS)
    for who, user, names in (("", admin, PAGES), (", RAM user, 50 policies", member, FOR_MEMBERS)):
        browser = _browser(user)
        for name in names:
            visit = functools.partial(_page, browser, PAGES[name](instance))
            rows[f"page of {name}{who}"] = _timed(visit, PAGE_MS)
    return rows


def _alarms(world: World) -> Rows:
    """A round of evaluation in which nothing begins and nothing ends: each tenth group is behind, and fires."""
    console_data.add_alarm_rules(world)
    console_data.add_samples()
    rounds.run()
    rows = {f"a round of {console_data.RULES:,} alarm rules": _timed(_round, ROUND_MS, console_data.add_samples)}
    console_data.add_rules_of_accounts(world)
    rounds.run()
    timed = _timed(_round, ROUND_MS, console_data.report_jobs)
    return rows | {f"a round of {console_data.RULES:,} on accounts and jobs": timed}


def _round() -> None:
    outcome = rounds.run()
    if outcome.unknown or outcome.fired or outcome.rules != console_data.RULES:
        raise AssertionError(outcome)


def _timed(work: Callable[[], None], limit: float, before: Callable[[], None] | None = None) -> dict[str, Any]:
    """Milliseconds of the clock, and of this process's processor time, which other work on the machine leaves alone.

    `before` runs before each, untimed: what a slow machine needs anew, since it is recent for a minute only.
    """
    times: list[float] = []
    busy: list[float] = []
    for _ in range(WARM_UP + ROUNDS):
        if before:
            before()
        began, began_busy = time.perf_counter(), time.process_time()
        work()
        times.append((time.perf_counter() - began) * 1000)
        busy.append((time.process_time() - began_busy) * 1000)
        if len(times) > WARM_UP and sum(busy) > MOST_MS:
            break  # far over the limit already
    return {"times": sorted(times[WARM_UP:]), "busy": sorted(busy[WARM_UP:]), "limit": limit}


def _call(path: str, own: dict[str, str], user: User, instance: str) -> None:
    answer = Client(headers={"host": HOST}).get(f"/json/{path}", _signed(user, {"instanceId": instance, **own}))
    if b'"success":true' not in answer.content.replace(b" ", b""):
        raise AssertionError(answer.content[:500])


def _page(browser: Client, address: str) -> None:
    answer = browser.get(address)
    if answer.status_code != 200:
        raise AssertionError(f"{address}: {answer.status_code}")


def _signed(user: User, own: dict[str, str]) -> dict[str, str]:
    parameters = {
        "_accesskey": f"LTAI{user.uid}",
        "__preventCache": str(int(time.time() * 1000)),
        "_regionId": "mq-private",
        **own,
    }
    return parameters | {SIGNATURE: sign(parameters, SECRET)}


def _browser(user: User) -> Client:
    browser = Client(headers={"host": HOST})
    browser.force_login(user, "allauth.account.auth_backends.AuthenticationBackend")
    return browser


def _decision(world: World) -> Rows:
    """One decision of a RAM user with 50 policies: of the console's actor, on changing topics, allowed and denied."""
    member = User.objects.select_related("tenant").get(pk=world.members[LARGE].pk)
    instance = world.instances[LARGE]
    actor = Actor(member)
    rows: Rows = {}
    for action, allowed in (("mq:QueryTopic", True), ("mq:UpdateTopic", False)):
        times = []
        for number in range(DECISIONS):
            resource = f"acs:mq:*:*:{instance.instance_id}%topic-{number:05}"
            began = time.perf_counter()
            decision = actor.decide(action, resource, owner=instance.tenant)
            times.append((time.perf_counter() - began) * 1000)
            if decision.allowed is not allowed:
                raise AssertionError(decision.reason)
        verdict = "allowed by the last" if allowed else "denied by all"
        rows[f"decision, 50 policies, {verdict}"] = {"times": sorted(times), "limit": DECISION_MS}
    return rows


def _signatures(world: World) -> Rows:
    """The check of a signature, and all from the request to the actor: find the key, decrypt its secret, note the use.

    The limit is that of the check; the rest asks the database and Redis.
    """
    admin = world.admins[LARGE]
    factory = RequestFactory()

    def plain() -> float:
        parameters = _signed(admin, {"topic": "orders"})
        request: Any = factory.get("/json/topic/get", parameters)
        request.request_id = "bench"
        began = time.perf_counter()
        authenticate(request, parameters, OPERATIONS["topic/get"])
        return (time.perf_counter() - began) * 1000

    def rpc() -> float:
        parameters = {
            "Action": "OnsTopicList", "Version": "2019-02-14", "Format": "JSON", "AccessKeyId": f"LTAI{admin.uid}",
            "SignatureNonce": str(uuid.uuid4()), "Timestamp": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        }  # fmt: skip
        signature = authentication.v1(authentication.text_to_sign("GET", parameters), SECRET)
        request: Any = factory.get("/", parameters | {"Signature": signature})
        request.request_id = "bench"
        began = time.perf_counter()
        authenticate_rpc(request, authentication.read(request))
        return (time.perf_counter() - began) * 1000

    stored = AccessKey.objects.get(access_key_id=f"LTAI{admin.uid}").secret_encrypted

    def check() -> float:
        parameters = _signed(admin, {"topic": "orders"})
        began = time.perf_counter()
        if not verify(parameters, decrypt(stored)):
            raise AssertionError("the signature is wrong")
        return (time.perf_counter() - began) * 1000

    rows: Rows = {}
    for name, work, limit in (
        ("signature check", check, SIGNATURE_MS),
        ("/json, request to actor", plain, None),
        ("RPC, request to actor, with nonce", rpc, None),
    ):
        times = [work() for _ in range(WARM_UP + 300)][WARM_UP:]
        rows[name] = {"times": sorted(times), "limit": limit}
    return rows


def _query_counts(world: World) -> Rows:
    """The queries of each page and call for an account with ten rows, and for one with two hundred."""
    rows: Rows = {}
    for name, address in PAGES.items():
        for who, users in (("", world.admins), (", RAM user", world.members)):
            if who and name not in FOR_MEMBERS:
                continue
            counts = [_queries_of_page(users[n], address(world.instances[n].instance_id)) for n in (SMALL, MIDDLE)]
            rows[f"page of {name}{who} (queries)"] = {"queries": counts}
    for path in CALLS:
        counts = [_queries_of_call(path, world.admins[n], world.instances[n].instance_id) for n in (SMALL, MIDDLE)]
        rows[f"{path} (queries)"] = {"queries": counts}
    return rows


def _queries_of_page(user: User, address: str) -> int:
    browser = _browser(user)
    browser.get(address)
    with CaptureQueriesContext(connection) as captured:
        browser.get(address)
    return len(captured)


def _queries_of_call(path: str, user: User, instance: str) -> int:
    for _ in range(2):
        parameters = _signed(user, {"instanceId": instance})
        with CaptureQueriesContext(connection) as captured:
            Client(headers={"host": HOST}).get(f"/json/{path}", parameters)
    return len(captured)


if __name__ == "__main__":
    main()
