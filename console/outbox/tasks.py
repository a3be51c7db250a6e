"""Celery tasks of the outbox, on the queue `default`."""

from __future__ import annotations

import logging

from brokercore.client.errors import ClientError, InvalidMessage, MessageIllegal
from brokercore.smq.client import QueueServiceUnavailable
from brokercore.smq.wire.errors import SmqError
from console.celery import app
from console.outbox import queues, routing, sending, services
from console.outbox.models import ALARM, BUCKET_EVENT, Notification

log = logging.getLogger(__name__)


@app.task(name="console.outbox.tasks.deliver")  # type: ignore[untyped-decorator]
def deliver(notification_id: int) -> None:
    """Send one notification, if nobody else does: at least once, duplicates carry the same key."""
    notification = services.claim(notification_id)
    if notification is None:
        return
    try:
        message_id = _send(notification)
    except routing.UndeliverableError as error:
        services.refuse(notification, str(error))
    except (InvalidMessage, MessageIllegal) as error:
        # What no broker takes today it will not take tomorrow.
        services.refuse(notification, error.user_message)
    except routing.PassingError as error:
        log.warning("notification %s was not delivered: %s", notification.pk, error)
        services.attempt_failed(notification, str(error))
    except ClientError as error:
        log.warning("notification %s was not delivered: %s", notification.pk, error)
        services.attempt_failed(notification, error.user_message)
    except QueueServiceUnavailable as error:
        log.warning("notification %s was not delivered: %s", notification.pk, error)
        services.attempt_failed(notification, str(error))
    except SmqError as error:
        log.warning("notification %s was not delivered: %s", notification.pk, error)
        services.attempt_failed(notification, f"The queue service answered {error.code.text}. {error.message}")
    except Exception:
        # Without an end it would be claimed again for ever.
        log.exception("notification %s was not delivered", notification.pk)
        services.attempt_failed(notification, f"Internal error; the worker's log has it under {notification.pk}.")
    else:
        services.delivered(notification, message_id)


def _send(notification: Notification) -> str:
    if notification.notify_by == "mns":
        return queues.send(notification)
    if notification.notify_by == BUCKET_EVENT:
        return queues.send_event(notification)
    if notification.notify_by == ALARM:
        return routing.send_alarm.get()(notification)
    return sending.send(routing.route(notification), notification)


@app.task(name="console.outbox.tasks.sweep")  # type: ignore[untyped-decorator]
def sweep() -> None:
    """Every 5 s: ask again for what is due, and for what a dead sender left behind."""
    services.sweep()


@app.task(name="console.outbox.tasks.expire")  # type: ignore[untyped-decorator]
def expire() -> None:
    """Once an hour: forget events of buckets and notices of alarms that ended long ago."""
    services.forget_events()
