"""What each kind of process is given in its environment, by the runner of one machine and by `hongbao serve` alike."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from errors import Refused
from installation.certificates import Certificates
from installation.inventory import Inventory
from installation.keys import EVENTS, OPS, Secrets
from objectstore import credentials
from objectstore.address import is_address
from runtime import sandbox_clock
from schema import roles
from wire.keys import GATEWAY, SETNODE, WALLET

KINDS = (GATEWAY, SETNODE, WALLET, EVENTS, OPS)
"""What `python -m KIND` runs."""
WITH_TLS = (GATEWAY, SETNODE, WALLET)
"""Those that have a certificate in their settings; `ops` takes the operators', as commands do, and `events` calls none
of ours."""


@dataclass(frozen=True)
class Surroundings:
    """Where a process finds the others. `dsn` returns a role's DSN of a SET's database, or of the wallet's.

    `sandbox_clock` is empty but in a sandbox. `certificates` are those of an installation whose wallet is called at
    https://.
    """

    topology: Path
    wallet_url: str
    memcached: str
    archive: str
    data: Path
    sets: Sequence[str]
    dsn: Callable[[str, str], str]
    sandbox_clock: str = ""
    certificates: Certificates | None = None


def place_of(inventory: Inventory, kind: str, name: str) -> tuple[str, str]:
    """Return the SET of a process, "" but for a setnode, and the URL at which it is known, "" if nowhere.

    Raises Refused `server_missing`, `unknown_server`.
    """
    if kind == GATEWAY:
        return "", inventory.gateways.get(name, "")
    if kind != SETNODE:
        return "", {WALLET: inventory.wallet_url, EVENTS: inventory.events_url, OPS: inventory.ops_url}.get(kind, "")
    known = inventory.setnodes
    if not name:
        raise Refused("server_missing", f"name the setnode: one of {', '.join(known)}")
    if name not in known:
        raise Refused("unknown_server", f"the installation has no setnode {name[:50]!r}; it has {', '.join(known)}")
    return known[name].set, known[name].url


def memcached_of(inventory: Inventory, server: str) -> str:
    """Return the memcached of a setnode; for any other process that of the installation."""
    known = inventory.setnodes.get(server)
    return known.memcached if known is not None and known.memcached else inventory.memcached


def settings_of(kind: str, name: str, around: Surroundings, secrets: Secrets, set_name: str = "") -> dict[str, str]:
    """Return the HONGBAO_* variables of a process, keys included, but where it listens.

    `name` is the server's, `set_name` its SET if it is a setnode. Raises Refused `no_key`.
    """
    return {
        "HONGBAO_TOPOLOGY": str(around.topology),
        "HONGBAO_WALLET_URL": around.wallet_url,
        **secrets.environment(kind, name, set_name),
        sandbox_clock.SETTING: around.sandbox_clock,
        **_own(kind, name, around, set_name),
        **(around.certificates.settings(name, kind) if around.certificates is not None and kind in WITH_TLS else {}),
    }


def _own(kind: str, name: str, around: Surroundings, set_name: str) -> dict[str, str]:
    match kind:
        case "wallet":
            return {"HONGBAO_POSTGRES_DSN": around.dsn("wallet", roles.WALLET)}
        case "setnode":
            return {
                "HONGBAO_SET": set_name,
                "HONGBAO_SERVER": name,
                "HONGBAO_POSTGRES_DSN": around.dsn(set_name, roles.SETNODE),
                "HONGBAO_MEMCACHED": around.memcached,
                "HONGBAO_ARCHIVE": around.archive,
                **_store(around),
            }
        case "events":
            return {"HONGBAO_SET_DSNS": " ".join(f"{one}={around.dsn(one, roles.EVENTS)}" for one in around.sets)}
        case "ops":
            return {"HONGBAO_DATA": str(around.data), **_store(around)}
        case "gateway":
            return {}
    raise Refused("unknown_kind", f"there is no process of the kind {kind!r}; there are {', '.join(KINDS)}")


def _store(around: Surroundings) -> dict[str, str]:
    """Return how an archive in an object store is reached: of our environment, what only its readers are given."""
    return credentials.given() if is_address(around.archive) else {}
