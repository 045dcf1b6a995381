"""The commands: what `--help` says of each, from `cli.table`."""

import inspect
from collections.abc import Iterator

import click

from cli.table import COMMANDS, main
from handbook.markdown import block, code, sections, table, text


def commands() -> str:
    """Return every command and subcommand, by section of the table."""
    parts: list[str] = []
    context = click.Context(main, info_name="hongbao")
    for title, entries in COMMANDS.items():
        parts.append(f"## {title}")
        for name, entry in entries.items():
            command = main.get_command(context, name)
            if command is None:
                raise LookupError(f"the table names {name}, which is no command")
            parts += _command(command, name, f"{entry.summary[0].upper()}{entry.summary[1:]}.", context, 3)
    return sections(parts)


def _command(command: click.Command, name: str, summary: str, parent: click.Context, depth: int) -> Iterator[str]:
    context = click.Context(command, info_name=name, parent=parent)
    words = context.command_path.removeprefix("hongbao ")
    yield f"{'#' * depth} {words}"
    yield text(summary)
    yield block("console", f"$ ./run {' '.join((words, *command.collect_usage_pieces(context)))}")
    yield _help(command.help or "")
    records = [one.get_help_record(context) for one in command.get_params(context) if isinstance(one, click.Option)]
    yield table(
        ("option", "meaning"),
        ((code(one[0]), text(one[1])) for one in records if one is not None and not one[0].startswith("--help")),
    )
    if isinstance(command, click.Group):
        for below in command.list_commands(context):
            found = command.get_command(context, below)
            if found is not None and not found.hidden:
                yield from _command(found, below, "", context, depth + 1)


def _help(words: str) -> str:
    """Return a help text; a paragraph that begins with a backspace keeps its lines (click)."""
    shown = []
    for part in inspect.cleandoc(words).split("\n\n"):
        kept = part.startswith("\b")
        shown.append(block("text", part.lstrip("\b\n")) if kept else text(part))
    return sections(shown)
