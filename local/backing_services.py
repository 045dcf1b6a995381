"""The parts that are other people's programs: a Postgres for each SET and for the wallet, and one memcached."""

from dataclasses import dataclass

from installation.data_folder import DataFolder
from installation.keys import Secrets
from installation.parts import postgres_part
from local.config import StackConfig
from local.known_clusters import check_secrets, known_clusters
from local.memcached_socket import memcached_socket
from local.stable_ports import MEMCACHED, WALLET, StablePorts
from local.supervisor_log import Notify
from machine.account import Account
from machine.memcached import Memcached, MemcachedSpec
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

    Raises Refused `secrets_missing` if a cluster stands whose passwords, or one of the keys, `secrets` does not have,
    and `socket_path_too_long`.
    """
    ports = StablePorts(folder)
    names = [WALLET, *config.set_names()]
    known = known_clusters(config, folder)
    check_secrets(folder, secrets, names)
    secrets.ensure({name: roles.roles_of("wallet" if name == WALLET else "set") for name in names})
    memcached = MemcachedSpec(MEMCACHED, folder.path, folder.log(MEMCACHED), socket=memcached_socket(folder))
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
