"""Requests of the two protocols, made by hand: a client that costs the same for both, and as little as can be.

A dialect gives whole requests as bytes, and takes the handles out of the answer of a receive.
"""

from __future__ import annotations

import hashlib
import hmac
import re
import time
from binascii import b2a_base64
from collections.abc import Sequence
from email.utils import formatdate
from typing import Protocol

SHOWN = 300
"""Characters of an answer that a failure tells."""


class Dialect(Protocol):
    """One protocol towards one server."""

    def create(self, queue: str) -> bytes:
        """Make a queue whose messages stay hidden for five minutes."""

    def send(self, queue: str, body: str, count: int) -> bytes:
        """Send a body once, or so many times in one batch."""

    def receive(self, queue: str, most: int, wait_seconds: int = 0) -> bytes:
        """Receive up to so many messages."""

    def delete(self, queue: str, handles: Sequence[str]) -> bytes:
        """Delete what these receipt handles name."""

    def names(self, marker: str) -> bytes:
        """A page of up to 1,000 names behind the marker of the page before."""

    def marker(self, answer: bytes) -> str:
        """The marker of the next page; empty at the end."""

    def handles(self, answer: bytes) -> list[str]:
        """The receipt handles in the answer of a receive; empty when nothing was there."""


class Smq:
    """Our service: XML, each request signed by itself."""

    def __init__(self, port: int, key_id: str, secret: str) -> None:
        self._host, self._key_id = f"127.0.0.1:{port}", key_id
        self._hmac = hmac.new(secret.encode(), digestmod=hashlib.sha1)
        self._date, self._second = "", 0

    def create(self, queue: str) -> bytes:
        return self._request(
            "PUT",
            f"/queues/{queue}",
            f"{_DECLARATION}<Queue {_SPACE}><VisibilityTimeout>300</VisibilityTimeout></Queue>",
        )

    def send(self, queue: str, body: str, count: int) -> bytes:
        one = f"<MessageBody>{body}</MessageBody>"
        text = (
            f"<Message {_SPACE}>{one}</Message>"
            if count == 1
            else f"<Messages {_SPACE}>{f'<Message>{one}</Message>' * count}</Messages>"
        )
        return self._request("POST", f"/queues/{queue}/messages", _DECLARATION + text)

    def receive(self, queue: str, most: int, wait_seconds: int = 0) -> bytes:
        batch = f"numOfMessages={most}&" if most > 1 else ""
        return self._request("GET", f"/queues/{queue}/messages?{batch}waitseconds={wait_seconds}")

    def delete(self, queue: str, handles: Sequence[str]) -> bytes:
        if len(handles) == 1:
            return self._request("DELETE", f"/queues/{queue}/messages?ReceiptHandle={handles[0]}")
        inner = "".join([f"<ReceiptHandle>{handle}</ReceiptHandle>" for handle in handles])
        return self._request(
            "DELETE", f"/queues/{queue}/messages", f"{_DECLARATION}<ReceiptHandles {_SPACE}>{inner}</ReceiptHandles>"
        )

    def names(self, marker: str) -> bytes:
        return self._request("GET", "/queues", headers=f"x-mns-marker:{marker}\n" if marker else "")

    def marker(self, answer: bytes) -> str:
        found = _SMQ_MARKER.search(answer)
        return found[1].decode() if found else ""

    def handles(self, answer: bytes) -> list[str]:
        return [handle.decode() for handle in _SMQ_HANDLE.findall(answer)]

    def _request(self, method: str, target: str, body: str = "", headers: str = "") -> bytes:
        second = int(time.time())
        if second != self._second:
            self._second, self._date = second, formatdate(second, usegmt=True)
        kind = "text/xml" if body else ""
        signed = self._hmac.copy()
        signed.update(f"{method}\n\n{kind}\n{self._date}\n{headers}x-mns-version:2015-06-06\n{target}".encode())
        signature = b2a_base64(signed.digest(), newline=False).decode()
        return (
            f"{method} {target} HTTP/1.1\r\nHost: {self._host}\r\nDate: {self._date}\r\n"
            f"Authorization: MNS {self._key_id}:{signature}\r\n{headers.replace(chr(10), chr(13) + chr(10))}"
            f"x-mns-version: 2015-06-06\r\nContent-Type: {kind}\r\nContent-Length: {len(body)}\r\n\r\n{body}"
        ).encode()


class Sqs:
    """SQS: JSON, as today's SDKs speak it. What stands for a signature is the same each time: neither server checks it,
    moto sees by it which of Amazon's services is meant."""

    def __init__(self, port: int, account: str) -> None:
        self._host = f"127.0.0.1:{port}"
        self._account = account

    def create(self, queue: str) -> bytes:
        return self._request("CreateQueue", f'{{"QueueName":"{queue}","Attributes":{{"VisibilityTimeout":"300"}}}}')

    def send(self, queue: str, body: str, count: int) -> bytes:
        if count == 1:
            return self._request("SendMessage", f'{{"QueueUrl":"{self._url(queue)}","MessageBody":"{body}"}}')
        entries = ",".join([f'{{"Id":"{number}","MessageBody":"{body}"}}' for number in range(count)])
        return self._request("SendMessageBatch", f'{{"QueueUrl":"{self._url(queue)}","Entries":[{entries}]}}')

    def receive(self, queue: str, most: int, wait_seconds: int = 0) -> bytes:
        return self._request(
            "ReceiveMessage",
            f'{{"QueueUrl":"{self._url(queue)}","MaxNumberOfMessages":{most},"WaitTimeSeconds":{wait_seconds}}}',
        )

    def delete(self, queue: str, handles: Sequence[str]) -> bytes:
        if len(handles) == 1:
            return self._request("DeleteMessage", f'{{"QueueUrl":"{self._url(queue)}","ReceiptHandle":"{handles[0]}"}}')
        entries = ",".join([f'{{"Id":"{number}","ReceiptHandle":"{handle}"}}' for number, handle in enumerate(handles)])
        return self._request("DeleteMessageBatch", f'{{"QueueUrl":"{self._url(queue)}","Entries":[{entries}]}}')

    def names(self, marker: str) -> bytes:
        behind = f',"NextToken":"{marker}"' if marker else ""
        return self._request("ListQueues", f'{{"MaxResults":1000{behind}}}')

    def marker(self, answer: bytes) -> str:
        found = _SQS_MARKER.search(answer)
        return found[1].decode() if found else ""

    def handles(self, answer: bytes) -> list[str]:
        return [handle.decode() for handle in _SQS_HANDLE.findall(answer)]

    def _url(self, queue: str) -> str:
        return f"http://{self._host}/{self._account}/{queue}"

    def _request(self, operation: str, body: str) -> bytes:
        return (
            f"POST / HTTP/1.1\r\nHost: {self._host}\r\nContent-Type: application/x-amz-json-1.0\r\n"
            f"X-Amz-Target: AmazonSQS.{operation}\r\n{_UNCHECKED}Content-Length: {len(body)}\r\n\r\n{body}"
        ).encode()


_UNCHECKED = (
    "Authorization: AWS4-HMAC-SHA256 Credential=bench/20260101/us-east-1/sqs/aws4_request, "
    "SignedHeaders=host, Signature=0\r\n"
)
_DECLARATION = '<?xml version="1.0" encoding="UTF-8"?>'
_SPACE = 'xmlns="http://mns.aliyuncs.com/doc/v1/"'
_SMQ_HANDLE = re.compile(rb"<ReceiptHandle>([^<]+)<")
_SQS_HANDLE = re.compile(rb'"ReceiptHandle" ?: ?"([^"]+)"')
_SMQ_MARKER = re.compile(rb"<NextMarker>([^<]+)<")
_SQS_MARKER = re.compile(rb'"NextToken" ?: ?"([^"]+)"')
