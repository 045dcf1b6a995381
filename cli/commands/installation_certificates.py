"""`hongbao installation certificates`: the installation's CA, and what it signs."""

from pathlib import Path
from typing import Any

import click
from rich.table import Table

from errors import Refused
from installation import certificates
from installation.access import Access
from installation.finding import find
from runtime.reporting import data_option, json_option, print_report
from runtime.tables import print_table
from wire.keys import GATEWAY


@click.command("certificates")
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
def command(
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
    known = certificates.wanted_of(
        access.set_specs() or access.topology().sets, access.wallet_url, _gateways(access, names)
    )
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
