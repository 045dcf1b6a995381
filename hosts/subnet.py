"""Two private networks that nothing on this machine uses: one for clients, one for replication and etcd."""

from collections.abc import Iterable
from dataclasses import dataclass
from ipaddress import IPv4Network, ip_network
from typing import Any

from errors import Refused
from hosts.shell import ip_json

_CANDIDATES = range(200, 256)
"""10.200.0.0/16 to 10.255.0.0/16."""
_FIRST_HOST = 11


@dataclass(frozen=True)
class Subnet:
    """`front`: clients, processes of ours, Postgres. `back`: etcd and replication. Both are /24 of one /16."""

    front: IPv4Network
    back: IPv4Network

    @property
    def ours(self) -> str:
        """The address of this machine itself on the front network."""
        return str(self.front[1])

    def addresses(self, number: int) -> tuple[str, str]:
        """Return the front and back address of host `number`, from 0."""
        return str(self.front[_FIRST_HOST + number]), str(self.back[_FIRST_HOST + number])


async def free_subnet() -> Subnet:
    """Return networks that no address and no route of this machine is in; raises Refused `no_free_network`."""
    used = [*_networks(await ip_json("-4", "route", "show", "table", "all"), "dst")]
    for link in await ip_json("-4", "address", "show"):
        used += _networks(link.get("addr_info", []), "local")
    for number in _CANDIDATES:
        whole = IPv4Network(f"10.{number}.0.0/16")
        if not any(whole.overlaps(one) for one in used):
            return Subnet(IPv4Network(f"10.{number}.1.0/24"), IPv4Network(f"10.{number}.2.0/24"))
    raise Refused(
        "no_free_network", "all networks from 10.200.0.0/16 to 10.255.0.0/16 are in use here; free one of them"
    )


def _networks(rows: Iterable[dict[str, Any]], key: str) -> Iterable[IPv4Network]:
    for row in rows:
        text = str(row.get(key, ""))
        if text in ("", "default"):
            continue  # leads everywhere, and takes no address
        found = ip_network(text, strict=False)
        if isinstance(found, IPv4Network):
            yield found
