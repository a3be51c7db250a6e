"""Notifications: what a published message is to its subscribers, and the request that pushes it to a receiver."""

from __future__ import annotations

import hashlib
import json
import random
from binascii import b2a_base64
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from urllib.parse import urlsplit

from brokercore.smq.wire.signature import text_to_sign
from brokercore.smq.wire.subscriptions import Format, Strategy
from brokercore.smq.wire.topics import Publication
from brokercore.smq.wire.xml import document, leaf

VERSION = "2015-06-06"
_DEFAULT_PATH = "/notifications"
_TYPES = {
    Format.XML: "text/xml;charset=utf-8",
    Format.JSON: "text/plain;charset=utf-8",
    Format.SIMPLIFIED: "text/plain;charset=utf-8",
}
_BACKOFF_TRIES, _BACKOFF_SECONDS = 4, (10.0, 20.0)
_DECAY_TRIES, _DECAY_MOST_SECONDS = 177, 512


@dataclass(frozen=True)
class Notice:
    """One published message; the account owns the topic, and is its subscriber too. The time is epoch ms."""

    account: str
    topic: str
    message_id: str
    published_ms: int
    publication: Publication

    @cached_property
    def digest(self) -> bytes:
        """MD5 of the published body."""
        return hashlib.md5(self.publication.body, usedforsecurity=False).digest()

    def content(self, subscription: str, form: Format) -> bytes:
        """What the subscription of this name gets."""
        if form is Format.SIMPLIFIED:
            return self.publication.body
        fields = {
            "TopicOwner": self.account,
            "TopicName": self.topic,
            "Subscriber": self.account,
            "SubscriptionName": subscription,
            "MessageId": self.message_id,
            "Message": "",
            "MessageMD5": self.digest.hex().upper(),
            **({"MessageTag": self.publication.tag} if self.publication.tag else {}),
            "PublishTime": str(self.published_ms),
        }
        if form is Format.JSON:
            written = {name: _json(value) for name, value in fields.items()} | {"Message": self._json}
            return f"{{{','.join([f'{_json(name)}:{value}' for name, value in written.items()])}}}".encode()
        leaves = {name: leaf(name, value) for name, value in fields.items()} | {"Message": self._leaf}
        return document("Notification", leaves.values())

    @cached_property
    def _json(self) -> str:
        return _json(self.publication.body.decode())

    @cached_property
    def _leaf(self) -> str:
        return leaf("Message", self.publication.body.decode())

    def headers(self, subscription: str) -> dict[str, str]:
        """Headers of a push of the published bytes alone: they say what the other forms have in their body."""
        return {
            "x-mns-message-id": self.message_id,
            "x-mns-publish-time": str(self.published_ms),
            "x-mns-subscriber": self.account,
            "x-mns-subscription-name": subscription,
            "x-mns-topic-name": self.topic,
            "x-mns-topic-owner": self.account,
            **({"x-mns-message-tag": tag} if (tag := self.publication.tag) and tag.isascii() else {}),
        }


def _json(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def push_target(endpoint: str) -> str:
    """The path, with its query, that a push is sent to."""
    parts = urlsplit(endpoint)
    return (parts.path or _DEFAULT_PATH) + (f"?{parts.query}" if parts.query else "")


def push_headers(
    form: Format, content: bytes, own: Mapping[str, str], *, request_id: str, date: str, certificate_url: str
) -> dict[str, str]:
    """All headers of a push but its signature. `own` are those that the notification brings, `date` an HTTP date."""
    digest = hashlib.md5(content, usedforsecurity=False).hexdigest()
    return {
        "content-md5": b2a_base64(digest.encode(), newline=False).decode(),
        "content-type": _TYPES[form],
        "date": date,
        "x-mns-request-id": request_id,
        "x-mns-version": VERSION,
        "x-mns-signing-cert-url": b2a_base64(certificate_url.encode(), newline=False).decode(),
        **own,
    }


def push_text_to_sign(endpoint: str, headers: Mapping[str, str]) -> str:
    """What the signature of a push is made of; header names are lower-case."""
    return text_to_sign("POST", push_target(endpoint), headers)


def pause_before_next(strategy: Strategy, tries: int) -> float | None:
    """Seconds until a push is tried again that failed so many times; None: it is given up."""
    if strategy is Strategy.BACKOFF:
        return random.uniform(*_BACKOFF_SECONDS) if tries < _BACKOFF_TRIES else None
    return float(min(2 ** min(tries - 1, 20), _DECAY_MOST_SECONDS)) if tries < _DECAY_TRIES else None
