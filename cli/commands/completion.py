"""`hongbao completion`: the script with which a shell completes commands and options."""

import click
from click.shell_completion import get_completion_class

from cli.group import COMPLETE_VARIABLE
from errors import Refused
from runtime.reporting import print_output

PROGRAM = "hongbao"


@click.command("completion")
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def command(*, shell: str) -> None:
    """Print the script that lets SHELL complete the commands and options of `hongbao`.

    For bash, put this into ~/.bashrc: eval "$(hongbao completion bash)". For zsh the same with zsh, in ~/.zshrc; for
    fish: hongbao completion fish > ~/.config/fish/completions/hongbao.fish. The shell must find `hongbao`: link `run`
    to a folder of your PATH under that name.
    """
    found = get_completion_class(shell)
    if found is None:
        raise Refused("no_completion", f"this release of click has no completion for {shell}; use another shell")
    print_output(_script(found))


def _script(found: type[click.shell_completion.ShellComplete]) -> str:
    one = found(click.Group(PROGRAM), {}, PROGRAM, COMPLETE_VARIABLE)
    # `source` of bash starts a bash to learn its version; the script itself needs none of that.
    return one.source_template % one.source_vars()
