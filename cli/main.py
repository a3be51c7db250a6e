"""The entry of the command `gantry`: options for all commands, our own commands, and how it ends."""

from __future__ import annotations

import sys
from importlib.metadata import PackageNotFoundError, version

import click

from cli.commands import OUTPUT, Root
from cli.completion import completion
from cli.configure import configure
from cli.errors import CliError
from cli.output import harmless
from cli.state.commands import apply, export

_EPILOG = (
    "Exit statuses: 0 done, 1 refused by the server, 2 wrong command line or file, 3 key or permission, "
    "4 server not reachable, 5 apply stopped halfway."
)


def _version() -> str:
    try:
        return version("gantry")
    except PackageNotFoundError:
        return "not installed"


@click.group(cls=Root, epilog=_EPILOG, context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--profile", help="Profile of the configuration file [GANTRY_PROFILE].")
@click.option("--url", help="Address of the console [GANTRY_URL].")
@click.option("--region", help="Region [GANTRY_REGION].")
@click.option("--output", "-o", type=OUTPUT, help="How to show answers; a table unless said otherwise.")
@click.version_option(_version(), prog_name="gantry")
def cli(profile: str | None, url: str | None, region: str | None, output: str | None) -> None:
    """The management API of Gantry on the command line.

    `gantry configure` stores an AccessKey; `gantry SERVICE OPERATION --parameter value` calls any operation;
    `gantry export` and `gantry apply` keep instances, topics, groups, grants and policies as a file.
    """


cli.add_command(configure)
cli.add_command(completion)
cli.add_command(export)
cli.add_command(apply)


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
        _end("Stopped.", 130)
    except BrokenPipeError:
        sys.stderr.close()  # the reader of a pipe went away; Python would complain once more at its end
        sys.exit(141)


def _end(text: str, status: int) -> None:
    click.echo("gantry: " + " ".join(harmless(line) for line in text.splitlines()), err=True)
    sys.exit(status)
