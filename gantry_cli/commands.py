"""`gantry <service> <operation>`: a command for every operation that the server declares."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click

from gantry_cli import catalog, config, output
from gantry_cli.catalog import Catalog, Operation, Parameter
from gantry_cli.config import Profile
from gantry_cli.errors import CliError
from gantry_cli.helping import Command, Group
from gantry_cli.texts import _

OUTPUT = click.Choice(["table", "json"])
_ALL = "_all"
_OUTPUT = "_output"
_BIGGEST = {"pages": "100", "task": "50"}
"""Most entries of a page, by the style of paging: plain pages and query tasks."""


def chosen_profile(context: click.Context) -> config.Profile:
    """The profile that the options before the command name."""
    given = context.find_root().params
    return config.profile(given.get("profile") or "", given.get("url") or "", given.get("region") or "")


def chosen_output(context: click.Context) -> str:
    """`json` or `table`, a table unless said otherwise."""
    return str(context.params.get(_OUTPUT) or context.find_root().params.get("output") or "table")


def read_text(file: Path) -> str:
    """The content of a file; `-` is standard input. Raises CliError."""
    try:
        return sys.stdin.read() if str(file) == "-" else file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise CliError(_("%(file)s cannot be read: %(error)s.") % {"file": file, "error": error}) from error


def ask(question: str, *, possible: bool = True) -> None:
    """Go on only after a yes. Raises CliError where nobody can be asked, click.Abort after a no."""
    if not possible or not sys.stdin.isatty():
        raise CliError(_("Confirmation is not possible here: give --yes to do it, or --dry-run to only see it."))
    click.confirm(question, abort=True)


class Root(Group):
    """Our own commands, and beside them the services of the server."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Without a list of operations there are our own commands still; the help then says why."""
        try:
            services = self.operations(ctx).services()
        except CliError:
            services = []
        return [*super().list_commands(ctx), *services]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """One of ours, else a service; for a word that is not known the list is renewed once."""
        own = super().get_command(ctx, cmd_name)
        if own is not None:
            return own
        for renew in (False, True):
            try:
                found = self.operations(ctx, renew=renew)
            except CliError:
                if ctx.resilient_parsing:
                    return None  # a shell that completes a word has no use for a sentence
                raise
            service = _in_any_case(cmd_name, found.services())
            if service is not None:
                return Service(service, found)
            if ctx.resilient_parsing:
                break
        return None

    def operations(self, ctx: click.Context, *, renew: bool = False) -> Catalog:
        """The operations of the server that the options name."""
        return catalog.load(chosen_profile(ctx), offline=ctx.resilient_parsing, renew=renew)

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Say why there are no services, when there are none."""
        super().format_epilog(ctx, formatter)
        try:
            self.operations(ctx)
        except CliError as error:
            formatter.write_paragraph()
            formatter.write_text(_("The services cannot be listed: %(error)s") % {"error": error.message})


class Service(Group):
    """The operations of one service."""

    def __init__(self, name: str, operations: Catalog) -> None:
        super().__init__(name, help=_("Operations of %(name)s.") % {"name": name})
        self._operations = {operation.name: operation for operation in operations.of(name)}

    def list_commands(self, ctx: click.Context) -> list[str]:
        """By name."""
        return list(self._operations)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The operation, whose capitals need not be typed."""
        name = _in_any_case(cmd_name, list(self._operations))
        return command_of(self._operations[name]) if name is not None else None


def command_of(operation: Operation) -> click.Command:
    """The command that calls one operation."""
    parameters: list[click.Parameter] = [_option(parameter) for parameter in operation.parameters]
    if operation.paging:
        parameters.append(click.Option(["--all", _ALL], is_flag=True, help=_("All pages, not only one.")))
    parameters.append(click.Option(["--output", "-o", _OUTPUT], type=OUTPUT, help=_("How to show the answer.")))
    text = "\n\n".join(part for part in (operation.summary + ".", operation.description) if part)
    epilog = _("Errors: %(symbols)s.") % {"symbols": ", ".join(operation.errors)}
    return Command(
        operation.name,
        params=parameters,
        callback=_callback(operation),
        help=text,
        short_help=operation.summary,
        epilog=epilog,
    )


def _callback(operation: Operation) -> Callable[..., None]:
    @click.pass_context
    def run(context: click.Context, /, **given: Any) -> None:
        values = {
            parameter.name: str(given[_variable(parameter)])
            for parameter in operation.parameters
            if given[_variable(parameter)] is not None
        }
        profile = chosen_profile(context)
        data = collect(profile, operation, values, every=bool(given.get(_ALL)))
        output.show(data, chosen_output(context))

    return run


def _option(parameter: Parameter) -> click.Option:
    names = [f"--{parameter.name}"]
    kebab = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "-", parameter.name).lower()
    if kebab != parameter.name:
        names.append(f"--{kebab}")
    file = _("@file reads it from a file, @- from standard input") if parameter.is_long else ""
    said = ". ".join(part.rstrip(".") for part in (parameter.description, parameter.rule, file) if part)
    return click.Option(
        [*names, _variable(parameter)],
        type=_type(parameter),
        required=parameter.required and not _paged_by_us(parameter),
        help=said,
    )


def _paged_by_us(parameter: Parameter) -> bool:
    """The page number of a query task is 1 unless it is given."""
    return parameter.name.lower() == "currentpage"


def _variable(parameter: Parameter) -> str:
    # Click makes other names of them; with a word before them none meets ours or one of Python.
    return f"value_{parameter.name}"


def _type(parameter: Parameter) -> click.ParamType[Any]:
    if parameter.kind == "time":
        return Moment()
    if parameter.is_long:
        return LongText()
    if parameter.kind == "integer" and not parameter.choices:
        return click.INT
    return click.Choice(parameter.choices, case_sensitive=False) if parameter.choices else click.STRING


class LongText(click.ParamType[str]):
    """A text, or the content of the file behind an @; @- is standard input, and @@ at the beginning one @."""

    name = "text"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """The text."""
        text = str(value)
        if not text.startswith("@") or text.startswith("@@"):
            return text.removeprefix("@") if text.startswith("@@") else text
        place = text[1:]
        try:
            return sys.stdin.read() if place == "-" else Path(place).read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError, ValueError) as error:
            self.fail(_("%(file)s cannot be read: %(error)s.") % {"file": place or _("nothing"), "error": error})


class Moment(click.ParamType[int]):
    """Milliseconds since the epoch, or a time such as 2026-03-01T12:00 (local, unless it has an offset)."""

    name = "time"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Milliseconds since the epoch."""
        text = str(value)
        if text.isascii() and text.isdecimal():
            return int(text)
        try:
            moment = datetime.now(UTC) if text == "now" else datetime.fromisoformat(text)
        except ValueError:
            said = _("%(text)r is neither milliseconds since the epoch nor a time such as 2026-03-01T12:00.")
            self.fail(said % {"text": text})
        return int(moment.timestamp() * 1000)


def _in_any_case(word: str, known: list[str]) -> str | None:
    if word in known:
        return word
    found = [name for name in known if name.lower() == word.lower().replace("-", "")]
    return found[0] if len(found) == 1 else None


def collect(profile: Profile, operation: Operation, values: dict[str, str], *, every: bool = False) -> Any:
    """The data of one call, or with `every` that of all pages, joined. Raises CliError."""
    names = {parameter.name.lower(): parameter.name for parameter in operation.parameters}
    number, size = names.get("currentpage", ""), names.get("pagesize", "")
    if operation.paging and (every or operation.paging == "task"):
        values = {number: "1"} | values
    if every:
        values = {size: _BIGGEST[operation.paging]} | values
    envelope = _call(profile, operation.path, values, region=operation.region_required)
    data = envelope["data"]
    if not every or data is None:
        return data
    if operation.paging == "pages":
        return _plain_pages(profile, operation, values, envelope, number)
    return _task_pages(profile, operation, values, data, names)


def _plain_pages(
    profile: Profile, operation: Operation, values: dict[str, str], first: dict[str, Any], number: str
) -> list[Any]:
    found = list(first["data"])
    page = int(values[number])
    # An entry deleted meanwhile moves the rest: an empty page ends it whatever the total said.
    while len(found) < first["total"]:
        page += 1
        entries = _call(profile, operation.path, values | {number: str(page)})["data"]
        if not entries:
            break
        found += entries
    return found


def _task_pages(
    profile: Profile, operation: Operation, values: dict[str, str], first: dict[str, Any], names: dict[str, str]
) -> list[Any]:
    fields = {name.lower(): name for name in first}
    entries, number, task = fields["data"], names["currentpage"], names["taskid"]
    found = list(first[entries])
    for page in range(int(values[number]) + 1, int(first[fields["maxpagecount"]]) + 1):
        wanted = values | {task: str(first[fields["taskid"]]), number: str(page)}
        found += _call(profile, operation.path, wanted)["data"][entries]
    return found


def _call(profile: Profile, path: str, values: dict[str, str], *, region: bool = True) -> dict[str, Any]:
    from gantry_cli import transport  # httpx is slow to load, and completion has to be quick

    return transport.call(profile, path, values, region=region)
