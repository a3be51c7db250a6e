"""How many policies can be attached: a decision looks at all that somebody has, on a loop that others wait for."""

from __future__ import annotations

from collections.abc import Iterable

from django.db.models import QuerySet

from console.accounts.models import Policy, Role, Tenant, User, UserGroup
from console.web.errors import Refused

MOST_POLICIES = 20
"""Of a user, a user group or a role, each: as many as RAM attaches."""

MOST_POLICIES_IN_ALL = 40
"""Of a user, its own and those of its groups. Decisions on as many of the longest documents take below 20 ms."""


def require_room(holder: User | UserGroup | Role, policies: Iterable[Policy]) -> None:
    """Raise Refused when a user, group or role that gets these policies as well would have too many."""
    has = set(holder.policies.values_list("pk", flat=True))
    more = {policy.pk for policy in policies} - has
    if more and len(has) + len(more) > MOST_POLICIES:
        raise Refused(
            "BIZ_FIELD_CHECK_INVALID",
            f"A user, a user group and a role have at most {MOST_POLICIES} policies each; {holder} has {len(has)}.",
        )


def require_room_in_all(
    tenant: Tenant, users: QuerySet[User], *, policies: Iterable[Policy] = (), groups: Iterable[UserGroup] = ()
) -> None:
    """Raise Refused when one of the users, who get these policies or join these groups, would have too many in all.

    Needs a transaction: of the changes of one account one at a time is judged.
    """
    # No lock on the key itself: rows that only refer to the account are not held up.
    Tenant.objects.select_for_update(no_key=True).get(pk=tenant.pk)
    joined = Policy.objects.filter(user_groups__in=list(groups)).values_list("pk", flat=True)
    more = {policy.pk for policy in policies} | set(joined)
    has: dict[int, set[int]] = {pk: set() for pk in users.values_list("pk", flat=True)}
    for source in ("policies", "user_groups__policies"):
        # By the keys: a filter on groups would look at the policies of those groups alone.
        for pk, policy in User.objects.filter(pk__in=list(has), **{f"{source}__isnull": False}).values_list(
            "pk", source
        ):
            has[pk].add(policy)
    for pk, attached in has.items():
        if len(attached | more) > max(MOST_POLICIES_IN_ALL, len(attached)):
            name = User.objects.get(pk=pk).username
            raise Refused(
                "BIZ_FIELD_CHECK_INVALID",
                f"{name} would have more than {MOST_POLICIES_IN_ALL} policies, with those of its groups.",
            )
