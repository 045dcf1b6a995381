"""Prepares the clusters of an installation on many hosts: database, roles, passwords; their identity in the file."""

import msgspec

from errors import Refused
from installation import inventory
from installation.access import SUPERUSER, Access
from installation.data_folder import DataFolder
from runtime import postgres
from runtime.dsn import password_of, place, with_database
from schema.cluster_setup import MAINTENANCE, set_up_cluster

_IDENTITY = "SELECT system_identifier::text FROM pg_control_system()"


async def prepare(access: Access, folder: DataFolder, server: str) -> str:
    """Make database and roles in one cluster as its superuser; returns the cluster's system identifier.

    Durable when this returns, the identifier in the inventory included; idempotent. A password that a DSN holds is set
    as it stands there. Raises Refused `other_cluster` if the inventory knows this server as another cluster: nothing
    was changed then; `no_dsn`, `secrets_missing`, `superuser_refused`; Unavailable `database_unavailable`.
    """
    dsn = access.superuser_dsn(server)
    try:
        async with postgres.connected(with_database(dsn, MAINTENANCE)) as connection:
            identity: str = await connection.fetchval(_IDENTITY)
    except postgres.LoginRefused as error:
        raise Refused(
            "superuser_refused",
            f"the Postgres of {server} at {place(dsn)} does not let its superuser {SUPERUSER} in; give the cluster the "
            f"password that `hongbao keys postgres --set {server}` prints, or write the one that it has into "
            f"clusters.{server}.dsns.{SUPERUSER} of {folder.inventory}",
        ) from error
    found = inventory.load(folder.inventory)
    cluster = found.clusters[server]
    if cluster.system_identifier not in ("", identity):
        raise Refused(
            "other_cluster",
            f"{server} was the cluster {cluster.system_identifier} so far, and at its address is {identity} now; see "
            f"where the address leads, or remove system_identifier of clusters.{server} from {folder.inventory}",
        )
    passwords = access.passwords(server)
    for role in cluster.dsns:
        passwords[role] = password_of(access.dsn(server, role)) or passwords[role]
    # The superuser's password is whoever's who runs the cluster.
    await set_up_cluster(dsn, {role: password for role, password in passwords.items() if role != SUPERUSER})
    if not cluster.system_identifier:
        known = msgspec.structs.replace(cluster, system_identifier=identity)
        inventory.save(msgspec.structs.replace(found, clusters={**found.clusters, server: known}), folder.inventory)
    return identity
