"""`gantry completion SHELL`: what a shell needs to complete services, operations, parameters and their values."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

_HINTS = {
    "bash": 'Put this into ~/.bashrc:  eval "$(gantry completion bash)"',
    "zsh": 'Put this into ~/.zshrc:  eval "$(gantry completion zsh)"',
    "fish": "Run:  gantry completion fish > ~/.config/fish/completions/gantry.fish",
}


@click.command(epilog=" · ".join(_HINTS.values()))
@click.argument("shell", type=click.Choice(sorted(_HINTS)))
@click.pass_context
def completion(context: click.Context, shell: str) -> None:
    """Print the completion script of a shell.

    It completes from the stored list of operations and asks no server.
    """
    found = get_completion_class(shell)
    if found is None:
        raise click.ClickException(f"Completion for {shell} is not known.")
    click.echo(found(context.find_root().command, {}, "gantry", "_GANTRY_COMPLETE").source())
