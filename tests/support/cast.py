"""The standing cast of the console's tests.

Alice administers the account `acme`. Bob is a RAM user there who may do everything with messages, Rita may only look,
Nora has no policy at all. Charlie administers the account `umbrella` and must see nothing of acme's. Petra administers
the platform and must see nothing of what is inside an account.
"""

from __future__ import annotations

import functools
import secrets
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest
import redis as redis_client
from django.conf import settings as django_settings
from django.test import Client

from brokercore.policy.table import KEYS
from console.accounts import policy_documents
from console.accounts import services as accounts
from console.accounts.actor import Actor
from console.accounts.models import Organization, Policy, Tenant, User, new_uid
from console.accounts.services.platform_admins import set_platform_admin
from console.audit.models import Entry
from console.instances import broker as clients
from console.instances import services as instances
from console.instances.models import Cluster, Instance, Origin
from console.topics import services as topics
from console.topics.models import Group, OrderType, Topic
from tests.support.broker import BrokerProcess
from tests.support.browser import browser
from tests.support.queue_service import QueueServiceProcess, queue_service
from tests.support.redis_server import RedisServer
from tests.support.rows import Rows

PASSWORD = "Correct-horse-7"
NAMES = ("alice", "bob", "rita", "nora", "charlie", "petra")


@dataclass
class Cast:
    """Who there is, and acme's instance; `charlies` is umbrella's."""

    users: dict[str, User]
    cluster: Cluster
    instance: Instance
    charlies: Instance
    _clients: dict[str, Client] = field(default_factory=dict)

    def __getattr__(self, name: str) -> User:
        try:
            return self.users[name]
        except KeyError as error:
            raise AttributeError(name) from error

    def actor(self, name: str) -> Actor:
        """The user as a fresh actor."""
        return Actor(user=User.objects.select_related("tenant").get(pk=self.users[name].pk))

    def client(self, name: str) -> Client:
        """A signed-in browser; `anonymous` is a fresh one."""
        if name == "anonymous":
            return browser()
        if name not in self._clients:
            self._clients[name] = browser()
            self._clients[name].force_login(self.users[name], "allauth.account.auth_backends.AuthenticationBackend")
        return self._clients[name]

    def bring_cluster(self) -> Cluster:
        """From now on the brokers are none of this installation's own, but those that GANTRY_NAMESRV names."""
        Cluster.objects.filter(pk=self.cluster.pk).update(origin=Origin.SETTINGS)
        for cluster in (self.cluster, self.instance.cluster, self.charlies.cluster):
            cluster.origin = Origin.SETTINGS
        return self.cluster

    @property
    def acme(self) -> Tenant:
        """Alice's account."""
        return self.instance.tenant


@functools.cache
def _store(url: str) -> redis_client.Redis:
    """One client for the whole run: a connection takes as much of a processor as all that it is asked for a test."""
    return redis_client.Redis.from_url(url)


@pytest.fixture
def console(db: None, settings: Any, broker: BrokerProcess) -> Cluster:
    """The console's settings point to the running broker and its Redis; the ACL table and the cache are empty."""
    settings.REDIS_URL = broker.redis_url
    settings.NAMESRV = broker.namesrv
    settings.BROKER_ACCESS_KEY_ID, settings.BROKER_ACCESS_KEY_SECRET = broker.access_key_id, broker.access_key_secret
    settings.MASTER_KEY = broker.master_key
    settings.PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]
    settings.CACHES = {
        "default": {
            "BACKEND": "django.core.cache.backends.redis.RedisCache",
            "LOCATION": f"{broker.redis_url}?db=2",
        }
    }
    _store(f"{broker.redis_url}?db=2").flushdb()
    _store(f"{broker.redis_url}?db=0").delete(KEYS)
    return Cluster.objects.create(
        name="DefaultCluster", origin=Origin.EMBEDDED, region=django_settings.REGION, namesrv=broker.namesrv
    )


@pytest.fixture(scope="session")
def running_queues(redis: RedisServer) -> Iterator[QueueServiceProcess]:
    """One queue service for the whole run. Each test has accounts of its own, and so its own queues."""
    with queue_service(redis) as process:
        yield process


@pytest.fixture
def queues(running_queues: QueueServiceProcess, settings: Any) -> QueueServiceProcess:
    """The console's settings point to the running queue service."""
    settings.SMQ_ADDRESS = running_queues.address
    return running_queues


@pytest.fixture
def cast(console: Cluster) -> Cast:
    """Everybody, and an instance for each account; see `make_topic` and `make_group` for what is in it."""
    if not _rows.can_be_written():
        return _rows.kept_from(lambda: _made(console))
    # Brokers live longer than a test and keep what was made for a number.
    texts = {row.uid: new_uid(len(row.uid)) for model in (Tenant, User) for row in _rows.of(model)}
    texts |= {row.instance_id[-8:]: secrets.token_hex(4) for row in _rows.of(Instance)}
    written = _rows.write(texts, {Cluster: console})
    alice, charlie, bob, rita, nora, petra = written[User]
    users = {"alice": alice, "charlie": charlie, "bob": bob, "rita": rita, "nora": nora, "petra": petra}
    return Cast(users, console, *written[Instance])


_rows = Rows(Organization, Policy, Tenant, User, User.policies.through, Instance, Entry)


def _made(console: Cluster) -> Cast:
    """As the services make it."""
    policy_documents.ensure_system_policies()
    organization = Organization.objects.create(name="Head office")
    alice = accounts.create_tenant(name="acme", organization=organization, password=PASSWORD)
    charlie = accounts.create_tenant(name="umbrella", organization=organization, password=PASSWORD)
    rights = {
        "bob": ["AliyunMQFullAccess", "AliyunMNSFullAccess", "AliyunDLAFullAccess", "AliyunDTSFullAccess"],
        "rita": ["AliyunMQReadOnlyAccess", "AliyunMNSReadOnlyAccess"],
        "nora": [],
    }
    users = {"alice": alice, "charlie": charlie}
    for name, wanted in rights.items():
        users[name] = accounts.create_user(
            actor=Actor(alice),
            name=name,
            password=PASSWORD,
            policies=[policy_documents.system_policy(p) for p in wanted],
        )
    set_platform_admin(name="petra", password=PASSWORD)
    users["petra"] = User.objects.get(username="petra")
    User.objects.update(must_change_password=False)
    return Cast(users, console, make_instance(alice, console), make_instance(charlie, console, name="charlies"))


def make_instance(owner: User, cluster: Cluster, *, name: str = "orders", **options: Any) -> Instance:
    """An instance with its own namespace unless said otherwise."""
    wanted = {"independent_naming": True} | options
    return instances.create_instance(actor=Actor(owner), cluster=cluster.name, name=name, **wanted)


def make_topic(owner: User, instance: Instance, name: str = "orders", order_type: int = OrderType.NORMAL) -> Topic:
    """A topic, on the broker too."""
    return topics.create_topic(actor=Actor(owner), instance=instance, name=name, order_type=order_type)


def make_group(owner: User, instance: Instance, group_id: str = "GID_orders", *, shared: bool = True) -> Group:
    """A group, on the broker too; `shared`, so that the policies of RAM users count on it."""
    group = topics.create_group(actor=Actor(owner), instance=instance, group_id=group_id)
    Group.objects.filter(pk=group.pk).update(shared=shared)
    return group


def on_broker(cluster: Cluster) -> set[str]:
    """The topics and groups that the broker has."""
    admin = clients.admin(cluster)
    return set(admin.topics.configs()) | set(admin.groups.configs())
