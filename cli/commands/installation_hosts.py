"""`hongbao installation init`, `add`, `host`, `prepare`: from nothing to an installation on many hosts."""

import asyncio
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click
import msgspec
from rich.table import Table

from errors import Refused
from installation import certificates, data_folder, inventory
from installation.access import CERTIFICATES
from installation.draft import draft, with_set
from installation.finding import find, secrets_of
from installation.host_files import files_of, read_processes, refuse_to_replace
from installation.inventory import check_inventory
from installation.keys import Secrets
from installation.preparation import prepare
from installation.renewal import renew
from objectstore.address import is_address, parse
from runtime.files import write_private
from runtime.reporting import data_option, json_option, print_report, working
from runtime.tables import print_table


@click.command("init")
@click.argument("file", type=click.Path(path_type=Path, dir_okay=False))
@click.option("--postgres", "postgres", multiple=True, metavar="SET=HOST:PORT,…", help="A cluster; also wallet=….")
@click.option("--setnode", "setnodes", multiple=True, metavar="NAME=SET@HOST:PORT", help="A setnode server.")
@click.option("--gateway", "gateways", multiple=True, metavar="NAME=HOST:PORT", help="A gateway.")
@click.option("--wallet", required=True, metavar="HOST:PORT", help="Where the wallet listens.")
@click.option(
    "--memcached", multiple=True, metavar="[SET=]HOST:PORT", help="That of a SET or setnode, or of all others."
)
@click.option("--archive", required=True, help="Archived days: a folder, or s3://bucket/prefix.")
@click.option("--ops", default="", metavar="HOST:PORT", help="Where the operator's view is served, if it is.")
@click.option(
    "--events", default="", metavar="HOST:PORT", help="Where the process that delivers events has its probes."
)
@click.option("--rotation", default="", metavar="HOST:PORT", help="Where the process that rotates days has its probes.")
@click.option("--tls", is_flag=True, help="Setnodes and wallet are called over TLS.")
@json_option
def init(*, file: Path, tls: bool, as_json: bool, **facts: Any) -> None:
    """Write FILE, an installation on many hosts, and secrets.json beside it with keys and passwords.

    Nothing is contacted, and a file that is there already is not touched. What comes next: `hongbao
    installation prepare`, `migrate`, `topology apply`, each host's own files (`installation host`), `serve`.
    """
    if file.suffix != ".toml":
        raise Refused("installation_incomplete", f"call it installation.toml: the name of {file} must end with .toml")
    folder = data_folder.locate(file)
    if folder.inventory.exists():
        raise Refused("already_installed", f"{file} is there already, and is not touched; write another, or edit it")
    options = {"postgres": "postgres", "setnodes": "setnode", "gateways": "gateway", "memcached": "memcached"}
    named = {name: _pairs(option, facts[name]) for name, option in options.items()}
    made = draft(
        **named, wallet=facts["wallet"], archive=_place(facts["archive"]), ops=facts["ops"],
        events=facts["events"], rotation=facts["rotation"], scheme="https" if tls else "http",
    )  # fmt: skip
    check_inventory(made, file)
    with _written(folder.path):
        folder.path.mkdir(parents=True, exist_ok=True, mode=0o700)
        Secrets.load(folder.secrets).ensure({name: tuple(one.dsns) for name, one in made.clusters.items()})
        inventory.save(made, folder.inventory)
    show = f"{file} and {folder.secrets} are written; next: hongbao installation prepare --installation {file}"
    print_report({"installation": str(file), "secrets": str(folder.secrets)}, as_json=as_json, show=show)


@click.command("add")
@click.argument("name", metavar="SET")
@click.option("--postgres", required=True, metavar="HOST:PORT,…", help="Its cluster.")
@click.option("--setnode", "setnodes", multiple=True, required=True, metavar="NAME=HOST:PORT", help="A server of it.")
@click.option("--memcached", default="", metavar="HOST:PORT", help="Its memcached, if not that of all.")
@data_option
@json_option
def add(
    *, name: str, postgres: str, setnodes: tuple[str, ...], memcached: str, data: Path | None, as_json: bool
) -> None:
    """Add SET to the installation file, and passwords for its Postgres to secrets.json.

    Nothing is contacted. What comes next: its Postgres, `installation prepare SET`, `migrate`, `topology apply`, the
    folders of the hosts concerned (`installation host`), `serve`. It holds nothing until databases are moved to it.
    """
    folder = data_folder.locate(data)
    known = inventory.load(folder.inventory)
    if known.runner:
        raise Refused("set_exists", "./run starts all of this installation: give it more SETs with ./run --sets NUMBER")
    made = with_set(known, name, postgres=postgres, setnodes=_pairs("setnode", setnodes), memcached=memcached)
    check_inventory(made, folder.inventory)
    # The passwords first: a file that names a SET without them would be of no use to anybody.
    with _written(folder.path):
        Secrets.load(Path(known.secrets), known.keys).add_passwords(name, made.clusters[name].dsns)
        inventory.save(made, folder.inventory)
    show = f"{name} is in {folder.inventory}; next: its Postgres, then hongbao installation prepare {name}"
    print_report({"set": name, "installation": str(folder.inventory)}, as_json=as_json, show=show)


@click.command("renew")
@click.argument("name", metavar="KEY")
@data_option
@json_option
def renew_command(*, name: str, data: Path | None, as_json: bool) -> None:
    """Make KEY anew in secrets.json: LINK_SECRET, METRICS_KEY, OPS_KEY, TOKEN_KEY, or postgres/set-1 for passwords.

    The file as it was stays beside it, for the way back. No process hears of it: bring each host its folder again
    (`installation host`) and restart what reads it. What protects stored data cannot be made anew.
    """
    known = secrets_of(data)
    with _written(known.path.parent):
        what, kept = renew(known, name)
    show = f"{name} is new. With the old one ends: {what.ends}. Folders to write again: {', '.join(what.kinds)}. "
    show += f"{kept} is the file of before: remove it when all hosts have the new one"
    print_report({"key": name, "ends": what.ends, "kinds": what.kinds, "before": str(kept)}, as_json=as_json, show=show)


def _pairs(option: str, words: Sequence[str]) -> dict[str, str]:
    """Return an option that is given several times as NAME=VALUE, by its names; once it may be given without one."""
    found: dict[str, str] = {}
    for word in words:
        name, value = word.split("=", 1) if "=" in word else ("", word)
        if name in found:
            before = f"{name}={found[name]}" if name else found[name]
            raise Refused("named_twice", f"--{option} {before} and --{option} {word}: give each name once")
        found[name] = value
    return found


@click.command("host")
@click.argument("folder", type=click.Path(path_type=Path, file_okay=False))
@click.argument("process", nargs=-1, required=True)
@data_option
@json_option
def host(*, folder: Path, process: tuple[str, ...], data: Path | None, as_json: bool) -> None:
    """Write FOLDER, with what one host needs on which each PROCESS runs, and with the secrets of no other.

    FOLDER is new, or was written for this host before: one that has secrets which this would destroy is refused.

    PROCESS: gateway, wallet, events, rotation, setnode:NAME; ops, or operator for a host from which commands are given.
    Bring the folder to the host; there each process is `hongbao serve … --installation FOLDER/installation.toml`.
    """
    source = data_folder.locate(data).inventory
    known, all_secrets = inventory.load(source), secrets_of(data)
    some = read_processes(process, known)
    there, secrets = files_of(known, all_secrets, some)
    target = data_folder.locate(folder / inventory.DEFAULT_NAME)
    beside = {name: str(target.path / Path(getattr(there, name)).name) for name in ("secrets", "topology")}
    written = {target.inventory: source, Path(beside["secrets"]): Path(known.secrets)}
    refuse_to_replace(written, all_secrets, secrets, Secrets.load(Path(beside["secrets"])))
    signed = certificates.Certificates(Path(known.secrets).with_name(CERTIFICATES))
    with _written(target.path):
        target.path.mkdir(parents=True, exist_ok=True, mode=0o700)
        write_private(Path(beside["secrets"]), dict(secrets))
        inventory.save(msgspec.structs.replace(there, **beside), target.inventory)
        certificates.Certificates(target.certificates).bring(signed, [(one.name, one.kind) for one in some])
    show = f"{target.inventory} and {beside['secrets']} are written"
    print_report({"installation": str(target.inventory), "secrets": beside["secrets"]}, as_json=as_json, show=show)


@click.command("prepare")
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


@contextmanager
def _written(folder: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise Refused("not_written", f"{error.filename or folder} cannot be written: {error.strerror}") from error


def _place(text: str) -> str:
    """Return where archives are: an address in an object store as it is written, a folder by its absolute path."""
    return str(parse(text)) if is_address(text) else str(Path(text).absolute())
