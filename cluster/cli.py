"""The `hongbao` command: a map of subcommands, each imported only when it is called."""

import importlib
import os
import sys
from typing import NoReturn

import click

from envelope.errors import HongbaoError
from gateway.version import VERSION
from runtime import logs

DEFAULT = "up"
_HELP = ("-h", "--help")
_OWN_OPTIONS = (*_HELP, "--version")
_INTERRUPTED = 130
"""What a shell makes of Ctrl-C."""

COMMANDS = {
    "Run": {
        "up": "start everything on this machine (also without any command)",
        "demo": "play real groups against it, prove the money",
    },
    "Use": {
        "token": "make a bearer token for a user",
        "deposit": "put development money into a user's wallet",
    },
    "Operate": {
        "payout": "show payouts that are stuck, and drive them again",
        "dba": "what a SET costs, holds and is slow at; drain, pause",
        "backup": "copy a SET with its log; bring back any instant",
        "topology": "which SET holds which database; move one",
        "rotate": "take past days out of the hot tables, by proof",
        "archive": "what is stored cold: list it, verify it, put a date back",
        "query": "SQL over the archive",
    },
    "Measure": {
        "bench": "durable opens a second, beside every other way the field knows",
        "loadtest": "simulated people at New Year's Eve, then the audit",
        "plan": "how many SETs, servers and disks a load needs",
    },
    "Prove": {
        "audit": "prove that not one fen appeared or vanished",
        "verify-split": "recompute a closed envelope's amounts from its seed",
    },
}
"""Name and one line, by group. A command is `command` in `cluster.commands.<name>`."""


_ELSEWHERE = {
    "archive": "cluster.commands.archived",
    "bench": "loadtest.bench",
    "loadtest": "loadtest.load",
    "plan": "loadtest.plan.command",
}
"""Commands that stand elsewhere."""


class Commands(click.Group):
    """Subcommands by name; errors made on purpose become one line and exit status 1."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's signature
        """Return the names in the order of the map."""
        return [name for group in COMMANDS.values() for name in group]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import one subcommand."""
        if cmd_name not in self.list_commands(ctx):
            return None
        command: click.Command = importlib.import_module(_module(cmd_name)).command
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002 - click's signature
        """Write the map without importing what is in it."""
        for title, group in COMMANDS.items():
            with formatter.section(title):
                formatter.write_dl(list(group.items()))

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Read the words; without a command the default one is meant, and the options are its own."""
        if not args or (args[0].startswith("-") and args[0] not in _OWN_OPTIONS):
            args = [DEFAULT, *args]
        return super().parse_args(ctx, args)

    def invoke(self, ctx: click.Context) -> object:
        """Run the subcommand."""
        try:
            return super().invoke(ctx)
        except HongbaoError as error:
            _fail(error.detail)
        except KeyboardInterrupt:
            click.echo("stopped before it was done", err=True)
            sys.exit(_INTERRUPTED)


def _module(name: str) -> str:
    """Say where a command is written."""
    return _ELSEWHERE.get(name) or f"cluster.commands.{name.replace('-', '_')}"


def _fail(sentence: str) -> NoReturn:
    mark = click.style("error:", fg="red", bold=True) if sys.stderr.isatty() else "error:"
    click.echo(f"{mark} {sentence}", err=True)
    sys.exit(1)


@click.group(
    cls=Commands,
    context_settings={"help_option_names": list(_HELP), "max_content_width": 100},
    epilog="`hongbao COMMAND --help` says more. Reports take --json. Exit status 0 means that what was asked holds.",
)
@click.version_option(VERSION, message="%(prog)s %(version)s")
def main() -> None:
    """Red envelopes (红包): sent, grabbed and opened; durable in Postgres, proven by an audit.

    Everything runs on this machine: Postgres and memcached are started here and stop with the command.
    """


def run() -> None:
    """Run the command as a process of its own."""
    # Standard error is for people here, warnings apart; what the processes log is in the data folder.
    logs.set_up("hongbao", os.environ.get("HONGBAO_LOG_LEVEL", "warning"))
    main(prog_name="hongbao")
