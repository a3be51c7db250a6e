"""A caller of the management API: signs as the vendor's sample does, and holds each answer against its declaration."""

from __future__ import annotations

import time
from typing import Any
from urllib.parse import urlencode

from django.conf import settings
from django.http import HttpResponse
from pydantic import TypeAdapter

from console.accounts import services as accounts
from console.accounts.actor import Actor
from console.accounts.models import User
from console.openapi.authentication import sign
from console.openapi.envelope import CODES
from console.openapi.operations import OPERATIONS
from tests.support.browser import browser

FORM = "application/x-www-form-urlencoded"
Answer = dict[str, Any]


class Caller:
    """The holder of one AccessKey."""

    def __init__(self, access_key_id: str, secret: str, token: str = "") -> None:
        self.access_key_id, self.secret, self.token = access_key_id, secret, token

    @classmethod
    def of(cls, user: User) -> Caller:
        """With a new key of the user's."""
        key = accounts.create_access_key(actor=Actor(user=user), user=user)
        return cls(key.access_key_id, key.access_key_secret)

    def parameters(self, **own: Any) -> dict[str, str]:
        """The common parameters and `own`; those that are None are left out."""
        common = {
            "_accesskey": self.access_key_id,
            "__preventCache": str(int(time.time() * 1000)),
            "_regionId": settings.REGION,
        }
        if self.token:
            common["_securityToken"] = self.token
        return {name: value for name, value in (common | own).items() if value is not None}

    def signed(self, **own: Any) -> dict[str, str]:
        """As `parameters`, signed."""
        parameters = self.parameters(**own)
        return parameters | {"_signature": sign(parameters, self.secret)}

    def response(self, path: str, method: Any = "get", headers: Any = None, **own: Any) -> HttpResponse:
        """The answer as it came."""
        parameters = self.signed(**own)
        if method == "get":
            return browser().get(f"/json/{path}", parameters, headers=headers)  # type: ignore[return-value]
        return browser().post(  # type: ignore[return-value]
            f"/json/{path}", urlencode(parameters), content_type=FORM, headers=headers
        )

    def __call__(self, path: str, method: Any = "get", headers: Any = None, **own: Any) -> Answer:
        """The envelope, which is checked: its fields, and `data` against the operation's declared result."""
        response = self.response(path, method, headers, **own)
        assert response.status_code == 200
        answer: Answer = response.json()  # type: ignore[attr-defined]
        assert answer["requestId"] == response["X-Request-Id"]
        check_envelope(path, answer)
        return answer

    def data(self, path: str, **own: Any) -> Any:
        """`data` of a call that succeeds."""
        answer = self(path, **own)
        assert answer["success"], answer
        return answer["data"]

    def symbol(self, path: str, **own: Any) -> str:
        """The symbol of a call: SUCCESS or why not."""
        return str(self(path, **own)["status"])


def check_envelope(path: str, answer: Answer) -> None:
    """Every field is there; a success has what the operation declares, a failure a symbol that is documented."""
    assert set(answer) == {
        "success", "code", "status", "message", "data", "currentPage", "pageSize", "total", "dynamicCode",
        "dynamicMessage", "requestId", "helpUrl",
    }  # fmt: skip
    if not answer["success"]:
        assert answer["dynamicCode"] == answer["status"] in CODES
        assert (answer["code"], answer["message"]) == CODES[answer["status"]][:2]
        assert answer["dynamicMessage"]
        assert answer["data"] is None
        return
    assert (answer["code"], answer["status"], answer["message"]) == (200, "SUCCESS", "operation success")
    declared = OPERATIONS[path]
    if declared.result is None:
        assert answer["data"] is None
        return
    result: Any = list[declared.result] if declared.paged else declared.result  # type: ignore[name-defined]
    checked = TypeAdapter(result).validate_python(answer["data"])
    assert TypeAdapter(Any).dump_python(checked, mode="json") == answer["data"]
    if not declared.paged:
        assert answer["currentPage"] == answer["pageSize"] == answer["total"] == 0
