"""Custom policies of an account. System policies belong to no account and are changed by nobody."""

from __future__ import annotations

import string
from collections.abc import Iterable
from typing import Any

from django.db import IntegrityError, transaction
from django.db.models import Q, QuerySet
from django.utils.translation import gettext as _

from brokercore.policy import validate
from console.accounts import delegation
from console.accounts.actor import Actor
from console.accounts.changes import rights_changed
from console.accounts.models import Policy, Role, Tenant, User, UserGroup
from console.accounts.services.row_locks import hold
from console.audit import record as audit
from console.web.errors import Refused
from console.web.languages import gettext_lazy

SYSTEM_PREFIX = "Aliyun"
_NAME_CHARACTERS = frozenset(string.ascii_letters + string.digits + "-")
_HOLDERS = (
    ("users", gettext_lazy("user %(name)s")),
    ("user_groups", gettext_lazy("user group %(name)s")),
    ("roles", gettext_lazy("role %(name)s")),
)

MOST_POLICIES = 20
"""Of a user, a user group or a role, each: as many as RAM attaches."""

MOST_POLICIES_IN_ALL = 40
"""Of a user, its own and those of its groups. Decisions on as many of the longest documents take below 20 ms."""


@transaction.atomic
def create_policy(*, actor: Actor, name: str, description: str, document: dict[str, Any]) -> Policy:
    """Create a custom policy in the actor's account. It grants nothing until it is attached.

    Raises Refused for a name that is taken, malformed or looks like a system policy's, and for a document that breaks
    the grammar.
    """
    if not 1 <= len(name) <= 128 or not _NAME_CHARACTERS.issuperset(name):
        raise Refused("BIZ_FIELD_CHECK_INVALID", _("A policy name has 1 to 128 letters, digits or hyphens."), "name")
    if name.lower().startswith(SYSTEM_PREFIX.lower()):
        raise Refused(
            "BIZ_FIELD_CHECK_INVALID",
            _("Names that begin with %(system_prefix)s are system policies.") % {"system_prefix": SYSTEM_PREFIX},
            "name",
        )
    policy = Policy(tenant=actor.tenant, name=name, description=checked_description(description))
    policy.document = _checked(document)
    try:
        with transaction.atomic():
            policy.save()
    except IntegrityError as error:
        raise Refused(
            "BIZ_FIELD_CHECK_INVALID", _("The policy %(name)s already exists.") % {"name": name}, "name"
        ) from error
    audit.record(actor, "accounts.policy.create", name, detail={"document": document})
    return policy


@transaction.atomic
def update_policy(*, actor: Actor, policy: Policy, description: str, document: dict[str, Any]) -> Policy:
    """Change what a custom policy says, at once for everybody it is attached to.

    Who does not act as the account must have the rights that the policy gives, before and after. Raises Refused for a
    system policy and for a document that breaks the grammar, PermissionDenied for rights beyond the actor's own.
    """
    _require_custom(policy)
    policy = hold(policy)
    before = policy.document
    users = (
        User.objects.filter(Q(policies=policy) | Q(user_groups__policies=policy)).select_related("tenant").distinct()
    )
    roles = Role.objects.filter(policies=policy).select_related("tenant")
    delegation.require_giving(actor, [policy], users=users, roles=roles)
    policy.description, policy.document = checked_description(description), _checked(document)
    delegation.require_giving(actor, [policy], users=users, roles=roles)
    policy.save(update_fields=["description", "document", "updated_at"])
    audit.record(actor, "accounts.policy.update", policy.name, detail={"before": before, "after": document})
    rights_changed()
    return policy


@transaction.atomic
def delete_policy(*, actor: Actor, policy: Policy) -> None:
    """Delete a custom policy. Raises Refused while it is attached: taking it from somebody is a decision of its own."""
    _require_custom(policy)
    # Held, so that an attachment that is being made is not swept away unseen.
    policy = hold(policy)
    holders = [text % {"name": holder} for field, text in _HOLDERS for holder in getattr(policy, field).all()[:4]]
    if holders:
        message = (
            _("%(policy)s is attached to %(holders)s and more; detach it first.")
            if len(holders) > 3
            else _("%(policy)s is attached to %(holders)s; detach it first.")
        )
        raise Refused("BIZ_FIELD_CHECK_INVALID", message % {"policy": policy.name, "holders": ", ".join(holders[:3])})
    audit.record(actor, "accounts.policy.delete", policy.name, detail={"document": policy.document})
    policy.delete()


def checked_description(text: str) -> str:
    """A description of at most 256 printable characters. Raises Refused."""
    text = text.strip()
    if len(text) > 256 or not text.isprintable():
        raise Refused(
            "BIZ_FIELD_CHECK_INVALID", _("A description has at most 256 characters and no line breaks."), "description"
        )
    return text


def _checked(document: Any) -> dict[str, Any]:
    found = validate(document)
    if found:
        raise Refused("BIZ_FIELD_CHECK_INVALID", found[0].message, "document")
    return dict(document)


def _require_custom(policy: Policy) -> None:
    if policy.tenant_id is None:
        raise Refused(
            "BIZ_FIELD_CHECK_INVALID",
            _("%(policy)s is a system policy, which nobody can change.") % {"policy": policy.name},
        )


def require_room(holder: User | UserGroup | Role, policies: Iterable[Policy]) -> None:
    """Raise Refused when a user, group or role that gets these policies as well would have too many."""
    has = set(holder.policies.values_list("pk", flat=True))
    more = {policy.pk for policy in policies} - has
    if more and len(has) + len(more) > MOST_POLICIES:
        raise Refused(
            "BIZ_FIELD_CHECK_INVALID",
            _("A user, a user group and a role have at most %(most_policies)s policies each; %(holder)s has %(has)s.")
            % {"most_policies": MOST_POLICIES, "holder": holder, "has": len(has)},
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
                _("%(name)s would have more than %(most_policies_in_all)s policies, including those of its groups.")
                % {"name": name, "most_policies_in_all": MOST_POLICIES_IN_ALL},
            )
