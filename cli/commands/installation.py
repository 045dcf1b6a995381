"""`hongbao installation`: what an installation consists of, and whether all of it is reached and is what it was."""

import asyncio
import sys
import time
from collections.abc import Sequence
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
from installation.access import Access, find, secrets_of
from installation.draft import draft
from installation.host_files import files_of, read_processes
from installation.inventory_check import check_inventory
from installation.keys import Secrets
from installation.preparation import prepare
from runtime.dsn import place
from runtime.files import write_private
from runtime.reporting import data_option, json_option, print_report, working
from runtime.tables import print_table
from wire.keys import GATEWAY

CONNECTS = ("clusters", "databases", "private", "secrets", "certificates", "clock", "parts")
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


@command.command("init")
@click.argument("file", type=click.Path(path_type=Path, dir_okay=False))
@click.option("--postgres", "postgres", multiple=True, metavar="SET=HOST:PORT,…", help="A cluster; also wallet=….")
@click.option("--setnode", "setnodes", multiple=True, metavar="NAME=SET@HOST:PORT", help="A setnode server.")
@click.option("--gateway", "gateways", multiple=True, metavar="NAME=HOST:PORT", help="A gateway.")
@click.option("--wallet", required=True, metavar="HOST:PORT", help="Where the wallet listens.")
@click.option("--memcached", multiple=True, metavar="[NAME=]HOST:PORT", help="That of a setnode, or of all others.")
@click.option("--archive", required=True, type=click.Path(path_type=Path), help="Folder of the archived days.")
@click.option("--ops", default="", metavar="HOST:PORT", help="Where the operator's view is served, if it is.")
@click.option(
    "--events", default="", metavar="HOST:PORT", help="Where the process that delivers events has its probes."
)
@click.option("--tls", is_flag=True, help="Setnodes and wallet are called over TLS.")
@json_option
def init(*, file: Path, tls: bool, as_json: bool, **facts: Any) -> None:
    """Write FILE, an installation on many hosts, and secrets.json beside it with keys and passwords.

    Nothing is contacted, and a file that is there already is not touched. What comes next: copy both to each host,
    `hongbao installation prepare`, `migrate`, `topology apply`, then `serve` on each host.
    """
    if file.suffix != ".toml":
        raise Refused("installation_incomplete", f"call it installation.toml: the name of {file} must end with .toml")
    folder = data_folder.locate(file)
    if folder.inventory.exists():
        raise Refused("already_installed", f"{file} is there already, and is not touched; write another, or edit it")
    named = {name: _pairs(facts[name]) for name in ("postgres", "setnodes", "gateways", "memcached")}
    made = draft(
        **named, wallet=facts["wallet"], archive=facts["archive"].absolute(), ops=facts["ops"],
        events=facts["events"], scheme="https" if tls else "http",
    )  # fmt: skip
    folder.path.mkdir(parents=True, exist_ok=True, mode=0o700)
    check_inventory(made, file)
    Secrets.load(folder.secrets).ensure({name: tuple(one.dsns) for name, one in made.clusters.items()})
    made.save(folder.inventory)
    show = f"{file} and {folder.secrets} are written; next: hongbao installation prepare --installation {file}"
    print_report({"installation": str(file), "secrets": str(folder.secrets)}, as_json=as_json, show=show)


def _pairs(words: Sequence[str]) -> dict[str, str]:
    pairs = [word.partition("=") if "=" in word else ("", "=", word) for word in words]
    return {name: value for name, _, value in pairs}


@command.command("host")
@click.argument("folder", type=click.Path(path_type=Path, file_okay=False))
@click.argument("process", nargs=-1, required=True)
@data_option
@json_option
def host(*, folder: Path, process: tuple[str, ...], data: Path | None, as_json: bool) -> None:
    """Write FOLDER, with what one host needs on which each PROCESS runs, and with the secrets of no other.

    PROCESS: gateway, wallet, events, rotation, setnode:NAME; ops, or operator for a host from which commands are given.
    Bring the folder to the host; there each process is `hongbao serve … --installation FOLDER/installation.toml`.
    """
    known = inventory.load(data_folder.locate(data).inventory)
    there, secrets = files_of(known, secrets_of(data), read_processes(process, known))
    target = data_folder.locate(folder / inventory.DEFAULT_NAME)
    target.path.mkdir(parents=True, exist_ok=True, mode=0o700)
    beside = {name: str(target.path / Path(getattr(there, name)).name) for name in ("secrets", "topology")}
    write_private(Path(beside["secrets"]), dict(secrets))
    msgspec.structs.replace(there, **beside).save(target.inventory)
    show = f"{target.inventory} and {beside['secrets']} are written"
    print_report({"installation": str(target.inventory), "secrets": beside["secrets"]}, as_json=as_json, show=show)


@command.command("prepare")
@click.argument("server", nargs=-1)
@data_option
@json_option
def prepare_command(*, server: tuple[str, ...], data: Path | None, as_json: bool) -> None:
    """Make database and roles in each SERVER (set-1, wallet; all unless named), as its superuser.

    Can be repeated: what is there stays, a changed password is set. The cluster's identity is kept in the file; one
    that is another than before is refused.
    """
    folder, access = data_folder.locate(data), find(data)
    names = server or tuple(access.servers())
    with working("preparing"):
        found = {name: asyncio.run(prepare(access, folder, name)) for name in names}
    table = Table("server", "cluster")
    for name, identity in found.items():
        table.add_row(name, identity)
    print_report({"clusters": found}, as_json=as_json, show=lambda console: print_table(console, table))


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
