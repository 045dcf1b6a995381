"""`hongbao installation`: what an installation consists of, and whether all of it is reached and is what it was."""

import sys
import time
from pathlib import Path
from typing import Any

import click
import msgspec
from rich.table import Table

from cli.commands.doctor import show as show_findings
from cli.commands.installation_certificates import command as certificates_command
from cli.commands.installation_hosts import add, host, init, prepare_command, renew_command
from cli.job_record import on_record
from doctor.examination import CHECKS, run_checks
from doctor.finding import troubles
from doctor.place import look
from installation import data_folder, inventory
from installation.access import Access
from installation.finding import find
from runtime.dsn import place
from runtime.reporting import data_option, json_option, print_report, working
from runtime.tables import print_table
from schema.jobs import Job

CONNECTS = ("clusters", "databases", "private", "secrets", "certificates", "archive", "clock", "parts")
"""The doctor's checks that are about the installation itself."""


@click.group("installation")
def command() -> None:
    """What is installed and where: write it for many hosts, show it, check that all of it is reached."""


@command.command("show")
@data_option
@json_option
def show(*, data: Path | None, as_json: bool) -> None:
    """Show databases, servers and addresses, without any secret."""
    found = _shown(find(data), inventory.load(data_folder.locate(data).inventory))
    print_report(found, as_json=as_json, show=lambda console: print_table(console, _table(found)))


@command.command("check")
@data_option
@json_option
def check(*, data: Path | None, as_json: bool) -> None:
    """Connect to everything, as every role; say what is missing, unreachable, another's, older, or open to others.

    Changes nothing. Exit status 1 if anything is `soon` or `wrong`.
    """
    begun = time.monotonic()
    with on_record(data, Job.INSTALLATION_CHECK) as run:
        with working("connecting"):
            place = look(data)
            found = [*place.troubles, *run_checks({name: CHECKS[name] for name in CONNECTS}, place)]
        run.failure = " ".join(one.what for one in troubles(found))
    holds = not run.failure
    report = {"holds": holds, "findings": msgspec.to_builtins(found), "seconds": round(time.monotonic() - begun, 1)}
    print_report(report, as_json=as_json, show=lambda console: show_findings(found, console))
    sys.exit(0 if holds else 1)


for one in (init, add, renew_command, host, prepare_command, certificates_command):
    command.add_command(one)


def _shown(access: Access, known: inventory.Inventory) -> dict[str, Any]:
    """Return what the files say; DSNs without passwords, also where an operator has written one."""
    topology = access.topology()
    servers = {server.name: server.url for one in topology.sets for server in one.servers}
    return {
        "databases": {
            name: {"roles": sorted(one.dsns), "address": _address(one), "system_identifier": one.system_identifier}
            for name, one in known.clusters.items()
        },
        "sets": {one.name: [server.name for server in one.servers] for one in topology.sets},
        "servers": servers,
        "gateways": known.gateways,
        "wallet": known.wallet_url,
        "memcached": known.memcached,
        "events": known.events_url,
        "ops": known.ops_url,
        "topology": {"path": str(access.topology_path), "version": topology.version},
        "archive": known.archive,
        "secrets": known.secrets,
        "sandbox": known.sandbox,
    }


def _address(one: inventory.Cluster) -> str:
    return next((place(dsn) if isinstance(dsn, str) else str(dsn) for dsn in one.dsns.values()), "")


def _table(found: dict[str, Any]) -> Table:
    table = Table("what", "name", "where")
    for name, one in found["databases"].items():
        table.add_row("Postgres", name, one["address"])
    for name, url in found["servers"].items():
        table.add_row("setnode", name, url)
    for name, url in found["gateways"].items():
        table.add_row("gateway", name, url)
    for name in ("wallet", "events", "ops", "memcached", "archive", "secrets"):
        if found[name]:
            table.add_row(name, "", found[name])
    table.add_row("topology", f"version {found['topology']['version']}", found["topology"]["path"])
    return table
