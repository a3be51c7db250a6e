"""`gantry adopt`: names that a cluster has and no account become an account's, as they are; or are let go of again."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from gantry_cli import runs
from gantry_cli.commands import OUTPUT, ask, chosen_output, read_text
from gantry_cli.errors import REFUSED, CliError
from gantry_cli.output import harmless, show
from gantry_cli.state.server import Server, server_of

_TOLD = 20
"""Names that are told before the question."""


@click.command()
@click.option("--pattern", "patterns", multiple=True, help="Names that fit, such as 'payments-*'; may be given again.")
@click.option("--exclude", "excluded", multiple=True, help="Names that fit this are left out; may be given again.")
@click.option("--name", "names", multiple=True, help="A single name, orders or topic:orders; may be given again.")
@click.option(
    "--names-from", type=click.Path(path_type=Path, allow_dash=True), help="A file of names, one a line; - is stdin."
)
@click.option("--kind", type=click.Choice(["topic", "group"]), help="Topics or groups only.")
@click.option("--cluster", help="The cluster, where there are several.")
@click.option("--account", help="Who gets the names; the key's own account unless given.")
@click.option("--instance-name", help="Name of the instance without namespace, where one has to be made.")
@click.option("--rule", is_flag=True, help="Adopt what comes later too: needs --pattern.")
@click.option("--forget", is_flag=True, help="Let go of adopted names instead; the cluster keeps them.")
@click.option("--run", "number", type=int, help="With --forget: what this run has adopted.")
@click.option("--dry-run", is_flag=True, help="Show what would be done and change nothing.")
@click.option("--yes", "-y", is_flag=True, help="Do not ask.")
@click.option("--output", "-o", "_output", type=OUTPUT, help="How --dry-run shows the names.")
@click.pass_context
def adopt(context: click.Context, /, **given: Any) -> None:
    """Give topics and groups that a cluster has, and no account, to an account, as they are.

    Nothing changes on the cluster. Without --pattern, --name and --names-from all of them are meant.
    """
    chosen = _chosen(given)
    server = server_of(context)
    if given["forget"]:
        _forget(context, server, chosen, given)
    elif given["number"] is not None:
        raise CliError("--run needs --forget.")
    else:
        _adopt(context, server, chosen, given)


def _chosen(given: dict[str, Any]) -> dict[str, str]:
    """The parameters that choose names. Raises CliError for options that do not go together."""
    for pattern in given["patterns"]:
        if not set(pattern) & set("*?"):
            raise CliError(f"{pattern!r} has no * and no ?: give --name for a single name.")
    names = list(given["names"])
    if given["names_from"] is not None:
        names += read_text(given["names_from"]).split()
    by_list, by_pattern = bool(names), bool(given["patterns"] or given["excluded"])
    if by_list and by_pattern:
        raise CliError("Names are given by patterns or one by one, not both.")
    if given["names_from"] is not None and not names:
        raise CliError(f"{given['names_from']} has no names.")
    if given["rule"] and (given["forget"] or not given["patterns"]):
        raise CliError("--rule needs --pattern, and does not go with --forget.")
    found = {
        "include": " ".join(given["patterns"]),
        "exclude": " ".join(given["excluded"]),
        "names": "\n".join(names),
        "kind": given["kind"],
        "cluster": given["cluster"],
    }
    return {name: value for name, value in found.items() if value}


def _adopt(context: click.Context, server: Server, chosen: dict[str, str], given: dict[str, Any]) -> None:
    target = chosen | ({"account": given["account"]} if given["account"] else {})
    seen = server.call("adoption/preview", target)
    number = seen["topics"] + seen["groups"]
    where = seen["instanceId"] or "a new instance without namespace"
    click.echo(
        harmless(
            f"{seen['topics']} topics and {seen['groups']} groups of {seen['cluster']} for {seen['account']}, {where}."
        )
    )
    _tell(f"{seen['refused']} cannot be adopted", seen["refusedNames"])
    _tell(
        f"{seen['differing']} have different settings on brokers; those of the first are shown", seen["differingNames"]
    )
    if seen["tooMany"]:
        raise CliError(" ".join(seen["tooMany"]), REFUSED)
    if given["dry_run"]:
        show(server.call("adoption/list", chosen, every=True), chosen_output(context))
        return
    if not number and not given["rule"]:
        click.echo("Nothing to adopt.")
        return
    if not given["yes"]:
        ask("Adopt them?" if number else "Make the rule?")
    if number:
        more = {"instanceName": given["instance_name"]} if given["instance_name"] else {}
        run = server.call("adoption/adopt", target | more)
        click.echo(f"Run {run['run']}.")
        runs.wait(server, [run])
        click.echo(f"Adopted {run['total']} names. To let go of them: gantry adopt --forget --run {run['run']}")
    if given["rule"]:
        rule = server.call("adoption/createRule", target)
        click.echo(harmless(f"Rule {rule['rule']}: {rule['include']} belongs to {rule['account']}."))


def _forget(context: click.Context, server: Server, chosen: dict[str, str], given: dict[str, Any]) -> None:
    if given["number"] is not None:
        run = server.call("adoption/run", {"run": str(given["number"])})
        click.echo(harmless(f"{run['done']} names that run {run['run']} has adopted for {run['account']}."))
        if given["dry_run"]:
            return
    else:
        if not set(chosen) & {"include", "names"}:
            raise CliError("--forget needs --pattern, which may be '*', or --name, --names-from or --run.")
        rows = server.call("adoption/listAdopted", chosen, every=True)
        click.echo(f"{len(rows)} adopted names.")
        if given["dry_run"]:
            show(rows, chosen_output(context))
            return
        if not rows:
            return
        _tell("They are", [row | {"reason": f"{row['kind']} of {row['account']}"} for row in rows])
    if not given["yes"]:
        ask("Forget them? The cluster keeps them.")
    if given["number"] is not None:
        begun = [server.call("adoption/forgetRun", {"run": str(given["number"])})]
    else:
        begun = server.call("adoption/forget", chosen)
    runs.wait(server, begun)
    click.echo(f"Forgotten: {sum(run['total'] for run in begun)} names. The cluster keeps them.")


def _tell(title: str, rows: list[dict[str, Any]]) -> None:
    if not rows:
        return
    click.echo(f"{title}:")
    for row in rows[:_TOLD]:
        click.echo(harmless(f"  {row['name']}: {row['reason']}"))
    if len(rows) > _TOLD:
        click.echo(f"  and {len(rows) - _TOLD} more")
