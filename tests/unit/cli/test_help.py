"""Help texts, of every command."""

from pathlib import Path

import click
import pytest

from cli.table import main
from runtime import wording


def helps(command: click.Command, ctx: click.Context) -> list[str]:
    """Return the help of a command and of all under it."""
    texts = [command.get_help(ctx)]
    if isinstance(command, click.Group):
        for name in command.list_commands(ctx):
            one = command.get_command(ctx, name)
            assert one is not None
            texts += helps(one, one.context_class(one, info_name=name, parent=ctx))
    return texts


def test_help_names_commands_as_they_are_called(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where `hongbao` is installed no text names a ./run that is not there."""
    ctx = main.context_class(main, info_name="hongbao")
    in_checkout = " ".join("\n".join(helps(main, ctx)).split())
    assert "./run backup restore SET --with-paid" in in_checkout
    monkeypatch.setattr(wording, "RUNNER", tmp_path / "run")
    installed = " ".join("\n".join(helps(main, ctx)).split())
    assert "hongbao backup restore SET --with-paid" in installed
    assert "./run " not in installed
    assert "\N{NON-BREAKING HYPHEN}" not in installed
