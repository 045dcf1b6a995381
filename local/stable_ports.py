"""Parts listen where they did at the last start, so that scrape configurations and firewall rules stay valid."""

from urllib.parse import urlsplit

from errors import Refused
from installation import inventory
from installation.data_folder import DataFolder
from installation.parts import postgres_part
from machine import ports
from runtime.dsn import hosts
from schema import roles
from sharding import topology

MEMCACHED, WALLET, OPS, EVENTS = "memcached", "wallet", "ops", "events"


class StablePorts:
    """The ports of the last start, by part: setnodes from the topology file, the others from the inventory."""

    def __init__(self, folder: DataFolder) -> None:
        self._last = last_ports(folder)

    def reserve(self, part: str) -> int:
        """Return the part's last port; a free one if it had none or another process listens there now."""
        port = self._last.get(part)
        return port if port is not None and ports.reserve(port) else ports.free_port()


def last_ports(folder: DataFolder) -> dict[str, int]:
    """Return where each part but gateways and memcached was at the last start; none before the first."""
    return {**_setnode_ports(folder), **_inventory_ports(folder)}


def _setnode_ports(folder: DataFolder) -> dict[str, int]:
    if not folder.topology.exists():
        return {}
    sets = topology.load(folder.topology).sets
    return {server.name: urlsplit(server.url).port or 0 for one in sets for server in one.servers}


def _inventory_ports(folder: DataFolder) -> dict[str, int]:
    try:
        found = inventory.load(folder.inventory)
    except Refused as refusal:
        if refusal.code != "not_installed":
            raise
        return {}
    last = {
        postgres_part(name): hosts(dsn)[0][1]
        for name, one in found.clusters.items()
        if isinstance(dsn := one.dsns[roles.OWNER], str)
    }
    last[WALLET] = urlsplit(found.wallet_url).port or 0
    for part, url in ((OPS, found.ops_url), (EVENTS, found.events_url)):
        if url:
            last[part] = urlsplit(url).port or 0
    return last
