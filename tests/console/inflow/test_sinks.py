"""Inflow tasks whose sinks are queues and endpoints: the wizard, what they lead to, rights, and what is refused."""

from __future__ import annotations

from typing import Any

import pytest
from django.core.exceptions import PermissionDenied
from django.urls import reverse

from analytics.inflow.event_log import EventLog
from brokercore.smq.client import QueueClient
from console.inflow import queries, services
from console.instances.models import Cluster
from console.pipelines import lifecycle, starts
from console.pipelines import services as pipelines
from console.pipelines.models import Pipeline
from console.web.errors import Refused
from tests.console.inflow.conftest import SOURCE, document, reloaded
from tests.console.inflow.test_services import allow, claimed
from tests.console.inflow.test_views import page, sent
from tests.support.cast import Cast
from tests.support.queue_service import QueueServiceProcess

pytestmark = pytest.mark.process
QUEUE: dict[str, Any] = {"kind": "queue", "queue": "orders"}
HTTP: dict[str, Any] = {"kind": "http", "url": "https://hooks.example.com/in?key=7"}
OF_HTTP = {
    "sink_kind": "http", "sink_url": "https://hooks.example.com/in?key=7", "sink_mode": "binary", "topic": "",
    "sink_headers": "Authorization: Bearer ${secret_values.hooks}\nx-tenant: 7\n", "sink_timeout": "5",
    "sink_ordered": "on",
}  # fmt: skip


@pytest.fixture
def acmes(cast: Cast, queues: QueueServiceProcess) -> Any:
    """Acme's queues, of which there are orders and dead."""
    with queues.client(cast.acme.uid, QueueClient) as client:
        for name in ("orders", "dead"):
            client.create_queue(name)
        yield client


@pytest.fixture
def secret(cast: Cast) -> None:
    pipelines.set_secret(actor=cast.actor("alice"), name="hooks", value="hunter22")


def refused(cast: Cast, **parts: Any) -> Refused:
    with pytest.raises(Refused) as found:
        services.create(actor=cast.actor("alice"), document=document(cast, **parts))
    return found.value


def test_the_wizard_makes_a_task_into_a_queue(cast: Cast, log: EventLog, acmes: QueueClient) -> None:
    changes = {
        "sink_kind": "queue", "sink_queue": "orders", "sink_base64": "on", "sink_delay": "0", "topic": "",
        "dead_kind": "queue", "dead_queue": "dead",
    }  # fmt: skip
    response = sent(cast, "inflow.create", **changes)
    assert response.status_code == 302, response.context["form"].errors
    told = services.document_of(reloaded(cast))
    assert told["sink"] == QUEUE | {"base64": True, "delaySeconds": 0, "body": {"method": "complete_data"}}
    assert told["deadLetterQueue"] == "dead" and "deadLetterTopic" not in told
    given = starts.spec_of(claimed(reloaded(cast))).given["messages"]
    assert given["account"] == given["deadAccount"] == cast.acme.uid
    assert given["endpoint"] == given["deadEndpoint"] and given["accessKeyId"] == given["deadAccessId"]
    assert "queue orders" in page(cast, "inflow.list")
    shown = page(cast, "inflow.detail", "orders-to-topic")
    assert "Simple Message Queue (SMQ): queue orders" in shown and "queue dead" in shown


def test_the_wizard_makes_a_task_to_an_endpoint_and_shows_it_again(
    cast: Cast, log: EventLog, topics: None, secret: None
) -> None:
    response = sent(cast, "inflow.create", **OF_HTTP, dead_instance=cast.instance.instance_id)
    assert response.status_code == 302, response.context["form"].errors
    before = reloaded(cast)
    told = services.document_of(before)
    assert told["sink"] == HTTP | {
        "mode": "binary", "timeout": 5, "ordered": True,
        "headers": {"Authorization": "Bearer ${secret_values.hooks}", "x-tenant": "7"},
        "body": {"method": "complete_data"},
    }  # fmt: skip
    assert (told["deadLetterTopic"], told["deadLetterInstance"]) == ("order_changes_dead", cast.instance.instance_id)
    spec = starts.spec_of(claimed(before))
    assert spec.given["messages"]["functionKey"] == starts.function_key(cast.acme)
    assert spec.given["messages"]["deadAccessKey"] and spec.secrets == {"hooks": "hunter22"}
    assert "hunter22" not in starts.without(starts.hidden(spec), "a reason with hunter22")

    shown = cast.client("alice").get(reverse("inflow.update", args=["orders-to-topic"])).context["form"]
    data = {name: "" if value is None else str(value) for name, value in shown.initial.items()}
    response = cast.client("alice").post(reverse("inflow.update", args=["orders-to-topic"]), data)
    assert response.status_code == 302, response.context["form"].errors
    assert reloaded(cast).draft == before.draft
    html = page(cast, "inflow.list")
    assert "https://hooks.example.com/in" in html and "key=7" not in html


@pytest.mark.parametrize(
    ("changes", "place"),
    [
        ({"sink_kind": "queue", "sink_queue": ""}, "sink.sink_queue"),
        ({"sink_kind": "queue", "sink_queue": "a_b"}, "sink.sink_queue"),
        ({"sink_kind": "queue", "sink_queue": "q", "sink_priority": "17"}, "sink.sink_priority"),
        ({"sink_kind": "http", "sink_url": ""}, "sink.sink_url"),
        ({"sink_kind": "http", "sink_url": "ftp://a"}, "sink.sink_url"),
        (OF_HTTP | {"sink_headers": "no header"}, "sink.sink_headers"),
        (OF_HTTP | {"sink_headers": "host: a"}, "sink.sink_headers"),
        (OF_HTTP | {"sink_batch": "2"}, "sink.sink_batch"),
        (OF_HTTP | {"dead_kind": "queue", "dead_queue": ""}, "properties.dead_queue"),
        (OF_HTTP | {"dead_kind": "topic", "dead_letters": ""}, "properties.dead_letters"),
    ],
)
def test_what_is_wrong_stands_at_its_field(
    cast: Cast, log: EventLog, topics: None, changes: dict[str, str], place: str
) -> None:
    response = sent(cast, "inflow.create", **changes)
    assert response.status_code == 422
    form = response.context["form"]
    step, _, field = place.partition(".")
    assert field in form.errors and form.step == step


def test_what_was_typed_for_another_kind_does_not_matter(cast: Cast, log: EventLog, topics: None) -> None:
    response = sent(cast, "inflow.create", sink_priority="many", sink_batch="x", sink_url="ftp://a")
    assert response.status_code == 302, response.context["form"].errors
    assert services.document_of(reloaded(cast))["sink"]["topic"] == "order_changes"


def test_the_journey_shows_the_request_as_it_would_go_out(cast: Cast, log: EventLog, secret: None) -> None:
    html = sent(cast, "inflow.journey", **OF_HTTP).content.decode()
    assert "Request</h3>" in html and "https://hooks.example.com/in" in html
    for shown in (
        "<code>ce-id</code>: e2", "<code>ce-type</code>: dts:Change", "<code>content-type</code>: application/json",
        "<code>authorization</code>: Bearer ${secret_values.hooks}", "<code>x-gantry-signature</code>: sha256=",
    ):  # fmt: skip
        assert shown in html, shown
    assert "hunter22" not in html
    html = sent(cast, "inflow.journey", **OF_HTTP | {"sink_mode": "structured", "sink_batch": "10"}).content.decode()
    assert "application/cloudevents-batch+json" in html and "[{&quot;specversion&quot;" in html


def test_a_port_that_the_engine_may_not_connect_to_is_told_while_one_types(
    cast: Cast, log: EventLog, secret: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    function = {"transform": "function", "url": "https://functions.example.com:8443/f"}
    monkeypatch.setenv("GANTRY_ENGINE_PORTS", "8443")
    html = sent(cast, "inflow.journey", **OF_HTTP, **function).content.decode()
    assert "may not connect to port 443, so the task would not start" in html and "port 8443" not in html
    monkeypatch.setenv("GANTRY_ENGINE_PORTS", "443")
    html = sent(cast, "inflow.journey", **OF_HTTP, **function).content.decode()
    assert "may not connect to port 8443" in html and "port 443," not in html


@pytest.mark.parametrize("url", ["", "https://h:99999/x", "https://h:port/x", "https://[::1/x", "ftp://h/x"])
def test_of_what_is_no_address_no_port_is_told_while_one_types(
    cast: Cast, log: EventLog, secret: None, monkeypatch: pytest.MonkeyPatch, url: str
) -> None:
    monkeypatch.setenv("GANTRY_ENGINE_PORTS", "8443")
    response = sent(cast, "inflow.journey", **OF_HTTP | {"sink_url": url})
    assert response.status_code == 200 and "may not connect" not in response.content.decode()
    response = sent(cast, "inflow.create", **OF_HTTP | {"sink_url": url})
    assert response.status_code == 422 and response.context["form"].errors["sink_url"]


def test_the_journey_shows_the_message_of_a_queue(cast: Cast, log: EventLog) -> None:
    fixed = {"body_method": "fixed_value", "body_value": "hello", "sink_kind": "queue", "sink_queue": "orders"}
    html = sent(cast, "inflow.journey", **fixed).content.decode()
    assert ">hello</pre>" in html and "<dt>Key</dt>" not in html
    assert ">aGVsbG8=</pre>" in sent(cast, "inflow.journey", **fixed, sink_base64="on").content.decode()


def test_queues_that_are_not_there_are_refused_at_their_places(
    cast: Cast, log: EventLog, acmes: QueueClient, topics: None
) -> None:
    found = refused(cast, sink={"kind": "queue", "queue": "nobody"})
    assert (found.symbol, found.field) == ("QUEUE_NOT_FOUND", "sink.queue")
    assert refused(cast, sink=QUEUE, deadLetterQueue="nobody").field == "deadLetterQueue"
    assert refused(cast, sink=QUEUE, deadLetterTopic="nobody").field == "deadLetterTopic"
    assert refused(cast, deadLetterQueue="nobody").field == "deadLetterQueue"


def test_a_queue_takes_the_right_to_send_to_it_then_and_now(
    cast: Cast, log: EventLog, acmes: QueueClient, topics: None
) -> None:
    allow(cast, "nora", "dla:ReadBucket")
    with pytest.raises(PermissionDenied, match="mns:SendMessage"):
        services.create(actor=cast.actor("nora"), document=document(cast, sink=QUEUE))
    allow(cast, "nora", "mns:SendMessage", resource=f"acs:mns:*:{cast.acme.uid}:/queues/orders/messages")
    task = services.create(actor=cast.actor("nora"), document=document(cast, sink=QUEUE))
    with pytest.raises(PermissionDenied, match="mns:SendMessage"):
        services.look(actor=cast.actor("nora"), document=document(cast, sink=QUEUE, deadLetterQueue="dead"))
    lease = claimed(task)
    starts.require_still(lease)
    newest = cast.users["nora"].policies.order_by("pk").last()
    assert newest is not None
    newest.delete()
    with pytest.raises(PermissionDenied, match="mns:SendMessage"):
        starts.require_still(lease)


def test_a_task_ends_where_its_cluster_becomes_read_only(cast: Cast, log: EventLog, topics: None) -> None:
    lease = claimed(services.create(actor=cast.actor("alice"), document=document(cast)))
    starts.require_still(lease)
    Cluster.objects.update(read_only=True)
    with pytest.raises(Refused, match="The cluster DefaultCluster is read-only"):
        starts.require_still(lease)
    Cluster.objects.update(read_only=False)
    starts.require_still(lease)


def test_a_queue_of_another_account_takes_its_key_and_an_address_that_is_allowed(
    cast: Cast, log: EventLog, secret: None
) -> None:
    foreign = QUEUE | {
        "endpoint": "http://10.1.2.3:8071", "accessKeyId": "LTAI", "accessKeySecret": "${secret_values.hooks}",
    }  # fmt: skip
    task = services.create(actor=cast.actor("alice"), document=document(cast, sink=foreign))
    with pytest.raises(Refused, match="is neither public nor one that the platform's administrator allows"):
        starts.spec_of(claimed(task))
    told = document(cast, name="b", sink=foreign | {"endpoint": "http://8.8.8.8"}, source=_log())
    public = services.create(actor=cast.actor("alice"), document=told)
    given = starts.spec_of(claimed(public)).given["messages"]
    assert set(given) == {"queueNetworks"}


def _log() -> dict[str, Any]:
    return {"log": f"oss://acme-logs/event-logs/{SOURCE}/"}


def test_a_secret_that_the_account_has_not_is_refused(cast: Cast, log: EventLog) -> None:
    told = HTTP | {"headers": {"x-key": "${secret_values.nobody}"}}
    assert refused(cast, sink=told).symbol == "SECRET_NOT_FOUND"


def test_a_task_whose_queue_went_is_start_failed(cast: Cast, log: EventLog, acmes: QueueClient) -> None:
    task: Pipeline = services.create(actor=cast.actor("alice"), document=document(cast, sink=QUEUE))
    lease = claimed(task)
    lifecycle.fail(lease, "The task cannot start: The queue orders cannot be written to.", for_good=True)
    assert queries.state_of(reloaded(cast)) == "Start Failed"
