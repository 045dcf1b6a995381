"""How `hongbao` finds a command, imports it, and turns an error on purpose into one line and an exit status."""

import difflib
import importlib
import re
import shlex
import sys
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple, NoReturn

import click
from click.shell_completion import CompletionItem

from cli.wrong_words import as_sentence, guess
from errors import HongbaoError
from runtime.wording import as_called

_GIVEN = "hongbao.given"
"""In the context: the words before which the default command was inserted."""
_extra = re.compile(r"Got unexpected extra arguments? \((\S+).*\)").fullmatch
_option = re.compile(r"(?<!\S)\(?--?\w[\w-]*")
_NO_BREAK = "\N{NON-BREAKING HYPHEN}"
"""Stands for a hyphen while lines are broken; what is written has a hyphen, so that it can be copied."""
COMPLETE_VARIABLE = "_HONGBAO_COMPLETE"
"""By which the script of a shell (`hongbao completion`) asks the command what may stand at a place."""
INTERRUPTED = 130
"""The exit status that a shell gives a program ended by Ctrl-C."""


class Entry(NamedTuple):
    """A command: the module that has it as `command`, and its line in the help text."""

    module: str
    summary: str


class _Help(click.HelpFormatter):
    """Help texts that name commands as they are called here, and break no line inside an option's name."""

    def write_text(self, text: str) -> None:
        super().write_text(_kept_whole(as_called(text)))

    def write_dl(self, rows: Iterable[tuple[str, str]], col_max: int = 30, col_spacing: int = 2) -> None:
        super().write_dl([(name, _kept_whole(as_called(what))) for name, what in rows], col_max, col_spacing)

    def write(self, string: str) -> None:
        super().write(string.replace(_NO_BREAK, "-"))


def _kept_whole(text: str) -> str:
    return _option.sub(lambda found: found[0].replace("-", _NO_BREAK), text)


class _Context(click.Context):
    formatter_class = _Help


class CommandGroup(click.Group):
    """Commands by section and name. Arguments that begin with an option are those of the `default` command.

    An error on purpose (HongbaoError) is printed as one line on standard error; the exit status is 1. After wrong words
    (2) it is the usage, then a sentence: which command or option was meant, or what is missing.
    """

    context_class = _Context

    def __init__(self, *args: Any, table: Mapping[str, Mapping[str, Entry]], default: str, **more: Any) -> None:
        super().__init__(*args, **more)
        self._sections = table
        self._entries = {name: entry for section in table.values() for name, entry in section.items()}
        self._default = default

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's signature
        """Return the names in the order of the table."""
        return list(self._entries)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import one command; None if the table has none of this name."""
        if cmd_name not in self._entries:
            return None
        try:
            command: click.Command = importlib.import_module(self._entries[cmd_name].module).command
        except (HongbaoError, ImportError):
            if ctx.resilient_parsing:
                return None  # a shell that completes: packages of this command are not installed, its call says so
            raise
        _name_as_called(command)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002 - click's signature
        """Write the table without importing the commands."""
        for title, section in self._sections.items():
            with formatter.section(title):
                formatter.write_dl([(name, entry.summary) for name, entry in section.items()])

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Complete names by the table without importing the commands, and options by the default command's."""
        if not incomplete.startswith("-"):
            known = self._entries.items()
            return [CompletionItem(name, help=one.summary) for name, one in known if name.startswith(incomplete)]
        default = self.get_command(ctx, self._default)
        return [*super().shell_complete(ctx, incomplete), *(default.shell_complete(ctx, incomplete) if default else ())]

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command; raises NoSuchCommand with those of the table that are spelled almost like it."""
        if args[0] not in self._entries and not ctx.resilient_parsing:
            raise click.NoSuchCommand(args[0], possibilities=self._entries, ctx=ctx)
        return super().resolve_command(ctx, args)

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Insert the default command if there is none; --help and --version are the group's own options.

        `help COMMAND` is `COMMAND --help`.
        """
        if not args and ctx.resilient_parsing:
            return super().parse_args(ctx, args)  # a shell asks what may stand here
        if args[:1] == ["help"]:
            args = [*args[1:], "--help"]
        if not args or (args[0].startswith("-") and args[0] not in self._own_options(ctx)):
            ctx.meta[_GIVEN] = args
            args = [self._default, *args]
        return super().parse_args(ctx, args)

    def _own_options(self, ctx: click.Context) -> list[str]:
        return [option for parameter in self.get_params(ctx) for option in parameter.opts]

    def invoke(self, ctx: click.Context) -> object:
        """Run the command."""
        try:
            return super().invoke(ctx)
        except click.UsageError as error:
            raise self._command_first(error) or self._option_of_ours(error) or as_sentence(error) from None
        except HongbaoError as error:
            silent = error.code == "database_unavailable" and "does not answer" in error.detail
            _fail(f"{error.detail}; is it up? See ./run status" if silent else error.detail)
        except KeyboardInterrupt:
            click.echo("stopped before it was done", err=True)
            sys.exit(INTERRUPTED)

    def _command_first(self, error: click.UsageError) -> click.UsageError | None:
        """Return what to write instead if a command's name stands behind options, which are the default's then."""
        given: list[str] = error.ctx.meta.get(_GIVEN, []) if error.ctx is not None else []
        extra = _extra(error.message)
        if not extra or extra[1] not in given or extra[1] not in self._entries:
            return None
        at = given.index(extra[1])
        words = shlex.join([given[at], *given[:at], *given[at + 1 :]])
        return click.UsageError(as_called(f"the command stands first; write it as: ./run {words}"), error.ctx)

    def _option_of_ours(self, error: click.UsageError) -> click.UsageError | None:
        """Return what was meant if an option that the default command has not is almost one of the group's own."""
        if not isinstance(error, click.NoSuchOption) or error.ctx is None or _GIVEN not in error.ctx.meta:
            return None
        meant = difflib.get_close_matches(error.option_name, self._own_options(error.ctx.find_root()), 1, 0.8)
        return (
            click.UsageError(f"no such option {error.option_name!r}{guess(meant, error.ctx)}", error.ctx)
            if meant
            else None
        )


def _name_as_called(command: click.Command) -> None:
    """Let the help of a command, and of those under it, name commands as they are called here.

    In the list of a group each has the first sentence of its help, where click would cut it.
    """
    command.context_class = _Context
    if isinstance(command, click.Group):
        for one in command.commands.values():
            one.short_help = one.short_help or _first_sentence(one.help or "")
            _name_as_called(one)


def _first_sentence(text: str) -> str:
    return " ".join(re.split(r"(?<=\.)\s|\n\n", text.strip(), maxsplit=1)[0].split()).removesuffix(".")


def _fail(sentence: str) -> NoReturn:
    mark = click.style("error:", fg="red", bold=True) if sys.stderr.isatty() else "error:"
    click.echo(f"{mark} {as_called(sentence)}", err=True)
    sys.exit(1)
