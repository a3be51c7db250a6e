"""One AccessKey at every door: the broker, the management API and the MySQL endpoint, each answering yes or no."""

from __future__ import annotations

import time
from collections.abc import Callable

import pymysql
import pytest
from django.conf import settings
from django.test import Client

from brokercore.client import Credentials, Message, Producer
from brokercore.client.errors import NoPermission
from console.accounts.services import IssuedKey
from console.openapi.authentication import sign
from tests.support.cast import Cast
from tests.support.patience import Patience

TOPIC = "orders"
#: What the product promises: a change of rights holds everywhere after so many seconds.
PROMISE_SECONDS = 2.0


#: Schemas that are shown to whoever signs in; what is in them is another matter.
OF_EVERYBODY = {"information_schema", "mq", "gantry"}


def send_once(cast: Cast, key: IssuedKey) -> None:
    """Publish a message as the key, once the broker knows it."""
    from console.rights import access_table
    from console.topics.models import Topic
    from tests.support.cast import make_topic

    if not Topic.objects.filter(instance=cast.instance, name=TOPIC).exists():
        make_topic(cast.alice, cast.instance, TOPIC)
    access_table.publish()
    until(lambda: may_publish(cast, key), "the broker does not know the key", seconds=10)


def may_publish(cast: Cast, key: IssuedKey) -> bool:
    """True when the broker takes a message of the key."""
    credentials = Credentials(key.access_key_id, key.access_key_secret)
    with Producer(cast.cluster.namesrv, credentials, "GID_any") as producer:
        try:
            producer.send(Message(cast.instance.physical_name(TOPIC), b"hello"))
        except NoPermission:
            return False
    return True


def may_call(cast: Cast, key: IssuedKey) -> bool:
    """True when the management API answers the key with the topics of the instance."""
    parameters = {
        "_accesskey": key.access_key_id,
        "__preventCache": str(int(time.time() * 1000)),
        "_regionId": settings.REGION,
        "instanceId": cast.instance.instance_id,
        "currentPage": "1",
        "pageSize": "10",
    }
    parameters["_signature"] = sign(parameters, key.access_key_secret)
    answer = Client().get("/json/topic/listInPage", parameters).json()
    return bool(answer["success"]) and bool(answer["data"])


def may_query(port: int, key: IssuedKey) -> bool:
    """True when the MySQL endpoint lets the key in and answers."""
    try:
        connection = pymysql.connect(
            host="127.0.0.1", port=port, user=key.access_key_id, password=key.access_key_secret, connect_timeout=10
        )
    except pymysql.err.MySQLError:
        return False
    with connection, connection.cursor() as cursor:
        return still_answers(cursor)


def still_answers(cursor: pymysql.cursors.Cursor) -> bool:
    """True when a connection that is open gets the names of the account's own schemas."""
    try:
        cursor.execute("show databases")
    except pymysql.err.MySQLError:
        return False
    return bool({name for (name,) in cursor.fetchall()} - OF_EVERYBODY)


def until(holds: Callable[[], bool], otherwise: str, *, seconds: float = PROMISE_SECONDS) -> None:
    """Poll until it holds; fail with `otherwise` after the deadline."""
    patience = Patience(seconds)
    while not holds():
        if patience.is_over():
            pytest.fail(f"{otherwise} within {seconds} s")
        time.sleep(0.05)
