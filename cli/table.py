"""The table of commands: `hongbao NAME` is `command` in the module named here, imported only when it is called."""

import os

import click

from cli.group import COMPLETE_VARIABLE, CommandGroup, Entry
from runtime import logs
from runtime.version import VERSION
from runtime.wording import as_called

COMMANDS = {
    "Run": {
        "up": Entry("cli.commands.up", "start everything on this machine (also without any command)"),
        "serve": Entry("cli.commands.serve", "one process in the foreground: for systemd, containers, Kubernetes"),
        "doctor": Entry("cli.commands.doctor", "what is wrong or soon will be, and what to do about it"),
        "status": Entry("cli.commands.status", "which parts answer, since when; what is out of service"),
        "stop": Entry("cli.commands.stop", "end what ./run started; all data is kept"),
        "restart": Entry("cli.commands.restart", "restart processes in turn, while the others serve"),
        "logs": Entry("cli.commands.logs", "what a part, or the supervisor, has logged"),
        "demo": Entry("cli.commands.demo", "play real groups against it, prove the money"),
    },
    "Use": {
        "token": Entry("cli.commands.token", "make bearer tokens for users"),
        "deposit": Entry("cli.commands.deposit", "put money into a user's wallet, once per order number"),
        "clock": Entry("cli.commands.clock", "show what time it is; move the clock of a sandbox ahead"),
        "completion": Entry("cli.commands.completion", "let bash, zsh or fish complete commands and options"),
    },
    "Operate": {
        "ops": Entry("cli.commands.ops", "the operator's view: a page on a port of its own"),
        "events": Entry("cli.commands.events", "tell other programs what was committed: webhooks, NATS"),
        "user": Entry("cli.commands.user", "export what is held of a user; take their name out of it"),
        "payout": Entry("cli.commands.payout", "show payouts that are stuck, and drive them again"),
        "switch": Entry("cli.commands.switch", "close a kind of request for a while, so that the rest goes on"),
        "dba": Entry("cli.commands.dba", "what a SET costs, holds and is slow at; drain, pause"),
        "psql": Entry("cli.commands.psql", "a psql at a SET or the wallet, read-only unless --write"),
        "installation": Entry("cli.commands.installation", "what is installed and where; whether all of it is reached"),
        "migrate": Entry("cli.commands.migrate", "bring the databases to the schema of this release"),
        "backup": Entry("cli.commands.backup", "copy a SET with its log; bring back any instant"),
        "recover": Entry("cli.commands.recover", "make good what a restored wallet, or SET, has lost"),
        "jobs": Entry("cli.commands.jobs", "when audits and backups last succeeded, and which are missed"),
        "retention": Entry("cli.commands.retention", "how long everything is kept; remove what is past its rule"),
        "topology": Entry("cli.commands.topology", "which SET holds which database; move one"),
        "rotate": Entry("cli.commands.rotate", "take past days out of the hot tables, by proof"),
        "archive": Entry("cli.commands.archive", "what is stored cold: list it, verify it, put a date back"),
        "keys": Entry("cli.commands.keys", "print the keys of one process, to start it by other means"),
        "query": Entry("cli.commands.query", "SQL over the archive"),
    },
    "Measure": {
        "bench": Entry("loadtest.bench.command", "durable opens a second, beside every other way the field knows"),
        "loadtest": Entry("loadtest.load.command", "simulated people at New Year's Eve, then the audit"),
        "plan": Entry("loadtest.plan.command", "how many SETs, servers and disks a load needs"),
    },
    "Prove": {
        "hosts": Entry("cli.commands.hosts", "hosts on this machine, lost one by one (root)"),
        "audit": Entry("cli.commands.audit", "prove that not one fen appeared or vanished"),
        "verify-split": Entry("cli.commands.verify_split", "recompute a closed envelope's amounts from its seed"),
    },
}
"""By section of the help text. `rotate drill` is `loadtest.drill.command`; all other subcommands are in the module."""


@click.group(
    cls=CommandGroup,
    table=COMMANDS,
    default="up",
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog="`hongbao COMMAND --help` says more. Reports take --json. Exit status 0 means that what was asked holds.",
)
@click.version_option(VERSION, message="hongbao %(version)s")
def main() -> None:
    """Red envelopes (红包): sent, grabbed and opened; durable in Postgres, proven by an audit.

    Everything runs on this machine: Postgres and memcached are started here and stop with the command.
    """


def run() -> None:
    """Run the command as a process of its own."""
    # Standard error is for the operator, so only warnings are logged there; the processes log to the data folder.
    logs.set_up("hongbao", os.environ.get("HONGBAO_LOG_LEVEL", "warning"))
    main(prog_name=as_called("./run ").strip(), complete_var=COMPLETE_VARIABLE)
