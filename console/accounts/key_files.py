"""A new AccessKey pair as files to save: inside the page that shows it, so that nothing asks for the secret again."""

from __future__ import annotations

import json
from dataclasses import dataclass
from urllib.parse import quote

from console.accounts.services import IssuedKey


@dataclass(frozen=True, slots=True)
class KeyFile:
    """A file with its content as a data: URL, for a link that saves it."""

    name: str
    href: str


def of(issued: IssuedKey) -> list[KeyFile]:
    """The names are those that the vendor's SDKs and command line read."""
    environment = (
        f"ALIBABA_CLOUD_ACCESS_KEY_ID={issued.access_key_id}\n"
        f"ALIBABA_CLOUD_ACCESS_KEY_SECRET={issued.access_key_secret}\n"
    )
    pair = {"AccessKeyId": issued.access_key_id, "AccessKeySecret": issued.access_key_secret}
    return [
        KeyFile("accesskey.env", f"data:text/plain;charset=utf-8,{quote(environment)}"),
        KeyFile("accesskey.json", f"data:application/json;charset=utf-8,{quote(json.dumps(pair, indent=2))}"),
    ]
