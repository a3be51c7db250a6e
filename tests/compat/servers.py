"""The broker under test: the embedded one, or Apache RocketMQ to check that the tests state facts.

`GANTRY_TEST_BROKER=apache` runs the suite against Apache RocketMQ 5.3.3; what only the embedded broker does is then
skipped with the reason.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.compat.programs import Keys
from tests.compat.world import INSTANCE, OTHER_INSTANCE
from tests.support.apache import DEFAULT_VERSION, Access, ApacheRocketMQ
from tests.support.broker import BrokerProcess, broker_process

#: Seconds between two rounds of transaction checks; the default of 30 would only make the tests wait.
CHECK_SECONDS = "5"


#: Settings of a real broker under which it does what the embedded one does without.
APACHE_LINES = (
    "autoCreateTopicEnable=false",
    "autoCreateSubscriptionGroup=false",
    "enablePropertyFilter=true",
    "recallMessageEnable=true",
    "traceTopicEnable=true",
    "transactionTimeOut=3000",
    "transactionCheckInterval=5000",
)


@dataclass(frozen=True)
class Server:
    """A running broker, its name server's address and the keys of the cast."""

    namesrv: str
    system: Keys
    tenant: Keys
    read_only: Keys
    stranger: Keys
    embedded: bool

    @property
    def cast(self) -> tuple[Keys, Keys, Keys, Keys]:
        """All keys: system, tenant, reader, other tenant."""
        return (self.system, self.tenant, self.read_only, self.stranger)


def wants_apache() -> bool:
    """Tell whether the suite shall run against Apache RocketMQ."""
    return os.environ.get("GANTRY_TEST_BROKER") == "apache"


def drawn_keys(hint: str) -> Keys:
    """Return a new AccessKey pair."""
    return Keys(f"LTAI{hint}{secrets.token_hex(4)}", secrets.token_urlsafe(20))


@contextmanager
def apache(home: Path, version: str = DEFAULT_VERSION) -> Iterator[Server]:
    """Run Apache RocketMQ with access control on and a user for each of the cast; of 4.9.7 it is ACL 1.0."""
    access: Access = "acl1" if version == "4.9.7" else "acl2"
    server = ApacheRocketMQ(home, broker_lines=APACHE_LINES, version=version, access=access, admin_key="administrator")
    server.start()
    try:
        tenant, read_only, stranger = (drawn_keys(hint) for hint in ("tenant", "reader", "stranger"))
        server.create_user(*tenant)
        server.create_user(*read_only, actions="Sub,Get")
        server.create_user(*stranger, names=f"{OTHER_INSTANCE}*")
        system = Keys(server.admin_key, server.admin_secret)
        yield Server(server.namesrv, system, tenant, read_only, stranger, embedded=False)
    finally:
        server.kill()


@contextmanager
def embedded(home: Path) -> Iterator[Server]:
    """Run `python -m brokercore`, TLS offered, with a Redis of its own and an AccessKey for each of the cast."""
    with broker_process(
        gantry_transaction_check_seconds=CHECK_SECONDS, gantry_home=str(home), gantry_broker_tls="permissive"
    ) as broker:
        yield cast_of(broker)


def cast_of(broker: BrokerProcess) -> Server:
    """Give the tenant, its reader and the other tenant their AccessKeys on an embedded broker."""
    tenant, read_only, stranger = (drawn_keys(hint) for hint in ("tenant", "reader", "stranger"))
    broker.allow(*tenant, acl_row("1234567890123456", INSTANCE, "mq:*"))
    broker.allow(*read_only, acl_row("1234567890123456", INSTANCE, "mq:SUB", "mq:Query*"))
    broker.allow(*stranger, acl_row("6543210987654321", OTHER_INSTANCE, "mq:*"))
    system = Keys(broker.access_key_id, broker.access_key_secret)
    return Server(broker.namesrv, system, tenant, read_only, stranger, embedded=True)


def acl_row(tenant: str, instance_id: str, *actions: str) -> dict[str, object]:
    """One row of the table of AccessKeys: a tenant that owns one instance and is allowed `actions` in it."""
    return {
        "tenant": tenant,
        "token": None,
        "expires_ms": None,
        "boundary": [f"acs:mq:*:*:{instance_id}", f"acs:mq:*:*:{instance_id}%*"],
        "statements": [{"Effect": "Allow", "Action": list(actions), "Resource": ["*"]}],
        "grants": [],
    }
