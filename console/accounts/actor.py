"""Who acts in a request, and the door to the one permission decision for everything in the console."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import cached_property, lru_cache

import orjson
from django.core.exceptions import PermissionDenied
from django.utils.translation import gettext as _

from brokercore.policy import (
    Context,
    Decision,
    Grantee,
    Statement,
    allowed_among,
    could_allow,
    decide,
    mq_resource,
    parse_policy,
)
from console.accounts.models import Organization, Policy, Role, Tenant, User
from console.accounts.resources import places, resources
from console.web import regions

ALLOW_ALL = Statement(allow=True, actions=("*",), resources=("*",), source="tenant administrator")
ALLOW_PLATFORM = Statement(allow=True, actions=("platform:*",), resources=("*",), source="platform administrator")
EVERYTHING = ("*",)
PLATFORM = "acs:platform:*:*:"
ADOPTION = "adoption/"
"""What an account that may adopt reaches of the platform (docs/operate/adoption.md)."""


@dataclass
class Actor:
    """A user, an assumed role or an organization's AccessKey, with the circumstances of the request."""

    user: User | None = None
    channel: str = "page"
    access_key_id: str = ""
    source_ip: str = ""
    secure: bool = False
    mfa: bool = False
    """Signed in with a second factor; never so for AccessKeys."""
    request_id: str = ""
    role: Role | None = None
    session_name: str = ""
    organization: Organization | None = None
    account: Tenant | None = None
    """The account an organization's AccessKey acts for."""
    _now: datetime = field(default_factory=lambda: datetime.now(UTC))
    _regions: dict[int, Callable[[str], str]] = field(default_factory=dict, repr=False, compare=False)
    """By the account that owns a resource, what tells its region."""

    @property
    def name(self) -> str:
        """`bob@acme`, `role/reader@acme/session` or `organization/Sales@acme`: the name in audit and messages."""
        if self.user is not None:
            return self.user.username
        if self.role is not None:
            return f"role/{self.role.name}@{self.role.tenant.name}/{self.session_name}"
        return f"organization/{self.organization}@{self.account}"

    @property
    def own_tenant(self) -> Tenant | None:
        """The tenant account the caller belongs to; None for a platform administrator."""
        if self.user is not None:
            return self.user.tenant
        return self.role.tenant if self.role is not None else self.account

    @property
    def tenant(self) -> Tenant:
        """The tenant account the caller belongs to. Raises PermissionDenied for a platform administrator."""
        if self.own_tenant is None:
            raise PermissionDenied(
                _("%(name)s belongs to no account, so there is nothing to see here") % {"name": self.name}
            )
        return self.own_tenant

    @property
    def person(self) -> User:
        """The user. Raises PermissionDenied for a role or an organization's key, which own no keys or sessions."""
        if self.user is None:
            raise PermissionDenied(_("%(name)s is not a user") % {"name": self.name})
        return self.user

    @property
    def is_account(self) -> bool:
        """True for what acts as the tenant account itself: its administrator, or an organization's AccessKey."""
        return self.user.is_tenant_admin if self.user is not None else self.role is None

    @property
    def is_platform_admin(self) -> bool:
        """True for a user who keeps organizations and tenant accounts."""
        return self.user is not None and self.user.is_platform_admin

    @cached_property
    def statements(self) -> tuple[Statement, ...]:
        """The policy statements that count; what acts as the account may do everything inside it."""
        if self.is_platform_admin:
            return (ALLOW_PLATFORM,)
        if self.is_account:
            return (ALLOW_ALL,)
        return user_statements(self.user) if self.user is not None else role_statements(self.role)

    @cached_property
    def grants(self) -> tuple[Statement, ...]:
        """Topic grants that this user received itself."""
        return resources.get().granted_to_user(self.user.pk) if self.user is not None else ()

    @cached_property
    def delegated(self) -> tuple[Statement, ...]:
        """Topic grants that the user's account received from other accounts."""
        return resources.get().granted_to_account(self.own_tenant.pk) if self.own_tenant is not None else ()

    @property
    def context(self) -> Context:
        """What conditions of policies look at."""
        return Context(self.source_ip, self._now, self.secure, self.mfa)

    def decide(
        self, action: str, resource: str, *, owner: Tenant | None, holder: str = "", region: str = ""
    ) -> Decision:
        """Decide `action` on `resource`, which `owner` owns (None: the platform).

        `holder` is that of a group (`Group.holder`): it says which users its rights can reach. `region` is that of the
        resource, where it is known better than by the name. Of what the account has not made yet it is enough that the
        action is allowed in one region, if none is said.
        """
        grantee = self.grantee(resource, owner=owner, holder=holder)
        if owner is None or not regions.are_several():
            return decide(grantee, action, resource, self.context)
        if not region and resource != tenant_resource(owner):
            return decide(grantee, action, resource, self.context)
        wanted = [region] if region else [one.id for one in regions.regions()]
        found = [decide(grantee, action, resource, replace(self.context, region=one)) for one in wanted]
        return next((one for one in found if one.allowed), found[0])

    def allowed(self, action: str, holders: Mapping[str, str], *, owner: Tenant | None) -> set[str]:
        """Of the resources of `holders`, those on which the actor may do `action`: as many times `decide`, for lists.

        `holders` has the holder of each group, and an empty text for a topic. Statements about other actions are left
        out once for all resources, and not once for each.
        """
        grantee = self.grantee("", owner=owner)
        grantee = replace(
            grantee,
            statements=tuple(s for s in grantee.statements if s.matches_action_name(action)),
            grants=tuple(s for s in grantee.grants if s.matches_action_name(action)),
            delegated=tuple(s for s in grantee.delegated if s.matches_action_name(action)),
            holders={resource: holder for resource, holder in holders.items() if holder},
        )
        if not grantee.statements and not grantee.grants and not grantee.holders:
            return set()
        return allowed_among(grantee, action, holders.keys(), self.context)

    def could(self, action: str, place: str = "") -> bool:
        """Whether there may be a resource on which the actor may do `action`, of the platform one below `place`.

        False is certain, but for groups that a RAM user made, which it may use without a policy; True is not.
        """
        if action.startswith("platform:"):
            return self.decide(action, platform_resource(f"{place}*"), owner=None).allowed
        if self.own_tenant is None:
            return False
        return could_allow(self.grantee("", owner=self.own_tenant), action, self.context)

    def grantee(self, resource: str, *, owner: Tenant | None, holder: str = "") -> Grantee:
        """Everything that counts for the caller in a decision on `resource`."""
        mine = self.own_tenant
        own = owner is not None and mine is not None and owner.pk == mine.pk
        boundary = EVERYTHING if own else ()
        if owner is None and self.is_platform_admin:
            boundary = (f"{PLATFORM}*",)
        elif owner is None and mine is not None and mine.may_adopt and self.is_account:
            boundary = (f"{PLATFORM}{ADOPTION}*",)
        # A user's own grants count at home too: an account may give its RAM user one topic without a policy.
        return Grantee(
            self.user.username if self.user else self.name,
            boundary,
            self.statements,
            self.grants if owner is not None and not self.is_account else (),
            self.delegated if owner is not None and not own else (),
            {resource: holder} if holder else {},
            mine.uid if mine else "",
            # A role has no groups of its own and acts by its policies: it counts as the account here.
            self.is_account or self.role is not None,
            regions.default(),
            region_of=self._region_of(owner) if owner is not None and regions.are_several() else None,
        )

    def _region_of(self, owner: Tenant) -> Callable[[str], str]:
        """What tells the regions of the resources of an account; read once."""
        if owner.pk not in self._regions:
            self._regions[owner.pk] = places.get()(owner)
        return self._regions[owner.pk]


def user_statements(user: User) -> tuple[Statement, ...]:
    """All statements of the policies attached to a RAM user or to a group that the user is in."""
    policies = {p.pk: p for p in user.policies.all()}
    for group in user.user_groups.all():
        policies |= {p.pk: p for p in group.policies.all()}
    return statements_of(policies.values())


def role_statements(role: Role | None) -> tuple[Statement, ...]:
    """All statements of the policies attached to a role."""
    return statements_of(role.policies.all()) if role is not None else ()


def statements_of(policies: Iterable[Policy]) -> tuple[Statement, ...]:
    """The statements of stored policies, each with the policy's name as its source."""
    return tuple(s for p in policies for s in _parsed(orjson.dumps(p.document), p.name))


@lru_cache(maxsize=4096)
def _parsed(document: bytes, name: str) -> tuple[Statement, ...]:
    """Parsing takes longer than deciding, and most requests ask the same policies."""
    return parse_policy(orjson.loads(document), source=name)


def tenant_resource(tenant: Tenant) -> str:
    """The resource of what a tenant has not made yet, such as a new instance."""
    return mq_resource(f"MQ_INST_{tenant.uid}_*")


def requester(actor: Actor) -> dict[str, object]:
    """Who wants something done later, as the fields of a row from which `acting_later` makes the actor again."""
    return {
        "creator": actor.user,
        "role": actor.role,
        "requester": actor.name[:150],
        "source_ip": actor.source_ip,
        "secure_transport": actor.secure,
    }


def acting_later(
    *, tenant: Tenant, user: User | None, role: Role | None, source_ip: str, secure: bool, request_id: str = ""
) -> Actor | None:
    """Who asked for work that is done later, with the rights of now, under the circumstances of then.

    None for who, or whose account, was disabled or deleted since.
    """
    if not tenant.enabled or (user is None and role is None) or (user is not None and not user.is_active):
        return None
    return Actor(user=user, role=role, channel="sql", source_ip=source_ip, secure=secure, request_id=request_id)


def dla_resource(tenant: Tenant, schema: str, table: str = "*") -> str:
    """The resource of a table (or all tables) of a schema."""
    return f"acs:dla:*:{tenant.uid}:{schema}/{table}"


def oss_resource(tenant: Tenant, bucket: str, key: str = "") -> str:
    """Name of a bucket of the lake, or of what lies under `key` in it."""
    return f"acs:oss:*:{tenant.uid}:{bucket}{'/' + key.strip('/') if key.strip('/') else ''}"


def service_resource(service: str, tenant: Tenant, path: str = "*") -> str:
    """The resource of an account page: service `ram` or `actiontrail`; `path` as in `user/bob` or `role/reader`."""
    return f"acs:{service}:*:{tenant.uid}:{path}"


def platform_resource(path: str = "*") -> str:
    """The resource of a page of the platform's administrator, as in `organization/3`."""
    return PLATFORM + path
