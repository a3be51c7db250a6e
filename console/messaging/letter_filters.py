"""Which dead letters a search lets through."""

from __future__ import annotations

from collections.abc import Callable

from brokercore.client import StoredMessage
from brokercore.client.errors import ClientError
from console.instances import broker
from console.messaging.models import Discard, Resend
from console.messaging.queries import Accept, Matching, Wanted
from console.topics.models import Group
from console.web.languages import gettext_lazy

STATES = {
    "": gettext_lazy("Not discarded"),
    "unsent": gettext_lazy("Not sent again"),
    "sent": gettext_lazy("Sent again"),
    "discarded": gettext_lazy("Discarded"),
    "all": "All",
}
REASONS = {
    "": gettext_lazy("Any reason"),
    "used": gettext_lazy("All retries failed"),
    "early": gettext_lazy("The client gave up earlier"),
}

_UNPACKED = 64 << 20
"""Bytes of compressed bodies that one request unpacks to look into; letters behind that do not match."""
_LARGEST = 4 << 20


def matching_of(group: Group) -> Matching:
    """What `queries.search_by_time` asks about the letters of `group`: `wanted` has only words that are not empty."""

    def matching(wanted: Wanted) -> Accept:
        tests = [_TESTS[name](group, text) for name, text in wanted.items() if name in _TESTS]
        return lambda letter: all(test(letter) for test in tests)

    return matching


def wanted_of(group: Group, given: Wanted) -> Wanted:
    """`given` without what is empty or all the same; what is discarded is left out unless it is asked for."""
    wanted = {name: text for name, text in given.items() if text and name in _TESTS}
    if wanted.get("state") == "all":
        del wanted["state"]
    elif "state" not in wanted and Discard.objects.filter(group=group).exists():
        wanted["state"] = "kept"
    return wanted


def retries_of(group: Group) -> int | None:
    """How often a message is tried again before it dies, by the group's own setting; None when it cannot be told."""
    try:
        return broker.admin(group.instance.cluster).groups.config(group.physical_name).retry_max_times
    except ClientError:
        return None


def used_up(failed: int, retries: int | None) -> bool | None:
    """Whether a letter with so many failed deliveries had all its retries; None when the setting is not known."""
    return None if retries is None else failed > retries


def _has_tag(_group: Group, text: str) -> Accept:
    return lambda letter: letter.tags == text


def _has_key(_group: Group, text: str) -> Accept:
    return lambda letter: text in letter.keys.split(" ")


def _has_property(_group: Group, text: str) -> Accept:
    """`name=value` exactly, or a name that is there, or a part of any value."""
    name, is_pair, value = text.partition("=")
    if is_pair:
        return lambda letter: letter.properties.get(name.strip()) == value.strip()
    word = text.casefold()
    return lambda letter: text in letter.properties or any(word in v.casefold() for v in letter.properties.values())


def _has_in_body(_group: Group, text: str) -> Accept:
    word, room = text.casefold(), _UNPACKED

    def found(letter: StoredMessage) -> bool:
        nonlocal room
        if room <= 0:
            return False
        try:
            body = letter.decoded_body(min(_LARGEST, room))
        except ValueError:
            return False
        if body is not letter.body:
            room -= len(body)
        return word in body.decode("utf-8", "replace").casefold()

    return found


def _died_of(group: Group, text: str) -> Accept:
    retries = retries_of(group)
    return lambda letter: used_up(letter.reconsume_times, retries) is (text == "used")


def _is_in_state(group: Group, text: str) -> Accept:
    if text in ("sent", "unsent"):
        ids = set(Resend.objects.filter(group=group, error="").values_list("offset_message_id", flat=True))
        gone = _discarded(group)
        return lambda letter: (
            letter.offset_message_id not in gone and (letter.offset_message_id in ids) is (text == "sent")
        )
    ids = _discarded(group)
    return lambda letter: (letter.offset_message_id in ids) is (text == "discarded")


def _discarded(group: Group) -> set[str]:
    return set(Discard.objects.filter(group=group).values_list("offset_message_id", flat=True))


_TESTS: dict[str, Callable[[Group, str], Accept]] = {
    "state": _is_in_state,
    "reason": _died_of,
    "tag": _has_tag,
    "key": _has_key,
    "property": _has_property,
    "body": _has_in_body,
}
"""Those that cost nothing first: a letter is looked into only when all else fits."""
