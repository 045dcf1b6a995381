"""The parts that are other people's programs: a Postgres for each SET and for the wallet, and one memcached."""

from dataclasses import dataclass

from installation.data_folder import DataFolder
from installation.keys import Secrets
from local.config import StackConfig
from local.known_clusters import check_secrets, known_clusters
from local.stable_ports import MEMCACHED, WALLET, StablePorts, postgres_part
from local.supervisor_log import Notify
from machine.account import Account
from machine.memcached import MAX_SOCKET_PATH, Memcached, MemcachedSpec
from machine.postgres.server import Postgres, PostgresSpec
from schema import roles


@dataclass(frozen=True)
class BackingServices:
    """`postgres` is by SET name, and "wallet"."""

    postgres: dict[str, Postgres]
    memcached: Memcached


def backing_services(
    config: StackConfig, folder: DataFolder, secrets: Secrets, account: Account, notify: Notify
) -> BackingServices:
    """Return the servers, not started. Generates the keys and passwords that `secrets` lacks; they are durable then.

    Raises Refused `secrets_missing` if a cluster stands whose passwords `secrets` does not have.
    """
    ports = StablePorts(folder)
    names = [WALLET, *config.set_names()]
    known = known_clusters(config, folder)
    check_secrets(folder, secrets, names)
    secrets.ensure({name: roles.roles_of("wallet" if name == WALLET else "set") for name in names})
    socket = folder.path / "memcached" / "socket"
    if len(str(socket)) > MAX_SOCKET_PATH:
        config.notify(f"the path of {folder.path} is too long for a socket: memcached listens on 127.0.0.1 instead")
        memcached = MemcachedSpec(MEMCACHED, folder.path, folder.log(MEMCACHED), port=ports.reserve(MEMCACHED))
    else:
        memcached = MemcachedSpec(MEMCACHED, folder.path, folder.log(MEMCACHED), socket=socket)
    return BackingServices(
        {
            name: Postgres(
                PostgresSpec(
                    part, folder.postgres(name), folder.log(part), secrets.passwords(name), port=ports.reserve(part),
                    known=known[name], warn=notify,
                ),
                account=account,
            )
            for name in names
            for part in [postgres_part(name)]
        },
        Memcached(memcached),
    )  # fmt: skip
