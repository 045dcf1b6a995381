"""The installation's files as a region writes them, and what each process of ours is given.

All that depends on the form of the inventory and of the topology stands here.
"""

from collections.abc import Mapping
from pathlib import Path

from archive.manifest import fingerprint
from hosts.cluster import Cluster
from hosts.host import Host
from hosts.plan import GATEWAYS, SETS, WALLET, Plan
from hosts.shell import inside
from installation.access import Access, find
from installation.data_folder import DataFolder
from installation.inventory import Cluster as Known
from installation.inventory import Inventory
from installation.keys import Secrets
from local.service import Service, ServiceSpec
from local.topology_file import write_topology
from schema import roles

SLOTS = 40
"""Four databases, two for each SET: one can be moved, and its SET has one left."""
LISTEN = {"setnode": 7001, "wallet": 7000, "gateway": 8080}


def passwords_of(folder: DataFolder, servers: list[str]) -> Secrets:
    """Make the installation's keys, and the passwords of these servers; durable when this returns."""
    secrets = Secrets.load(folder.secrets)
    secrets.ensure({name: roles.roles_of("wallet" if name == WALLET else "set") for name in servers})
    return secrets


def write_topology_file(folder: DataFolder, plan: Plan, hosts: Mapping[str, Host], memcached: str) -> None:
    """Write the topology: each SET with its servers, or new addresses into what is there."""
    servers = {name: [(one, _url(hosts[one], "setnode")) for one in plan.setnodes(name)] for name in SETS}
    write_topology(folder.topology, servers, memcached=memcached, wallet_url=_url(hosts[WALLET], "wallet"), slots=SLOTS)


async def write_inventory(
    folder: DataFolder,
    secrets: Secrets,
    clusters: Mapping[str, Cluster],
    hosts: Mapping[str, Host],
    url: str,
    memcached: str,
) -> None:
    """Write what is installed, and where; durable when this returns."""
    known = {
        name: Known(
            dsns={role: one.dsn(role, roles.DATABASE, password=False) for role in one.passwords},
            system_identifier=await one.system_identifier(),
        )
        for name, one in clusters.items()
    }
    folder.archive.mkdir(mode=0o700, exist_ok=True)
    Inventory(
        clusters=known,
        gateway_urls=[url],
        wallet_url=_url(hosts[WALLET], "wallet"),
        memcached=memcached,
        topology=str(folder.topology),
        archive=str(folder.archive),
        archive_key=fingerprint(secrets.key("ARCHIVE_KEY").encode()),
        secrets=str(folder.secrets),
    ).save(folder.inventory)


def access_of(folder: DataFolder) -> Access:
    """Return the installation as a command sees it."""
    return find(folder.path)


def service_of(folder: DataFolder, kind: str, name: str, host: Host, more: Mapping[str, str], log: Path) -> Service:
    """Return a process of ours on a host, not started, with the settings that `hongbao serve` gives it, and `more`."""
    settings, _ = access_of(folder).process(kind, name)
    spec = ServiceSpec(name, kind, host.front, LISTEN[kind], {**settings, **more}, log, prefix=inside(host.namespace))
    return Service(spec)


def services_of(
    folder: DataFolder, plan: Plan, hosts: Mapping[str, Host], memcached: Mapping[str, str], proxy: str
) -> dict[str, Service]:
    """Return all processes of ours by the name of their host, those that are called before their callers."""

    def service(kind: str, name: str, **more: str) -> Service:
        return service_of(folder, kind, name, hosts[name], more, hosts[name].folder / f"{kind}.log")

    setnodes = [(set_name, one) for set_name in SETS for one in plan.setnodes(set_name)]
    return {
        WALLET: service("wallet", WALLET),
        **{one: service("setnode", one, HONGBAO_MEMCACHED=memcached[set_name]) for set_name, one in setnodes},
        **{one: service("gateway", one, HONGBAO_TRUSTED_PROXIES=proxy) for one in GATEWAYS},
    }


def _url(host: Host, kind: str) -> str:
    return f"http://{host.front}:{LISTEN[kind]}"
