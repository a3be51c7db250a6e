"""What the brokers of a cluster can do, found by what they answer: no version number says it.

A broker lists its settings, and one that has no such setting has no such function. What it told is kept for ten
minutes: a newer one may stand at its address by then.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from enum import StrEnum

from brokercore.client.admin.base import Base, read
from brokercore.client.admin.brokers import settings_of_answer
from brokercore.client.errors import RequestNotSupported, TopicNotExist
from brokercore.client.session import Call
from brokercore.names import SELF_TEST_TOPIC
from brokercore.protocol.bodies.config import TopicConfig
from brokercore.protocol.codes import PlainAclCode, RequestCode

_KEPT_S = 600.0


class Capability(StrEnum):
    """What a broker can, as far as the console makes use of it."""

    MESSAGE_TYPES = "message types"
    """Keeps the message type of a topic."""
    DELIVERY_TIMES = "delivery times"
    """Delivers at any time that a message names, not only after one of 18 fixed delays."""
    RECALLS = "recalls"
    """Takes a message with a delivery time back."""
    POP = "pop"
    """Hands out single messages and waits for each: what clients of gRPC consume by."""
    SQL_FILTERS = "SQL filters"
    """Filters by SQL92 over properties."""
    QUEUE_RESETS = "queue resets"
    """Moves one queue of a group itself: what is committed beside it would be undone by a reset that it still keeps."""
    ACL_1 = "ACL 1.0"
    """Holds requests against the accounts of `plain_acl.yml`."""
    ACL_2 = "ACL 2.0"
    """Holds requests against users and access control lists."""


_BY_SETTING = {
    Capability.DELIVERY_TIMES: "timerWheelEnable",
    Capability.RECALLS: "recallMessageEnable",
    Capability.SQL_FILTERS: "enablePropertyFilter",
    Capability.QUEUE_RESETS: "useServerSideResetOffset",
}


class Capabilities:
    """What each broker can, and what all of them can."""

    def __init__(self, base: Base) -> None:
        self._base = base
        self._known: dict[str, tuple[float, frozenset[Capability]]] = {}

    def by_broker(self) -> dict[str, frozenset[Capability]]:
        """What each master can, by its broker name. Raises ClientError."""
        return {name: self.at(address) for name, address in self._base.masters().items()}

    def of_cluster(self) -> frozenset[Capability]:
        """What every master can; nothing without one. Raises ClientError."""
        found = list(self.by_broker().values())
        return frozenset.intersection(*found) if found else frozenset()

    def at(self, address: str) -> frozenset[Capability]:
        """What the broker at `address` can. Raises ClientError."""
        known = self._known.get(address)
        if known is None or time.monotonic() - known[0] > _KEPT_S:
            known = self._known[address] = (time.monotonic(), self._asked(address))
        return known[1]

    def _asked(self, address: str) -> frozenset[Capability]:
        answer = self._base.session.call(Call(address, RequestCode.GET_BROKER_CONFIG, {}))
        settings = settings_of_answer(answer, address)
        found = {capability for capability, name in _BY_SETTING.items() if settings.get(name) == "true"}
        if self._knows(address, RequestCode.GET_ALL_MESSAGE_REQUEST_MODE):
            found.add(Capability.POP)
        if self._keeps_message_types(address):
            found.add(Capability.MESSAGE_TYPES)
        if all(settings.get(name) == "true" for name in ("authenticationEnabled", "authorizationEnabled")):
            found.add(Capability.ACL_2)
        elif self._reads_accounts(address, settings):
            found.add(Capability.ACL_1)
        return frozenset(found)

    def _keeps_message_types(self, address: str) -> bool:
        try:
            ext = {"topic": SELF_TEST_TOPIC, "lo": "true"}
            answer = self._base.session.call(Call(address, RequestCode.GET_TOPIC_CONFIG, ext))
        except RequestNotSupported:
            return False
        except TopicNotExist:
            return True
        return read(TopicConfig.from_json, answer.body, address).keeps_attributes

    def _reads_accounts(self, address: str, settings: Mapping[str, str]) -> bool:
        """Brokers that have no ACL 1.0 any more keep its switch; those that have it are silent while it is off."""
        return settings.get("aclEnable") == "true" and self._knows(address, PlainAclCode.GET_BROKER_CLUSTER_ACL_INFO)

    def _knows(self, address: str, code: int) -> bool:
        try:
            self._base.session.call(Call(address, code, {}))
        except RequestNotSupported:
            return False
        return True
