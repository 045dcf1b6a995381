"""The databases, the archive and the keys that this room works with."""

import hashlib
import hmac
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from datetime import date
from functools import partial

from archive.place import Archive
from installation.access import Access
from schema import roles
from setnode.header_seal import HeaderSeal
from sharding.slots import slots_of
from sharding.topology import Topology


@dataclass(frozen=True)
class SetPlace:
    """One SET: its name, the DSNs of owner and audit, and the slots that it has on a day."""

    name: str
    owner_dsn: str
    audit_dsn: str
    slots_on: Callable[[date], Collection[int]]


@dataclass(frozen=True)
class Installed:
    """All SETs, the wallet, the archive, and the key under which setnodes seal headers."""

    sets: Sequence[SetPlace]
    wallet_owner_dsn: str
    wallet_audit_dsn: str
    archive: Archive
    header_key: bytes

    @property
    def seal(self) -> HeaderSeal:
        """What seals headers."""
        return HeaderSeal(self.header_key)

    def name_mac(self, user: str) -> bytes:
        """Return 32 bytes that stand for a name and tell nothing without the archive's key, which never changes."""
        key = hmac.digest(self.archive.key, b"hongbao forgotten users", hashlib.sha256)
        return hmac.digest(key, user.encode(), hashlib.sha256)


def installed(access: Access) -> Installed:
    """Return what an installation's files say; nothing is contacted. Raises Refused as `Access`."""
    topology = access.topology()
    return Installed(
        [
            SetPlace(
                one.name, access.set_dsn(one.name, roles.OWNER), access.set_dsn(one.name, roles.AUDIT),
                partial(_slots, topology, one.name),
            )
            for one in topology.sets
        ],
        access.wallet_dsn(roles.OWNER),
        access.wallet_dsn(roles.AUDIT),
        access.archive(),
        access.key("PASSWORD_KEY").encode(),
    )  # fmt: skip


def _slots(topology: Topology, name: str, day: date) -> list[int]:
    return [slot for xx in topology.databases_of(name, day) for slot in slots_of(xx)]
