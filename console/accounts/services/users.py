"""RAM users of an account: who they are, what they may do, and whether they may sign in."""

from __future__ import annotations

import string
from collections.abc import Iterable

from django.db import IntegrityError, transaction
from django.utils.translation import gettext as _

from console.accounts.actor import Actor
from console.accounts.changes import rights_changed
from console.accounts.delegation import require_change_of, require_giving
from console.accounts.models import USER_DIGITS, Policy, User, UserGroup, new_uid
from console.accounts.services.passwords import check_password
from console.accounts.services.policies import require_room, require_room_in_all
from console.accounts.services.row_locks import hold
from console.accounts.services.sessions import end_sessions
from console.audit import record as audit
from console.web.errors import Refused

_NAME_CHARACTERS = string.ascii_letters + string.digits + "._-"


def create_user(
    *,
    actor: Actor,
    name: str,
    password: str,
    policies: Iterable[Policy] = (),
    groups: Iterable[UserGroup] = (),
    display_name: str = "",
) -> User:
    """Create a RAM user `name@<tenant>`, who must change the password at the first sign-in.

    Raises Refused for a name that is taken or malformed, for a password that breaks the rule and for more policies than
    a user can have, PermissionDenied when the policies, or those of the groups, are more than `actor` may give.
    """
    tenant, policies, groups = actor.tenant, list(policies), list(groups)
    if not name or not all(c in _NAME_CHARACTERS for c in name) or len(name) > 32:
        raise Refused("BIZ_FIELD_CHECK_INVALID", _("A user name has 1 to 32 letters, digits, dots, - or _."), "name")
    user = User(username=f"{name}@{tenant.name}", uid=new_uid(USER_DIGITS), tenant=tenant, must_change_password=True)
    user.first_name = display_name
    check_password(password, user)
    user.set_password(password)
    with transaction.atomic():
        groups, policies = [hold(group) for group in groups], [hold(policy) for policy in policies]
        # The name may be one that the trust policies of roles know already.
        require_giving(actor, [*policies, *Policy.objects.filter(user_groups__in=groups).distinct()], users=[user])
        try:
            with transaction.atomic():
                user.save()
        except IntegrityError as error:
            raise Refused(
                "BIZ_FIELD_CHECK_INVALID",
                _("The user %(username)s already exists.") % {"username": user.username},
                "name",
            ) from error
        require_room(user, policies)
        user.policies.set(policies)
        require_room_in_all(tenant, User.objects.filter(pk=user.pk), groups=groups)
        user.user_groups.set(groups)
        detail = {"policies": [p.name for p in policies], "groups": [g.name for g in groups]}
        audit.record(actor, "accounts.user.create", user.username, detail=detail)
    return user


def update_user(*, actor: Actor, user: User, display_name: str, email: str) -> None:
    """Change what a user is called and the address people find it at; nothing is ever sent there."""
    with transaction.atomic():
        user = hold(user)
        require_change_of(actor, user)
        user.first_name, user.last_name, user.email = display_name, "", email
        user.save(update_fields=["first_name", "last_name", "email"])
        detail = {"display_name": display_name, "email": email}
        audit.record(actor, "accounts.user.update", user.username, detail=detail)


def attach_policy(*, actor: Actor, user: User, policy: Policy) -> None:
    """Attach a policy to a RAM user. Raises PermissionDenied when it is more than `actor` may give, or to whom.

    Raises Refused when the user has as many as it can have.
    """
    with transaction.atomic():
        user, policy = hold(user), hold(policy)
        require_change_of(actor, user)
        require_giving(actor, [policy], users=[user])
        if user.is_tenant_admin:
            raise Refused("BIZ_FIELD_CHECK_INVALID", _("The administrator may do everything; policies change nothing."))
        require_room(user, [policy])
        require_room_in_all(actor.tenant, User.objects.filter(pk=user.pk), policies=[policy])
        user.policies.add(policy)
        audit.record(actor, "accounts.user.attach_policy", user.username, detail={"policy": policy.name})
        rights_changed()


def detach_policy(*, actor: Actor, user: User, policy: Policy) -> None:
    """Take a policy from a RAM user. What it has through a group stays."""
    with transaction.atomic():
        user, policy = hold(user), hold(policy)
        require_change_of(actor, user)
        require_giving(actor, [policy], users=[user])
        user.policies.remove(policy)
        audit.record(actor, "accounts.user.detach_policy", user.username, detail={"policy": policy.name})
        rights_changed()


def set_user_enabled(*, actor: Actor, user: User, enabled: bool) -> None:
    """Let a user in, or shut out sign-in, sessions and AccessKeys. The tenant's administrator cannot be shut out."""
    with transaction.atomic():
        user = hold(user)
        require_change_of(actor, user)
        if not enabled:
            _refuse_own_end(
                actor,
                user,
                _("The administrator of the account cannot be disabled."),
                _("You cannot be disabled by yourself."),
            )
        user.is_active = enabled
        user.save(update_fields=["is_active"])
        audit.record(actor, f"accounts.user.{'enable' if enabled else 'disable'}", user.username)
        # Also of who is let in again: a sign-in that was under way when the door was shut left a session behind.
        end_sessions(actor=actor, user=user)
        rights_changed()


def delete_user(*, actor: Actor, user: User) -> None:
    """Delete a RAM user with its AccessKeys, sessions, database account and received grants.

    Topics, groups and query tasks that it made belong to the account and stay. The tasks keep the submitter's name;
    those that wait fail, since nobody is left whose rights they could have.
    """
    with transaction.atomic():
        user = hold(user)
        require_change_of(actor, user)
        _refuse_own_end(
            actor,
            user,
            _("The administrator of the account cannot be deleted."),
            _("You cannot be deleted by yourself."),
        )
        end_sessions(actor=actor, user=user)
        keys = list(user.access_keys.values_list("access_key_id", flat=True))
        audit.record(actor, "accounts.user.delete", user.username, detail={"access_keys": keys})
        user.delete()
        rights_changed()


def _refuse_own_end(actor: Actor, user: User, of_administrator: str, of_oneself: str) -> None:
    if user.is_tenant_admin:
        raise Refused("BIZ_FIELD_CHECK_INVALID", of_administrator)
    if actor.user is not None and actor.user.pk == user.pk:
        raise Refused("BIZ_FIELD_CHECK_INVALID", of_oneself)
