"""Every URL of the console with what each of the cast is answered. A new URL needs a row here.

The columns are statuses: without sign-in, Charlie of another account, Nora without a policy, Rita who may look, Bob who
may do everything with messages, Alice who administers the account, and Petra who administers the platform. No page of
an account is Petra's, which is what her column says where nothing is written. A redirect to the sign-in page is 302 in
the first column; what an allowed change answers is 302 in the others.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

ROLES = ("anonymous", "charlie", "nora", "rita", "bob", "alice", "petra")


class Statuses(NamedTuple):
    """One status per role, in the order of ROLES."""

    anonymous: int
    charlie: int
    nora: int
    rita: int
    bob: int
    alice: int
    petra: int = 403


@dataclass(frozen=True)
class Row:
    """A request: `arguments` and `data` name what the test fills in (`instance`, `topic`, …) or are literal."""

    url_name: str
    arguments: tuple[str, ...]
    expected: Statuses
    method: str = "get"
    data: dict[str, str] = field(default_factory=dict)

    def __str__(self) -> str:
        return f"{self.method}-{self.url_name}"


EVERYBODY = Statuses(200, 200, 200, 200, 200, 200, 200)
SIGNED_IN = Statuses(302, 200, 200, 200, 200, 200)
LOOK = Statuses(302, 404, 403, 200, 200, 200)
OPERATE = Statuses(302, 404, 403, 403, 200, 200)
CHANGE = Statuses(302, 404, 403, 403, 302, 302)
MISSING = Statuses(302, 404, 403, 404, 404, 404)
"""For things that were not made for the test: who may look learns that they do not exist."""
# Pages of the own account: Charlie sees his own.
ACCOUNT_LOOK = Statuses(302, 200, 403, 200, 200, 200)
ACCOUNT_OPERATE = Statuses(302, 200, 403, 403, 200, 200)
OWN_SIGN_IN = Statuses(302, 200, 200, 200, 200, 200, 200)
TO_SECURITY = Statuses(302, 302, 302, 302, 302, 302, 302)
NO_DEVICE = Statuses(302, 404, 404, 404, 404, 404, 404)
# Pages of the platform are Petra's alone.
PLATFORM = Statuses(302, 403, 403, 403, 403, 403, 200)
PLATFORM_CHANGE = Statuses(302, 403, 403, 403, 403, 403, 302)
PLATFORM_MISSING = Statuses(302, 403, 403, 403, 403, 403, 404)
QUERY = Statuses(302, 200, 403, 403, 200, 200)
ALICES_TASK = Statuses(302, 404, 403, 403, 404, 200)
ACMES_BUCKET = Statuses(302, 404, 403, 403, 200, 200)
ACMES_JOB = Statuses(302, 404, 403, 403, 200, 200)
NOT_DEPLOYED = Statuses(302, 404, 403, 403, 422, 422)
MISSING_FILE = Statuses(302, 404, 403, 403, 404, 404)
NO_STATEMENT = Statuses(302, 404, 403, 403, 404, 404)
ADMINISTER = Statuses(302, 200, 403, 403, 403, 200)
ADMINISTER_USER = Statuses(302, 404, 403, 403, 403, 302)
LOOK_AT_USER = Statuses(302, 404, 403, 403, 403, 200)

NO_HANDLE = Statuses(302, 404, 403, 403, 422, 422)

OWN = ("instance",)
TOPIC = ("instance", "topic")
GROUP = ("instance", "group")
QUEUE, ENDS = ("matrix",), ("matrix", "ends")
JOB = ("matrix",)
BOB, SENDERS = ("bob@acme",), ("senders",)
NEW_TOPIC = {"name": "made-by-{role}", "order_type": "0"}
NEW_POLICY = {
    "name": "made-by-matrix",
    "document": '{"Version": "1", "Statement": [{"Effect": "Allow", "Action": "mq:PUB", "Resource": "*"}]}',
}
NEW_ROLE = {
    "name": "made-by-matrix",
    "max_session_s": "900",
    "trust_policy": '{"Version": "1", "Statement": [{"Effect": "Allow", "Action": "sts:AssumeRole", "Principal": '
    '{"Service": "openanalytics.example.com"}}]}',
}
ASSUME = {"role": "Sender", "session_name": "matrix", "duration_s": "900"}
SIMULATE_BOB = {"who": "user", "user": "bob@acme", "action": "mq:PUB", "resource": "orders"}
NEW_GROUP = {"group_id": "GID_made_by_{role}"}

ATTRIBUTES = {
    "VisibilityTimeout": "30",
    "MessageRetentionPeriod": "345600",
    "DelaySeconds": "0",
    "PollingWaitSeconds": "0",
    "MaximumMessageSize": "65536",
}
NEW_QUEUE_TOPIC = {"name": "made-by-{role}", "most_bytes": "65536"}
SUBSCRIPTION = {
    "name": "made-by-{role}",
    "receiver": "matrix",
    "strategy": "BACKOFF_RETRY",
    "form": "XML",
    "tag": "",
}
NEW_JOB = {"name": "made-by-{role}", "beginning": "empty"}
TRACKING = ("tracking_task",)
NEW_TRACKING_TASK = {
    "name": "made-by-{role}",
    "kind": "postgresql",
    "host": "127.0.0.1",
    "port": "1",
    "database": "shop",
    "user": "reader",
    "password": "read-it-all",
    "tables": "public.*",
    "tls": "off",
    "retention_days": "7",
}
NEW_CONSUMER_GROUP = {"name": "made-by-{role}", "account": "reader", "password": "read-it-all"}
ALARM_RULE = ("alarm_rule",)
NEW_ALARM_RULE = {
    "name": "made-by-{role}",
    "condition": "group.offline",
    "severity": "warning",
    "recipients": "alarm_recipient",
}
NEW_RECIPIENT = {"name": "made-by-{role}", "kind": "mail", "address": "on-call@example.com"}
NEW_QUEUE = ATTRIBUTES | {"name": "made-by-{role}"}

MATRIX: list[Row] = [
    Row("health", (), EVERYBODY),
    Row("language", (), Statuses(302, 302, 302, 302, 302, 302, 302), "post", {"language": "en"}),
    # Without parts there is nothing to stream; who asks for which part is in test_streams.py.
    Row("live", (), Statuses(302, 204, 204, 204, 204, 204, 204)),
    Row(
        "columns",
        (),
        Statuses(302, 302, 302, 302, 302, 302, 302),
        "post",
        {"list": "topics_TopicTable", "column": "perm"},
    ),
    Row("accounts.saved_views", ("topics_TopicTable",), OWN_SIGN_IN),
    Row(
        "accounts.saved_view_keep",
        (),
        Statuses(302, 302, 302, 302, 302, 302, 302),
        "post",
        {"list": "topics_TopicTable", "name": "mine", "next": "/?q=orders"},
    ),
    Row(
        "accounts.saved_view_change",
        ("topics_TopicTable", "1000"),
        Statuses(302, 404, 404, 404, 404, 404, 404),
        "post",
        {"name": "mine"},
    ),
    # Sign-in
    Row("account_login", (), Statuses(200, 302, 302, 302, 302, 302, 302)),
    Row("account_logout", (), Statuses(302, 200, 200, 200, 200, 200, 200)),
    Row("account_change_password", (), OWN_SIGN_IN),
    Row("account_reauthenticate", (), OWN_SIGN_IN),
    Row("account_inactive", (), EVERYBODY),
    # The second factor: changes ask for the password first, since the sign-in of the test is none
    Row("mfa_index", (), TO_SECURITY),
    Row("mfa_authenticate", (), TO_SECURITY),
    Row("mfa_reauthenticate", (), TO_SECURITY),
    Row("mfa_activate_totp", (), TO_SECURITY),
    Row("mfa_deactivate_totp", (), NO_DEVICE),
    Row("mfa_view_recovery_codes", (), NO_DEVICE),
    Row("mfa_generate_recovery_codes", (), TO_SECURITY),
    Row("mfa_list_webauthn", (), TO_SECURITY),
    Row("mfa_add_webauthn", (), TO_SECURITY),
    Row("mfa_reauthenticate_webauthn", (), TO_SECURITY),
    Row("mfa_edit_webauthn", ("999",), TO_SECURITY),
    Row("mfa_remove_webauthn", ("999",), TO_SECURITY),
    # The visitor's own security, also the platform's administrator's
    Row("accounts.security", (), OWN_SIGN_IN),
    Row("accounts.security_end_all", (), TO_SECURITY, "post"),
    Row("accounts.security_end", ("999",), TO_SECURITY, "post"),
    # Single sign-on: the way in is open, the configuration is the account's
    Row("accounts.single_sign_on_choose", (), EVERYBODY),
    Row("accounts.single_sign_on_start", ("acme",), EVERYBODY),
    Row("accounts.single_sign_on_start", ("acme",), Statuses(404, 404, 404, 404, 404, 404, 404), "post"),
    Row("accounts.single_sign_on_callback", ("acme",), Statuses(404, 404, 404, 404, 404, 404, 404)),
    Row("accounts.single_sign_on", (), ADMINISTER),
    Row("accounts.single_sign_on", (), Statuses(302, 422, 403, 403, 403, 422), "post"),
    Row("accounts.single_sign_on_test", (), Statuses(302, 302, 403, 403, 403, 302), "post"),
    Row("accounts.single_sign_on_delete", (), ADMINISTER),
    # Overview
    Row("instances.overview", (), Statuses(302, 200, 200, 200, 200, 200, 302)),
    Row("instances.overview_figures", (), ACCOUNT_LOOK),
    Row("instances.overview_tasks", (), SIGNED_IN),
    Row("instances.overview_attention", (), SIGNED_IN),
    Row("instances.overview_backlogs", (), ACCOUNT_LOOK),
    Row("instances.overview_history", (), ACCOUNT_LOOK),
    Row("manual.index", (), OWN_SIGN_IN),
    Row("manual.page", ("use/messages",), OWN_SIGN_IN),
    Row("go", (), Statuses(302, 200, 200, 200, 200, 200, 200)),
    Row("instances.overview_capacity", (), ACCOUNT_LOOK),
    Row("instances.overview_storage", (), ACCOUNT_LOOK),
    Row("instances.overview_limits", (), ACCOUNT_LOOK),
    # Instances
    Row("instances.list", (), ACCOUNT_LOOK),
    Row("instances.create", (), ACCOUNT_OPERATE),
    Row("instances.name_servers", (), EVERYBODY),
    Row("instances.detail", OWN, LOOK),
    Row("instances.client", OWN, LOOK),
    Row("instances.first_steps", OWN, LOOK),
    Row("instances.update", OWN, OPERATE),
    Row(
        "instances.update", OWN, CHANGE, "post", {"name": "renamed", "max_send_tps": "1000", "max_receive_tps": "1000"}
    ),
    Row("instances.delete", OWN, OPERATE),
    # Topics
    Row("topics.list", OWN, LOOK),
    Row("topics.create", OWN, OPERATE),
    Row("topics.create", OWN, CHANGE, "post", NEW_TOPIC),
    Row("topics.detail", TOPIC, LOOK),
    Row("topics.live", TOPIC, LOOK),
    Row("topics.mode", TOPIC, CHANGE, "post", {"perm": "4"}),
    Row("topics.delete", TOPIC, OPERATE),
    Row("topics.delete", TOPIC, CHANGE, "post", {"name": "orders"}),
    # Of chosen ones: the question is who sees the list's, and says of each thing whether it may be done
    Row("topics.delete_many", OWN, LOOK, "post", {"pick": "orders"}),
    Row("topics.mode_many", OWN, LOOK, "post", {"pick": "orders"}),
    Row("topics.export_many", OWN, LOOK, "post", {"pick": "orders"}),
    Row("groups.delete_many", OWN, LOOK, "post", {"pick": "GID_orders"}),
    Row("groups.export_many", OWN, LOOK, "post", {"pick": "GID_orders"}),
    Row("messaging.reset_many", OWN, LOOK, "post", {"pick": "GID_orders"}),
    # Groups
    Row("groups.list", OWN, LOOK),
    Row("groups.create", OWN, OPERATE),
    Row("groups.create", OWN, CHANGE, "post", NEW_GROUP),
    Row("groups.detail", GROUP, LOOK),
    Row("groups.reading", GROUP, CHANGE, "post", {"enabled": "false"}),
    Row("groups.order", GROUP, LOOK),
    Row("groups.order", GROUP, CHANGE, "post", {"delivery_order": "Orderly"}),
    Row("groups.delete", GROUP, OPERATE),
    Row("groups.delete", GROUP, CHANGE, "post", {"name": "GID_orders"}),
    Row("groups.sharing", GROUP, Statuses(302, 404, 403, 403, 403, 302), "post", {"shared": "false"}),
    # Shared topics: everybody sees what is shared with the visitor; only the owner of a topic shares it
    Row("grants.index", (), SIGNED_IN),
    Row("grants.topic", TOPIC, LOOK),
    Row("grants.topic", TOPIC, CHANGE, "post", {"receiver": "user", "user": "nora@acme", "relation": "4"}),
    Row("grants.revoke", (*TOPIC, "1"), Statuses(302, 404, 403, 403, 404, 404)),
    Row("grants.client", TOPIC, MISSING),
    Row("grants.groups", TOPIC, MISSING),
    Row("grants.group_create", TOPIC, Statuses(302, 404, 404, 404, 404, 404)),
    # Drift: each account sees its own, the platform what is nobody's
    Row("drift.index", (), Statuses(302, 200, 403, 200, 200, 200, 200)),
    Row("drift.check", (), Statuses(302, 302, 403, 302, 302, 302, 302), "post"),
    Row("drift.mend", (), Statuses(302, 200, 403, 200, 200, 200, 200), "post", {"all": "1"}),
    Row("drift.mend", (), Statuses(302, 404, 403, 404, 404, 404, 404), "post", {"key": "no such row"}),
    Row("drift.accept", ("1", "topic", "nowhere"), Statuses(302, 404, 403, 404, 404, 404, 404), "post"),
    Row("drift.adopt", ("1", "topic", "nowhere"), Statuses(302, 404, 403, 404, 404, 404, 404), "post"),
    Row("drift.delete", ("1", "topic", "nowhere"), Statuses(302, 404, 403, 404, 404, 404, 404)),
    # Messages
    Row("messaging.search", OWN, LOOK),
    Row("messaging.topic_names", OWN, LOOK),
    Row("messaging.publish", TOPIC, OPERATE),
    Row("messaging.live", TOPIC, OPERATE),
    Row("messaging.live_news", TOPIC, OPERATE),
    Row("messaging.producers", TOPIC, LOOK),
    Row("messaging.message", (*TOPIC, "NOSUCHMESSAGE"), MISSING),
    Row("messaging.body", (*TOPIC, "NOSUCHMESSAGE"), MISSING),
    Row("messaging.track", (*TOPIC, "NOSUCHMESSAGE"), MISSING),
    Row("messaging.trace", (*TOPIC, "NOSUCHMESSAGE"), MISSING),
    Row("messaging.push", (*TOPIC, "NOSUCHMESSAGE", "group"), Statuses(302, 404, 403, 403, 404, 404)),
    Row("messaging.push", (*TOPIC, "NOSUCHMESSAGE", "group"), Statuses(302, 404, 403, 403, 404, 404), "post"),
    # Consumer status and dead letters
    Row("messaging.status", GROUP, LOOK),
    Row("messaging.clients", GROUP, LOOK),
    # Nobody is online in the test: the broker says so.
    Row("messaging.stack", GROUP, Statuses(302, 404, 403, 502, 502, 502)),
    Row("messaging.reset", GROUP, OPERATE),
    Row("messaging.dead_letter_index", OWN, LOOK),
    Row("messaging.dead_letters", GROUP, LOOK),
    Row("messaging.dead_letter", (*GROUP, "broker-a.0.999"), MISSING),
    Row("messaging.resend", GROUP, Statuses(302, 404, 403, 403, 422, 422), "post"),
    Row("messaging.resend_all", GROUP, Statuses(302, 404, 403, 403, 422, 422), "post"),
    Row("messaging.discard", GROUP, Statuses(302, 404, 403, 403, 422, 422), "post"),
    Row("messaging.dead_letter_export", (*GROUP, "csv"), LOOK),
    # Statistics
    Row("metrics.index", OWN, LOOK),
    Row("metrics.topic", TOPIC, LOOK),
    Row("metrics.group", GROUP, LOOK),
    # Queues: each account its own. What one deletes at the service is gone for the next.
    Row("queues.list", (), ACCOUNT_LOOK),
    Row("queues.create", (), ACCOUNT_OPERATE),
    Row("queues.create", (), Statuses(302, 302, 403, 403, 302, 302), "post", NEW_QUEUE),
    Row("queues.detail", QUEUE, LOOK),
    Row("queues.live", QUEUE, LOOK),
    Row("queues.subscriptions", QUEUE, LOOK),
    Row("queues.statistics", QUEUE, LOOK),
    Row("queues.update", QUEUE, OPERATE),
    Row("queues.update", QUEUE, CHANGE, "post", ATTRIBUTES),
    Row("queues.delete", QUEUE, OPERATE),
    Row("queues.delete", QUEUE, Statuses(302, 404, 403, 403, 302, 404), "post", {"name": "matrix"}),
    Row("queues.send", QUEUE, OPERATE),
    Row("queues.send", QUEUE, OPERATE, "post", {"body": "from {role}"}),
    Row("queues.messages", QUEUE, LOOK),
    Row("queues.receive", QUEUE, OPERATE, "post", {"most": "1", "wait_s": "0"}),
    Row("queues.message_hide", QUEUE, NO_HANDLE, "post", {"handle": "none", "seconds": "1"}),
    Row("queues.message_delete", QUEUE, NO_HANDLE, "post", {"handle": "none"}),
    # Topics of the queue service; those of instances stand above.
    Row("queue_topics.list", (), ACCOUNT_LOOK),
    Row("queue_topics.create", (), ACCOUNT_OPERATE),
    Row("queue_topics.create", (), Statuses(302, 302, 403, 403, 302, 302), "post", NEW_QUEUE_TOPIC),
    Row("queue_topics.detail", QUEUE, LOOK),
    Row("queue_topics.publish", QUEUE, OPERATE),
    Row("queue_topics.publish", QUEUE, CHANGE, "post", {"body": "from {role}"}),
    Row("queue_topics.subscribe", QUEUE, OPERATE),
    Row("queue_topics.subscribe", QUEUE, CHANGE, "post", SUBSCRIPTION),
    Row("queue_topics.update", QUEUE, OPERATE),
    Row("queue_topics.update", QUEUE, CHANGE, "post", {"most_bytes": "65536"}),
    Row("queue_topics.update_subscription", ENDS, OPERATE),
    Row("queue_topics.update_subscription", ENDS, CHANGE, "post", {"strategy": "BACKOFF_RETRY", "tag": ""}),
    Row("queue_topics.unsubscribe", ENDS, OPERATE),
    Row("queue_topics.unsubscribe", ENDS, Statuses(302, 404, 403, 403, 302, 422), "post", {"name": "ends"}),
    Row("queue_topics.delete", QUEUE, OPERATE),
    Row("queue_topics.delete", QUEUE, Statuses(302, 404, 403, 403, 302, 404), "post", {"name": "matrix"}),
    # Async SQL: a RAM user sees the own tasks only
    # SQL jobs: one of another account does not exist
    Row("jobs.list", (), QUERY),
    Row("jobs.names", (), QUERY),
    Row("jobs.create", (), QUERY),
    Row("jobs.create", (), Statuses(302, 302, 403, 403, 302, 302), "post", NEW_JOB),
    Row("jobs.detail", JOB, ACMES_JOB),
    Row("jobs.live", JOB, ACMES_JOB),
    Row("jobs.editor", JOB, ACMES_JOB),
    Row("jobs.text", JOB, ACMES_JOB, "post", {"mode": "validate", "text": "select 1"}),
    Row("jobs.text", JOB, ACMES_JOB, "post", {"mode": "save", "text": "select 1"}),
    Row("jobs.text", JOB, ACMES_JOB, "post", {"mode": "deploy", "text": "select 1"}),
    Row("jobs.statistics", JOB, ACMES_JOB),
    Row("jobs.checkpoints", JOB, ACMES_JOB),
    Row("jobs.savepoint_delete", (*JOB, "99"), MISSING_FILE),
    Row("jobs.savepoint_delete", (*JOB, "99"), MISSING_FILE, "post", {"name": "00000001"}),
    Row("jobs.log", JOB, ACMES_JOB),
    Row("jobs.versions", JOB, ACMES_JOB),
    Row("jobs.version", (*JOB, "99"), MISSING_FILE),
    Row("jobs.start", JOB, ACMES_JOB),
    Row("jobs.start", JOB, NOT_DEPLOYED, "post", {"start_from": "checkpoint"}),
    Row("jobs.stop", JOB, ACMES_JOB),
    Row("jobs.stop", JOB, NOT_DEPLOYED, "post"),
    Row("jobs.delete", JOB, ACMES_JOB),
    Row("jobs.delete", JOB, CHANGE, "post", {"name": "matrix"}),
    Row("jobs.secrets", (), QUERY),
    Row("jobs.secret_put", (), QUERY),
    Row("jobs.secret_put", (), Statuses(302, 302, 403, 403, 302, 302), "post", {"name": "made", "value": "x"}),
    Row("jobs.secret_delete", ("made",), QUERY),
    Row("jobs.secret_delete", ("made",), Statuses(302, 422, 403, 403, 302, 302), "post", {"name": "made"}),
    Row("jobs.variable_put", (), QUERY),
    Row("jobs.variable_put", (), Statuses(302, 302, 403, 403, 302, 302), "post", {"name": "made", "value": "x"}),
    Row("jobs.variable_delete", ("made",), QUERY),
    Row("jobs.variable_delete", ("made",), Statuses(302, 422, 403, 403, 302, 302), "post", {"name": "made"}),
    # Change tracking: a task of another account does not exist
    Row("tracking.list", (), QUERY),
    Row("tracking.create", (), QUERY),
    Row("tracking.create", (), Statuses(302, 302, 403, 403, 302, 302), "post", NEW_TRACKING_TASK),
    Row("tracking.try", (), QUERY, "post", NEW_TRACKING_TASK),
    Row("tracking.detail", TRACKING, ACMES_JOB),
    Row("tracking.live", TRACKING, ACMES_JOB),
    Row("tracking.events", TRACKING, ACMES_JOB),
    Row("tracking.update", TRACKING, ACMES_JOB),
    Row("tracking.update", TRACKING, CHANGE, "post", NEW_TRACKING_TASK),
    Row("tracking.test", TRACKING, ACMES_JOB, "post", NEW_TRACKING_TASK),
    Row("tracking.pause", TRACKING, CHANGE, "post"),
    Row("tracking.resume", TRACKING, CHANGE, "post"),
    Row("tracking.delete", TRACKING, ACMES_JOB),
    Row("tracking.delete", TRACKING, CHANGE, "post", {"name": "matrix"}),
    Row("tracking.group_create", TRACKING, ACMES_JOB),
    Row("tracking.group_create", TRACKING, CHANGE, "post", NEW_CONSUMER_GROUP),
    Row("tracking.group_delete", (*TRACKING, "readers"), ACMES_JOB),
    Row("tracking.group_delete", (*TRACKING, "readers"), CHANGE, "post", {"name": "readers"}),
    # Alarms: who may do everything with messages, and nothing else, neither sees nor makes them
    Row("alarms.list", (), ADMINISTER),
    Row("alarms.acknowledge_many", (), ADMINISTER, "post", {"pick": "1000000"}),
    Row("alarms.acknowledge", ("alarm",), ADMINISTER_USER, "post"),
    Row("alarms.rules", (), ADMINISTER),
    Row("alarms.rule_create", (), ADMINISTER),
    Row("alarms.rule_create", (), Statuses(302, 422, 403, 403, 403, 302), "post", NEW_ALARM_RULE),
    Row("alarms.rule", ALARM_RULE, LOOK_AT_USER),
    Row("alarms.rule_curve", ALARM_RULE, LOOK_AT_USER),
    Row("alarms.rules_prometheus", (), ADMINISTER),
    Row("alarms.rule_update", ALARM_RULE, LOOK_AT_USER),
    Row("alarms.rule_update", ALARM_RULE, ADMINISTER_USER, "post", NEW_ALARM_RULE),
    Row("alarms.rule_enable", ALARM_RULE, ADMINISTER_USER, "post", {"enabled": "false"}),
    Row("alarms.rule_delete", ALARM_RULE, LOOK_AT_USER),
    Row("alarms.rule_delete", ALARM_RULE, ADMINISTER_USER, "post", {"name": "matrix"}),
    Row("alarms.recipients", (), ADMINISTER),
    Row("alarms.recipient_create", (), ADMINISTER),
    Row("alarms.recipient_create", (), Statuses(302, 302, 403, 403, 403, 302), "post", NEW_RECIPIENT),
    Row("alarms.recipient_update", ("alarm_recipient",), LOOK_AT_USER),
    Row("alarms.recipient_update", ("alarm_recipient",), ADMINISTER_USER, "post", NEW_RECIPIENT),
    Row("alarms.recipient_test", ("alarm_recipient",), ADMINISTER_USER, "post"),
    Row("alarms.recipient_delete", ("alarm_recipient",), LOOK_AT_USER),
    # The rule of the matrix tells nobody else.
    Row(
        "alarms.recipient_delete",
        ("alarm_recipient",),
        Statuses(302, 404, 403, 403, 403, 422),
        "post",
        {"name": "matrix"},
    ),
    # Inflow tasks: one of another account does not exist
    Row("inflow.list", (), QUERY),
    Row("inflow.create", (), QUERY),
    Row("inflow.create", (), Statuses(302, 422, 403, 403, 422, 422), "post", {"name": "made-by-{role}"}),
    Row("inflow.journey", (), QUERY, "post", {"pattern": "{}"}),
    Row("inflow.detail", JOB, ACMES_JOB),
    Row("inflow.live", JOB, ACMES_JOB),
    Row("inflow.update", JOB, ACMES_JOB),
    Row("inflow.update", JOB, NOT_DEPLOYED, "post", {"topic": ""}),
    Row("inflow.statistics", JOB, ACMES_JOB),
    Row("inflow.log", JOB, ACMES_JOB),
    Row("inflow.versions", JOB, ACMES_JOB),
    Row("inflow.version", (*JOB, "99"), MISSING_FILE),
    Row("inflow.webhook", JOB, CHANGE, "post"),
    Row("feeds.receive", ("unknown",), Statuses(404, 404, 404, 404, 404, 404, 404), "post"),
    Row("inflow.enable", JOB, ACMES_JOB),
    Row("inflow.enable", JOB, NOT_DEPLOYED, "post"),
    Row("inflow.pause", JOB, ACMES_JOB),
    Row("inflow.pause", JOB, NOT_DEPLOYED, "post"),
    Row("inflow.delete", JOB, ACMES_JOB),
    Row("inflow.delete", JOB, CHANGE, "post", {"name": "matrix"}),
    Row("archive.topic", TOPIC, OPERATE),
    Row("archive.state", TOPIC, OPERATE),
    Row("archive.start", TOPIC, CHANGE, "post"),
    Row("archive.index", (), QUERY),
    Row("archive.hourly", ("alices_archive",), CHANGE, "post", {"hourly": "on"}),
    Row("archive.delete", ("alices_archive",), OPERATE),
    Row("archive.delete", ("alices_archive",), CHANGE, "post", {"name": "orders"}),
    Row("sql.editor", (), QUERY),
    Row("sql.run", (), Statuses(302, 422, 403, 403, 422, 422), "post"),
    Row("sql.text", (), NO_STATEMENT),
    Row("sql.names", (), QUERY),
    Row("sql.check", (), QUERY, "post"),
    Row("sql.hint", (), QUERY, "post"),
    Row("sql.pick", ("topics",), QUERY),
    Row("sql.panel", ("history",), QUERY),
    Row("sql.schema", ("demo",), QUERY),
    Row("sql.columns", ("demo", "flights"), QUERY),
    Row("sql.save", (), QUERY),
    Row("sql.save", (), Statuses(302, 422, 403, 403, 422, 422), "post"),
    Row("sql.saved", ("999",), NO_STATEMENT),
    Row("sql.saved_delete", ("999",), NO_STATEMENT, "post"),
    Row("sql.tasks", (), QUERY),
    Row("sql.task", ("alices_task",), ALICES_TASK),
    Row("sql.state", ("alices_task",), ALICES_TASK),
    Row("sql.pane", ("alices_task",), ALICES_TASK),
    Row("sql.rows", ("alices_task",), ALICES_TASK),
    Row("sql.plot", ("alices_task",), ALICES_TASK),
    Row("sql.cancel_many", (), QUERY, "post", {"pick": "no-such-task"}),
    Row("sql.cancel", ("alices_task",), Statuses(302, 404, 403, 403, 404, 302), "post"),
    Row("sql.again", ("alices_task",), Statuses(302, 404, 403, 403, 404, 302), "post"),
    Row("sql.send_again", ("alices_task",), Statuses(302, 404, 403, 403, 404, 302), "post"),
    Row("sql.fetch", ("made-up",), Statuses(404, 404, 404, 404, 404, 404, 404)),
    Row("sql.download", ("alices_task",), Statuses(302, 404, 403, 403, 404, 404)),
    # The lake: a bucket of another account does not exist
    Row("sql.buckets", (), QUERY),
    Row("sql.bucket_create", (), QUERY),
    Row("sql.bucket_create", (), Statuses(302, 302, 403, 403, 302, 302), "post", {"name": "made-by-{role}"}),
    Row("sql.bucket", ("acme-lake",), ACMES_BUCKET),
    Row("sql.bucket_delete", ("acme-lake",), ACMES_BUCKET),
    Row("sql.bucket_delete", ("acme-lake",), CHANGE, "post", {"name": "acme-lake"}),
    Row("sql.bucket_upload", ("acme-lake",), Statuses(302, 404, 403, 403, 422, 422), "post"),
    Row("sql.bucket_rules", ("acme-lake",), ACMES_BUCKET),
    Row("sql.bucket_rules", ("acme-lake",), Statuses(302, 404, 403, 403, 422, 422), "post"),
    Row("sql.bucket_rule_delete", ("acme-lake", "none"), MISSING_FILE),
    Row("sql.bucket_rule_again", ("acme-lake", "none"), MISSING_FILE, "post"),
    Row("sql.bucket_table", ("acme-lake",), ACMES_BUCKET),
    Row("sql.bucket_table", ("acme-lake",), Statuses(302, 404, 403, 403, 422, 422), "post"),
    Row("sql.bucket_file", ("acme-lake", "none.csv"), MISSING_FILE),
    Row("sql.bucket_file_delete", ("acme-lake", "none.csv"), ACMES_BUCKET),
    Row("sql.bucket_file_delete", ("acme-lake", "none.csv"), CHANGE, "post", {"name": "none.csv"}),
    # AccessKeys: everybody has the own ones
    Row("accounts.keys", (), SIGNED_IN),
    Row("accounts.key_create", (), SIGNED_IN, "post"),
    Row(
        "accounts.key_switch",
        ("alices_key",),
        Statuses(302, 404, 404, 404, 404, 302),
        "post",
        {"enabled": "false"},
    ),
    Row("accounts.key_delete", ("alices_key",), Statuses(302, 404, 404, 404, 404, 200)),
    Row("accounts.key_database", (), SIGNED_IN, "post"),
    Row("accounts.key_database_delete", (), Statuses(302, 302, 302, 302, 302, 302), "post"),
    # Users
    Row("accounts.users", (), ADMINISTER),
    Row("accounts.user_create", (), ADMINISTER),
    Row("accounts.user_create", (), ADMINISTER, "post", {"name": "made-by-matrix"}),
    Row("accounts.user", BOB, LOOK_AT_USER),
    Row("accounts.user_update", BOB, LOOK_AT_USER),
    Row("accounts.user_update", BOB, ADMINISTER_USER, "post", {"display_name": "Bob"}),
    Row("accounts.user_switch", BOB, ADMINISTER_USER, "post", {"enabled": "true"}),
    Row("accounts.user_delete", BOB, LOOK_AT_USER),
    Row("accounts.user_delete", BOB, ADMINISTER_USER, "post", {"name": "bob@acme"}),
    Row("accounts.user_find_policies", BOB, LOOK_AT_USER),
    Row("accounts.user_add_policies", BOB, ADMINISTER_USER, "post", {"name": "policy"}),
    Row("accounts.user_detach_policy", BOB, ADMINISTER_USER, "post", {"name": "policy"}),
    Row("accounts.user_find_groups", BOB, LOOK_AT_USER),
    Row("accounts.user_add_groups", BOB, ADMINISTER_USER, "post", {"name": "senders"}),
    Row("accounts.user_leave_group", BOB, ADMINISTER_USER, "post", {"name": "senders"}),
    Row("accounts.user_password", BOB, ADMINISTER_USER, "post", {"password": "Another-horse-8"}),
    Row("accounts.user_mfa", BOB, ADMINISTER_USER, "post", {"required": "true"}),
    Row("accounts.user_mfa_remove", BOB, LOOK_AT_USER),
    Row("accounts.user_mfa_remove", BOB, ADMINISTER_USER, "post", {"name": "bob@acme"}),
    Row("accounts.user_sign_out", BOB, ADMINISTER_USER, "post"),
    Row("accounts.user_key_switch", (*BOB, "bobs_key"), ADMINISTER_USER, "post", {"enabled": "false"}),
    Row("accounts.user_key_delete", (*BOB, "bobs_key"), LOOK_AT_USER),
    # Policies, the simulator, roles
    Row("accounts.policies", (), ADMINISTER),
    Row("accounts.policy_create", (), ADMINISTER),
    Row("accounts.policy_create", (), Statuses(302, 302, 403, 403, 403, 302), "post", NEW_POLICY),
    Row("accounts.policy_check", (), SIGNED_IN, "post", {"document": "{}"}),
    Row("accounts.policy", ("own-policy",), LOOK_AT_USER),
    Row("accounts.policy", ("own-policy",), ADMINISTER_USER, "post", NEW_POLICY),
    Row("accounts.policy", ("AliyunMQFullAccess",), ADMINISTER),
    Row("accounts.policy_delete", ("own-policy",), LOOK_AT_USER),
    Row("accounts.policy_delete", ("own-policy",), ADMINISTER_USER, "post", {"name": "own-policy"}),
    Row("accounts.simulator", (), SIGNED_IN),
    Row("accounts.simulator", (), SIGNED_IN, "post", {"who": "me", "action": "mq:PUB", "resource": "orders"}),
    Row("accounts.simulator", (), Statuses(302, 422, 403, 403, 403, 200), "post", SIMULATE_BOB),
    Row("accounts.simulator_names", (), ADMINISTER),
    Row("accounts.roles", (), ADMINISTER),
    Row("accounts.role_create", (), ADMINISTER),
    Row("accounts.role_create", (), Statuses(302, 302, 403, 403, 403, 302), "post", NEW_ROLE),
    Row("accounts.role_assume", (), SIGNED_IN),
    Row("accounts.role_assume", (), Statuses(302, 422, 422, 422, 422, 200), "post", ASSUME),
    Row("accounts.role", ("Sender",), LOOK_AT_USER),
    Row("accounts.role", ("Sender",), ADMINISTER_USER, "post", NEW_ROLE),
    Row("accounts.role_delete", ("Sender",), LOOK_AT_USER),
    Row("accounts.role_delete", ("Sender",), ADMINISTER_USER, "post", {"name": "Sender"}),
    Row("accounts.role_find_policies", ("Sender",), LOOK_AT_USER),
    Row("accounts.role_add_policies", ("Sender",), ADMINISTER_USER, "post", {"name": "policy"}),
    Row("accounts.role_detach_policy", ("Sender",), ADMINISTER_USER, "post", {"name": "policy"}),
    Row("accounts.role_end_sessions", ("Sender",), ADMINISTER_USER, "post"),
    # User groups
    Row("accounts.groups", (), ADMINISTER),
    Row("accounts.group_create", (), ADMINISTER),
    Row("accounts.group_create", (), Statuses(302, 302, 403, 403, 403, 302), "post", {"name": "made-by-matrix"}),
    Row("accounts.group", SENDERS, LOOK_AT_USER),
    Row("accounts.group_update", SENDERS, LOOK_AT_USER),
    Row("accounts.group_update", SENDERS, ADMINISTER_USER, "post", {"name": "renamed"}),
    Row("accounts.group_delete", SENDERS, LOOK_AT_USER),
    Row("accounts.group_delete", SENDERS, ADMINISTER_USER, "post", {"name": "senders"}),
    Row("accounts.group_find_users", SENDERS, LOOK_AT_USER),
    Row("accounts.group_add_users", SENDERS, ADMINISTER_USER, "post", {"name": "bob@acme"}),
    Row("accounts.group_remove_user", SENDERS, ADMINISTER_USER, "post", {"name": "bob@acme"}),
    Row("accounts.group_find_policies", SENDERS, LOOK_AT_USER),
    Row("accounts.group_add_policies", SENDERS, ADMINISTER_USER, "post", {"name": "policy"}),
    Row("accounts.group_detach_policy", SENDERS, ADMINISTER_USER, "post", {"name": "policy"}),
    # Audit
    Row("audit.list", (), ADMINISTER),
    Row("audit.entry", ("alices_entry",), Statuses(302, 404, 403, 403, 403, 200)),
    Row("audit.export", ("csv",), ADMINISTER),
    # Platform: accounts
    Row("platform.accounts", (), PLATFORM),
    Row("platform.account_create", (), PLATFORM),
    Row("platform.account_create", (), PLATFORM, "post", {"name": "made", "organization": "organization"}),
    Row("platform.account", ("acme",), PLATFORM),
    Row("platform.account_switch", ("acme",), PLATFORM),
    Row("platform.account_switch", ("acme",), PLATFORM_CHANGE, "post", {"typed": "acme"}),
    Row("platform.account_limits", ("acme",), PLATFORM),
    Row("platform.account_limits", ("acme",), PLATFORM_CHANGE, "post", {"stored_bytes": "512 MiB"}),
    Row("platform.account_reset", ("acme",), PLATFORM),
    Row("platform.account_reset", ("acme",), PLATFORM, "post", {"typed": "acme"}),
    # Platform: organizations, resource sets, their keys
    Row("platform.organizations", (), PLATFORM),
    Row("platform.organization_create", (), PLATFORM),
    Row("platform.organization_create", (), PLATFORM_CHANGE, "post", {"name": "Made", "parent": ""}),
    Row("platform.organization", ("organization",), PLATFORM),
    Row("platform.organization", ("organization",), PLATFORM_CHANGE, "post", {"name": "Renamed"}),
    Row("platform.organization_delete", ("organization",), PLATFORM),
    Row("platform.resource_set_create", ("organization",), PLATFORM),
    Row("platform.resource_set_create", ("organization",), PLATFORM_CHANGE, "post", {"name": "made"}),
    Row("platform.resource_set", ("resource_set",), PLATFORM),
    Row("platform.resource_set_delete", ("resource_set",), PLATFORM),
    Row("platform.resource_set_delete", ("resource_set",), PLATFORM_CHANGE, "post", {"name": "standing"}),
    Row("platform.organization_keys", ("organization",), PLATFORM),
    Row("platform.organization_keys", ("organization",), PLATFORM, "post", {"tenant": "acme"}),
    Row("platform.organization_key_switch", ("organization_key",), PLATFORM_CHANGE, "post", {"enabled": "false"}),
    Row("platform.organization_key_delete", ("organization_key",), PLATFORM),
    # Platform: settings, cluster and audit
    Row("adoption.index", (), PLATFORM_CHANGE),
    Row("adoption.unowned", ("cluster",), PLATFORM),
    Row("adoption.adopt", ("cluster",), PLATFORM, "post"),
    Row("adoption.adopted", ("cluster",), PLATFORM),
    Row("adoption.forget", ("cluster",), PLATFORM, "post"),
    Row("adoption.runs", ("cluster",), PLATFORM),
    Row("adoption.rules", ("cluster",), PLATFORM),
    Row("adoption.detail", ("cluster", "topic", "nowhere"), PLATFORM_MISSING),
    Row("adoption.delete", ("cluster", "topic", "nowhere"), PLATFORM_MISSING),
    Row("adoption.run", ("999",), PLATFORM_MISSING),
    Row("adoption.undo", ("999",), PLATFORM_MISSING),
    Row("adoption.rule", ("999",), PLATFORM_MISSING),
    Row("adoption.rule_delete", ("999",), PLATFORM_MISSING, "post"),
    Row("platform.settings", (), PLATFORM),
    Row("platform.clusters", (), PLATFORM),
    Row("platform.cluster_add", (), PLATFORM),
    Row(
        "platform.cluster_add",
        (),
        PLATFORM_CHANGE,
        "post",
        {
            "name": "made",
            "namesrv": "10.0.0.5:9876",
            "access_control": "none",
        },
    ),
    Row("platform.cluster", ("cluster",), PLATFORM),
    Row("platform.cluster", ("999",), PLATFORM_MISSING),
    Row("platform.cluster_health", ("cluster",), PLATFORM),
    Row("platform.cluster_test", ("cluster",), PLATFORM, "post"),
    Row("platform.cluster_edit", ("cluster",), PLATFORM),
    Row("platform.cluster_edit", ("cluster",), PLATFORM_CHANGE, "post", {"proxy": "10.0.0.7:8081"}),
    Row("platform.cluster_remove", ("cluster",), PLATFORM),
    Row("platform.cluster_synchronise", ("cluster",), PLATFORM_CHANGE, "post"),
    Row("platform.audit", (), PLATFORM),
    Row("platform.audit_entry", ("alices_entry",), PLATFORM),
    Row("platform.audit_export", ("json",), PLATFORM),
    # API Tool: the document of the API is everybody's, the pages are for people of an account
    Row("openapi.document", (), EVERYBODY),
    Row("openapi.tool", (), SIGNED_IN),
    Row("openapi.tool_operation", ("topic/create",), SIGNED_IN),
    Row("openapi.tool_operation", ("no/such/operation",), Statuses(302, 404, 404, 404, 404, 404)),
    Row("openapi.tool_try", ("topic/create",), Statuses(302, 422, 422, 422, 422, 422), "post"),
    # Management API: signed requests only, a session is worth nothing
    Row("openapi.call", ("no/such/operation",), Statuses(404, 404, 404, 404, 404, 404, 404)),
    Row("openapi.rpc", (), Statuses(400, 400, 400, 400, 400, 400, 400)),
    # Assistants: an AccessKey in the header, a session is worth nothing
    Row("openapi.mcp", (), Statuses(405, 405, 405, 405, 405, 405, 405)),
    Row("openapi.mcp", (), Statuses(401, 401, 401, 401, 401, 401, 401), "post"),
]
