"""Topics of other accounts: offered while they are granted, and refused by a sentence once they are not."""

from __future__ import annotations

from typing import Any

import pytest
from django.urls import reverse

from console.inflow import services
from console.instances.models import Instance
from console.topics import grants
from console.topics.models import OrderType, Relation, Topic
from console.web.errors import Refused
from tests.console.inflow.conftest import document, reloaded
from tests.console.inflow.test_views import page, sent
from tests.support.cast import Cast, make_topic

pytestmark = [pytest.mark.process, pytest.mark.usefixtures("log", "topics")]
NAME = "orders-to-topic"


def granted(cast: Cast, name: str, relation: int = Relation.PUBLISH, **more: int) -> Topic:
    """A topic of umbrella's that acme may use."""
    topic = make_topic(cast.charlie, cast.charlies, name, **more)
    grants.create_grant(actor=cast.actor("charlie"), topic=topic, relation=relation, tenant=cast.acme)
    return topic


def revoke(cast: Cast, topic: Topic) -> None:
    grants.delete_grant(actor=cast.actor("charlie"), grant=topic.grants.get())


def test_the_wizard_offers_topics_that_were_granted_and_makes_a_task_into_one(cast: Cast) -> None:
    granted(cast, "shared", order_type=OrderType.PARTITIONALLY_ORDERED)
    granted(cast, "only_read", Relation.SUBSCRIBE)
    make_topic(cast.charlie, cast.charlies, "private")
    shown = page(cast, "inflow.create")
    assert f'<option value="{cast.charlies.instance_id}">' in shown
    offered = shown.partition('<datalist id="inflow-topics">')[2].partition("</datalist>")[0]
    assert f'<option value="shared">{cast.charlies.name}</option>' in offered
    assert "only_read" not in offered and "private" not in offered
    place = {"instance": cast.charlies.instance_id, "topic": "shared", "dead_kind": ""}
    assert sent(cast, "inflow.create", **place).status_code == 302
    sink = services.document_of(reloaded(cast))["sink"]
    assert (sink["topic"], sink["instanceID"], sink["ordered"]) == ("shared", cast.charlies.instance_id, True)
    again = cast.client("alice").get(reverse("inflow.update", args=[NAME])).context["form"]
    assert again.initial["instance"] == cast.charlies.instance_id


def test_an_instance_without_a_namespace_is_found_again_by_its_topic(cast: Cast) -> None:
    Instance.objects.filter(pk=cast.charlies.pk).update(independent_naming=False)
    cast.charlies.refresh_from_db()
    granted(cast, "shared")
    assert sent(
        cast, "inflow.create", instance=cast.charlies.instance_id, topic="shared", dead_kind=""
    ).status_code == (302)
    assert "instanceID" not in services.document_of(reloaded(cast))["sink"]
    again = cast.client("alice").get(reverse("inflow.update", args=[NAME])).context["form"]
    assert again.initial["instance"] == cast.charlies.instance_id


def test_what_is_not_granted_or_to_read_only_is_refused_at_its_field(cast: Cast) -> None:
    make_topic(cast.charlie, cast.charlies, "private")
    granted(cast, "only_read", Relation.SUBSCRIBE)
    place = {"instance": cast.charlies.instance_id, "dead_kind": ""}
    response = sent(cast, "inflow.create", topic="private", **place)
    assert response.status_code == 422
    (told,) = response.context["form"].errors["topic"]
    assert told.startswith(f"There is no topic {cast.charlies.instance_id}%private of the account's own, and no other ")
    nowhere = sent(cast, "inflow.create", topic="nowhere", **place).context["form"].errors["topic"]
    assert [one.replace("nowhere", "private") for one in nowhere] == [told]
    response = sent(cast, "inflow.create", topic="only_read", **place)
    assert response.status_code == 422
    assert "mq:PUB" in str(response.context["form"].non_field_errors())


@pytest.mark.parametrize("part", ["sink", "dead letters", "route"])
def test_a_start_is_refused_by_the_topic_whose_grant_was_revoked(cast: Cast, part: str) -> None:
    shared, further = granted(cast, "shared"), granted(cast, "further")
    sink = {"topic": "shared", "instanceID": cast.charlies.instance_id}
    parts: dict[str, dict[str, Any]] = {
        "dead letters": {"deadLetterTopic": "further"},
        "route": {"sink": sink | {"routes": ["further"]}},
    }
    told = document(cast, sink=sink) | parts.get(part, {})
    task = services.create(actor=cast.actor("alice"), document=told, start=False)
    revoke(cast, shared if part == "sink" else further)
    with pytest.raises(Refused) as refused:
        services.begin(actor=cast.actor("alice"), pipeline=task)
    name = "shared" if part == "sink" else "further"
    sentence = (
        f"There is no topic {cast.charlies.instance_id}%{name} of the account's own,"
        " and no other account grants it one of that name."
    )
    assert refused.value.message == sentence
    answer = cast.client("alice").post(reverse("inflow.enable", args=[NAME]))
    assert answer.status_code == 422
    assert sentence.replace("'", "&#x27;") in answer.content.decode()
    assert page(cast, "inflow.update", NAME)
