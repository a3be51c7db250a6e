"""`gantry export` and `gantry apply`."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import click

from cli import catalog
from cli.commands import chosen_profile
from cli.errors import HALFWAY, CliError
from cli.output import harmless
from cli.state import export as exporting
from cli.state import files
from cli.state.model import State
from cli.state.plan import CREATE, Step, plan
from cli.state.server import Server

_COLOURS = {"+": "green", "~": "yellow", "-": "red"}
_FORMS = click.Choice(["yaml", "json"])


@click.command()
@click.option("--instance", "instances", multiple=True, help="Only this instance, by name; may be given again.")
@click.option("--policies/--no-policies", default=None, help="With the account's own policies; not with --instance.")
@click.option("--format", "form", type=_FORMS, default="yaml", show_default=True)
@click.pass_context
def export(context: click.Context, instances: tuple[str, ...], policies: bool | None, form: str) -> None:
    """Print instances, topics, groups, grants and policies as a file for `gantry apply`."""
    server = _server(context)
    unknown = sorted(set(instances) - set(server.instance_names())) if instances else []
    if unknown:
        raise CliError(f"There is no instance {unknown[0]}.")
    with_policies = not instances if policies is None else policies
    state = server.state(instances=instances or None, policies=with_policies)
    click.echo(exporting.text(state, form))


@click.command()
@click.argument("file", type=click.Path(path_type=Path, allow_dash=True))
@click.option("--yes", "-y", is_flag=True, help="Do not ask before something is changed.")
@click.option("--dry-run", is_flag=True, help="Show the plan and change nothing.")
@click.option("--prune", is_flag=True, help="Delete what the file's lists do not name; instances stay.")
@click.option("--prune-instances", is_flag=True, help="With --prune: also instances, with all that is in them.")
@click.pass_context
def apply(context: click.Context, /, file: Path, **options: bool) -> None:
    """Make the account what FILE says (- is standard input): show the plan, ask, then do it.

    A list that the file does not have is left alone. Applying a file twice changes nothing the second time; after a
    failure midway, applying it again goes on where it stopped.
    """
    prune, prune_instances = options["prune"], options["prune_instances"]
    if prune_instances and not prune:
        raise CliError("--prune-instances needs --prune.")
    wanted = files.read(file, _text(file))
    server = _server(context)
    found = _found(server, wanted, everything=prune_instances)
    steps = plan(_with_clusters(server, wanted, found), found, prune=prune, prune_instances=prune_instances)
    if not steps:
        click.echo("Nothing to do.")
        return
    _show(steps)
    if options["dry_run"]:
        return
    if not options["yes"]:
        _ask(file)
    _do(server, steps)


def _server(context: click.Context) -> Server:
    profile = chosen_profile(context)
    profile.require_key()
    return Server(profile, catalog.load(profile))


def _text(file: Path) -> str:
    try:
        return sys.stdin.read() if str(file) == "-" else file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise CliError(f"{file} cannot be read: {error}.") from error


def _found(server: Server, wanted: State, *, everything: bool) -> State:
    """Only what the file speaks of is read."""
    if wanted.instances is None:
        return server.state(instances=(), policies=True)
    names = None if everything else [instance.name for instance in wanted.instances]
    return server.state(instances=names, policies=wanted.policies is not None)


def _with_clusters(server: Server, wanted: State, found: State) -> State:
    """New instances that name no cluster get the only one there is."""
    there = {instance.name for instance in found.instances or ()}
    new = [i for i in wanted.instances or () if i.name not in there and not i.cluster]
    if not new:
        return wanted
    clusters = [row["cluster"] for row in server.call("cluster/list")]
    if len(clusters) != 1:
        listed = ", ".join(clusters) or "none"
        raise CliError(f"{new[0].where}: the instance {new[0].name} must name its cluster; there is: {listed}.")
    instances = tuple(replace(i, cluster=clusters[0]) if i in new else i for i in wanted.instances or ())
    return replace(wanted, instances=instances)


def _show(steps: list[Step]) -> None:
    previous = None
    for step in steps:
        place = f"instance {step.instance}" if step.instance and step.kind != "instance" else ""
        if place != previous and place:
            click.echo(harmless(place))
        previous = place
        indent = "  " if place else ""
        click.secho(harmless(f"{indent}{step.sign} {step.title}"), fg=_COLOURS[step.sign])
        for line in step.details:
            click.echo(f"{indent}    {harmless(line)}")
    counts = [sum(step.sign == sign for step in steps) for sign in _COLOURS]
    click.echo("\n{} to create, {} to change, {} to delete.".format(*counts))


def _ask(file: Path) -> None:
    if str(file) == "-" or not sys.stdin.isatty():
        raise CliError("Nobody can be asked here: give --yes to change this, or --dry-run to see the plan only.")
    click.confirm("Do it?", abort=True)


def _do(server: Server, steps: list[Step]) -> None:
    ids = server.instance_names()
    for number, step in enumerate(steps):
        try:
            for operation, parameters in step.calls:
                where = {"instanceId": ids[step.instance]} if step.instance else {}
                data = server.call(operation, parameters | where)
                if operation == "instance/create":
                    ids[step.name] = data["instanceId"]
        except CliError as error:
            rest = len(steps) - number
            raise CliError(
                f"{step.title}: {error.message} {number} of {len(steps)} steps are done, {rest} not; "
                "apply the file again to go on.",
                HALFWAY if number else error.status,
            ) from error
        verb = "created" if step.sign == CREATE else "changed" if step.sign == "~" else "deleted"
        click.echo(harmless(f"{verb} {step.title}"))
    click.echo(f"Done: {len(steps)} step{'s' if len(steps) > 1 else ''}.")
