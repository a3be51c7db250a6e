"""A call that the console signs for a user: as one from outside, with the secret never leaving the server."""

from __future__ import annotations

import io
import json
import time
import uuid
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, cast
from urllib.parse import urlencode

from django.core.handlers.wsgi import WSGIRequest

from console.accounts import credentials
from console.accounts.actor import Actor
from console.accounts.crypto import decrypt
from console.accounts.http import Request
from console.accounts.models import AccessKey
from console.instances import queries as instance_queries
from console.instances.models import Instance
from console.openapi import views as api
from console.openapi.authentication import ACCESS_KEY, REGION, SIGNATURE, TIMESTAMP, sign
from console.openapi.reference import Reference, references
from console.openapi.samples import Wanted
from console.topics import queries as topic_queries

_SUGGESTED = 200
"""Names to choose from at most; more are found by typing."""
# Where the caller is, as the middlewares left it; cookies and everything else of the session stay behind.
_CIRCUMSTANCES = ("REMOTE_ADDR", "SERVER_NAME", "SERVER_PORT", "HTTP_HOST")


def directory(service: str, keyword: str) -> list[Reference]:
    """Operations of a service (empty: all) whose name contains the keyword, in any case."""
    wanted = keyword.lower()
    return [r for r in references() if service in ("", r.service) and _contains(r, wanted)]


def _contains(reference: Reference, keyword: str) -> bool:
    return keyword in reference.path.lower() or keyword in reference.rpc.lower()


def services() -> list[str]:
    """The services, in order of name."""
    return sorted({reference.service for reference in references()})


def usable_keys(actor: Actor) -> list[AccessKey]:
    """The keys of the person that sign in this moment, oldest first."""
    return list(credentials.usable_keys().filter(user=actor.person, security_token="").order_by("created_at"))


def suggestions(
    actor: Actor, visible: Iterable[Instance], instance_id: str, wanted: set[str]
) -> dict[str, list[tuple[str, str]]]:
    """Names for the kinds in `wanted` (instances, topics, groups): (value, what it is), of the chosen instance."""
    found: dict[str, list[tuple[str, str]]] = {}
    if "instances" in wanted:
        found["instances"] = [(instance.instance_id, instance.name) for instance in visible]
    instance = instance_queries.instances(actor.tenant).filter(instance_id=instance_id).first()
    if instance is None:
        return found
    if "topics" in wanted:
        rows = topic_queries.visible_topics(actor, instance)[:_SUGGESTED]
        found["topics"] = [(topic.name, topic.remark) for topic in rows]
    if "groups" in wanted:
        groups = topic_queries.visible_groups(actor, instance)[:_SUGGESTED]
        found["groups"] = [(group.group_id, group.remark) for group in groups]
    return found


@dataclass(frozen=True)
class Outcome:
    """What came back: the envelope, and how long the call took."""

    envelope: dict[str, Any]
    milliseconds: float

    @property
    def text(self) -> str:
        """The envelope for people."""
        return json.dumps(self.envelope, indent=2, ensure_ascii=False)


def signed_request(outer: Request, path: str, parameters: Mapping[str, str]) -> Request:
    """The request that a program of the user would have sent from where the page was asked for."""
    body = urlencode(parameters).encode()
    environ = {name: outer.META[name] for name in _CIRCUMSTANCES if name in outer.META} | {
        "REQUEST_METHOD": "POST",
        "PATH_INFO": f"/json/{path}",
        "CONTENT_TYPE": "application/x-www-form-urlencoded",
        "CONTENT_LENGTH": str(len(body)),
        "wsgi.input": io.BytesIO(body),
        "wsgi.url_scheme": outer.scheme,
    }
    request = cast(Request, WSGIRequest(environ))
    request.request_id = str(uuid.uuid4())
    return request


def send(request: Request, reference: Reference, key: AccessKey, values: Mapping[str, str], region: str) -> Outcome:
    """Sign `values` with the user's key, and call the operation through the door that everybody uses.

    `region` is empty for an operation that needs none.
    """
    parameters = dict(values) | {ACCESS_KEY: key.access_key_id, TIMESTAMP: str(int(time.time() * 1000))}
    parameters |= {REGION: region} if region else {}
    parameters[SIGNATURE] = sign(parameters, decrypt(key.secret_encrypted))
    begin = time.perf_counter()
    response = api.call(signed_request(request, reference.path, parameters), reference.path)
    return Outcome(json.loads(response.content), (time.perf_counter() - begin) * 1000)


def wanted(
    request: Request, reference: Reference, access_key_id: str, values: Mapping[str, str], region: str
) -> Wanted:
    """The same call for a program outside."""
    url = request.build_absolute_uri(f"/json/{reference.path}")
    return Wanted(url, reference.changes, access_key_id, region, values)
