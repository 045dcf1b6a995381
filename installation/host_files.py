"""What one host needs of an installation: its file, and of the secrets only those that its processes use."""

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

import msgspec

from errors import Refused
from installation.inventory import Inventory
from installation.keys import EVENTS, OPS, USES, Secrets
from schema import roles
from wire.keys import GATEWAY, OPERATOR, SETNODE, WALLET

ROTATION: Final = "rotation"
OPERATORS: Final = "operator"
"""A host from which commands are given: it gets everything."""
KINDS: Final = (GATEWAY, SETNODE, WALLET, EVENTS, ROTATION, OPS, OPERATORS)
_EVERYTHING: Final = frozenset({OPS, OPERATORS})


class Process(NamedTuple):
    """A process of a host; `name` is the server's if it is a setnode."""

    kind: str
    name: str = ""


def read_processes(words: Iterable[str], inventory: Inventory) -> list[Process]:
    """Return `gateway`, `wallet`, `setnode:set-1-a` … as processes; raises Refused `unknown_kind`, `unknown_server`."""
    found = []
    for word in words:
        kind, _, name = word.partition(":")
        if kind not in KINDS:
            raise Refused("unknown_kind", f"{word!r} is no kind of process; there are {', '.join(KINDS)}")
        if kind == SETNODE and name not in inventory.setnodes:
            known = ", ".join(f"{SETNODE}:{one}" for one in inventory.setnodes)
            raise Refused("unknown_server", f"{word!r} names no setnode of the installation; there are {known}")
        found.append(Process(kind, name))
    return found


def files_of(
    inventory: Inventory, secrets: Secrets, processes: Iterable[Process]
) -> tuple[Inventory, Mapping[str, object]]:
    """Return the inventory and the content of the file of secrets for a host on which these processes run.

    The inventory has the DSNs of the roles that they log in with, and no others. Raises Refused `no_key`.
    """
    some = list(processes)
    if _EVERYTHING & {one.kind for one in some}:
        return inventory, secrets.content
    keys: dict[str, str] = {}
    links: dict[str, str] = {}
    wanted: dict[str, set[str]] = {name: set() for name in inventory.clusters}
    for one in some:
        for name in USES.get(one.kind, ("ARCHIVE_KEY",)):
            keys[name] = secrets.key(name)
        for path in _links(one, inventory):
            links[path] = secrets.link_key(*path.split("/")).text
        for server, role in _logins(one, inventory):
            wanted[server].add(role)
    clusters = {
        server: msgspec.structs.replace(
            cluster, dsns={role: dsn for role, dsn in cluster.dsns.items() if role in wanted[server]}
        )
        for server, cluster in inventory.clusters.items()
    }
    passwords = {
        server: {role: word for role, word in secrets.passwords(server).items() if role in some_roles}
        for server, some_roles in wanted.items()
        if some_roles and secrets.has_passwords(server)
    }
    # Where keys are that are no text here was told for the host that wrote this; they are in the new file now.
    return msgspec.structs.replace(inventory, clusters=clusters, keys={}), {
        "keys": keys, "links": links, "postgres": passwords,
    }  # fmt: skip


def _links(one: Process, inventory: Inventory) -> list[str]:
    """Return the paths of the link keys that a process has (`wire.keys`)."""
    if one.kind == GATEWAY:
        return [GATEWAY]
    if one.kind == SETNODE:
        return [f"{GATEWAY}/{one.name}", f"{OPERATOR}/{one.name}", f"{SETNODE}/{inventory.setnodes[one.name].set}"]
    if one.kind == WALLET:
        return [f"{GATEWAY}/{WALLET}", f"{OPERATOR}/{WALLET}", SETNODE]
    return []


def _logins(one: Process, inventory: Inventory) -> list[tuple[str, str]]:
    """Return where a process logs in, as (server, role)."""
    sets = [name for name in inventory.clusters if name != WALLET]
    if one.kind == SETNODE:
        return [(inventory.setnodes[one.name].set, roles.SETNODE)]
    if one.kind == WALLET:
        return [(WALLET, roles.WALLET)]
    if one.kind == EVENTS:
        return [(name, roles.EVENTS) for name in sets]
    if one.kind == ROTATION:
        return [(name, role) for name in (*sets, WALLET) for role in (roles.OWNER, roles.AUDIT)]
    return []
