"""From a result of the management API to the body of the public cloud: names, element wrappers, JSON or XML."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Callable, Mapping
from typing import Any
from xml.etree import ElementTree

from django.http import HttpResponse

from console.openapi import envelope
from console.openapi.rpc.actions import ELEMENTS, Action

#: Status and sentence of each code. The sentences end a request before an operation is asked.
STATUSES: dict[str, int] = {
    "MissingAction": 400,
    "MissingVersion": 400,
    "MissingAccessKeyId": 400,
    "MissingSignature": 400,
    "MissingSignatureNonce": 400,
    "MissingTimestamp": 400,
    "InvalidVersion": 400,
    "InvalidAction.NotFound": 404,
    "InvalidParameter": 400,
    "InvalidSignatureMethod": 400,
    "IncompleteSignature": 400,
    "InvalidTimeStamp.Format": 400,
    "InvalidTimeStamp.Expired": 400,
    "InvalidAccessKeyId.NotFound": 404,
    "InvalidSecurityToken.MismatchWithAccessKey": 400,
    # The SDK of the RPC style turns exactly this pair into "the secret is wrong".
    "SignatureDoesNotMatch": 400,
    "SignatureNonceUsed": 400,
    "Forbidden.RAM": 403,
    "RequestEntityTooLarge": 413,
    "Throttling.User": 429,
    "ServiceUnavailable": 503,
}

#: What the gateway calls a refusal that `/json/…` has a symbol of its own for.
_GATEWAY_NAMES = {envelope.PERMISSION: "Forbidden.RAM", "BIZ_THROTTLED": "Throttling.User"}

#: What XML 1.0 cannot carry, not even escaped.
_NOT_XML = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff]")
#: `relation` of a topic in words: the owner, or what was granted.
_RELATIONS = {1: "Owner", 2: "Publishable", 4: "Subscribable", 6: "Publishable and subscribable"}


class GatewayError(Exception):
    """The request is refused with `code` of STATUSES and one sentence."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.status = STATUSES[code]


def of_symbol(symbol: str) -> tuple[str, int]:
    """Code and HTTP status for a symbol of the management API."""
    name = _GATEWAY_NAMES.get(symbol, symbol)
    return (name, STATUSES[name]) if name in STATUSES else (name, envelope.CODES[symbol].code)


def shaped(name: str, action: Action, data: Any, parameters: Mapping[str, str]) -> dict[str, Any]:
    """The fields of the answer beside RequestId."""
    if not action.result:
        return {}
    if name in _FINISHING:
        data = _FINISHING[name](data, parameters)
    added = dict(action.added)
    if parameters.get("InstanceId") and not name.startswith("OnsGroup"):
        added.setdefault("InstanceId", parameters["InstanceId"])
    value = _named(data, action, added)
    for key in reversed(action.result.split(".")):
        value = {key: value}
    return dict(value)


def answer(body: Mapping[str, Any], *, root: str, xml: bool, status: int = 200) -> HttpResponse:
    """The HTTP answer; `root` names the element around an XML one."""
    if xml:
        return HttpResponse(_xml(root, body), content_type="text/xml;charset=utf-8", status=status)
    return HttpResponse(json.dumps(body), content_type="application/json;charset=utf-8", status=status)


def _named(value: Any, action: Action, added: Mapping[str, Any]) -> Any:
    """Names of fields changed at any depth; `added` goes to the object, or to each object of the list."""
    if isinstance(value, list):
        return [_named(entry, action, added) for entry in value]
    if not isinstance(value, dict):
        return value
    renamed: dict[str, Any] = {}
    for field, content in value.items():
        name = action.renamed.get(field, field[:1].upper() + field[1:])
        if not name or content is None:
            continue
        # Messages of a page are objects of the instance too; what is deeper belongs to them.
        below = added if name == "MsgFoundList" else {}
        inner = _named(content, action, {k: v for k, v in below.items() if k == "InstanceId"})
        renamed[name] = {ELEMENTS[name]: inner} if _wraps(name, inner, action) else inner
    extra = {k: {ELEMENTS[k]: v} if _wraps(k, v, action) else v for k, v in added.items() if k not in renamed}
    return renamed if "MsgFoundList" in renamed else renamed | extra


def _wraps(name: str, value: Any, action: Action) -> bool:
    return isinstance(value, list) and name in ELEMENTS and name not in action.plain


def _with_relation_name(data: Any, _: Mapping[str, str]) -> Any:
    return [topic | {"relationName": _RELATIONS.get(topic.get("relation"), "")} for topic in data]


def _with_encoded_body(data: Any, _: Mapping[str, str]) -> Any:
    """`Body` in Base64 and `BodyStr` as text; a body that is no text is only in Base64."""
    if data.get("bodyBase64"):
        return data
    text = data.get("body", "")
    return data | {"body": base64.b64encode(text.encode()).decode(), "bodyStr": text}


def _resent(_: Any, parameters: Mapping[str, str]) -> Any:
    return {"msgId": [parameters.get("MsgId", "")]}


def _with_units(data: Any, parameters: Mapping[str, str]) -> Any:
    return data | {"xUnit": "ms", "yUnit": "TPS" if parameters.get("Type") == "1" else "messages"}


#: What a table of names cannot say.
_FINISHING: dict[str, Callable[[Any, Mapping[str, str]], Any]] = {
    "OnsTopicList": _with_relation_name,
    "OnsMessageDetail": _with_encoded_body,
    "OnsDLQMessageResendById": _resent,
    "OnsTrendTopicInputTps": _with_units,
    "OnsTrendGroupOutputTps": _with_units,
}


def _xml(root: str, body: Mapping[str, Any]) -> bytes:
    element = ElementTree.Element(root)
    _fill(element, body)
    return bytes(ElementTree.tostring(element, encoding="utf-8", xml_declaration=True))


def _fill(element: ElementTree.Element, value: Any) -> None:
    if isinstance(value, Mapping):
        for name, content in value.items():
            for entry in content if isinstance(content, list) else [content]:
                _fill(ElementTree.SubElement(element, name), entry)
    elif isinstance(value, bool):
        element.text = "true" if value else "false"
    else:
        element.text = _NOT_XML.sub("\ufffd", str(value))
