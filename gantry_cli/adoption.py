"""`gantry adopt`: names that a cluster has and no account become an account's, as they are; or are let go of again."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from gantry_cli import runs
from gantry_cli.commands import OUTPUT, ask, chosen_output, read_text
from gantry_cli.errors import REFUSED, CliError
from gantry_cli.helping import Command
from gantry_cli.output import harmless, show
from gantry_cli.state.server import Server, server_of
from gantry_cli.texts import _, kind_word, ngettext

_TOLD = 20
"""Names that are told before the question."""


@click.command(
    cls=Command,
    help=_("Give topics and groups that a cluster has, and no account, to an account, as they are.")
    + "\n\n"
    + _("Nothing changes on the cluster. Without --pattern, --name and --names-from all of them are meant."),
)
@click.option(
    "--pattern", "patterns", multiple=True, help=_("Names that fit, such as 'payments-*'; may be given again.")
)
@click.option("--exclude", "excluded", multiple=True, help=_("Names that fit this are left out; may be given again."))
@click.option("--name", "names", multiple=True, help=_("A single name, orders or topic:orders; may be given again."))
@click.option(
    "--names-from", type=click.Path(path_type=Path, allow_dash=True), help=_("A file of names, one a line; - is stdin.")
)
@click.option("--kind", type=click.Choice(["topic", "group"]), help=_("Topics or groups only."))
@click.option("--cluster", help=_("The cluster, where there are several."))
@click.option("--account", help=_("Who gets the names; the key's own account unless given."))
@click.option("--instance-name", help=_("Name of the instance without namespace, where one has to be made."))
@click.option("--rule", is_flag=True, help=_("Adopt what comes later too: needs --pattern."))
@click.option("--forget", is_flag=True, help=_("Let go of adopted names instead; the cluster keeps them."))
@click.option("--run", "number", type=int, help=_("With --forget: what this run has adopted."))
@click.option("--dry-run", is_flag=True, help=_("Show what would be done and change nothing."))
@click.option("--yes", "-y", is_flag=True, help=_("Do not ask."))
@click.option("--output", "-o", "_output", type=OUTPUT, help=_("How --dry-run shows the names."))
@click.pass_context
def adopt(context: click.Context, /, **given: Any) -> None:
    """`gantry adopt`."""
    chosen = _chosen(given)
    server = server_of(context)
    if given["forget"]:
        _forget(context, server, chosen, given)
    elif given["number"] is not None:
        raise CliError(_("--run needs --forget."))
    else:
        _adopt(context, server, chosen, given)


def _chosen(given: dict[str, Any]) -> dict[str, str]:
    """The parameters that choose names. Raises CliError for options that do not go together."""
    for pattern in given["patterns"]:
        if not set(pattern) & set("*?"):
            raise CliError(_("%(pattern)r has no * and no ?: give --name for a single name.") % {"pattern": pattern})
    names = list(given["names"])
    if given["names_from"] is not None:
        names += read_text(given["names_from"]).split()
    by_list, by_pattern = bool(names), bool(given["patterns"] or given["excluded"])
    if by_list and by_pattern:
        raise CliError(_("Names are given by patterns or one by one, not both."))
    if given["names_from"] is not None and not names:
        raise CliError(_("%(file)s has no names.") % {"file": given["names_from"]})
    if given["rule"] and (given["forget"] or not given["patterns"]):
        raise CliError(_("--rule needs --pattern, and does not go with --forget."))
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
    where = seen["instanceId"] or _("a new instance without namespace")
    found = _("%(topics)s topics and %(groups)s groups of %(cluster)s for %(account)s, %(where)s.")
    click.echo(harmless(found % {**seen, "where": where}))
    _tell(_("%(refused)s cannot be adopted:") % seen, seen["refusedNames"])
    _tell(
        _("%(differing)s have different settings on brokers; those of the first are shown:") % seen,
        seen["differingNames"],
    )
    if seen["tooMany"]:
        raise CliError(" ".join(seen["tooMany"]), REFUSED)
    if given["dry_run"]:
        show(server.call("adoption/list", chosen, every=True), chosen_output(context))
        return
    if not number and not given["rule"]:
        click.echo(_("Nothing to adopt."))
        return
    if not given["yes"]:
        ask(_("Adopt them?") if number else _("Make the rule?"))
    if number:
        more = {"instanceName": given["instance_name"]} if given["instance_name"] else {}
        run = server.call("adoption/adopt", target | more)
        click.echo(_("Run %(run)s.") % run)
        runs.wait(server, [run])
        adopted = ngettext(
            "Adopted %(total)s name. To let go of it: gantry adopt --forget --run %(run)s",
            "Adopted %(total)s names. To let go of them: gantry adopt --forget --run %(run)s",
            run["total"],
        )
        click.echo(adopted % run)
    if given["rule"]:
        rule = server.call("adoption/createRule", target)
        click.echo(harmless(_("Rule %(rule)s: %(include)s belongs to %(account)s.") % rule))


def _forget(context: click.Context, server: Server, chosen: dict[str, str], given: dict[str, Any]) -> None:
    if given["number"] is not None:
        run = server.call("adoption/run", {"run": str(given["number"])})
        told = ngettext(
            "%(done)s name that run %(run)s has adopted for %(account)s.",
            "%(done)s names that run %(run)s has adopted for %(account)s.",
            run["done"],
        )
        click.echo(harmless(told % run))
        if given["dry_run"]:
            return
    else:
        if not set(chosen) & {"include", "names"}:
            raise CliError(_("--forget needs --pattern, which may be '*', or --name, --names-from or --run."))
        rows = server.call("adoption/listAdopted", chosen, every=True)
        click.echo(ngettext("%(count)s adopted name.", "%(count)s adopted names.", len(rows)) % {"count": len(rows)})
        if given["dry_run"]:
            show(rows, chosen_output(context))
            return
        if not rows:
            return
        whose = _("%(kind)s of %(account)s")
        _tell(_("They are:"), [row | {"reason": whose % (row | {"kind": kind_word(row["kind"])})} for row in rows])
    if not given["yes"]:
        ask(_("Forget them? The cluster keeps them."))
    if given["number"] is not None:
        begun = [server.call("adoption/forgetRun", {"run": str(given["number"])})]
    else:
        begun = server.call("adoption/forget", chosen)
    runs.wait(server, begun)
    total = sum(run["total"] for run in begun)
    forgotten = ngettext(
        "Forgotten: %(total)s name. The cluster keeps it.",
        "Forgotten: %(total)s names. The cluster keeps them.",
        total,
    )
    click.echo(forgotten % {"total": total})


def _tell(title: str, rows: list[dict[str, Any]]) -> None:
    if not rows:
        return
    click.echo(title)
    for row in rows[:_TOLD]:
        click.echo("  " + harmless(_("%(name)s: %(reason)s") % row))
    if len(rows) > _TOLD:
        click.echo("  " + _("and %(count)s more") % {"count": len(rows) - _TOLD})
