"""`hongbao installation`: what an installation consists of, and whether all of it is reached and is what it was."""

import sys
import time
from pathlib import Path
from typing import Any

import click
import msgspec
from rich.table import Table

from cli.commands.doctor import show as show_findings
from doctor.examination import CHECKS, run_checks
from doctor.finding import all_is_well
from doctor.place import look
from errors import Refused
from installation import certificates, data_folder, inventory
from installation.access import Access, find
from runtime.dsn import place
from runtime.reporting import data_option, json_option, print_report, working
from runtime.tables import print_table
from wire.keys import GATEWAY

CONNECTS = ("clusters", "databases", "private", "secrets", "certificates", "clock", "parts")
"""The doctor's checks that are about the installation itself."""


@click.group("installation")
def command() -> None:
    """Show what is installed and where, and check that all of it is reached."""


@command.command("show")
@data_option
@json_option
def show(*, data: Path | None, as_json: bool) -> None:
    """Show databases, servers and addresses, without any secret."""
    found = _shown(find(data), inventory.load(data_folder.locate(data).inventory))
    print_report(found, as_json=as_json, show=lambda console: print_table(console, _table(found)))


@command.command("certificates")
@click.argument("names", nargs=-1, metavar="[NAME]...")
@click.option(
    "--host",
    "hosts",
    multiple=True,
    metavar="NAME=HOST",
    help="One more host of a server; or a server that is not ours.",
)
@click.option("--days", default=certificates.DAYS, show_default=True, help="How long they are valid.")
@click.option("--renew", is_flag=True, help="Make them anew, also those that are valid for long.")
@data_option
@json_option
def certificates_(
    *, names: tuple[str, ...], hosts: tuple[str, ...], days: int, renew: bool, data: Path | None, as_json: bool
) -> None:
    """Make the installation's CA, once, and certificates by it: of all processes, or of those that are NAMEd.

    A certificate that is valid for more than 30 days, for its role and hosts, stays. A server's hosts are that of its
    URL in the topology (the wallet's in the inventory) and those of --host; a name that is no process of ours, such as
    postgres-set-1, gets a certificate for its hosts alone. NAME.pem in the folder `certificates` of the data folder has
    key and certificate, 0600; give each process its own and ca.pem (HONGBAO_TLS_CERT, HONGBAO_TLS_CA), and keep ca.key
    where backups are. Processes read a renewed file by themselves.
    """
    access = find(data)
    more: dict[str, list[str]] = {}
    for one in hosts:
        name, separated, host = one.partition("=")
        if not separated:
            raise Refused("certificate_invalid", f"--host takes NAME=HOST, not {one[:80]!r}")
        more.setdefault(name, []).append(host)
    known = certificates.wanted_of(access.topology(), access.wallet_url, _gateways(access, names))
    wanted = certificates.with_hosts(known, more)
    unknown = set(names) - {one.name for one in wanted}
    if unknown:
        raise Refused(
            "unknown_server",
            f"there is no {min(unknown)[:50]!r}; there are {', '.join(one.name for one in wanted)}, gateway-1, …; "
            "a server of another kind needs its hosts: --host NAME=HOST",
        )
    made = access.certificates.ensure([one for one in wanted if not names or one.name in names], days=days, anew=renew)
    rows = [
        {
            "name": one.wanted.name, "role": one.wanted.role, "hosts": list(one.wanted.hosts), "path": str(one.path),
            "until": one.until.isoformat(), "made": one.made,
        }
        for one in made
    ]  # fmt: skip
    print_report({"certificates": rows}, as_json=as_json, show=lambda console: print_table(console, _made_table(rows)))


def _gateways(access: Access, names: tuple[str, ...]) -> list[str]:
    """Return the gateways that have a certificate, those that are named, and `gateway`, which is for any of them."""
    has = [one.stem for one in access.certificates.names() if one.stem.startswith(f"{GATEWAY}-")]
    return sorted({GATEWAY, *has, *(one for one in names if one.startswith(f"{GATEWAY}-"))})


def _made_table(rows: list[dict[str, Any]]) -> Table:
    table = Table("name", "role", "hosts", "until", "", "file")
    for one in rows:
        made = "made" if one["made"] else "kept"
        table.add_row(one["name"], one["role"], ", ".join(one["hosts"]), one["until"][:10], made, one["path"])
    return table


@command.command("check")
@data_option
@json_option
def check(*, data: Path | None, as_json: bool) -> None:
    """Connect to everything, as every role; say what is missing, unreachable, another's, older, or open to others.

    Changes nothing. Exit status 1 if anything is `soon` or `wrong`.
    """
    begun = time.monotonic()
    with working("connecting"):
        place = look(data)
        found = [*place.troubles, *run_checks({name: CHECKS[name] for name in CONNECTS}, place)]
    holds = all_is_well(found)
    report = {"holds": holds, "findings": msgspec.to_builtins(found), "seconds": round(time.monotonic() - begun, 1)}
    print_report(report, as_json=as_json, show=lambda console: show_findings(found, console))
    sys.exit(0 if holds else 1)


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
        "gateways": known.gateway_urls,
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
    return next((place(dsn) for dsn in one.dsns.values()), "")


def _table(found: dict[str, Any]) -> Table:
    table = Table("what", "name", "where")
    for name, one in found["databases"].items():
        table.add_row("Postgres", name, one["address"])
    for name, url in found["servers"].items():
        table.add_row("setnode", name, url)
    for number, url in enumerate(found["gateways"], 1):
        table.add_row("gateway", str(number), url)
    for name in ("wallet", "events", "ops", "memcached", "archive", "secrets"):
        if found[name]:
            table.add_row(name, "", found[name])
    table.add_row("topology", f"version {found['topology']['version']}", found["topology"]["path"])
    return table
