"""Reads of accounts, users, groups, policies and roles. The tenant comes first; no list loads all of an account."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from allauth.mfa.models import Authenticator
from django.db.models import Count, Exists, F, IntegerField, OuterRef, Prefetch, Q, QuerySet, Subquery
from django.db.models.functions import Coalesce
from django.utils import timezone

from console.accounts.models import AccessKey, DatabaseAccount, Policy, Role, Tenant, User, UserGroup

LATELY = timedelta(days=30)
#: What a type-ahead shows at once.
CANDIDATES = 10

_CONDITIONS = {
    ("signed_in", "lately"): lambda: Q(last_login__gte=timezone.now() - LATELY),
    ("signed_in", "earlier"): lambda: Q(last_login__lt=timezone.now() - LATELY),
    ("signed_in", "never"): lambda: Q(last_login=None),
    ("state", "enabled"): lambda: Q(is_active=True),
    ("state", "disabled"): lambda: Q(is_active=False),
    ("mfa", "bound"): lambda: Q(has_device=True),
    ("mfa", "unbound"): lambda: Q(has_device=False),
    ("mfa", "required"): lambda: Q(mfa_required=True),
}

#: How many holders of a policy its page names; it counts all.
HOLDERS = 50


@dataclass(frozen=True, slots=True)
class UserFilter:
    """What narrows the list of users; an empty text narrows nothing."""

    text: str = ""
    signed_in: str = ""
    """lately, earlier or never"""
    state: str = ""
    """enabled or disabled"""
    mfa: str = ""
    """bound, unbound or required"""
    group: str = ""
    """the name of a user group"""
    policy: str = ""
    """the name of a policy, attached or through a group; `-` for users without any"""


def found_users(tenant: Tenant, wanted: UserFilter) -> QuerySet[User]:
    """Users of the tenant that fit every filter, with policies, groups and `has_device`; the administrator first."""
    users = User.objects.filter(tenant=tenant).annotate(has_device=Exists(_devices()))
    if wanted.text:
        users = users.filter(
            Q(username__icontains=wanted.text) | Q(first_name__icontains=wanted.text) | Q(uid=wanted.text)
        )
    for name, value in (("signed_in", wanted.signed_in), ("state", wanted.state), ("mfa", wanted.mfa)):
        if value:
            users = users.filter(_CONDITIONS[name, value]())
    if wanted.group:
        users = users.filter(
            pk__in=_members().filter(usergroup__tenant=tenant, usergroup__name=wanted.group).values("user")
        )
    if wanted.policy:
        users = users.filter(_policy_condition(tenant, wanted.policy))
    groups = Prefetch("user_groups", UserGroup.objects.order_by("name").prefetch_related("policies"))
    return users.prefetch_related("policies", groups).order_by("-is_tenant_admin", "username")


def user(tenant: Tenant, username: str) -> User | None:
    """One user of the tenant."""
    return User.objects.filter(tenant=tenant, username=username).prefetch_related("policies").first()


def groups(tenant: Tenant) -> QuerySet[UserGroup]:
    """The tenant's user groups with `member_count` and their policies, by name."""
    members = Count("users", distinct=True)
    return (
        UserGroup.objects.filter(tenant=tenant)
        .annotate(member_count=members)
        .prefetch_related("policies")
        .order_by("name")
    )


def members(group: UserGroup, text: str = "") -> QuerySet[User]:
    """Users of a group, by name."""
    return group.users.filter(username__icontains=text).order_by("username")


def addable_users(tenant: Tenant, group: UserGroup, text: str) -> list[User]:
    """The first few users that fit the text and are not in the group yet."""
    users = User.objects.filter(tenant=tenant, is_tenant_admin=False, username__icontains=text)
    return list(
        users.exclude(pk__in=_members().filter(usergroup=group).values("user")).order_by("username")[: CANDIDATES + 1]
    )


def joinable_groups(tenant: Tenant, user: User, text: str) -> list[UserGroup]:
    """The first few groups that fit the text and that the user is not in yet."""
    found = UserGroup.objects.filter(tenant=tenant, name__icontains=text)
    return list(
        found.exclude(pk__in=_members().filter(user=user).values("usergroup")).order_by("name")[: CANDIDATES + 1]
    )


def attachable_policies(tenant: Tenant, holder: User | UserGroup | Role, text: str) -> list[Policy]:
    """The first few policies that fit the text and that the user or group does not have attached."""
    mine = Q(tenant=None) | Q(tenant=tenant)
    found = Policy.objects.filter(mine, Q(name__icontains=text) | Q(description__icontains=text))
    return list(found.exclude(pk__in=holder.policies.values("pk")).order_by("tenant_id", "name")[: CANDIDATES + 1])


def policy_choices(tenant: Tenant, limit: int = 200) -> list[str]:
    """Names of policies to filter by."""
    mine = Policy.objects.filter(Q(tenant=None) | Q(tenant=tenant)).order_by("tenant_id", "name")
    return list(mine.values_list("name", flat=True)[:limit])


def group_choices(tenant: Tenant, limit: int = 200) -> list[str]:
    """Names of user groups to filter by."""
    return list(UserGroup.objects.filter(tenant=tenant).order_by("name").values_list("name", flat=True)[:limit])


@dataclass(frozen=True, slots=True)
class Held:
    """A policy that a user has, and where from: `direct`, through `groups`, or both."""

    policy: Policy
    direct: bool
    groups: tuple[UserGroup, ...]


def held_policies(user: User) -> list[Held]:
    """Every policy that counts for a user, by name."""
    direct = {policy.pk: policy for policy in user.policies.all()}
    inherited: dict[int, list[UserGroup]] = {}
    found = dict(direct)
    for group in user.user_groups.order_by("name").prefetch_related("policies"):
        for policy in group.policies.all():
            found[policy.pk] = policy
            inherited.setdefault(policy.pk, []).append(group)
    rows = (Held(policy, pk in direct, tuple(inherited.get(pk, ()))) for pk, policy in found.items())
    return sorted(rows, key=lambda held: held.policy.name)


def _devices() -> QuerySet[Authenticator]:
    """Recovery codes alone are no device."""
    bound: QuerySet[Authenticator] = Authenticator.objects.filter(user=OuterRef("pk"))
    return bound.exclude(type=Authenticator.Type.RECOVERY_CODES)


def _members() -> QuerySet[UserGroup.users.through]:  # type: ignore[name-defined]
    return UserGroup.users.through.objects.all()


def _policy_condition(tenant: Tenant, name: str) -> Q:
    attached = User.policies.through.objects.filter(user=OuterRef("pk"))  # type: ignore[attr-defined]
    inherited = _members().filter(user=OuterRef("pk"))
    if name == "-":
        inherited = inherited.filter(Exists(UserGroup.policies.through.objects.filter(usergroup=OuterRef("usergroup"))))  # type: ignore[attr-defined]
        return Q(is_tenant_admin=False) & ~Q(Exists(attached)) & ~Q(Exists(inherited))
    wanted = Policy.objects.filter(Q(tenant=None) | Q(tenant=tenant), name=name).values("pk")
    of_groups = UserGroup.objects.filter(tenant=tenant, policies__in=wanted).values("pk")
    return Q(Exists(attached.filter(policy__in=wanted))) | Q(Exists(inherited.filter(usergroup__in=of_groups)))


def policies_with_counts(tenant: Tenant, text: str = "", kind: str = "") -> QuerySet[Policy]:
    """System policies and the tenant's own with `attached`: to how many users, groups and roles of the tenant."""
    found = Policy.objects.filter(Q(tenant=None) | Q(tenant=tenant))
    if kind:
        found = found.filter(tenant__isnull=kind == "system")
    if text:
        found = found.filter(Q(name__icontains=text) | Q(description__icontains=text))
    attached = (
        _count(User.policies.through, user__tenant=tenant)
        + _count(UserGroup.policies.through, usergroup__tenant=tenant)
        + _count(Role.policies.through, role__tenant=tenant)
    )
    return found.annotate(attached=attached).order_by(F("tenant_id").asc(nulls_first=True), "name")


def policy(tenant: Tenant, name: str) -> Policy | None:
    """A system policy or one of the tenant's own."""
    return policies_with_counts(tenant).filter(name=name).first()


def holders(tenant: Tenant, policy: Policy) -> list[tuple[str, list[Any]]]:
    """To whom in the tenant a policy is attached, the first few of each kind: users, groups, roles."""
    return [
        ("users", list(User.objects.filter(tenant=tenant, policies=policy).order_by("username")[:HOLDERS])),
        ("groups", list(UserGroup.objects.filter(tenant=tenant, policies=policy).order_by("name")[:HOLDERS])),
        ("roles", list(Role.objects.filter(tenant=tenant, policies=policy).order_by("name")[:HOLDERS])),
    ]


def roles(tenant: Tenant, text: str = "", state: str = "") -> QuerySet[Role]:
    """The tenant's roles with their policies and `sessions`, how many live ones they have, by name."""
    found = Role.objects.filter(tenant=tenant).select_related("tenant").prefetch_related("policies")
    if text:
        found = found.filter(Q(name__icontains=text) | Q(description__icontains=text))
    live = AccessKey.objects.filter(role=OuterRef("pk"), expires_at__gt=timezone.now(), enabled=True)
    counted = live.order_by().values("role").annotate(n=Count("pk")).values("n")
    found = found.annotate(sessions=Coalesce(Subquery(counted, output_field=IntegerField()), 0))
    if state:
        found = found.filter(Exists(live) if state == "used" else ~Exists(live))
    return found.order_by("name")


def role(tenant: Tenant, name: str) -> Role | None:
    """One role of the tenant."""
    return roles(tenant).filter(name=name).first()


def sessions(role: Role) -> QuerySet[AccessKey]:
    """Active sessions of a role, the latest first."""
    return AccessKey.objects.filter(role=role, expires_at__gt=timezone.now(), enabled=True).order_by("-created_at")


def _count(through: Any, **of_tenant: Any) -> Coalesce:
    """How many rows of a relation name the policy; a query of its own, so that relations do not multiply."""
    rows = through.objects.filter(policy=OuterRef("pk"), **of_tenant).order_by().values("policy")
    return Coalesce(Subquery(rows.annotate(n=Count("pk")).values("n"), output_field=IntegerField()), 0)


def access_keys(tenant: Tenant, user: User) -> QuerySet[AccessKey]:
    """AccessKey pairs of one user of the tenant, oldest first."""
    return AccessKey.objects.filter(user=user, user__tenant=tenant).order_by("created_at")


def database_account(user: User) -> DatabaseAccount | None:
    """The user's sign-in at the MySQL endpoint by name and password."""
    return DatabaseAccount.objects.filter(user=user).first()


def policies(tenant: Tenant) -> QuerySet[Policy]:
    """System policies and the tenant's own."""
    return Policy.objects.filter(Q(tenant=None) | Q(tenant=tenant)).order_by("tenant_id", "name")
