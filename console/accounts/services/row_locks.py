"""Rows that a change is about, as they are now: somebody may have changed or deleted them since they were looked up."""

from __future__ import annotations

from typing import TypeVar

from django.core.exceptions import ObjectDoesNotExist
from django.db.models import Model
from django.utils.translation import gettext as _

from console.accounts.models import Policy
from console.web.errors import Refused

_M = TypeVar("_M", bound=Model)


def hold(row: _M) -> _M:
    """Bring the row up to date and give it back; nobody changes or deletes before the transaction ends.

    Raises Refused when it no longer exists. Locks are taken in the order user, group, role, policy.
    """
    if isinstance(row, Policy) and row.tenant_id is None:
        return row  # system policies stay, and all accounts use them: nobody has to wait for another
    # No lock on the key itself: rows that only refer to this one are not held up.
    # Not type(): the user of a request is a proxy.
    queryset = row.__class__._default_manager.select_for_update(no_key=True)
    try:
        row.refresh_from_db(from_queryset=queryset)
    except ObjectDoesNotExist as error:
        raise Refused("BIZ_FIELD_CHECK_INVALID", _("%(row)s no longer exists.") % {"row": row}) from error
    return row
