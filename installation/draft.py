"""The inventory of an installation on many hosts, from the few facts that differ from one to the next."""

from collections.abc import Mapping
from typing import Final
from urllib.parse import urlsplit

import msgspec

from errors import Refused
from installation.inventory import Cluster, Inventory, Setnode
from runtime.dsn import PORT
from schema import roles
from wire.keys import WALLET

_ATTRIBUTES: Final = "target_session_attrs=read-write"


def draft(
    *,
    postgres: Mapping[str, str],
    setnodes: Mapping[str, str],
    gateways: Mapping[str, str],
    wallet: str,
    memcached: Mapping[str, str],
    archive: str,
    ops: str = "",
    events: str = "",
    rotation: str = "",
    scheme: str = "http",
) -> Inventory:
    """Return an inventory whose files lie beside it.

    `postgres`: by SET, and "wallet", its hosts as `db-1:5432,db-2`. `setnodes`: by server, `SET@HOST:PORT`; `gateways`:
    by name, `HOST:PORT`. `memcached`: its address by SET or server, and under "" that of all others. Raises Refused
    `installation_incomplete`, which says what is missing.
    """
    if WALLET not in postgres:
        raise _incomplete("say where the wallet's Postgres is: --postgres wallet=HOST:PORT")
    sets = {name: where.partition("@")[0] for name, where in setnodes.items()}
    for name in postgres:
        if name != WALLET and name not in sets.values():
            raise _incomplete(f"{name} has a Postgres and no setnode: --setnode {name}-a={name}@HOST:PORT")
    caches = {name: memcached.get(name) or memcached.get(set_name, "") for name, set_name in sets.items()}
    for name, set_name in sets.items():
        if not caches[name] and not memcached.get(""):
            raise _incomplete(
                f"say where the memcached of {set_name} is: --memcached {set_name}=HOST:PORT, or HOST:PORT for all"
            )
        if set_name not in postgres:
            raise _incomplete(f"{name} is of {set_name}, whose Postgres is not named: --postgres {set_name}=HOST:PORT")
    return Inventory(
        wallet_url=f"{scheme}://{wallet}",
        memcached=memcached.get("", ""),
        topology="topology.json",
        archive=archive,
        secrets="secrets.json",
        ops_url=f"http://{ops}" if ops else "",
        events_url=f"http://{events}" if events else "",
        rotation_url=f"http://{rotation}" if rotation else "",
        gateways={name: f"http://{where}" for name, where in gateways.items()},
        setnodes={
            name: Setnode(set=sets[name], url=f"{scheme}://{where.partition('@')[2]}", memcached=caches[name])
            for name, where in setnodes.items()
        },
        clusters={name: _cluster(name, hosts) for name, hosts in postgres.items()},
    )


def with_set(
    inventory: Inventory, name: str, *, postgres: str, setnodes: Mapping[str, str], memcached: str = ""
) -> Inventory:
    """Return the inventory with one more SET: the hosts of its Postgres, its servers by name, its memcached.

    Raises Refused `set_exists`, `installation_incomplete`.
    """
    if name in inventory.clusters:
        raise Refused("set_exists", f"there is a {name} already; there are {', '.join(inventory.clusters)}")
    if taken := sorted(set(setnodes) & set(inventory.setnodes)):
        raise Refused("set_exists", f"there is a setnode {taken[0]} already, of {inventory.setnodes[taken[0]].set}")
    if not memcached and not inventory.memcached:
        raise _incomplete(f"say where the memcached of {name} is: --memcached HOST:PORT")
    scheme = urlsplit(inventory.wallet_url).scheme
    servers = {
        server: Setnode(set=name, url=f"{scheme}://{where}", memcached=memcached) for server, where in setnodes.items()
    }
    return msgspec.structs.replace(
        inventory,
        setnodes={**inventory.setnodes, **servers},
        clusters={**inventory.clusters, name: _cluster(name, postgres)},
    )


def _cluster(name: str, hosts: str) -> Cluster:
    places = [one if ":" in one else f"{one}:{PORT}" for one in hosts.split(",")]
    where = f"{','.join(places)}/{roles.DATABASE}" + (f"?{_ATTRIBUTES}" if len(places) > 1 else "")
    return Cluster(
        dsns={role: f"postgresql://{role}@{where}" for role in roles.roles_of("wallet" if name == WALLET else "set")}
    )


def _incomplete(sentence: str) -> Refused:
    return Refused("installation_incomplete", sentence)
