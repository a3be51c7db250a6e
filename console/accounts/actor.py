"""Who acts in a request, and the door to the one permission decision for everything in the console."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cached_property

from brokercore.policy import Context, Decision, Grantee, Statement, decide, mq_resource, parse_policy
from console.accounts.models import Tenant, User

ALLOW_ALL = Statement(allow=True, actions=("*",), resources=("*",), source="tenant administrator")
EVERYTHING = ("*",)


@dataclass
class Actor:
    """A signed-in user or the user of an AccessKey, with the circumstances of the request."""

    user: User
    channel: str = "page"
    access_key_id: str = ""
    source_ip: str = ""
    secure: bool = False
    request_id: str = ""
    _now: datetime = field(default_factory=lambda: datetime.now(UTC))

    @property
    def tenant(self) -> Tenant:
        """The tenant the user belongs to. Raises ValueError for a platform user without one."""
        if self.user.tenant is None:
            raise ValueError(f"{self.user.username} belongs to no tenant")
        return self.user.tenant

    @cached_property
    def statements(self) -> tuple[Statement, ...]:
        """The policy statements of the user; the tenant's administrator may do everything inside the tenant."""
        if self.user.is_tenant_admin:
            return (ALLOW_ALL,)
        return policy_statements(self.user)

    def decide(self, action: str, resource: str, *, owner: Tenant, grants: tuple[Statement, ...] = ()) -> Decision:
        """Decide `action` on `resource`, which `owner` owns: inside the own tenant by policy, elsewhere by grant."""
        own = owner.pk == self.user.tenant_id
        grantee = Grantee(
            self.user.username, EVERYTHING if own else (), self.statements if own else (), grants if not own else ()
        )
        return decide(grantee, action, resource, Context(self.source_ip, self._now, self.secure))


def policy_statements(user: User) -> tuple[Statement, ...]:
    """All statements of the policies attached to a RAM user."""
    return tuple(s for p in user.policies.all() for s in parse_policy(p.document, source=p.name))


def tenant_resource(tenant: Tenant) -> str:
    """The resource of what a tenant has not made yet, such as a new instance."""
    return mq_resource(f"MQ_INST_{tenant.uid}_*")


def dla_resource(tenant: Tenant, schema: str, table: str = "*") -> str:
    """The resource of a table (or all tables) of a schema."""
    return f"acs:dla:*:{tenant.uid}:{schema}/{table}"


def service_resource(service: str, tenant: Tenant, path: str = "*") -> str:
    """The resource of an account page: service `ram` or `actiontrail`."""
    return f"acs:{service}:*:{tenant.uid}:{path}"
