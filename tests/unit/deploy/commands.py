"""Commands of `hongbao` as they stand in texts and manifests: whether the real command line takes them."""

from collections.abc import Iterator, Sequence

import click

from cli.table import main


def complaint(words: Sequence[str]) -> str:
    """Return what the command line says against these words, after `hongbao`; "" if it takes them. Nothing is run."""
    try:
        context = main.make_context("hongbao", list(words), resilient_parsing=False)
        for _ in _contexts(context):
            pass
    except click.exceptions.Exit:
        return ""  # --help and --version
    except click.ClickException as error:
        return f"hongbao {' '.join(words)}: {error.format_message()}"
    return ""


def _contexts(context: click.Context) -> Iterator[click.Context]:
    """Go down the groups of a command, as click does when it invokes them."""
    while isinstance(context.command, click.Group) and (rest := [*context._protected_args, *context.args]):
        name, command, more = context.command.resolve_command(context, rest)
        assert command is not None
        context = command.make_context(name, more, parent=context)
        yield context
