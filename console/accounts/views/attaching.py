"""Attaching policies to users, user groups and roles, and putting users into groups: the same for all of them.

A picker finds what may be attached, a button attaches or detaches it, and the page of the holder says what was done or
why not.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

from django.contrib import messages
from django.http import HttpResponse
from django.urls import reverse
from django.utils.translation import gettext as _

from console.accounts import access, queries, services
from console.accounts.http import Request
from console.accounts.models import Policy, Role, User, UserGroup
from console.accounts.queries import CANDIDATES
from console.web import forms, htmx
from console.web.languages import gettext_lazy
from console.web.paging import search_text

Holder = User | UserGroup | Role

_SOON = gettext_lazy("It takes effect at once, at the broker within two seconds.")


@dataclass(frozen=True, slots=True)
class Candidate:
    """One thing to choose: the value that is sent, its name, and what is said beside it."""

    value: str
    name: str
    remark: str = ""


@dataclass(frozen=True, slots=True)
class Picker:
    """Type-ahead: it shows the first few things that fit, each with one button, and never loads a whole list.

    A search at `find_url`; choosing sends the candidate's value as `name` to `act_url`, and the button says `verb`.
    `back` is the page it stands on. `candidates` is None before anything was typed.
    """

    id: str
    label: str
    find_url: str
    act_url: str
    verb: str
    back: str
    text: str = ""
    candidates: list[Candidate] | None = None
    more: bool = False

    def showing(self, text: str, found: Iterable[Candidate]) -> Picker:
        """The picker with what fits the text."""
        rows = list(found)
        return replace(self, text=text, candidates=rows[:CANDIDATES], more=len(rows) > CANDIDATES)


def policies_for(holder: Holder) -> Picker:
    """Policies to attach to a user, a user group or a role."""
    return _picker(holder, "policies", label=_("Search policies to attach"), verb=_("Attach"))


def groups_for(user: User) -> Picker:
    """User groups to put a user into."""
    return _picker(user, "groups", label=_("Search groups to join"), verb=_("Join"))


def users_for(group: UserGroup) -> Picker:
    """Users to put into a user group."""
    return _picker(group, "users", label=_("Search users to add"), verb=_("Add"))


def find_policies(request: Request, holder: Holder) -> HttpResponse:
    """What the picker of policies finds; named by keys, since a system policy and an own one may have one name."""
    policies = queries.attachable_policies(request.actor.tenant, holder, search_text(request))
    return _found(request, policies_for(holder), [Candidate(str(p.pk), p.name, _remark(p)) for p in policies])


def find_groups(request: Request, user: User) -> HttpResponse:
    """What the picker of user groups finds."""
    groups = queries.joinable_groups(request.actor.tenant, user, search_text(request))
    return _found(request, groups_for(user), [Candidate(g.name, g.name, g.description) for g in groups])


def find_users(request: Request, group: UserGroup) -> HttpResponse:
    """What the picker of users finds."""
    users = queries.addable_users(request.actor.tenant, group, search_text(request))
    return _found(request, users_for(group), [Candidate(u.username, u.username, u.first_name) for u in users])


def attach(request: Request, holder: Holder, act: Callable[[Policy], None]) -> HttpResponse:
    """Give the holder the policy that was chosen."""
    policy = access.chosen_policy(request)
    return _change(request, holder, lambda: act(policy), _("%(policy)s is attached.") % {"policy": policy.name})


def detach(request: Request, holder: Holder, act: Callable[[Policy], None]) -> HttpResponse:
    """Take the policy that was chosen from the holder."""
    policy = access.chosen_policy(request)
    return _change(request, holder, lambda: act(policy), _("%(policy)s is detached.") % {"policy": policy.name})


def join(request: Request, group: UserGroup, user: User, *, page: Holder) -> HttpResponse:
    """Put the user into the group, and go back to the page of one of them."""
    said = _("%(username)s is in %(group)s.") % {"username": user.username, "group": group.name}
    return _change(request, page, lambda: services.add_user(actor=request.actor, group=group, user=user), said)


def leave(request: Request, group: UserGroup, user: User, *, page: Holder) -> HttpResponse:
    """Take the user out of the group, and go back to the page of one of them."""
    said = _("%(username)s is no longer in %(group)s.") % {"username": user.username, "group": group.name}
    return _change(request, page, lambda: services.remove_user(actor=request.actor, group=group, user=user), said)


def _change(request: Request, holder: Holder, act: Callable[[], None], said: str) -> HttpResponse:
    with forms.refusals_told(request):
        act()
        messages.success(request, _("%(said)s %(soon)s") % {"said": said, "soon": _SOON})
    return htmx.done(request, *_page(holder))


def _found(request: Request, picker: Picker, found: Iterable[Candidate]) -> HttpResponse:
    """The candidates: the list alone for htmx, a page without scripts."""
    context = {"picker": picker.showing(search_text(request), found)}
    return htmx.page(request, "accounts/pick.html", "accounts/_candidates.html", context)


def _remark(policy: Policy) -> str:
    return policy.shown_description or (_("System policy") if policy.tenant_id is None else "")


def _picker(holder: Holder, what: str, *, label: str, verb: str) -> Picker:
    """The URL names are `<page>_find_<what>` and `<page>_add_<what>`; each takes the holder's name."""
    page, name = _page(holder)
    find, act = (reverse(f"{page}_{step}_{what}", args=[name]) for step in ("find", "add"))
    return Picker(f"{what}-candidates", label, find, act, verb, reverse(page, args=[name]))


def _page(holder: Holder) -> tuple[str, str]:
    """URL name and argument of the holder's page."""
    if isinstance(holder, User):
        return "accounts.user", holder.username
    return "accounts.group" if isinstance(holder, UserGroup) else "accounts.role", holder.name
