"""Operations of ours: who gets which answer."""

from __future__ import annotations

import json

import pytest
from django.db import transaction
from django.utils import timezone

from brokercore.smq.wire.messages import write_handle
from console.accounts.crypto import encrypt
from console.alarms import services as alarms
from console.alarms.models import Alarm, Condition, RecipientKind
from console.alarms.services import RecipientValues, RuleValues
from console.catalog.models import Bucket, BucketRule, ExternalTable, Schema
from console.openapi.operations import OPERATIONS
from console.pipelines import services as pipelines
from console.pipelines.models import Kind, Savepoint
from console.queues import services as queue_services
from console.queues.topics import services as queue_topics
from console.sql.models import QueryTask
from console.tracking.models import ConsumerGroup, TrackingTask
from tests.console.jobs.conftest import TEXT as JOB_TEXT
from tests.console.openapi.matrix import SIGNS
from tests.console.openapi.stage import ROLES, Stage
from tests.console.pipelines.conftest import plan_of
from tests.support.queue_service import QueueServiceProcess

pytestmark = [pytest.mark.django_db, pytest.mark.process]
TEXT = json.dumps({"Version": "1", "Statement": [{"Effect": "Allow", "Action": "mq:SUB", "Resource": "*"}]})

# The columns and the signs are those of matrix.py; Charlie has an account of his own, and policies in it.
MATRIX: dict[str, str] = {
    #                                          anonymous
    #                                          | charlie
    #                                          | | nora
    #                                          | | | publisher
    #                                          | | | | subscriber
    #                                          | | | | | rita
    #                                          | | | | | | bob
    #                                          | | | | | | | alice
    "adoption/adopt":                         "! - - - - - - -",
    "adoption/createRule":                    "! - - - - - - -",
    "adoption/deleteRule":                    "! - - - - - - -",
    "adoption/forget":                        "! - - - - - - -",
    "adoption/forgetRun":                     "! - - - - - - -",
    "adoption/list":                          "! - - - - - - -",
    "adoption/listAdopted":                   "! - - - - - - -",
    "adoption/preview":                       "! - - - - - - -",
    "adoption/rules":                         "! - - - - - - -",
    "adoption/run":                           "! - - - - - - -",
    "adoption/runNames":                      "! - - - - - - -",
    "adoption/runs":                          "! - - - - - - -",
    "alarm/acknowledge":                      "! A - - - - - .",
    "alarm/deleteRecipient":                  "! A - - - - - U",
    "alarm/deleteRule":                       "! A - - - - - .",
    "alarm/list":                             "! . - - - - - .",
    "alarm/prometheusRules":                  "! . - - - - - .",
    "alarm/putRecipient":                     "! . - - - - - .",
    "alarm/putRule":                          "! A - - - - - .",
    "alarm/recipients":                       "! . - - - - - .",
    "alarm/rules":                            "! . - - - - - .",
    "alarm/test":                             "! A - - - - - .",
    "bucket/list":                            "! . . . . . . .",
    "bucket/create":                          "! . - - - - . .",
    "bucket/createRule":                      "! B - - - - . .",
    "bucket/deleteRule":                      "! B - - - - . .",
    "bucket/listRules":                       "! B - - - - . .",
    "bucket/sendEventsAgain":                 "! B - - - - . .",
    "cluster/add":                            "! - - - - - - -",
    "cluster/get":                            "! - - - - - - -",
    "cluster/remove":                         "! - - - - - - -",
    "cluster/test":                           "! - - - - - - -",
    "cluster/update":                         "! - - - - - - -",
    "empower/listInInstance":                 "! ? - - - . . .",
    "group/update":                           "! ? - - - - . .",
    "message/discardByIdInDLQ":               "! ? - - - - . .",
    "message/push":                           "! ? - - - - . .",
    "topic/producers":                        "! ? - . . . . .",
    "organization/list":                      "! . . . . . . .",
    "resourceGroup/list":                     "! . . . . . . .",
    "inflow/list":                            "! . - - - - . .",
    "inflow/get":                             "! I - - - - . .",
    "inflow/create":                          "! W - - - - W W",
    "inflow/update":                          "! I - - - - W W",
    "inflow/start":                           "! I - - - - X X",
    "inflow/stop":                            "! I - - - - X X",
    "inflow/delete":                          "! I - - - - . .",
    "inflow/renewWebhook":                     "! I - - - - W W",
    "inflow/versions":                         "! I - - - - . .",
    "inflow/version":                          "! I - - - - . .",
    "inflow/events":                           "! I - - - - . .",
    "inflow/log":                              "! I - - - - . .",
    "inflow/statistics":                       "! I - - - - . .",
    "inflow/test":                            "! . - - - - . .",
    "job/list":                             "! . - - - - . .",
    "job/get":                              "! J - - - - . .",
    "job/create":                           "! . - - - - . .",
    "job/update":                           "! J - - - - . .",
    "job/validate":                         "! . - - - - . .",
    "job/deploy":                           "! J - - - - . .",
    "job/start":                            "! J - - - - . .",
    "job/stop":                             "! J - - - - S S",
    "job/delete":                           "! J - - - - . .",
    "job/versions":                         "! J - - - - . .",
    "job/version":                          "! J - - - - . .",
    "job/events":                           "! J - - - - . .",
    "job/log":                              "! J - - - - . .",
    "job/savepoints":                       "! J - - - - . .",
    "job/deleteSavepoint":                  "! J - - - - . .",
    "job/secrets":                          "! . - - - - . .",
    "job/putSecret":                        "! . - - - - . .",
    "job/deleteSecret":                     "! K - - - - . .",
    "job/variables":                        "! . - - - - . .",
    "job/putVariable":                      "! . - - - - . .",
    "job/deleteVariable":                   "! V - - - - . .",
    "policy/list":                            "! . - - - - - .",
    "policy/get":                             "! . - - - - - .",
    "policy/create":                          "! . - - - - - .",
    "policy/update":                          "! . - - - - - .",
    "policy/delete":                          "! . - - - - - .",
    "queue/list":                             "! . - - - . . .",
    "queue/get":                              "! Q - - - . . .",
    "queue/create":                           "! . - - - - . .",
    "queue/set":                              "! Q - - - - . .",
    "queue/delete":                           "! Q - - - - . .",
    "queue/send":                             "! Q - - - - . .",
    "queue/receive":                          "! Q - - - - . .",
    "queue/peek":                             "! Q - - - . . .",
    "queue/hide":                             "! Q - - - - . .",
    "queue/deleteMessage":                    "! Q - - - - . .",
    "queueTopic/list":                        "! . - - - . . .",
    "queueTopic/create":                      "! . - - - - . .",
    "queueTopic/set":                         "! Z - - - - . .",
    "queueTopic/delete":                      "! Z - - - - . .",
    "queueTopic/publish":                     "! Z - - - - . .",
    "queueTopic/subscriptions":               "! Z - - - . . .",
    "queueTopic/subscribe":                   "! Z - - - - . .",
    "queueTopic/setSubscription":             "! Z - - - - . .",
    "queueTopic/unsubscribe":                 "! Z - - - - . .",
    "sql/submit":                             "! C - - - - . .",
    "sql/query":                              "! C - - - - . .",
    "sql/explain":                            "! C - - - - . .",
    "sql/task":                               "! T - - - - T .",
    "sql/tasks":                              "! . - - - - . .",
    "sql/cancel":                             "! T - - - - T .",
    "sql/sendAgain":                          "! T - - - - T .",
    "sql/result":                             "! T - - - - T .",
    "sql/download":                           "! T - - - - T .",
    "sql/schemas":                            "! . - - - - . .",
    "sql/tables":                             "! C - - - - . .",
    "sql/columns":                            "! C - - - - . .",
    "tracking/list":                          "! . - - - - . .",
    "tracking/get":                           "! Y - - - - . .",
    "tracking/create":                        "! . - - - - . .",
    "tracking/test":                          "! . - - - - . .",
    "tracking/check":                         "! Y - - - - . .",
    "tracking/events":                        "! Y - - - - . .",
    "tracking/update":                        "! Y - - - - . .",
    "tracking/pause":                         "! Y - - - - . .",
    "tracking/resume":                        "! Y - - - - . .",
    "tracking/delete":                        "! Y - - - - . .",
    "tracking/groups":                        "! Y - - - - . .",
    "tracking/createGroup":                   "! Y - - - - . .",
    "tracking/deleteGroup":                   "! Y - - - - . .",
}  # fmt: skip


SIGNS = SIGNS | {
    "C": "BIZ_SCHEMA_NOT_FOUND",
    "T": "BIZ_TASK_NOT_FOUND",
    "Q": "BIZ_QUEUE_NOT_FOUND",
    "Z": "BIZ_QUEUE_TOPIC_NOT_FOUND",
    "B": "BIZ_BUCKET_NOT_FOUND",
    "J": "BIZ_JOB_NOT_FOUND",
    "K": "BIZ_SECRET_NOT_FOUND",
    "V": "BIZ_VARIABLE_NOT_FOUND",
    "S": "BIZ_JOB_STATE_INVALID",
    "Y": "BIZ_TRACKING_TASK_NOT_FOUND",
    "A": "BIZ_ALARM_NOT_FOUND",
    "U": "BIZ_ALARM_STATE_INVALID",
    "I": "BIZ_INFLOW_TASK_NOT_FOUND",
    "W": "BIZ_INFLOW_TASK_REFUSED",
    "X": "BIZ_INFLOW_TASK_STATE_INVALID",
}
SQL = {"text": "select 1", "schemaName": "demo", "table": "flights", "id": "q-of-alice", "waitSeconds": "0"}


QUEUE = {
    "queue": "orders",
    "topic": "news",
    "subscription": "to-orders",
    "receiver": "orders",
    "tag": "red",
    "maximumMessageSize": "65536",
    "body": "one",
    "receiptHandle": write_handle("00" * 8, bytes(7), bytes(8)),
    "visibilityTimeout": "30",
}


BUCKET = {"bucket": "acme-lake", "rule": "csv", "queue": "orders", "events": "ObjectCreated:*"}


JOB = {"job": "late", "text": JOB_TEXT, "version": "1", "secret": "key_id", "variable": "endpoint", "value": "x"}


TRACKING = {
    "task": "dtsabcdefghij", "name": "orders", "kind": "postgresql", "host": "127.0.0.1", "port": "1",
    "database": "shop", "user": "reader", "password": "read-it-all", "tables": "public.*", "group": "readers",
    "account": "reader",
}  # fmt: skip


ALARM = {
    "alarm": "17", "rule": "behind", "recipient": "on call", "recipients": "on call", "condition": "group.backlog",
    "kind": "webhook", "address": "http://127.0.0.1:9/",
}  # fmt: skip


INFLOW = {
    "task": "orders", "document": '{"name": "orders", "source": {"task": "dtsnone"}, "sink": {"topic": "t"}}',
    "version": "1",
}  # fmt: skip


def _valid(stage: Stage, path: str) -> dict[str, str]:
    if path == "empower/listInInstance":
        return {"instanceId": stage.instance_id}
    if path == "group/update":
        return {"instanceId": stage.instance_id, "groupId": "GID_orders", "deliveryOrderType": "Orderly"}
    if path == "message/discardByIdInDLQ":
        return {"InstanceId": stage.instance_id, "GroupId": "GID_orders", "MsgId": "0A0000010001189F0000000000000007"}
    if path == "topic/producers":
        return {"instanceId": stage.instance_id, "topic": "orders"}
    if path == "message/push":
        group = {"instanceId": stage.instance_id, "topic": "orders", "groupId": "GID_orders", "clientId": "nobody"}
        return group | {"msgId": "0A0000010001189F0000000000000007"}
    given = {"policy": "of-acme", "document": TEXT, "include": "x*", "run": "1", "rule": "1"}
    if path.startswith("bucket/"):
        given = BUCKET | ({"rule": "new"} if path == "bucket/createRule" else {})
    if path == "bucket/create":
        given = {"bucket": "made-now"}
    if path.startswith("cluster/"):
        given = {"cluster": "theirs", "namesrv": "10.0.0.5:9876"}
    if path.startswith("queue"):
        given = QUEUE
    if path.startswith("job/"):
        given = JOB | ({"job": "another"} if path == "job/create" else {})
        given |= {"savepoint": "77"} if path == "job/deleteSavepoint" else {}
    if path.startswith("tracking/"):
        given = TRACKING | ({"name": "another"} if path == "tracking/create" else {})
        given |= {"group": "others"} if path == "tracking/createGroup" else {}
    if path.startswith("alarm/"):
        given = ALARM
    if path.startswith("inflow/"):
        given = INFLOW
    if path.startswith("sql/"):
        given = SQL | ({"text": ""} if path in ("sql/tasks", "sql/tables") else {})
    return {name: given[name] for name in OPERATIONS[path].parameters.model_fields if name in given}


def test_the_table_has_a_row_for_every_extension() -> None:
    assert set(MATRIX) == {path for path, operation in OPERATIONS.items() if operation.extension}


@pytest.mark.parametrize("path", MATRIX)
def test_it_answers_everybody_as_the_table_says(path: str, stage: Stage, queues: QueueServiceProcess) -> None:
    answers = []
    schema = Schema.objects.create(tenant=stage.cast.acme, name="demo")
    columns = [{"name": "carrier", "type": "string"}]
    ExternalTable.objects.create(schema=schema, name="flights", location="oss://demo/flights/", columns=columns)
    bucket = Bucket.objects.create(tenant=stage.cast.acme, name=BUCKET["bucket"])
    BucketRule.objects.create(bucket=bucket, name=BUCKET["rule"], queue="orders", events=["ObjectCreated:*"])
    QueryTask.objects.create(id=SQL["id"], tenant=stage.cast.acme, creator=stage.cast.alice, table_schema="demo")
    alice = stage.cast.actor("alice")
    job = pipelines.create(actor=alice, name=JOB["job"])
    pipelines.deploy(actor=alice, pipeline=job, text="x", plan=plan_of())
    pipelines.create(actor=alice, name=INFLOW["task"], kind=Kind.INFLOW, draft=INFLOW["document"])
    Savepoint.objects.create(pk=77, pipeline=job, folder="oss://x/savepoint-00000001/")
    pipelines.set_secret(actor=alice, name=JOB["secret"], value="x")
    pipelines.set_variable(actor=alice, name=JOB["variable"], value="x")
    tracked = TrackingTask.objects.create(
        tenant=stage.cast.acme, task_id=TRACKING["task"], name="orders", kind="postgresql", host="127.0.0.1", port=1,
        database="shop", user="reader", password_encrypted=encrypt("x"), tables="public.*",
    )  # fmt: skip
    ConsumerGroup.objects.create(task=tracked, name="readers", account="reader", password_hash="!")
    recipient = alarms.create_recipient(
        actor=alice, values=RecipientValues(name="on call", kind=RecipientKind.WEBHOOK, address=ALARM["address"])
    )
    rule = alarms.create_rule(
        actor=alice, values=RuleValues(name="behind", condition=Condition.BACKLOG, recipients=[recipient])
    )
    Alarm.objects.create(
        pk=17, tenant=stage.cast.acme, rule=rule, rule_name="behind", condition=rule.condition, severity="warning",
        subject="x", sentence="x", began_at=timezone.now(), fired_at=timezone.now(),
    )  # fmt: skip
    for role in ROLES:
        # What is deleted at the service does not come back with the rows.
        queue_services.create_queue(actor=stage.cast.actor("alice"), name="orders", attributes={})
        queue_topics.create_topic(actor=stage.cast.actor("alice"), name="news", attributes={})
        with transaction.atomic():
            status = stage.caller(role).symbol(path, **_valid(stage, path))
            transaction.set_rollback(True)
        answers.append({symbol: sign for sign, symbol in SIGNS.items()}.get(status, "."))
    assert " ".join(answers) == MATRIX[path]


def test_a_platform_administrators_key_opens_no_accounts_operation(stage: Stage) -> None:
    stage.users["petra"] = stage.cast.petra
    petra = stage.caller("petra")
    of_accounts = [path for path in MATRIX if not path.startswith(("adoption/", "cluster/"))]
    answers = {path: petra.symbol(path, **_valid(stage, path)) for path in of_accounts}
    assert answers == dict.fromkeys(of_accounts, "AUTH_PERMISSION_DENIED")
