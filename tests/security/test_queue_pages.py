"""Pages and management API of queues under hostile bodies, names and handles."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterator

import pytest
from django.test import Client
from django.urls import reverse

from brokercore.smq.client import QueueClient
from console.accounts.models import Policy
from tests.console.openapi.caller import Caller
from tests.support.cast import Cast
from tests.support.queue_service import QueueServiceProcess

SCRIPT = "<script>alert(1)</script>"
HOSTILE = (
    SCRIPT,
    f"</pre></td>{SCRIPT}",
    '"><img src=x onerror=alert(1)>',
    "' autofocus onfocus='alert(1)",
    "{{ 7|add:7 }}{% debug %}",
    "[" * 30_000,
    '{"a":' * 12_000,
    "1" * 60_000,
    "\u202e\u2066\ufeff\u0085\u2028",
    b64encode(f"\x00{SCRIPT}".encode()).decode(),
    b64encode(b"\xff\xfe\xed\xa0\x80" + SCRIPT.encode()).decode(),
)


@pytest.fixture
def acmes(cast: Cast, queues: QueueServiceProcess) -> Iterator[QueueClient]:
    """A client of acme's queues."""
    with queues.client(cast.acme.uid, QueueClient) as client:
        yield client


@pytest.mark.parametrize("decodes", ["0", "1"])
def test_no_body_becomes_part_of_a_page(cast: Cast, acmes: QueueClient, decodes: str) -> None:
    acmes.create_queue("orders", {"VisibilityTimeout": 1})
    for body in HOSTILE:
        acmes.send("orders", body.encode())
    alice = cast.client("alice")
    peeked = alice.get(reverse("queues.messages", args=["orders"]), {"base64": decodes})
    received = alice.post(
        reverse("queues.receive", args=["orders"]),
        {"most": "16", "wait_s": "0", "base64": decodes if decodes == "1" else ""},
    )
    for response in (peeked, received):
        content = response.content.decode()
        assert response.status_code == 200
        assert "<script>alert" not in content and "<img src=x" not in content and "14{% debug" not in content
        assert "&lt;script&gt;alert(1)" in content


@pytest.mark.parametrize(
    "name",
    ["queues.receive", "queues.send", "queues.message_hide", "queues.message_delete", "queues.delete", "queues.update"],
)
def test_another_site_can_do_nothing_in_a_visitors_name(cast: Cast, acmes: QueueClient, name: str) -> None:
    acmes.create_queue("orders")
    acmes.send("orders", b"one")
    client = Client(enforce_csrf_checks=True)
    client.cookies = cast.client("alice").cookies
    fields = {"most": "1", "wait_s": "0", "body": "two", "handle": "1-x", "seconds": "1", "name": "orders"}
    assert client.post(reverse(name, args=["orders"]), fields).status_code == 403
    assert client.get(reverse("queues.receive", args=["orders"])).status_code == 405
    assert acmes.queue("orders").active == 1


def test_a_handle_holds_in_its_own_queue_only(cast: Cast, acmes: QueueClient, queues: QueueServiceProcess) -> None:
    acmes.create_queue("orders")
    acmes.send("orders", b"one")
    (message,) = acmes.receive("orders")
    charlies = QueueClient(
        queues.address, queues.access_key_id, queues.access_key_secret, account=cast.charlies.tenant.uid, timeout_s=40
    )
    charlies.create_queue("orders")
    charlies.close()
    for name in ("queues.message_hide", "queues.message_delete"):
        given = {"handle": message.handle, "seconds": "600"}
        refused = cast.client("charlie").post(reverse(name, args=["orders"]), given)
        assert "of another queue" in refused.content.decode()
    assert acmes.delete("orders", [message.handle]) == []


def test_no_spelling_of_a_name_reaches_a_queue_that_the_policy_does_not_name(cast: Cast, acmes: QueueClient) -> None:
    for queue in ("orders", "private"):
        acmes.create_queue(queue)
    acmes.send("private", b"secret")
    allowed = [
        "/queues/orders",
        "/queues/orders/*",
        "/queues/orders?*",
        "/queues/%*",
        "/queues/.*",
        "/queues/orders/messages",
    ]
    statement = {"Effect": "Allow", "Action": ["mns:*"], "Resource": [f"acs:mns:*:*:{path}" for path in allowed]}
    document = {"Version": "1", "Statement": [statement]}
    cast.nora.policies.add(Policy.objects.create(tenant=cast.acme, name="orders", document=document))
    nora = Caller.of(cast.nora)
    assert nora.symbol("queue/get", queue="orders") == "SUCCESS"
    for name in (
        "orders/../private",
        "orders/messages/../../private",
        "orders%2F..%2Fprivate",
        "%70rivate",
        "./private",
        "../queues/private",
        "orders?x=/../private",
        "orders#/../private",
        "orders/messages?peekonly=true",
        "orders\r\nx-mns-account: 1",
        "orders\x00",
        "private",
        "PRIVATE/",
    ):
        for operation in ("queue/get", "queue/peek", "queue/receive", "queue/delete", "queue/set", "queue/send"):
            given = {"visibilityTimeout": "1"} if operation == "queue/set" else {}
            given |= {"body": "x"} if operation == "queue/send" else {}
            assert nora.symbol(operation, queue=name, **given) != "SUCCESS", (operation, name)
    state = acmes.queue("private")
    assert (state.active, state.inactive, state.attributes["VisibilityTimeout"]) == (1, 0, 30)
