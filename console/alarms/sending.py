"""Sends a notice to one recipient in the recipient's own form (docs/use/alarms.md).

Requests go to public addresses and to those that the platform's administrator allows, as pushes of queues do, and are
no redirects followed. Twice is harmless: each notice carries the same key however often it is sent.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import smtplib
import time
from collections.abc import Callable
from contextlib import closing
from datetime import datetime
from typing import Any
from urllib.parse import quote_plus, urlsplit, urlunsplit

from django.conf import settings
from django.core.mail import EmailMessage
from django.utils import translation
from django.utils.translation import gettext as _

from analytics.inflow.http_line import Answer, Line, Unanswered, sign
from brokercore.client import Message
from console.accounts.crypto import decrypt
from console.alarms import mail_domains, sentences
from console.alarms.models import Recipient, RecipientKind, Severity
from console.alarms.notices import ENDED, REPEATED, TEST
from console.instances import broker
from console.outbox import queues
from console.outbox.models import Notification
from console.outbox.routing import PassingError, UndeliverableError
from console.topics.models import ORDERED, Topic
from console.web import zone
from console.web.languages import gettext_lazy, kept, pgettext_lazy

_ANSWER_S = 15.0
#: Of an answer, bytes: the services of chats say in it whether they took the message.
_MOST_ANSWER = 16 << 10
_EVENTS = {ENDED: pgettext_lazy("state", "Ended"), TEST: gettext_lazy("Test")}
#: Of an answer of theirs that is shown, characters.
_LONGEST_SHOWN = 120


@kept()
def send(notification: Notification) -> str:
    """Send, and wait until it was taken; returns what names it at the other end, if anything does.

    Raises UndeliverableError for what can never be sent, PassingError for what may pass, and ClientError and SmqError
    as topics and queues do.
    """
    recipient = (
        Recipient.objects.filter(pk=int(notification.queue), tenant=notification.tenant)
        .select_related("instance__cluster")
        .first()
    )
    if recipient is None:
        raise UndeliverableError(_("The recipient was deleted."))
    return _SENDERS[RecipientKind(recipient.kind)](recipient, notification)


def _mail(recipient: Recipient, notification: Notification) -> str:
    if not settings.EMAIL_HOST:
        raise UndeliverableError(_("The platform's administrator has named no mail server (GANTRY_SMTP_HOST)."))
    lines = _lines(recipient, json.loads(notification.body))
    addresses = decrypt(recipient.address_encrypted).split()
    if refusal := mail_domains.refusal(addresses):  # they may have been others when it was made
        raise UndeliverableError(refusal)
    message = EmailMessage(
        subject=lines[0],
        body="\n".join(lines) + "\n",
        to=addresses,
        headers={"Message-ID": f"<{notification.key}.{recipient.pk}@gantry>", "Auto-Submitted": "auto-generated"},
    )
    try:
        message.send()
    except smtplib.SMTPRecipientsRefused as error:
        codes = [code for code, _unused in error.recipients.values()]
        sentence = f"The mail server refused all addresses (status {codes[0] if codes else 'unknown'})."
        if all(code >= 500 for code in codes):
            raise UndeliverableError(sentence) from error
        raise PassingError(sentence) from error
    except smtplib.SMTPAuthenticationError as error:
        raise PassingError(_("The mail server refused the platform's user name or password.")) from error
    except (smtplib.SMTPException, OSError) as error:
        raise PassingError(_("The mail server did not take it: %(name)s.") % {"name": type(error).__name__}) from error
    return ""


def _webhook(recipient: Recipient, notification: Notification) -> str:
    body = notification.body.encode()
    headers = {"x-gantry-request-id": f"{notification.key}-{recipient.pk}"}
    if recipient.secret_encrypted:
        headers["x-gantry-signature"] = sign(decrypt(recipient.secret_encrypted).encode(), body)
    _post(decrypt(recipient.address_encrypted), body, headers)
    return ""


def _slack(recipient: Recipient, notification: Notification) -> str:
    """Incoming webhooks: `text` in mrkdwn, where &, < and > mean something."""
    told = json.loads(notification.body)
    text = "\n".join(_lines(recipient, told)).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    _post(decrypt(recipient.address_encrypted), _json({"text": text}))
    return ""


def _dingtalk(recipient: Recipient, notification: Notification) -> str:
    """Custom robots: signed in the query by the key and the time in ms; they answer 200 with `errcode`."""
    told = json.loads(notification.body)
    url = decrypt(recipient.address_encrypted)
    if recipient.secret_encrypted:
        key, at = decrypt(recipient.secret_encrypted), str(int(time.time() * 1000))
        made = base64.b64encode(hmac.new(key.encode(), f"{at}\n{key}".encode(), hashlib.sha256).digest())
        parts = urlsplit(url)
        query = "&".join(part for part in (parts.query, f"timestamp={at}", f"sign={quote_plus(made)}") if part)
        url = urlunsplit(parts._replace(query=query))
    answer = _post(url, _json({"msgtype": "text", "text": {"content": "\n".join(_lines(recipient, told))}}))
    _require_taken(answer, "DingTalk", "errcode", "errmsg")
    return ""


def _feishu(recipient: Recipient, notification: Notification) -> str:
    """Custom bots: signed in the body by the key and the time in s; they answer 200 with `code`.

    In a text of theirs `<at …>` calls people, and nothing stands for a `<`: names and reasons get another character.
    """
    told = json.loads(notification.body)
    text = "\n".join(_lines(recipient, told)).replace("<", "＜")
    content: dict[str, Any] = {"msg_type": "text", "content": {"text": text}}
    if recipient.secret_encrypted:
        at = str(int(time.time()))
        made = hmac.new(f"{at}\n{decrypt(recipient.secret_encrypted)}".encode(), b"", hashlib.sha256).digest()
        content |= {"timestamp": at, "sign": base64.b64encode(made).decode()}
    answer = _post(decrypt(recipient.address_encrypted), _json(content))
    _require_taken(answer, "Feishu", "code", "msg")
    return ""


def _topic(recipient: Recipient, notification: Notification) -> str:
    topic = Topic.objects.filter(instance=recipient.instance, name=recipient.topic).first()
    if topic is None or recipient.instance is None:
        raise UndeliverableError(_("Topic %(topic)s does not exist any more.") % {"topic": recipient.topic})
    cluster = recipient.instance.cluster
    if cluster.read_only:
        raise UndeliverableError(broker.read_only(cluster.name).message)
    message = Message(topic.physical_name, notification.body.encode(), tags=notification.tag, keys=notification.key)
    producer = broker.producer(cluster)
    sent = producer.send_ordered(message, "alarms") if topic.order_type in ORDERED else producer.send(message)
    return sent.message_id


def _queue(recipient: Recipient, notification: Notification) -> str:
    notification.queue = recipient.queue
    return queues.send_event(notification)


def _post(url: str, body: bytes, headers: dict[str, str] | None = None) -> Answer:
    """The answer of an endpoint that took it. Raises UndeliverableError, PassingError."""
    told = {"content-type": "application/json; charset=utf-8", "user-agent": "Gantry", "accept-encoding": "identity"}
    with closing(Line(url, "endpoint", settings.SMQ_PUSH_ALLOW)) as line:
        try:
            answer = line.ask(body, told | (headers or {}), _ANSWER_S, _MOST_ANSWER)
        except Unanswered as error:
            raise (UndeliverableError if error.is_forbidden else PassingError)(error.user_message) from error
        if answer.is_taken:
            return answer
        sentence = f"{line.where} answers with status {answer.status}."
        if answer.is_elsewhere:
            sentence = f"{line.where} redirects to another address, which is not followed."
        raise (PassingError if answer.may_pass else UndeliverableError)(sentence)


def _require_taken(answer: Answer, who: str, code: str, reason: str) -> None:
    """Raise PassingError where the service says in its answer that it did not take the message."""
    try:
        said = json.loads(answer.content[:_MOST_ANSWER])
        number, words = said.get(code, 0), str(said.get(reason, ""))
    except (ValueError, AttributeError):
        raise PassingError(_("%(who)s answered something else than it does for its robots.") % {"who": who}) from None
    if number:
        shown = "".join(one if one.isprintable() else " " for one in words)[:_LONGEST_SHOWN].strip()
        raise PassingError(_("%(who)s refused the message: %(shown)s.") % {"who": who, "shown": shown or number})


def _title(told: dict[str, Any]) -> str:
    severity = str(Severity(told["severity"]).label)
    word = severity
    if told["event"] == REPEATED:
        word = _("%(severity)s, still") % {"severity": severity}
    elif told["event"] in _EVENTS:
        word = str(_EVENTS[told["event"]])
    kind = TEST if told["event"] == TEST else told["condition"]
    sentence = sentences.sentence(kind, told.get("facts", {}), told["sentence"])
    # One line, whatever an error of somebody else's has in it: this is a header of mail too.
    sentence = "".join(one if one.isprintable() else " " for one in sentence)
    return " ".join(f"[{word}] {sentence}".split())[:200]


def _lines(recipient: Recipient, told: dict[str, Any]) -> list[str]:
    """The notice for people, a line each, in the recipient's language."""
    with translation.override(recipient.language):
        found = [_title(told)]
        if told.get("rule"):
            found.append(_("Rule %(rule)s of account %(account)s") % {"rule": told["rule"], "account": told["account"]})
        if told.get("since"):
            found.append(_times(told))
    if told.get("page"):
        found.append(told["page"])
    return found


def _times(told: dict[str, Any]) -> str:
    """Since when, or from when until when, in the rule's zone."""
    where = zone.named(told.get("zone", ""))
    begin, end = (
        f"{datetime.fromtimestamp(at_ms / 1000, where):%Y-%m-%d %H:%M:%S}" if at_ms else ""
        for at_ms in (told["since"], told.get("ended"))
    )
    text = _("From %(begin)s to %(end)s (%(zone)s)") if end else _("Since %(begin)s (%(zone)s)")
    return text % {"begin": begin, "end": end, "zone": where.key}


def _json(content: dict[str, Any]) -> bytes:
    return json.dumps(content, ensure_ascii=False).encode()


_SENDERS: dict[RecipientKind, Callable[[Recipient, Notification], str]] = {
    RecipientKind.MAIL: _mail,
    RecipientKind.WEBHOOK: _webhook,
    RecipientKind.SLACK: _slack,
    RecipientKind.DINGTALK: _dingtalk,
    RecipientKind.FEISHU: _feishu,
    RecipientKind.TOPIC: _topic,
    RecipientKind.QUEUE: _queue,
}
