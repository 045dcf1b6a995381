"""How `hongbao` finds a command, imports it, and turns an error on purpose into one line and an exit status."""

import importlib
import sys
from collections.abc import Mapping
from typing import Any, NamedTuple, NoReturn

import click

from errors import HongbaoError

INTERRUPTED = 130
"""The exit status that a shell gives a program ended by Ctrl-C."""


class Entry(NamedTuple):
    """A command: the module that has it as `command`, and its line in the help text."""

    module: str
    summary: str


class CommandGroup(click.Group):
    """Commands by section and name. Arguments that begin with an option are those of the `default` command.

    An error on purpose (HongbaoError) is printed as one line on standard error; the exit status is 1.
    """

    def __init__(self, *args: Any, table: Mapping[str, Mapping[str, Entry]], default: str, **more: Any) -> None:
        super().__init__(*args, **more)
        self._sections = table
        self._entries = {name: entry for section in table.values() for name, entry in section.items()}
        self._default = default

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's signature
        """Return the names in the order of the table."""
        return list(self._entries)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002 - click's signature
        """Import one command; None if the table has none of this name."""
        if cmd_name not in self._entries:
            return None
        command: click.Command = importlib.import_module(self._entries[cmd_name].module).command
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002 - click's signature
        """Write the table without importing the commands."""
        for title, section in self._sections.items():
            with formatter.section(title):
                formatter.write_dl([(name, entry.summary) for name, entry in section.items()])

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Insert the default command if there is none; --help and --version are the group's own options."""
        own = {option for parameter in self.get_params(ctx) for option in parameter.opts}
        if not args or (args[0].startswith("-") and args[0] not in own):
            args = [self._default, *args]
        return super().parse_args(ctx, args)

    def invoke(self, ctx: click.Context) -> object:
        """Run the command."""
        try:
            return super().invoke(ctx)
        except HongbaoError as error:
            _fail(error.detail)
        except KeyboardInterrupt:
            click.echo("stopped before it was done", err=True)
            sys.exit(INTERRUPTED)


def _fail(sentence: str) -> NoReturn:
    mark = click.style("error:", fg="red", bold=True) if sys.stderr.isatty() else "error:"
    click.echo(f"{mark} {sentence}", err=True)
    sys.exit(1)
