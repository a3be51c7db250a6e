"""Views of lists that people keep by name: by what a list is filtered and sorted, and which columns are left out.

All of that stands in the query of the list's address, so that is what is kept: a view is a link. One may be what the
list opens with. A shared one is offered to everybody of the account, who sees by it what they may see.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any
from urllib.parse import parse_qsl, urlencode

from django.db import IntegrityError, transaction
from django.db.models import QuerySet
from django.http import HttpRequest
from django.shortcuts import redirect
from django.utils.translation import gettext as _

from console.accounts.actor import Actor
from console.accounts.http import Request
from console.accounts.models import SavedView, User
from console.audit import record as audit
from console.web import columns, htmx
from console.web.errors import Refused

MOST = 20
"""Views of one list that a person keeps."""
MOST_SHARED = 50
"""Views of others that a menu offers."""
LONGEST_NAME, LONGEST_QUERY = 60, 2000
_EVERYTHING = "view"
_WRONG = "BIZ_FIELD_CHECK_INVALID"
#: Of the page that is looked at, not of the list; and the search task of dead letters, which lives for minutes.
_PASSING = frozenset({"page", "as", "task", "preview", _EVERYTHING})

#: The lists that have views, by name: `opens_with_default` says so for each.
_lists: set[str] = set()

_View = Callable[..., Any]


def normal(query: str, left_out: frozenset[str] | None = None) -> str:
    """A query as it is kept, in one order; with the columns that are left out.

    What is empty or passing is left out, and what no list can be asked for.
    """
    given = parse_qsl(query)
    pairs = [(name, value) for name, value in given if name not in _PASSING and "\0" not in name + value]
    if left_out is not None:
        pairs = [pair for pair in pairs if pair[0] != columns.PARAMETER]
        pairs.append((columns.PARAMETER, ".".join(sorted(left_out))))
    return urlencode(sorted(pairs))


def of_page(request: HttpRequest, name: str, *, has_columns: bool) -> str:
    """What the list `name` on this page would be kept as."""
    return normal(request.GET.urlencode(), columns.left_out(request, name) if has_columns else None)


def own(user: User, name: str) -> QuerySet[SavedView]:
    """The person's views of a list, by name."""
    return SavedView.objects.filter(user=user, list_name=name).order_by("name")


def shared(user: User, name: str) -> QuerySet[SavedView]:
    """Views of a list that others of the account share, by name."""
    if user.tenant_id is None:
        return SavedView.objects.none()
    others = SavedView.objects.filter(shared=True, list_name=name, user__tenant=user.tenant_id).exclude(user=user)
    return others.select_related("user").order_by("name", "pk")[:MOST_SHARED]


def opens_with_default(name: str) -> Callable[[_View], _View]:
    """For the view of a list: where its address says nothing, the list opens with the visitor's default view."""
    _lists.add(name)

    def decorate(view: _View) -> _View:
        @wraps(view)
        def opened(request: Request, *args: Any, **kwargs: Any) -> Any:
            if request.method == "GET" and not request.GET and not htmx.is_fragment(request):
                default = own(request.user, name).filter(is_default=True).first()
                if default is not None and default.query:
                    return redirect(f"{request.path}?{default.query}")
            return view(request, *args, **kwargs)

        return opened

    return decorate


def keep(*, actor: Actor, name: str, list_name: str, query: str, is_default: bool, share: bool) -> SavedView:
    """Keep a view under a name; the person's own of that name becomes this one. Raises Refused and PermissionDenied."""
    person, name = actor.person, _checked(name)
    if list_name not in _lists:
        raise Refused(_WRONG, _("There is no such list."), "list")
    if len(query) > LONGEST_QUERY:
        raise Refused(
            _WRONG, _("A view has at most %(most)s characters of filters.") % {"most": f"{LONGEST_QUERY:,}"}, "query"
        )
    with transaction.atomic():
        mine = own(person, list_name).select_for_update()
        known = list(mine.values_list("name", flat=True))
        if name not in known and len(known) >= MOST:
            raise Refused(
                _WRONG, _("You keep %(most)s views of this list, which is the most; delete one first.") % {"most": MOST}
            )
        if is_default:
            mine.update(is_default=False)
        kept, is_new = SavedView.objects.update_or_create(
            user=person,
            list_name=list_name,
            name=name,
            defaults={"query": query, "is_default": is_default, "shared": share and person.tenant_id is not None},
        )
        _record(actor, kept, "create" if is_new else "update")
    return kept


def change(*, actor: Actor, view: SavedView, name: str, is_default: bool, share: bool) -> None:
    """Rename a view, make it the default or not, share it or not. Raises Refused when the name is taken."""
    view.name, view.is_default = _checked(name), is_default
    view.shared = share and actor.person.tenant_id is not None
    try:
        with transaction.atomic():
            if is_default:
                own(actor.person, view.list_name).exclude(pk=view.pk).update(is_default=False)
            view.save(update_fields=["name", "is_default", "shared"])
            _record(actor, view, "update")
    except IntegrityError as error:
        raise Refused(
            _WRONG, _("You have a view %(name)s of this list already.") % {"name": view.name}, "name"
        ) from error


def delete(*, actor: Actor, view: SavedView) -> None:
    """Forget a view."""
    with transaction.atomic():
        _record(actor, view, "delete")
        view.delete()


def _checked(name: str) -> str:
    name = " ".join(name.split())
    if not name or len(name) > LONGEST_NAME or not name.isprintable():
        raise Refused(
            _WRONG, _("A view's name has 1 to %(most)s printable characters.") % {"most": LONGEST_NAME}, "name"
        )
    return name


def _record(actor: Actor, view: SavedView, verb: str) -> None:
    detail = {"list": view.list_name, "name": view.name, "default": view.is_default, "shared": view.shared}
    audit.record(actor, f"accounts.view.{verb}", f"view/{view.pk}", detail=detail | {"query": view.query})
