"""What a server has, read by the management API."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from cli.catalog import Catalog
from cli.config import Profile
from cli.errors import UNREACHABLE, CliError
from cli.paging import collect
from cli.state.model import Grant, Group, Instance, Policy, State, Topic

_BEING_DELETED = 1
CUSTOM = "Custom"


class Server:
    """The operations of one server as one caller."""

    def __init__(self, profile: Profile, catalog: Catalog) -> None:
        self._profile, self._catalog = profile, catalog

    def call(self, path: str, parameters: dict[str, str] | None = None, *, every: bool = False) -> Any:
        """The data of one operation. Raises CliError."""
        operation = self._catalog.operations.get(path)
        if operation is None:
            raise CliError(f"{self._profile.url} has no operation {path}.", UNREACHABLE)
        return collect(self._profile, operation, parameters or {}, every=every)

    def state(self, *, instances: Iterable[str] | None = None, policies: bool = True) -> State:
        """The account's instances (None: all; else those of these names) with all that is in them, and policies."""
        wanted = None if instances is None else set(instances)
        rows = self.call("instance/list")
        found = [self._instance(row) for row in rows if wanted is None or row["instanceName"] in wanted]
        return State(tuple(found), self._policies() if policies else None)

    def instance_names(self) -> dict[str, str]:
        """IDs of all instances by name."""
        return {row["instanceName"]: row["instanceId"] for row in self.call("instance/list")}

    def _instance(self, row: dict[str, Any]) -> Instance:
        instance_id = row["instanceId"]
        here = {"instanceId": instance_id}
        info = self.call("instance/baseInfo", here)
        topics = self.call("topic/listInPage", here, every=True)
        groups = self.call("group/list", here)
        grants = self._grants(instance_id)
        return Instance(
            name=row["instanceName"],
            independent_naming=row["independentNaming"],
            max_send_tps=info["maxSendTps"],
            max_receive_tps=info["maxReceiveTps"],
            topic_capacity=info["topicCapacity"],
            cluster=info.get("cluster", ""),
            remark=info.get("remark", ""),
            topics=tuple(_topic(entry, grants) for entry in topics if entry["status"] != _BEING_DELETED),
            groups=tuple(Group(entry["groupId"], entry["remark"]) for entry in groups),
            instance_id=instance_id,
        )

    def _grants(self, instance_id: str) -> dict[str, list[Grant]]:
        found: dict[str, list[Grant]] = {}
        for entry in self.call("empower/listInInstance", {"instanceId": instance_id}):
            kind = "user" if entry["subUser"] else "account"
            found.setdefault(entry["topic"], []).append(Grant(str(entry["empowerUser"]), kind, entry["relation"]))
        return found

    def _policies(self) -> tuple[Policy, ...]:
        return tuple(
            Policy(entry["name"], json.loads(entry["document"]), entry["description"])
            for entry in self.call("policy/list")
            if entry["type"] == CUSTOM
        )


def _topic(entry: dict[str, Any], grants: dict[str, list[Grant]]) -> Topic:
    given = tuple(sorted(grants.get(entry["topic"], []), key=lambda grant: (grant.kind, grant.to)))
    return Topic(entry["topic"], entry["orderType"], entry["perm"], entry["remark"], given)
