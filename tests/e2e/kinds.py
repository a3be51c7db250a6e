"""Every kind of page, dialog and menu of the console, and what must be there for them to have something to show."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from playwright.sync_api import Page, expect

from tests.e2e.conftest import PATIENCE_MS, Visitor
from tests.support.product import eventually

_CHOOSE_ALL = "[data-check-all]"
#: Whether a click opens another page: a link or a form that htmx has not.
_LEADS_AWAY = """element => {
  const link = element.closest("a[href]"), form = element.closest("form");
  if (link) return !link.hasAttribute("hx-get");
  return Boolean(form) && element.type === "submit" && ![form, element].some((one) => one.hasAttribute("hx-post"));
}"""


@dataclass(frozen=True)
class Kind:
    """A page at `path`, where `~` stands for the demo instance and `{flights}` for what `prepare` made of that name.

    `steps` are what is clicked then, one selector after another: a link leads to another page, a button opens
    something. `role` is whose page it is: an administrator of the account, the platform's, or nobody who signed in.
    """

    name: str
    path: str
    steps: tuple[str, ...] = ()
    role: str = "account"
    status: int = 200

    def open(self, page: Page, console: str, instance_path: str) -> None:
        """Go there and click the steps; fails if the page is not answered with `status`."""
        answer = page.goto(console + self.path.replace("~", instance_path), wait_until="domcontentloaded")
        assert answer is not None and answer.status == self.status, (self.name, answer and answer.status)
        for step in self.steps:
            target = page.locator(step).first
            if target.evaluate(_LEADS_AWAY):
                with page.expect_navigation(wait_until="domcontentloaded"):
                    target.click()
            else:
                target.click()
        page.wait_for_load_state()
        page.wait_for_function("() => !document.querySelector('.htmx-request')")


def _link(name: str) -> str:
    return f'role=link[name="{name}"]'


_OVERVIEW = (
    Kind("overview", "/"),
    Kind("go-anywhere", "/", ("[data-go]",)),
    Kind("appearance", "/", ('summary[aria-label="Appearance"]',)),
    Kind("user-menu", "/", (".user-menu",)),
    Kind("instance-chooser", "/", (".instance-chooser summary",)),
    Kind("alarms", "/alarms/"),
    Kind("acknowledge-many", "/alarms/", ("input[name=pick]", "#bulk button")),
    Kind("alarm-rules", "/alarms/rules/"),
    Kind("alarm-rule", "/alarms/rules/", (_link("behind"),)),
    Kind("alarm-rule-create", "/alarms/rules/create/?condition=group.backlog"),
    Kind("alarm-recipients", "/alarms/recipients/"),
    Kind("alarm-recipient-create", "/alarms/recipients/create/"),
    Kind("instances", "/instances/"),
    Kind("instance-create", "/instances/create/"),
    Kind("instance", "~/"),
    Kind("client", "~/client/"),
)
_MESSAGING = (
    Kind("topics", "~/topics/"),
    Kind("topics-empty", "~/topics/?q=no-such-topic"),
    Kind("topics-chosen", "~/topics/", (_CHOOSE_ALL,)),
    Kind("columns", "~/topics/", (".list-columns summary",)),
    Kind("views", "~/topics/", (".list-views summary",)),
    Kind("views-of-a-list", "~/topics/", (".list-views summary", _link("Rename or delete"))),
    Kind("delete-many", "~/topics/?q=kinds-", (_CHOOSE_ALL, "#bulk .btn-outline-danger")),
    Kind("topic", "~/topics/flights/"),
    Kind("topic-create", "~/create-topic/"),
    Kind("topic-delete", "~/topics/kinds-1/", (_link("Delete"),)),
    Kind("live", "~/topics/flights/live/"),
    Kind("publish", "~/topics/flights/publish/"),
    Kind("producers", "~/topics/bookings-tx/producers/"),
    Kind("topic-statistics", "~/topics/flights/statistics/"),
    Kind("topic-grants", "~/topics/flights/grants/"),
    Kind("topic-archive", "~/topics/flights/archive/"),
    Kind("groups", "~/groups/"),
    Kind("reset-many", "~/groups/", (_CHOOSE_ALL, "#bulk button:has-text('Reset')")),
    Kind("group", "~/groups/GID_flights/"),
    Kind("group-offline", "~/groups/GID_query/"),
    Kind("group-settings", "~/groups/GID_flights/settings/"),
    Kind("group-create", "~/create-group/"),
    Kind("reset", "~/groups/GID_flights/reset/"),
    Kind("group-statistics", "~/groups/GID_flights/statistics/"),
    Kind("dead-letters-of-group", "~/groups/GID_flights/dead-letters/"),
    Kind("dead-letters", "~/dead-letters/"),
    Kind("messages", "~/messages/"),
    Kind("messages-found", "~/messages/?by=key&search=1&topic=flights&key=kinds"),
    Kind("message", "~/messages/?by=key&search=1&topic=flights&key=kinds", ("#search tbody td a",)),
    Kind("statistics", "~/statistics/"),
    Kind("queues", "/queues/"),
    Kind("queue", "/queues/flights/"),
    Kind("queue-create", "/create-queue/"),
    Kind("queue-send", "/queues/flights/send/"),
    Kind("queue-messages", "/queues/flights/messages/"),
    Kind("queue-statistics", "/queues/flights/statistics/"),
    Kind("queue-topics", "/queue-topics/"),
    Kind("queue-topic", "/queue-topics/kinds/"),
    Kind("grants", "/grants/"),
)
_DATA = (
    Kind("sql", "/sql/"),
    Kind("sql-tasks", "/sql/tasks/"),
    Kind("sql-task", "/sql/tasks/", ("#results tbody td a",)),
    Kind("lake", "/sql/lake/"),
    Kind("bucket", "/sql/lake/gantry-demo/"),
    Kind("jobs", "/jobs/"),
    Kind("job", "/jobs/late-flights/"),
    Kind("job-editor", "/jobs/late-flights/editor/"),
    Kind("job-statistics", "/jobs/late-flights/statistics/"),
    Kind("job-log", "/jobs/late-flights/log/"),
    Kind("job-versions", "/jobs/late-flights/versions/"),
    Kind("job-secrets", "/job-secrets/"),
    Kind("job-create", "/create-job/"),
    Kind("tracking", "/tracking/"),
    Kind("tracking-create", "/create-tracking-task/"),
    Kind("inflow", "/inflow/"),
    Kind("inflow-task", "/inflow/", ("#results tbody td a",)),
    Kind("inflow-create", "/create-inflow/"),
    Kind("archives", "/archives/"),
)
_ACCOUNT = (
    Kind("keys", "/keys/"),
    Kind("users", "/users/"),
    Kind("user", "/users/kinds@demo/"),
    Kind("user-create", "/users/create/"),
    Kind("user-groups", "/user-groups/"),
    Kind("roles", "/roles/"),
    Kind("role", "/role/AliyunOpenAnalyticsAccessingMQRole/"),
    Kind("policies", "/policies/"),
    Kind("policy", "/policy/AliyunMQFullAccess/"),
    Kind("policy-create", "/policies/create/"),
    Kind("simulator", "/policies/simulator/"),
    Kind("single-sign-on", "/single-sign-on/"),
    Kind("security", "/security/"),
    Kind("audit", "/audit/"),
    Kind("audit-entry", "/audit/", ("#results tbody td a",)),
    Kind("api-tool", "/api-tool/"),
    Kind("api-operation", "/api-tool/topic/create"),
    Kind("drift", "/drift/"),
    Kind("docs", "/docs/"),
    Kind("doc", "/docs/use/messages/"),
    Kind("not-found", "~/topics/no-such-topic/", status=404),
)
_PLATFORM = tuple(
    Kind(name, path, steps, "platform")
    for name, path, steps in (
        ("platform-accounts", "/platform/accounts/", ()),
        ("platform-account", "/platform/accounts/demo/", ()),
        ("platform-limits", "/platform/accounts/demo/limits/", ()),
        ("platform-organizations", "/platform/organizations/", ()),
        ("platform-clusters", "/platform/clusters/", ()),
        ("platform-cluster", "/platform/clusters/", ("#results tbody td a, main .card tbody td a",)),
        ("platform-cluster-add", "/platform/clusters/add/", ()),
        ("platform-settings", "/platform/settings/", ()),
        ("platform-audit", "/platform/audit/", ()),
        ("unowned", "/unowned/", ()),
    )
)
_NOBODY = (Kind("login", "/account/login/", role="nobody"), Kind("login-account", "/login/", role="nobody"))

BY_SUBJECT = {
    "overview": _OVERVIEW,
    "messaging": _MESSAGING,
    "data": _DATA,
    "account": _ACCOUNT,
    "platform": _PLATFORM + _NOBODY,
}
KINDS = tuple(kind for kinds in BY_SUBJECT.values() for kind in kinds)


def prepare(visitor: Visitor) -> None:
    """Make what the kinds of page show, by the pages themselves; what is there already stays."""
    page = visitor.page
    for number in range(3):
        _send(visitor, "~/create-topic/", {"name": f"kinds-{number}", "order_type": "0"})
    for number in range(2):
        _send(visitor, "~/topics/flights/publish/", {"body": f'{{"kinds": {number}}}', "key": "kinds", "tag": "AA"})
    view = {"list": "topics_TopicTable", "name": "Busiest first", "next": "/?sort=-in_tps"}
    _send(visitor, "/views/keep", view)
    _send(visitor, "/create-queue-topic/", {"name": "kinds", "most_bytes": "65536"})
    new_user = {"name": "kinds", "display_name": "Ada of the pictures", "password": "Correct-horse-7-battery"}
    _send(visitor, "/users/create/", new_user)
    _send(
        visitor, "/sql/run", {"schema": "demo", "text": "SELECT carrier, COUNT(*) AS n FROM flights GROUP BY carrier"}
    )
    if visitor.go("/alarms/recipients/").get_by_text("pictures", exact=True).count() == 0:
        _send(visitor, "/alarms/recipients/create/", {"name": "pictures", "kind": "mail", "address": "a@example.com"})
    rules = (("behind", "group.backlog", "5", "0"), ("letters", "group.dead_letters", "0", "60"))
    for name, condition, threshold, minutes in rules:
        if visitor.go("/alarms/rules/").get_by_role("link", name=name, exact=True).count() == 0:
            visitor.go(f"/alarms/rules/create/?condition={condition}&threshold={threshold}")
            page.get_by_label("Name", exact=True).fill(name)
            page.get_by_label("For minutes").fill(minutes)
            page.get_by_text("pictures (", exact=False).first.click()
            page.get_by_role("button", name="Create", exact=True).click()
            expect(page.get_by_role("heading", name=name, exact=True)).to_be_visible()
    # A sample, a round of evaluation, and a letter that died: the demo's traffic fails some flights. Backlogs come and
    # go; an alarm of letters fires for as long as the rule counts them.
    picks = page.locator("li.attention-item", has_text="letters").locator("input[name=pick]")
    eventually(lambda: visitor.go("/alarms/") and picks.count(), seconds=600, every=3, what="a firing alarm of letters")


def _send(visitor: Visitor, path: str, values: dict[str, str]) -> None:
    """Send a form with the token of the page that is open; what is there already is refused, and that is well."""
    token = visitor.page.locator("body").get_attribute("hx-headers") or ""
    address = visitor.product.demo["console"]
    form: dict[str, str | float | bool] = {**values}
    answer = visitor.page.request.post(
        address + path.replace("~", visitor.instance_path),
        form=form,
        headers={"x-csrftoken": token.split('"')[3], "referer": address},
    )
    assert answer.status in (200, 204, 422), (path, answer.status)


@contextmanager
def pages(visitor: Visitor, width: int) -> Iterator[dict[str, Page]]:
    """A page for each role, in a browser of this width in pixels, whose own policy lets a test bring its scripts."""
    browser = visitor.page.context.browser
    assert browser is not None
    state = visitor.page.context.storage_state()
    contexts = {
        role: browser.new_context(
            viewport={"width": width, "height": 900}, timezone_id="Europe/Berlin", storage_state=kept, bypass_csp=True
        )
        for role, kept in (("account", state), ("platform", None), ("nobody", None))
    }
    found = {role: context.new_page() for role, context in contexts.items()}
    for page in found.values():
        page.set_default_timeout(PATIENCE_MS)
    platform = visitor.product.demo["platform"]
    found["platform"].goto(visitor.product.demo["console"])
    found["platform"].get_by_label("User name").fill(platform["username"])
    found["platform"].get_by_label("Password").fill(platform["password"])
    found["platform"].get_by_role("button", name="Sign in").click()
    found["platform"].get_by_role("heading", name="Accounts").wait_for()
    yield found
    for context in contexts.values():
        context.close()
