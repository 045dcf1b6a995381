"""The inventory of an installation: one file, 0600, written by whatever starts the processes, read by every command.

It stays when nothing runs. DSNs that `./run` writes have no password: passwords by role are in the file of secrets that
the inventory names. An operator may write a DSN with a password into it.
"""

from pathlib import Path

import msgspec

from errors import Refused
from runtime.files import write_private


class Cluster(msgspec.Struct, frozen=True, kw_only=True):
    """One Postgres cluster: a DSN for each role, and the system identifier that initdb gave it."""

    dsns: dict[str, str]
    system_identifier: str = ""


class Inventory(msgspec.Struct, frozen=True, kw_only=True):
    """`clusters`: Postgres by SET name, and "wallet". `topology`, `archive`, `secrets`: absolute paths.

    `ops_url`: where the operator's view is served, `events_url`: where the process that delivers events has its probes;
    "" if nowhere. `sandbox`: whether its clock can be moved; the clock lies beside this file (`installation.sandbox`).

    `archive_key` is the fingerprint of the key with which the servers verify the archive ("" if unknown). Addresses of
    setnode servers are in the topology file.
    """

    clusters: dict[str, Cluster]
    gateway_urls: list[str]
    wallet_url: str
    memcached: str
    topology: str
    archive: str
    secrets: str
    archive_key: str = ""
    ops_url: str = ""
    events_url: str = ""
    sandbox: bool = False

    def save(self, path: Path) -> None:
        """Replace the file in one step; durable when this returns."""
        write_private(path, msgspec.to_builtins(self))


def load(path: Path) -> Inventory:
    """Return an inventory; raises Refused `not_installed` if there is none, `inventory_unreadable` if it is damaged."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=Inventory)
    except FileNotFoundError:
        raise Refused("not_installed", f"nothing is installed in {path.parent} yet; start it once with ./run") from None
    except (OSError, msgspec.MsgspecError) as error:
        raise Refused("inventory_unreadable", f"cannot read {path}: {error}") from error
