"""What one host needs of an installation: its file, and of the secrets only those that its processes use."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

import msgspec

from errors import Refused
from installation.inventory import Inventory
from installation.keys import EVENTS, KEYS, LINKS, OPS, USES, Secrets
from installation.renewal import RENEWABLE
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
        "keys": keys, LINKS: links, "postgres": passwords,
    }  # fmt: skip


def refuse_to_replace(files: Mapping[Path, Path], ours: Secrets, content: Mapping[str, Any], there: Secrets) -> None:
    """Raise Refused `secrets_would_be_lost` if a host's files would take the place of the only copy of a secret.

    `files`: by each file that would be written, the installation's own one of its kind. `content` is what would be
    written in place of `there`, `ours` what the installation has. A folder that was written for a host before may be
    written again, with keys that were made anew meanwhile, too.
    """
    for new, own in files.items():
        if new.resolve() == own.resolve() or (new.exists() and own.exists() and new.samefile(own)):
            raise _lost(new.parent, f"{own.name} there is the installation's own: write each host a folder of its own")
    held: Mapping[str, Any] = there.content.get("keys", {})
    others = [name for name in KEYS if name not in RENEWABLE and name in held and not ours.is_key(name, held[name])]
    if others:
        raise _lost(there.path.parent, f"{there.path.name} there has another installation's {', '.join(others)}")
    if "LINK_SECRET" in held and "LINK_SECRET" not in content.get("keys", {}):
        raise _lost(
            there.path.parent, f"{there.path.name} there has all secrets of an installation, not those of a host"
        )
    if servers := [one for one in there.content.get("postgres", {}) if not ours.has_passwords(one)]:
        raise _lost(
            there.path.parent, f"{there.path.name} there has passwords of {', '.join(servers)}, and ours has none"
        )


def _lost(folder: Path, why: str) -> Refused:
    return Refused(
        "secrets_would_be_lost", f"nothing is written to {folder}: {why}. Write an empty folder, and bring it"
    )


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
