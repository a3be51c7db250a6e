"""User groups: RAM users with the same policies."""

from __future__ import annotations

import string

from django.db import IntegrityError, transaction
from django.utils.translation import gettext as _

from console.accounts.actor import Actor
from console.accounts.changes import rights_changed
from console.accounts.delegation import require_change_of, require_giving
from console.accounts.models import Policy, User, UserGroup
from console.accounts.services.policies import require_room, require_room_in_all
from console.accounts.services.row_locks import hold
from console.audit import record as audit
from console.web.errors import Refused

_NAME_CHARACTERS = string.ascii_letters + string.digits + ".-"


def create_group(*, actor: Actor, name: str, description: str = "") -> UserGroup:
    """Create an empty user group. Raises Refused for a name that is taken or malformed."""
    _check_name(name)
    group = UserGroup(tenant=actor.tenant, name=name, description=description)
    with transaction.atomic():
        _save(group)
        audit.record(actor, "accounts.group.create", name, detail={"description": description})
    return group


def update_group(*, actor: Actor, group: UserGroup, name: str, description: str) -> None:
    """Rename or describe a group. Raises Refused for a name that is taken or malformed."""
    _check_name(name)
    with transaction.atomic():
        group = hold(group)
        if name != group.name:
            # Rights on `group/<name>` follow the name.
            require_giving(actor, group.policies.all(), users=group.users.all())
        before = group.name
        group.name, group.description = name, description
        _save(group)
        detail = {"name": name, "description": description}
        audit.record(actor, "accounts.group.update", before, detail=detail)


def delete_group(*, actor: Actor, group: UserGroup) -> None:
    """Delete a group; its users lose what they had through it."""
    with transaction.atomic():
        group = hold(group)
        require_giving(actor, group.policies.all(), users=group.users.all())
        detail = {"users": group.users.count(), "policies": [p.name for p in group.policies.all()]}
        audit.record(actor, "accounts.group.delete", group.name, detail=detail)
        group.delete()
        rights_changed()


def add_user(*, actor: Actor, group: UserGroup, user: User) -> None:
    """Put a RAM user into a group. Raises PermissionDenied when the group's policies are more than `actor` may give."""
    with transaction.atomic():
        user, group = hold(user), hold(group)
        require_change_of(actor, user)
        require_giving(actor, group.policies.all(), users=[user])
        if user.is_tenant_admin:
            raise Refused("BIZ_FIELD_CHECK_INVALID", _("The administrator may do everything; a group changes nothing."))
        require_room_in_all(actor.tenant, User.objects.filter(pk=user.pk), groups=[group])
        group.users.add(user)
        audit.record(actor, "accounts.group.add_user", group.name, detail={"user": user.username})
        rights_changed()


def remove_user(*, actor: Actor, group: UserGroup, user: User) -> None:
    """Take a user out of a group, and what it may do through it."""
    with transaction.atomic():
        user, group = hold(user), hold(group)
        require_change_of(actor, user)
        require_giving(actor, group.policies.all(), users=[user])
        group.users.remove(user)
        audit.record(actor, "accounts.group.remove_user", group.name, detail={"user": user.username})
        rights_changed()


def attach_group_policy(*, actor: Actor, group: UserGroup, policy: Policy) -> None:
    """Give a policy to every user of a group, now and later. Raises Refused when the group or a user has too many."""
    with transaction.atomic():
        group, policy = hold(group), hold(policy)
        require_giving(actor, [policy], users=group.users.all())
        require_room(group, [policy])
        require_room_in_all(actor.tenant, User.objects.filter(user_groups=group), policies=[policy])
        group.policies.add(policy)
        audit.record(actor, "accounts.group.attach_policy", group.name, detail={"policy": policy.name})
        rights_changed()


def detach_group_policy(*, actor: Actor, group: UserGroup, policy: Policy) -> None:
    """Take a policy from a group."""
    with transaction.atomic():
        group, policy = hold(group), hold(policy)
        require_giving(actor, [policy], users=group.users.all())
        group.policies.remove(policy)
        audit.record(actor, "accounts.group.detach_policy", group.name, detail={"policy": policy.name})
        rights_changed()


def _check_name(name: str) -> None:
    """1 to 64 letters, digits, dots and hyphens, as the vendor's RAM groups are named."""
    if not name or len(name) > 64 or not all(c in _NAME_CHARACTERS for c in name):
        raise Refused("BIZ_FIELD_CHECK_INVALID", _("A group name has 1 to 64 letters, digits, dots or -."), "name")


def _save(group: UserGroup) -> None:
    try:
        with transaction.atomic():
            group.save()
    except IntegrityError as error:
        raise Refused(
            "BIZ_FIELD_CHECK_INVALID", _("The group %(group)s already exists.") % {"group": group.name}, "name"
        ) from error
