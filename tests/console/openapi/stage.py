"""What the tests of the management API meet: the cast with keys, and parameters that every operation accepts."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Any

from console.accounts import policy_documents
from console.accounts import services as accounts
from console.accounts.models import User
from console.instances.models import Instance
from console.topics import grants
from console.topics.models import Group
from tests.console.openapi.caller import Caller
from tests.support.cast import PASSWORD, Cast, make_group, make_instance, make_topic

ROLES = ("anonymous", "charlie", "nora", "publisher", "subscriber", "rita", "bob", "alice")


@dataclass
class Stage:
    """Acme's instances with a topic and groups; umbrella's with its own, one topic of which is lent to acme."""

    cast: Cast
    default: Instance
    charlies_default: Instance
    users: dict[str, User]
    _callers: dict[str, Caller] = field(default_factory=dict)

    @classmethod
    def build(cls, cast: Cast) -> Stage:
        """Make everything, on the broker too."""
        alice, charlie = cast.alice, cast.charlie
        default = make_instance(alice, cast.cluster, name="bare", independent_naming=False)
        charlies_default = make_instance(charlie, cast.cluster, name="bare", independent_naming=False)
        make_topic(alice, cast.instance)
        make_group(alice, cast.instance)
        make_topic(charlie, cast.charlies, "private")
        lent = make_topic(charlie, cast.charlies, "lent")
        grants.create_grant(actor=cast.actor("charlie"), topic=lent, relation=4, tenant=cast.acme)
        _legacy(charlie, charlies_default, "PID_charlies", "CID_charlies")
        _legacy(alice, default, "PID_orders", "CID_orders")
        users = dict(cast.users)
        for name, policy in (("publisher", "AliyunMQPubOnlyAccess"), ("subscriber", "AliyunMQSubOnlyAccess")):
            users[name] = accounts.create_user(
                actor=cast.actor("alice"),
                name=name,
                password=PASSWORD,
                policies=[policy_documents.system_policy(policy)],
            )
        return cls(cast, default, charlies_default, users)

    def caller(self, name: str) -> Caller:
        """Somebody's key; `anonymous` has one that nobody knows."""
        if name == "anonymous":
            return Caller("LTAInobody", "secret")
        if name not in self._callers:
            self._callers[name] = Caller.of(self.users[name])
        return self._callers[name]

    @property
    def instance_id(self) -> str:
        return self.cast.instance.instance_id

    def valid(self, path: str, role: str = "alice") -> dict[str, str]:
        """Parameters that the operation accepts; what it creates has a name for the role."""
        return {
            name: value.format(
                instance=self.instance_id,
                cluster=self.cast.cluster.name,
                account=self.users["charlie"].tenant.uid,  # type: ignore[union-attr]
                user=self.users["nora"].uid,
                role=role,
                now=int(time.time() * 1000),
                before=int(time.time() * 1000) - 600_000,
            )
            for name, value in VALID[path].items()
        }


def _legacy(owner: User, instance: Instance, *group_ids: str) -> None:
    """IDs of an older release, which cannot be created any more."""
    assert owner.tenant
    for group_id in group_ids:
        Group.objects.create(instance=instance, group_id=group_id, physical_name=group_id, owner=owner.tenant)


_TOPIC = {"instanceId": "{instance}", "topic": "orders"}
_GROUP = {"instanceId": "{instance}", "groupId": "GID_orders"}
_LETTER = {"InstanceId": "{instance}", "GroupId": "GID_orders", "MsgId": "0A0000010001189F0000000000000007"}
_MESSAGE = _TOPIC | {"msgId": "0A0000010001189F0000000000000007"}
_RANGE = {"beginTime": "{before}", "endTime": "{now}"}

VALID: dict[str, dict[str, str]] = {
    "region/list": {},
    "cluster/list": {},
    "vpcTunnel/tunnelSwitch": {"tunnelType": "anyTunnel", "instanceId": "{instance}", "force": "true"},
    "instance/baseInfo": {"instanceId": "{instance}"},
    "instance/create": {
        "cluster": "{cluster}", "instanceName": "new-{role}", "independentNaming": "true", "maxSendTps": "10",
        "maxReceiveTps": "10",
    },
    "instance/delete": {"instanceId": "{instance}"},
    "instance/list": {},
    "instance/update": {"instanceId": "{instance}", "remark": "by {role}"},
    "topic/create": {"instanceId": "{instance}", "topic": "new_{role}", "orderType": "0"},
    "topic/delete": _TOPIC,
    "topic/get": _TOPIC,
    "topic/listInPage": {"instanceId": "{instance}"},
    "topic/update": _TOPIC | {"perm": "4"},
    "topic/listNames": {"instanceId": "{instance}"},
    "topic/subDetail": _TOPIC,
    "group/create": {"instanceId": "{instance}", "groupId": "GID_new_{role}"},
    "group/delete": _GROUP,
    "group/list": {"instanceId": "{instance}"},
    "group/subDetail": _GROUP,
    "group/consumerUpdate": _GROUP | {"readEnable": "false"},
    "consumer/accumulate": _GROUP,
    "consumer/status": _GROUP,
    "consumer/getConnection": _GROUP,
    "consumer/timespan": _GROUP | {"topic": "orders"},
    "consumer/resetoffset": _GROUP | {"topic": "orders", "type": "0"},
    "message/trace": _MESSAGE,
    "message/getById": _MESSAGE,
    "message/getByKey": _TOPIC | {"key": "order-17"},
    "message/getByPagedTopic": _TOPIC | _RANGE | {"currentPage": "1"},
    "trend/topicInputTps": _TOPIC | _RANGE | {"period": "1", "type": "0"},
    "trend/groupOutputTps": _TOPIC | _GROUP | _RANGE | {"period": "1", "type": "0"},
    "empower/create": _TOPIC | {"empowerUser": "{account}", "relation": "2"},
    "empower/createBySub": _TOPIC | {"empowerUser": "{user}", "relation": "2"},
    "empower/delete": _TOPIC | {"empowerUser": "{account}"},
    "empower/list": _TOPIC | {"empowerUser": "{account}"},
    "message/getByIdInDLQ": _LETTER,
    "message/getByPagedDLQ": {
        "InstanceId": "{instance}", "GroupId": "GID_orders", "BeginTime": "{before}", "EndTime": "{now}",
        "CurrentPage": "1",
    },
    "message/resendByIdInDLQ": _LETTER,
}  # fmt: skip


def spelled(valid: dict[str, str], changes: dict[str, str]) -> dict[str, Any]:
    """The parameters with `changes` (camelCase names), in the spelling that the operation has."""
    spellings = {name[:1].lower() + name[1:]: name for name in valid}
    return valid | {spellings.get(name, name): value for name, value in changes.items()}
