"""`gantry export` and `gantry apply`."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path

import click

from gantry_cli import runs
from gantry_cli.commands import ask, read_text
from gantry_cli.errors import HALFWAY, CliError
from gantry_cli.helping import Command
from gantry_cli.output import harmless
from gantry_cli.state import files
from gantry_cli.state.document import text
from gantry_cli.state.files import State
from gantry_cli.state.inflow import GROUP, INFLOW, TRACKING
from gantry_cli.state.plan import plan
from gantry_cli.state.reader import refuse_twins
from gantry_cli.state.server import Server, server_of
from gantry_cli.state.steps import CHANGE, CREATE, DELETE, Ids, Step
from gantry_cli.texts import _, ngettext

_COLOURS = {CREATE: "green", CHANGE: "yellow", DELETE: "red"}
_COUNTED = {"new": CREATE, "changed": CHANGE, "gone": DELETE}
_DONE = {CREATE: _("created %(title)s"), CHANGE: _("changed %(title)s"), DELETE: _("deleted %(title)s")}
_FORMS = click.Choice(["yaml", "json"])
#: How long a change tracking task that was made a moment ago may take to connect, before an inflow task reads it.
_PATIENCE_S = 60
_RUNS = frozenset({"adoption/adopt", "adoption/forget"})
"""What workers do, while the next step waits."""


@click.command(
    cls=Command,
    help=_("Print the account for `gantry apply`.")
    + "\n\n"
    + _(
        "Instances, topics, groups, grants, queues, rules of buckets, SQL jobs, change tracking and inflow tasks, "
        "alarms, and policies."
    ),
)
@click.option("--instance", "instances", multiple=True, help=_("Only this instance, by name; may be given again."))
@click.option("--policies/--no-policies", default=None, help=_("With the account's own policies; not with --instance."))
@click.option(
    "--queues/--no-queues", default=None, help=_("With the account's queues and their topics; not with --instance.")
)
@click.option("--buckets/--no-buckets", default=None, help=_("With the rules of buckets; not with --instance."))
@click.option(
    "--jobs/--no-jobs",
    default=None,
    help=_("With the account's SQL jobs, their variables, and names of secrets; not with --instance."),
)
@click.option(
    "--inflow/--no-inflow",
    default=None,
    help=_("With the account's change tracking and inflow tasks, without passwords; not with --instance."),
)
@click.option("--alarms/--no-alarms", default=None, help=_("With alarm rules and who they tell; not with --instance."))
@click.option("--format", "form", type=_FORMS, default="yaml", show_default=True)
@click.pass_context
def export(context: click.Context, /, instances: tuple[str, ...], form: str, **parts: bool | None) -> None:
    """`gantry export`."""
    server = server_of(context)
    unknown = sorted(set(instances) - set(server.instance_names())) if instances else []
    if unknown:
        raise CliError(_("There is no instance %(name)s.") % {"name": unknown[0]})
    wanted = {name: not instances if given is None else given for name, given in parts.items()}
    read = [part for name, found in _PARTS.items() if wanted[name] for part in found]
    state = server.state(read, instances=instances or None)
    click.echo(text(state, form))


@click.command(
    cls=Command,
    help=_("Bring the account to the state in FILE (- is standard input): show the plan, ask, then apply it.")
    + "\n\n"
    + _(
        "A list that the file does not have stays unchanged. Applying a file twice changes nothing the second time; "
        "after a failure midway, applying it again continues where it stopped."
    ),
)
@click.argument("file", type=click.Path(path_type=Path, allow_dash=True))
@click.option("--yes", "-y", is_flag=True, help=_("Do not ask before something is changed."))
@click.option("--dry-run", is_flag=True, help=_("Show the plan and change nothing."))
@click.option("--prune", is_flag=True, help=_("Delete what the file's lists do not name; instances stay."))
@click.option("--prune-instances", is_flag=True, help=_("With --prune: also instances, with all that is in them."))
@click.pass_context
def apply(context: click.Context, /, file: Path, **options: bool) -> None:
    """`gantry apply`."""
    prune, prune_instances = options["prune"], options["prune_instances"]
    if prune_instances and not prune:
        raise CliError(_("--prune-instances needs --prune."))
    wanted = files.read(file, read_text(file))
    server = server_of(context)
    wanted = _placed(server, wanted)
    found = _found(server, wanted, everything=prune_instances)
    steps = plan(_with_clusters(server, wanted, found), found, prune=prune, prune_instances=prune_instances)
    if not steps:
        click.echo(_("Nothing to do."))
        return
    _show(steps)
    if options["dry_run"]:
        return
    if not options["yes"]:
        ask(_("Apply these changes?"), possible=str(file) != "-")
    _do(server, steps)


#: What an option of `export` leaves out or adds.
_PARTS = {
    "policies": ("policies",),
    "queues": ("queues", "queue_topics"),
    "buckets": ("buckets",),
    "jobs": ("job_secrets", "job_variables", "jobs"),
    "inflow": ("tracking_tasks", "inflow_tasks"),
    "alarms": ("alarm_recipients", "alarm_rules"),
}


def _placed(server: Server, wanted: State) -> State:
    """The file's instances with their regions, where there are several. Raises CliError."""
    if wanted.instances is None:
        return wanted
    instances = tuple(server.placed(instance) for instance in wanted.instances)
    refuse_twins(instances, lambda instance: instance.name, "instance")
    return replace(wanted, instances=instances)


def _found(server: Server, wanted: State, *, everything: bool) -> State:
    """Only what the file speaks of is read."""
    names: list[str] | None = [instance.name for instance in wanted.instances or ()]
    all_of_them = everything and wanted.instances is not None
    parts = {one.part for one in files.LISTS.values() if getattr(wanted, one.part) is not None} - {"instances"}
    if wanted.inflow_tasks is not None:
        parts.add("tracking_tasks")  # whose consumer groups they read by
    return server.state(parts, instances=None if all_of_them else names)


def _with_clusters(server: Server, wanted: State, found: State) -> State:
    """New instances that name no cluster get the only one that there is in their region."""
    there = {instance.name for instance in found.instances or ()}
    new = [i for i in wanted.instances or () if i.name not in there and not i.cluster]
    if not new:
        return wanted
    only: dict[str, str] = {}
    for one in new:
        if one.region in only:
            continue
        clusters = [row["cluster"] for row in server.call("cluster/list", region=one.region)]
        if len(clusters) != 1:
            said = {"where": one.where, "name": one.name, "listed": ", ".join(clusters) or _("none")}
            raise CliError(_("%(where)s: the instance %(name)s must name its cluster; there is: %(listed)s.") % said)
        only[one.region] = clusters[0]
    instances = tuple(replace(i, cluster=only[i.region]) if i in new else i for i in wanted.instances or ())
    return replace(wanted, instances=instances)


def _show(steps: list[Step]) -> None:
    previous = None
    for step in steps:
        inside = step.instance and step.kind != "instance"
        place = _("instance %(name)s") % {"name": step.instance} if inside else ""
        if place != previous and place:
            click.echo(harmless(place))
        previous = place
        indent = "  " if place else ""
        click.secho(harmless(f"{indent}{step.sign} {step.title}"), fg=_COLOURS[step.sign])
        for line in step.details:
            click.echo(f"{indent}    {harmless(line)}")
    counts = {name: sum(step.sign == sign for step in steps) for name, sign in _COUNTED.items()}
    click.echo("\n" + _("%(new)s to create, %(changed)s to change, %(gone)s to delete.") % counts)


def _do(server: Server, steps: list[Step]) -> None:
    ids = server.ids(tracking=any(step.kind in (TRACKING, GROUP, INFLOW) for step in steps))
    for number, step in enumerate(steps):
        try:
            _take(server, step, ids)
        except CliError as error:
            said = _(
                "%(title)s: %(error)s %(done)s of %(all)s steps are done, %(rest)s are not; apply the file again to "
                "continue."
            )
            counts = {"done": number, "all": len(steps), "rest": len(steps) - number}
            told = said % {"title": step.title, "error": error.message, **counts}
            raise CliError(told, HALFWAY if number else error.status) from error
        click.echo(harmless(_DONE[step.sign] % {"title": step.title}))
    click.echo(ngettext("Done: %(count)s step.", "Done: %(count)s steps.", len(steps)) % {"count": len(steps)})


def _take(server: Server, step: Step, ids: Ids) -> None:
    where = {"instanceId": ids.instances[step.instance]} if step.instance else {}
    region = step.region or ids.regions.get(step.instance, "")
    if step.kind == INFLOW and step.sign != DELETE:
        _wait_for_source(server, step, ids)
    for operation, parameters in step.calls:
        given = {name: value if isinstance(value, str) else value(ids) for name, value in parameters.items()}
        data = server.call(operation, given | where, region=region)
        if operation == "instance/create":
            ids.instances[step.name] = data["instanceId"]
            ids.regions[step.name] = step.region
        if operation in _RUNS:
            runs.wait(server, data if isinstance(data, list) else [data])
        if operation == "tracking/create":
            ids.tracking_tasks[step.name] = data["task"]


def _wait_for_source(server: Server, step: Step, ids: Ids) -> None:
    """A change tracking task that was made or changed a moment ago connects first; what is wrong the server tells."""
    task = ids.tracking_tasks.get(step.source)
    deadline = time.monotonic() + _PATIENCE_S
    while task is not None and time.monotonic() < deadline:
        if server.call("tracking/get", {"task": task})["state"] != "Starting":
            return
        time.sleep(0.5)
