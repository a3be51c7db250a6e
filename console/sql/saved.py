"""Saved statements: kept by name, for oneself or shared with all of the account."""

from __future__ import annotations

from django.core.exceptions import PermissionDenied
from django.db import IntegrityError, transaction
from django.db.models import Q, QuerySet
from django.utils.translation import gettext as _

from console.accounts.actor import Actor, service_resource
from console.audit import record as audit
from console.catalog import queries
from console.sql.models import SavedQuery
from console.web.errors import Refused

LONGEST_TEXT = 100_000
#: Saved statements of one owner.
MOST = 500


def visible(actor: Actor, text: str = "") -> QuerySet[SavedQuery]:
    """The actor's own and the shared ones of the account, by name; `text` is part of the name or the statement."""
    found = SavedQuery.objects.filter(tenant=actor.tenant).filter(Q(shared=True) | Q(owner_name=_owner(actor)))
    if text:
        found = found.filter(Q(name__icontains=text) | Q(text__icontains=text))
    return found.order_by("name", "pk")


def may_change(actor: Actor, saved: SavedQuery) -> bool:
    """Its owner may, and who acts as the account."""
    return actor.is_account or saved.owner_name == _owner(actor)


def keep(actor: Actor, *, name: str, schema: str, text: str, shared: bool = False) -> SavedQuery:
    """Keep a statement under a new name, or change the actor's own of that name.

    Raises PermissionDenied for who may submit no statement, Refused for a name or a text that cannot be kept.
    """
    _require_submitter(actor)
    name = _checked(name, text)
    own = SavedQuery.objects.filter(tenant=actor.tenant, owner_name=_owner(actor))
    with transaction.atomic():
        found = own.filter(name=name).first()
        if found is None and own.count() >= MOST:
            raise Refused(
                "SAVED_QUERY_QUOTA_EXCEEDED",
                _("You have %(most)s saved statements, which is the limit; delete one first.") % {"most": MOST},
            )
        values = {"table_schema": schema, "text": text, "shared": shared, "owner": actor.user}
        kept, created = own.update_or_create(
            name=name, defaults=values, create_defaults=values | {"tenant": actor.tenant, "owner_name": _owner(actor)}
        )
        _record(actor, kept, "create" if created else "update")
    return kept


def change(actor: Actor, saved: SavedQuery, *, name: str, shared: bool) -> None:
    """Rename, share or stop sharing. Raises PermissionDenied for another's, Refused when the name is taken."""
    _require_change(actor, saved)
    saved.name, saved.shared = _checked(name, saved.text), shared
    try:
        with transaction.atomic():
            saved.save(update_fields=["name", "shared", "updated_at"])
            _record(actor, saved, "update")
    except IntegrityError as error:
        raise Refused(
            "SAVED_QUERY_EXISTED", _("There is a saved statement %(name)r already.") % {"name": name}, "name"
        ) from error


def delete(actor: Actor, saved: SavedQuery) -> None:
    """Delete one. Raises PermissionDenied for another's."""
    _require_change(actor, saved)
    with transaction.atomic():
        _record(actor, saved, "delete")
        saved.delete()


def _owner(actor: Actor) -> str:
    return actor.name[:150]


def _checked(name: str, text: str) -> str:
    name = " ".join(name.split())
    if not name or len(name) > 100 or not name.isprintable():
        raise Refused("SAVED_QUERY_NAME_INVALID", _("A name has 1 to 100 printable characters."), "name")
    if not text.strip():
        raise Refused("STATEMENT_EMPTY", _("There is no statement to save."), "text")
    if len(text) > LONGEST_TEXT:
        raise Refused(
            "STATEMENT_TOO_LONG",
            _("A saved statement has at most %(longest_text)s characters.") % {"longest_text": f"{LONGEST_TEXT:,}"},
            "text",
        )
    return name


def _require_submitter(actor: Actor) -> None:
    if not queries.readable_schemas(actor):
        raise PermissionDenied(_("no policy allows %(submit)s on any schema") % {"submit": queries.SUBMIT})


def _require_change(actor: Actor, saved: SavedQuery) -> None:
    _require_submitter(actor)
    if not may_change(actor, saved):
        raise PermissionDenied(_("the saved statement belongs to %(owner_name)s") % {"owner_name": saved.owner_name})


def _record(actor: Actor, saved: SavedQuery, verb: str) -> None:
    resource = service_resource("dla", actor.tenant, f"saved/{saved.pk}")
    detail = {"name": saved.name, "owner": saved.owner_name, "shared": saved.shared}
    audit.record(actor, f"sql.saved_query.{verb}", resource, detail=detail)
