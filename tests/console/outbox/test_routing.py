"""What a notification names is checked before it is sent, in the words of `mq_error_msg`."""

from __future__ import annotations

import pytest
from django.conf import settings

from console.accounts import policy_documents
from console.accounts.models import Role
from console.instances.addresses import access_point
from console.instances.models import Cluster, Instance
from console.outbox.routing import UndeliverableError, instance_of, route
from tests.console.outbox.conftest import TRUSTED, Make
from tests.support.cast import Cast, make_instance

pytestmark = pytest.mark.django_db(transaction=True)


def refusal(make: Make, **fields: object) -> str:
    with pytest.raises(UndeliverableError) as refused:
        route(make(**fields))
    return str(refused.value)


def test_a_right_notification_has_a_destination(make: Make) -> None:
    notification = make()
    destination = route(notification)
    assert (destination.topic, destination.group) == (notification.topic, notification.producer_id)
    assert destination.namespace == destination.role.tenant.instances.get().instance_id


def test_names_may_stand_as_on_the_wire(make: Make, cast: Cast) -> None:
    notification = make()
    route(make(topic=cast.instance.physical_name(notification.topic)))


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"notify_by": "smtp"}, "allowed are ons and mns"),
        ({"notify_by": ""}, "allowed are ons and mns"),
        ({"topic": ""}, "mq-topic is missing"),
        ({"producer_id": ""}, "mq-producer-id is missing"),
        ({"endpoint": ""}, "mq-endpoint is missing"),
        ({"topic": "nowhere"}, "Topic 'nowhere' does not exist"),
        ({"producer_id": "GID_nobody"}, "Group 'GID_nobody' does not exist"),
        ({"endpoint": "http://MQ_INST_1_other.localhost"}, "names no instance of this account"),
        ({"endpoint": "localhost:9876"}, "names no instance of this account"),
        ({"endpoint": "two words"}, "is not an address"),
    ],
)
def test_it_says_what_is_wrong(make: Make, fields: dict[str, str], reason: str) -> None:
    assert reason in refusal(make, **fields)


def test_another_accounts_instance_is_unknown(make: Make, cast: Cast) -> None:
    assert "names no instance of this account" in refusal(make, endpoint=f"http://{cast.charlies.instance_id}")


@pytest.mark.parametrize("host", [".cn-hangzhou.example.com", ".cn-hangzhou.example.com:80", ".localhost:1"])
def test_an_endpoint_elsewhere_is_another_region(make: Make, cast: Cast, host: str) -> None:
    assert "not in the query service's region" in refusal(make, endpoint=f"http://{cast.instance.instance_id}{host}")


@pytest.mark.parametrize("place", ["mq-a:9876", "mq-b:9877", "MQ-A", "localhost:9877"])
def test_each_name_server_of_a_cluster_is_its_place(make: Make, cast: Cast, place: str) -> None:
    Cluster.objects.update(namesrv="mq-a:9876;mq-b:9877")
    route(make(endpoint=f"http://{cast.instance.instance_id}.{place}"))
    assert "not in the query service's region" in refusal(make, endpoint=f"http://{cast.instance.instance_id}.mq-c")


def test_an_instance_of_another_region_is_refused(make: Make, cast: Cast) -> None:
    Instance.objects.update(region="elsewhere")
    assert "not in the query service's region" in refusal(make)


def test_the_endpoint_that_the_editor_fills_in_is_right(make: Make, cast: Cast) -> None:
    route(make(endpoint=access_point(cast.instance)))


def test_a_default_instance_is_found_by_its_endpoint_with_and_without_its_name(cast: Cast) -> None:
    bare = make_instance(cast.alice, cast.cluster, name="bare", independent_naming=False)
    plain = access_point(bare)
    assert plain == f"http://{settings.ENDPOINT_HOST}:{cast.cluster.namesrv.rpartition(':')[2]}"
    named = plain.replace("http://", f"http://{bare.instance_id}.")
    assert [instance_of(bare.tenant, endpoint) for endpoint in (plain, named)] == [bare, bare]


def test_without_the_role_nothing_is_sent(make: Make, role: Role) -> None:
    notification = make()
    role.delete()
    with pytest.raises(UndeliverableError, match="AliyunOpenAnalyticsAccessingMQRole does not exist"):
        route(notification)


@pytest.mark.parametrize(
    "document",
    [
        {},
        {"Version": "1", "Statement": [TRUSTED | {"Effect": "Deny"}]},
        {"Version": "1", "Statement": [TRUSTED | {"Action": "sts:Other"}]},
        {"Version": "1", "Statement": [TRUSTED | {"Principal": "*"}]},
        {"Version": "1", "Statement": [TRUSTED | {"Principal": {"RAM": ["acs:ram::1:root"]}}]},
        {"Version": "1", "Statement": [TRUSTED | {"Principal": {"Service": ["ecs.example"]}}]},
    ],
)
def test_the_role_must_trust_the_query_service(make: Make, role: Role, document: object) -> None:
    role.trust_policy = document
    role.save()
    assert "AliyunOpenAnalyticsAccessingMQRole cannot be assumed: denied: the trust policy" in refusal(make)


def test_the_role_must_be_allowed_to_publish(make: Make, role: Role) -> None:
    role.policies.set([policy_documents.system_policy("AliyunMQSubOnlyAccess")])
    assert "may not publish" in refusal(make)


def test_a_trust_policy_that_denies_the_service_wins(make: Make, role: Role) -> None:
    role.trust_policy = {"Version": "1", "Statement": [TRUSTED, TRUSTED | {"Effect": "Deny"}]}
    role.save()
    assert "denies openanalytics.example" in refusal(make)


def test_a_denial_of_one_name_of_the_service_counts_beside_an_allowance_of_another(make: Make, role: Role) -> None:
    other = TRUSTED | {"Principal": {"Service": ["openanalytics.another.example"]}}
    for allowed, denied in ((TRUSTED, other), (other, TRUSTED)):
        role.trust_policy = {"Version": "1", "Statement": [allowed, denied | {"Effect": "Deny"}]}
        role.save()
        assert "denies openanalytics." in refusal(make)
