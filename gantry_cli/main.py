"""The entry of the command `gantry`: options for all commands, our own commands, and how it ends."""

from __future__ import annotations

import json
import sys
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import click
from click.shell_completion import get_completion_class

from gantry_cli import config
from gantry_cli.adoption import adopt
from gantry_cli.commands import OUTPUT, Root
from gantry_cli.errors import CliError
from gantry_cli.helping import Command
from gantry_cli.output import harmless
from gantry_cli.state.commands import apply, export
from gantry_cli.texts import _

_DEMO = {
    "url": "console",
    "region": "region",
    "access_key_id": "access_key_id",
    "access_key_secret": "access_key_secret",
}
"""What demo.json calls the entries of a profile."""

_HINTS = {
    "bash": _("Put this into %(file)s:  %(line)s") % {"file": "~/.bashrc", "line": 'eval "$(gantry completion bash)"'},
    "zsh": _("Put this into %(file)s:  %(line)s") % {"file": "~/.zshrc", "line": 'eval "$(gantry completion zsh)"'},
    "fish": _("Run:  %(line)s") % {"line": "gantry completion fish > ~/.config/fish/completions/gantry.fish"},
}

_EPILOG = _(
    "Exit statuses: 0 done, 1 refused by the server, 2 wrong command line or file, 3 key or permission, "
    "4 server not reachable, 5 apply stopped halfway."
)


@click.command(
    cls=Command,
    help=_("Store a profile: address of the console, region, AccessKey.")
    + "\n\n"
    + _("The secret is asked for and never shown; it cannot be given on the command line, where others could see it."),
)
@click.option("--profile", "name", help=_("Name of the profile [GANTRY_PROFILE]; `default` unless given."))
@click.option("--url", help=_("Address of the console."))
@click.option("--region", help=_("Region."))
@click.option("--access-key-id", help=_("ID of the AccessKey."))
@click.option("--secret-stdin", is_flag=True, help=_("Read the secret from standard input instead of asking for it."))
@click.option("--token", is_flag=True, help=_("Ask for a security token too, for a temporary key."))
@click.option("--from-demo", type=click.Path(path_type=Path), help=_("Read everything from a demo.json."))
@click.pass_context
def configure(context: click.Context, /, name: str | None, from_demo: Path | None, **given: Any) -> None:
    """`gantry configure`."""
    outer = context.find_root().params
    name = name or outer.get("profile") or config.DEFAULT_PROFILE
    given = {key: value or outer.get(key) for key, value in given.items()}
    new = _from_demo(name, from_demo) if from_demo else _asked(name, given)
    file = config.write_profile(new)
    said = {"name": new.name, "url": new.url, "file": file}
    click.echo(_("Stored the profile %(name)s for %(url)s in %(file)s.") % said)


def _from_demo(name: str, file: Path) -> config.Profile:
    try:
        demo = json.loads(file.read_text(encoding="utf-8"))
        if isinstance(demo, dict) and _DEMO["access_key_id"] not in demo:
            said = _("%(file)s has no AccessKey: make one on the page AccessKeys, then `gantry configure`.")
            raise CliError(said % {"file": file})
        return config.Profile(name=name, **{key: str(demo[entry]) for key, entry in _DEMO.items()})
    except (OSError, ValueError, KeyError, TypeError) as error:
        said = _("%(file)s cannot be read as a demo.json: %(error)r.")
        raise CliError(said % {"file": file, "error": error}) from error


def _asked(name: str, given: dict[str, Any]) -> config.Profile:
    known = config.read_profiles().get(name, config.Profile(name))
    interactive = not given["secret_stdin"]

    def ask(key: str, label: str) -> str:
        if given[key] or not interactive:
            return str(given[key] or getattr(known, key))
        return str(click.prompt(label, default=getattr(known, key) or None))

    url, region = ask("url", _("Address")), ask("region", _("Region"))
    key_id = ask("access_key_id", _("AccessKey ID"))
    if not key_id:
        raise CliError(_("The AccessKey ID is missing: give --access-key-id."))
    secret = str(click.prompt(_("AccessKey secret"), hide_input=True)) if interactive else sys.stdin.readline().strip()
    if not secret:
        raise CliError(_("There was no secret on standard input."))
    token = str(click.prompt(_("Security token"), hide_input=True)) if given["token"] else ""
    return config.Profile(name, url, region, key_id, secret, token)


@click.command(
    cls=Command,
    help=_("Print the completion script of a shell.")
    + "\n\n"
    + _("It completes from the stored list of operations and asks no server."),
    epilog=" · ".join(_HINTS.values()),
)
@click.argument("shell", type=click.Choice(sorted(_HINTS)))
@click.pass_context
def completion(context: click.Context, shell: str) -> None:
    """`gantry completion`."""
    found = get_completion_class(shell)
    if found is None:
        raise click.ClickException(_("Completion for %(shell)s is not known.") % {"shell": shell})
    click.echo(found(context.find_root().command, {}, "gantry", "_GANTRY_COMPLETE").source())


def _version() -> str:
    try:
        return version("gantry")
    except PackageNotFoundError:
        return _("not installed")


@click.group(
    cls=Root,
    help=_("The management API of Gantry on the command line.")
    + "\n\n"
    + _(
        "`gantry configure` stores an AccessKey; `gantry SERVICE OPERATION --parameter value` calls any operation; "
        "`gantry export` and `gantry apply` keep instances, topics, groups, grants, queues, SQL jobs and policies as a "
        "file; `gantry adopt` gives names that a cluster has to an account, as they are."
    ),
    epilog=_EPILOG,
    context_settings={"help_option_names": ["-h", "--help"]},
)
@click.option("--profile", help=_("Profile of the configuration file [GANTRY_PROFILE]."))
@click.option("--url", help=_("Address of the console [GANTRY_URL]."))
@click.option("--region", help=_("Region [GANTRY_REGION]."))
@click.option("--output", "-o", type=OUTPUT, help=_("How to show answers; a table unless said otherwise."))
@click.version_option(_version(), prog_name="gantry")
def cli(profile: str | None, url: str | None, region: str | None, output: str | None) -> None:
    """`gantry`."""


cli.add_command(configure)
cli.add_command(completion)
cli.add_command(export)
cli.add_command(apply)
cli.add_command(adopt)


def main() -> None:
    """Run the command line, and end with one line on stderr and a status when it fails."""
    try:
        cli.main(prog_name="gantry", standalone_mode=False)
    except click.exceptions.NoArgsIsHelpError as wanted:
        click.echo(wanted.format_message())
    except click.ClickException as error:
        _end(error.format_message(), error.exit_code)
    except CliError as error:
        _end(error.message, error.status)
    except (click.Abort, KeyboardInterrupt):
        _end(_("Stopped."), 130)
    except BrokenPipeError:
        sys.stderr.close()  # the reader of a pipe went away; Python would complain once more at its end
        sys.exit(141)


def _end(text: str, status: int) -> None:
    click.echo("gantry: " + " ".join(harmless(line) for line in text.splitlines()), err=True)
    sys.exit(status)
