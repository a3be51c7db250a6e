"""Bare names that clients make by admin calls: decided as on the page, and made in the account's instance without
namespace. Embedded brokers ask by a list in Redis, and wait for the answer (`brokercore.server.rights.bare_names`).
"""

from __future__ import annotations

import logging
import threading
import time
from typing import cast

from django.core.exceptions import PermissionDenied
from django.db import Error, close_old_connections
from django.utils.translation import gettext as _
from redis.exceptions import RedisError

from brokercore.client import GroupConfig, TopicConfig
from brokercore.client.errors import ClientError
from brokercore.policy import mq_resource
from brokercore.policy.table import WANTED, Answer, Wanted, answer_key
from console.accounts.access import require
from console.accounts.actor import Actor
from console.accounts.credentials import actor_of, find_key
from console.instances.models import Instance, Origin
from console.topics import access, services
from console.topics.as_is import group_as_is, topic_as_is
from console.web.errors import Refused
from console.web.redis import connection

log = logging.getLogger(__name__)
#: How long one look waits for a wish, and the pause after an outage, s.
WAIT_S, PAUSE_S = 1, 2.0
#: How long an answer is kept, s: who asked waits for less.
_KEPT_S = 30


def serve(stop: threading.Event) -> None:
    """Answer what brokers ask until `stop`."""
    while not stop.is_set():
        try:
            answer_next()
        except (RedisError, Error) as error:
            log.warning("brokers that ask for names get no answer now: %s", error)
            stop.wait(PAUSE_S)
        finally:
            close_old_connections()


def answer_next(wait_s: int = WAIT_S) -> bool:
    """Answer the oldest wish, waiting for one so long; False when none came. Raises RedisError, and Error of Django."""
    client = connection()
    found = cast("tuple[str, str] | None", client.brpop([WANTED], timeout=wait_s))
    if found is None:
        return False
    try:
        wanted = Wanted.decode(found[1])
    except (ValueError, KeyError, TypeError) as error:
        log.error("a wish of a broker cannot be read: %r", error)
        return True
    if wanted.deadline_ms > time.time() * 1000:  # nobody waits for a later one any more
        client.set(answer_key(wanted.number), _answer(wanted).encode(), ex=_KEPT_S)
    return True


def _answer(wanted: Wanted) -> Answer:
    key = find_key(wanted.key)
    if key is None:
        return Answer("permission", _("the AccessKey %(key)s does not exist or is disabled") % {"key": wanted.key})
    try:
        _make(actor_of(key, channel="broker", source_ip=wanted.address, secure=wanted.secure), wanted)
    except PermissionDenied as error:
        return Answer("permission", str(error))
    except Refused as refused:
        return Answer("refused", refused.message)
    except ClientError as error:
        return Answer("busy", error.user_message)
    return Answer()


def _make(actor: Actor, wanted: Wanted) -> None:
    """Raises PermissionDenied, Refused and ClientError."""
    instance = (
        Instance.objects.select_related("tenant", "cluster")
        .filter(tenant=actor.tenant, independent_naming=False, cluster__origin=Origin.EMBEDDED)
        .first()
    )
    if instance is None:
        raise PermissionDenied(
            _("%(name)s has no instance without a namespace, in which %(wanted)s would be")
            % {"name": actor.tenant.name, "wanted": wanted.name}
        )
    if wanted.kind == "topic":
        require(actor, "mq:CreateTopic", mq_resource(instance.instance_id), owner=instance.tenant)
        topic = topic_as_is(instance, wanted.name, wanted.name, TopicConfig.from_dict(wanted.config))
        services.create_topic(
            actor=actor,
            instance=instance,
            name=wanted.name,
            order_type=topic.order_type,
            queues=topic.queues,
            perm=topic.perm,
        )
        return
    access.require_new_group(actor, instance)
    group = group_as_is(instance, wanted.name, wanted.name, GroupConfig.from_dict(wanted.config))
    services.create_group(
        actor=actor,
        instance=instance,
        group_id=wanted.name,
        delivery_order=group.delivery_order,
        read_enabled=group.read_enabled,
        retry_max_times=group.retry_max_times,
    )
