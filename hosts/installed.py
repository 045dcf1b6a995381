"""The installation's files as a region writes them, and what each process of ours is given.

All that depends on the form of the inventory and of the topology stands here.
"""

from collections.abc import Mapping
from pathlib import Path

from archive.manifest import fingerprint
from hosts.cluster import Cluster
from hosts.host import Host
from hosts.plan import GATEWAYS, SETS, WALLET, Plan
from hosts.prometheus import Job
from hosts.shell import inside
from installation import inventory
from installation.access import Access
from installation.data_folder import DataFolder
from installation.finding import find
from installation.inventory import Cluster as Known
from installation.inventory import Inventory, Setnode
from installation.keys import Secrets
from local.service import Service, ServiceSpec
from published.addresses import publish_addresses
from schema import roles

SLOTS = 40
"""Four databases, two for each SET: one can be moved, and its SET has one left."""
LISTEN = {"setnode": 7001, "wallet": 7000, "gateway": 8080}


def passwords_of(folder: DataFolder, servers: list[str]) -> Secrets:
    """Make the installation's keys, and the passwords of these servers; durable when this returns."""
    secrets = Secrets.load(folder.secrets)
    secrets.ensure({name: roles.roles_of("wallet" if name == WALLET else "set") for name in servers})
    return secrets


async def publish(access: Access) -> None:
    """Publish the topology: each SET with its servers, or new addresses in what there is."""
    await publish_addresses(access.publisher(), access.set_specs(), wallet_url=access.wallet_url, slots=SLOTS)


async def write_inventory(
    folder: DataFolder,
    secrets: Secrets,
    clusters: Mapping[str, Cluster],
    plan: Plan,
    hosts: Mapping[str, Host],
    url: str,
    memcached: Mapping[str, str],
) -> None:
    """Write what is installed, and where; durable when this returns. `memcached`: its address by SET."""
    known = {
        name: Known(
            dsns={role: one.dsn(role, roles.DATABASE, password=False) for role in one.passwords},
            system_identifier=await one.system_identifier(),
        )
        for name, one in clusters.items()
    }
    folder.archive.mkdir(mode=0o700, exist_ok=True)
    inventory.save(
        Inventory(
            clusters=known,
            gateways={"edge": url},
            setnodes={
                one: Setnode(set=name, url=_url(hosts[one], "setnode"), memcached=memcached[name])
                for name in SETS
                for one in plan.setnodes(name)
            },
            wallet_url=_url(hosts[WALLET], "wallet"),
            memcached="",
            topology=str(folder.topology),
            archive=str(folder.archive),
            archive_key=fingerprint(secrets.key("ARCHIVE_KEY").encode()),
            secrets=str(folder.secrets),
        ),
        folder.inventory,
    )


def access_of(folder: DataFolder) -> Access:
    """Return the installation as a command sees it."""
    return find(folder.path)


def service_of(folder: DataFolder, kind: str, name: str, host: Host, more: Mapping[str, str], log: Path) -> Service:
    """Return a process of ours on a host, not started, with the settings that `hongbao serve` gives it, and `more`."""
    settings, _ = access_of(folder).process(kind, name)
    # A host shares no file with another: it hears of the topology as hosts do.
    more = {"HONGBAO_TOPOLOGY": str(host.folder / "topology.json"), **more}
    spec = ServiceSpec(name, kind, host.front, LISTEN[kind], {**settings, **more}, log, prefix=inside(host.namespace))
    return Service(spec)


def services_of(folder: DataFolder, plan: Plan, hosts: Mapping[str, Host], proxy: str) -> dict[str, Service]:
    """Return all processes of ours by the name of their host, those that are called before their callers."""

    def service(kind: str, name: str, **more: str) -> Service:
        return service_of(folder, kind, name, hosts[name], more, hosts[name].folder / f"{kind}.log")

    setnodes = [one for set_name in SETS for one in plan.setnodes(set_name)]
    return {
        WALLET: service("wallet", WALLET),
        **{one: service("setnode", one) for one in setnodes},
        **{one: service("gateway", one, HONGBAO_TRUSTED_PROXIES=proxy) for one in GATEWAYS},
    }


def scraped(services: Mapping[str, Service], plan: Plan, folder: DataFolder) -> tuple[dict[str, Job], str]:
    """Return what Prometheus scrapes, with the labels of deploy/prometheus, and the key of gateways' metrics."""
    jobs: dict[str, Job] = {
        "hongbao-gateways": {services[one].address: {"part": one} for one in GATEWAYS},
        "hongbao-setnodes": {
            services[one].address: {"set": name, "part": one} for name in SETS for one in plan.setnodes(name)
        },
        "hongbao-wallet": {services[WALLET].address: {"part": WALLET}},
    }
    return jobs, Secrets.load(folder.secrets).key("METRICS_KEY")


def _url(host: Host, kind: str) -> str:
    return f"http://{host.front}:{LISTEN[kind]}"
