"""Type-ahead: a search that shows the first few things that fit, each with one button. It never loads a whole list."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from django.http import HttpResponse
from django.urls import reverse

from console.accounts.models import Policy, User, UserGroup
from console.accounts.user_queries import CANDIDATES
from console.web import htmx
from console.web.http import Request


@dataclass(frozen=True, slots=True)
class Candidate:
    """One thing to choose: the value that is sent, its name, and what is said beside it."""

    value: str
    name: str
    remark: str = ""


@dataclass(frozen=True, slots=True)
class Picker:
    """A search at `find_url`; choosing sends the candidate's value as `name` to `act_url`, and the button says `verb`.

    `back` is the page it stands on. `candidates` is None before anything was typed.
    """

    id: str
    label: str
    find_url: str
    act_url: str
    verb: str
    back: str
    text: str = ""
    candidates: list[Candidate] | None = field(default=None)
    more: bool = False

    def showing(self, text: str, found: Iterable[Candidate]) -> Picker:
        """The picker with what fits the text."""
        rows = list(found)
        return Picker(
            self.id, self.label, self.find_url, self.act_url, self.verb, self.back, text,
            rows[:CANDIDATES], len(rows) > CANDIDATES,
        )  # fmt: skip


def respond(request: Request, picker: Picker) -> HttpResponse:
    """The found candidates: the list alone for htmx, a page without scripts."""
    return htmx.page(request, "accounts/pick.html", "accounts/_candidates.html", {"picker": picker})


def of_policies(policies: Iterable[Policy]) -> list[Candidate]:
    """Policies to attach, named by their keys: a system policy and an own one may have one name."""
    return [
        Candidate(str(p.pk), p.name, p.description or ("System policy" if p.tenant_id is None else ""))
        for p in policies
    ]


def of_groups(groups: Iterable[UserGroup]) -> list[Candidate]:
    """User groups to join."""
    return [Candidate(g.name, g.name, g.description) for g in groups]


def of_users(users: Iterable[User]) -> list[Candidate]:
    """Users to put into a group."""
    return [Candidate(u.username, u.username, u.first_name) for u in users]


def policies_for_user(user: User) -> Picker:
    """Policies to attach to a user."""
    return _picker("accounts.user", "policies", user.username, label="Search policies to attach", verb="Attach")


def groups_for_user(user: User) -> Picker:
    """User groups to put a user into."""
    return _picker("accounts.user", "groups", user.username, label="Search groups to join", verb="Join")


def policies_for_group(group: UserGroup) -> Picker:
    """Policies to attach to a user group."""
    return _picker("accounts.group", "policies", group.name, label="Search policies to attach", verb="Attach")


def users_for_group(group: UserGroup) -> Picker:
    """Users to put into a user group."""
    return _picker("accounts.group", "users", group.name, label="Search users to add", verb="Add")


def _picker(page: str, what: str, holder: str, *, label: str, verb: str) -> Picker:
    """The URL names are `<page>_find_<what>` and `<page>_add_<what>`; each takes the holder's name."""
    find, act = (reverse(f"{page}_{step}_{what}", args=[holder]) for step in ("find", "add"))
    return Picker(f"{what}-candidates", label, find, act, verb, reverse(page, args=[holder]))
