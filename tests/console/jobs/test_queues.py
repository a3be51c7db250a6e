"""Queues of a text are looked at where they are the account's: they must hide for longer than checkpoints are apart."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from brokercore.smq.client import QueueClient
from console.jobs import services
from console.pipelines import services as pipelines
from console.pipelines.models import Pipeline, StartFrom, State
from console.web.errors import Refused
from tests.support.cast import Cast
from tests.support.queue_service import QueueServiceProcess

pytestmark = pytest.mark.process
OWN = """SET 'execution.checkpointing.interval' = '10s';
CREATE TEMPORARY TABLE q (a STRING) WITH ('connector' = 'mns', 'queueName' = 'flights', 'format' = 'raw');
INSERT INTO o SELECT a FROM q;
CREATE TEMPORARY TABLE o (a STRING) WITH ('connector' = 'print');
"""
KEYED = OWN.replace(
    "'queueName'",
    "'endpoint' = '{}', 'region' = 'mq-private', 'accessKeyId' = 'x', 'accessKeySecret' = '${{secret_values.s}}',"
    " 'queueName'",
)


@pytest.fixture
def acmes(cast: Cast, queues: QueueServiceProcess) -> Iterator[QueueClient]:
    with queues.client(cast.acme.uid, QueueClient) as client:
        yield client


def test_a_queue_that_hides_for_too_short_a_time_is_refused_with_its_place(cast: Cast, acmes: QueueClient) -> None:
    acmes.create_queue("flights", {"VisibilityTimeout": 10})
    checked = services.look(actor=cast.actor("alice"), text=OWN)
    assert checked.plan is None
    (refused,) = checked.refusals
    assert (refused.line, refused.column) == (2, 24)
    assert "hides a received message for 10 s (VisibilityTimeout), and checkpoints are 10 s apart" in refused.sentence
    acmes.set_attributes("flights", {"VisibilityTimeout": 11})
    assert services.look(actor=cast.actor("alice"), text=OWN).plan is not None


def test_a_queue_that_is_not_there_and_one_without_a_right_are_refused(cast: Cast, acmes: QueueClient) -> None:
    (missing,) = services.look(actor=cast.actor("alice"), text=OWN).refusals
    assert missing.sentence.startswith("table q: ")
    acmes.create_queue("flights", {"VisibilityTimeout": 30})
    (denied,) = services.look(actor=cast.actor("nora"), text=OWN).refusals
    assert "mns:ReceiveMessage" in denied.sentence


def test_a_queue_with_a_key_is_told_where_it_may_be_the_accounts(
    cast: Cast, acmes: QueueClient, queues: QueueServiceProcess, settings: object
) -> None:
    settings.SMQ_PORT = queues.port  # type: ignore[attr-defined]
    acmes.create_queue("flights", {"VisibilityTimeout": 5})
    actor = cast.actor("alice")
    pipelines.set_secret(actor=actor, name="s", value="secret")
    here = services.look(actor=actor, text=KEYED.format(queues.address))
    assert here.plan is not None
    assert [one.partition(": ")[2] for one in here.warnings if "VisibilityTimeout" in one]
    elsewhere = services.look(actor=actor, text=KEYED.format("http://queues.example.com:80"))
    assert (elsewhere.plan is not None, elsewhere.warnings) == (True, ())


def test_a_start_looks_at_rights_and_queues_again(cast: Cast, acmes: QueueClient) -> None:
    actor = cast.actor("alice")
    acmes.create_queue("flights", {"VisibilityTimeout": 30})
    job = pipelines.create(actor=actor, name="late")
    services.deploy(actor=actor, pipeline=job, text=OWN)
    job = Pipeline.objects.select_related("version").get(pk=job.pk)
    acmes.set_attributes("flights", {"VisibilityTimeout": 3})
    with pytest.raises(Refused, match="VisibilityTimeout"):
        services.start(actor=actor, pipeline=job, start_from=StartFrom.NOTHING)
    acmes.set_attributes("flights", {"VisibilityTimeout": 30})
    services.start(actor=actor, pipeline=job, start_from=StartFrom.NOTHING)
    job.refresh_from_db()
    assert job.state == State.STARTING
