"""`gantry configure`: store a profile with its AccessKey, in a file that is its owner's alone."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import click

from cli import config
from cli.errors import CliError

_DEMO = {
    "url": "console",
    "region": "region",
    "access_key_id": "access_key_id",
    "access_key_secret": "access_key_secret",
}
"""What demo.json calls the entries of a profile."""


@click.command()
@click.option("--profile", "name", help="Name of the profile [GANTRY_PROFILE]; `default` unless given.")
@click.option("--url", help="Address of the console.")
@click.option("--region", help="Region.")
@click.option("--access-key-id", help="ID of the AccessKey.")
@click.option("--secret-stdin", is_flag=True, help="Read the secret from standard input instead of asking for it.")
@click.option("--token", is_flag=True, help="Ask for a security token too, for a temporary key.")
@click.option("--from-demo", type=click.Path(path_type=Path), help="Take all of it from a demo.json.")
@click.pass_context
def configure(context: click.Context, /, name: str | None, from_demo: Path | None, **given: Any) -> None:
    """Store a profile: address of the console, region, AccessKey.

    The secret is asked for and never shown; it cannot be given on the command line, where others could see it.
    """
    outer = context.find_root().params
    name = name or outer.get("profile") or config.DEFAULT_PROFILE
    given = {key: value or outer.get(key) for key, value in given.items()}
    new = _from_demo(name, from_demo) if from_demo else _asked(name, given)
    file = config.write_profile(new)
    click.echo(f"Stored the profile {new.name} for {new.url} in {file}.")


def _from_demo(name: str, file: Path) -> config.Profile:
    try:
        demo = json.loads(file.read_text(encoding="utf-8"))
        return config.Profile(name=name, **{key: str(demo[entry]) for key, entry in _DEMO.items()})
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise CliError(f"{file} is no demo.json that can be read: {error!r}.") from error


def _asked(name: str, given: dict[str, Any]) -> config.Profile:
    known = config.read_profiles().get(name, config.Profile(name))
    interactive = not given["secret_stdin"]

    def ask(key: str, label: str) -> str:
        if given[key] or not interactive:
            return str(given[key] or getattr(known, key))
        return str(click.prompt(label, default=getattr(known, key) or None))

    url, region, key_id = ask("url", "Address"), ask("region", "Region"), ask("access_key_id", "AccessKey ID")
    if not key_id:
        raise CliError("The AccessKey ID is missing: give --access-key-id.")
    secret = str(click.prompt("AccessKey secret", hide_input=True)) if interactive else sys.stdin.readline().strip()
    if not secret:
        raise CliError("There was no secret on standard input.")
    token = str(click.prompt("Security token", hide_input=True)) if given["token"] else ""
    return config.Profile(name, url, region, key_id, secret, token)
