"""Who is answered what at every URL, and that no URL is missing from the table."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from django.db import transaction
from django.urls import URLPattern, URLResolver, get_resolver, reverse
from django.utils import timezone

from console.accounts import services as accounts
from console.accounts.models import ResourceSet
from console.accounts.policies import system_policy
from console.accounts.services.organization_keys import create_organization_key
from console.archive.models import ArchiveStatus, TopicArchive
from console.audit.models import Entry
from console.sql.models import Bucket, QueryTask
from tests.console.web.matrix import MATRIX, ROLES, Row
from tests.support.cast import Cast, make_group, make_topic
from tests.support.roles import make_role


@pytest.fixture
def world(cast: Cast) -> dict[str, str]:
    """What the rows of the matrix name."""
    topic = make_topic(cast.alice, cast.instance)
    archive = TopicArchive.objects.create(
        tenant=cast.acme,
        topic=topic,
        physical_name=topic.physical_name,
        location=f"oss://gantry-archive-{cast.acme.uid}/matrix/",
        status=ArchiveStatus.IDLE,
        requested_at=timezone.now(),
    )
    make_group(cast.alice, cast.instance)
    key = accounts.create_access_key(actor=cast.actor("alice"), user=cast.alice)
    bobs_key = accounts.create_access_key(actor=cast.actor("bob"), user=cast.bob)
    accounts.create_group(actor=cast.actor("alice"), name="senders")
    document = {"Version": "1", "Statement": [{"Effect": "Allow", "Action": "mq:PUB", "Resource": "*"}]}
    accounts.create_policy(actor=cast.actor("alice"), name="own-policy", description="", document=document)
    make_role(cast.actor("alice"))
    organization = cast.acme.organization
    organization_key = create_organization_key(actor=cast.actor("petra"), organization=organization, tenant=cast.acme)
    task = QueryTask.objects.create(
        id="q-matrix", tenant=cast.acme, creator=cast.alice, table_schema="acme", command="x"
    )
    Bucket.objects.create(tenant=cast.acme, name="acme-lake")
    return {
        "instance": cast.instance.instance_id,
        "topic": "orders",
        "group": "GID_orders",
        "alices_key": key.access_key_id,
        "bobs_key": bobs_key.access_key_id,
        "policy": str(system_policy("AliyunMQReadOnlyAccess").pk),
        "alices_task": task.pk,
        "alices_archive": str(archive.pk),
        "alices_entry": str(Entry.objects.filter(tenant=cast.acme).earliest("pk").pk),
        "organization": str(organization.pk),
        "organization_key": organization_key.access_key_id,
        "resource_set": str(ResourceSet.objects.create(organization=organization, name="standing").pk),
    }


@pytest.mark.parametrize("row", MATRIX, ids=str)
def test_it_answers_everybody_as_the_table_says(row: Row, cast: Cast, world: dict[str, str]) -> None:
    url = reverse(row.url_name, args=[world.get(argument, argument) for argument in row.arguments])
    answers = {}
    for role in ROLES:
        client = cast.client(role)
        # What one role changes is undone before the next one comes.
        with transaction.atomic():
            # A rolled back row leaves its topic on the broker, where the next role's would clash: names tell the role.
            data = {name: world.get(value, value).replace("{role}", role) for name, value in row.data.items()}
            response = getattr(client, row.method)(url, data)
            transaction.set_rollback(True)
        answers[role] = response.status_code
        if role == "anonymous" and row.expected.anonymous == 302 and row.url_name != "account_logout":
            assert response["Location"].startswith(reverse("account_login"))
    assert answers == row.expected._asdict()


def test_it_has_a_row_for_every_url() -> None:
    known = {row.url_name for row in MATRIX}
    names = set(_url_names(get_resolver().url_patterns))
    assert not names - known, f"add rows to tests/console/web/matrix.py: {sorted(names - known)}"
    assert not known - names, f"rows without a URL: {sorted(known - names)}"


def test_it_records_a_refused_attempt(cast: Cast, world: dict[str, str]) -> None:
    cast.client("rita").post(reverse("topics.mode", args=[world["instance"], "orders"]), {"perm": "4"})
    entry = Entry.objects.get(result="refused")
    assert (entry.actor, entry.action) == ("rita@acme", "mq:UpdateTopic")
    assert "no statement allows mq:UpdateTopic" in entry.detail["reason"]


def _url_names(patterns: list[URLPattern | URLResolver]) -> Iterator[str]:
    for pattern in patterns:
        if isinstance(pattern, URLResolver):
            yield from _url_names(pattern.url_patterns)
        else:
            assert pattern.name, f"{pattern.pattern} has no name"
            yield pattern.name
