"""Runs that adopt or forget many names: waited for, with progress on stderr."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import click

from gantry_cli.errors import REFUSED, CliError
from gantry_cli.texts import _, ngettext

if TYPE_CHECKING:
    from gantry_cli.state.server import Server

_PAUSE_S = 0.5
_TOLD = 20
"""Names that could not be taken of which the reason is told."""


def wait(server: Server, runs: Iterable[dict[str, Any]]) -> None:
    """Wait until workers have done the runs. Raises CliError with the names that they could not take."""
    for run in runs:
        refused = _ended(server, run)["refused"]
        if refused:
            which = {"run": str(run["run"]), "state": "refused", "pageSize": str(_TOLD)}
            told = [_("%(name)s: %(reason)s") % row for row in server.call("adoption/runNames", which)]
            said = ngettext(
                "%(refused)s of %(total)s name could not be taken.",
                "%(refused)s of %(total)s names could not be taken.",
                run["total"],
            )
            raise CliError(" ".join((said % {"refused": refused, "total": run["total"]}, *told)), REFUSED)


def _ended(server: Server, run: dict[str, Any]) -> dict[str, Any]:
    label = _("Adopting") if run["purpose"] == "adopt" else _("Forgetting")
    told = ""
    with click.progressbar(length=run["total"], label=label, file=sys.stderr) as bar:
        while True:
            now: dict[str, Any] = server.call("adoption/run", {"run": str(run["run"])})
            bar.update(now["done"] + now["refused"] - bar.pos)
            if now["endTime"] is not None:
                return now
            if now["error"] and now["error"] != told:
                told = now["error"]
                click.echo("\n" + _("Waiting for the cluster %(cluster)s: %(error)s") % now, err=True)
            time.sleep(_PAUSE_S)
