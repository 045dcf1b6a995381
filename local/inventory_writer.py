"""Describes a started stack as an inventory, the file from which commands work whether or not anything runs."""

from archive.manifest import fingerprint
from installation.data_folder import DataFolder
from installation.inventory import Cluster, Inventory
from local.backing_services import BackingServices
from local.process_factory import ProcessFactory
from local.stable_ports import WALLET
from machine.postgres.server import Postgres
from schema import roles


def write_inventory(
    folder: DataFolder,
    backing: BackingServices,
    factory: ProcessFactory,
    *,
    gateway_urls: list[str],
    sandbox: bool,
) -> None:
    """Replace the inventory in the data folder; durable when this returns. All clusters must have been started."""
    Inventory(
        clusters={
            name: Cluster(dsns=_dsns(server), system_identifier=server.system_identifier)
            for name, server in backing.postgres.items()
        },
        gateway_urls=gateway_urls,
        wallet_url=factory.url(WALLET),
        memcached=backing.memcached.address,
        topology=str(folder.topology),
        archive=str(folder.archive),
        archive_key=fingerprint(factory.archive_key().encode()),
        secrets=str(folder.secrets),
        ops_url=factory.ops_url,
        events_url=factory.events_url,
        sandbox=sandbox,
    ).save(folder.inventory)


def _dsns(server: Postgres) -> dict[str, str]:
    """Return a DSN by role without its password: the inventory names the file that holds the passwords."""
    return {role: f"postgresql://{role}@{server.address}/{roles.DATABASE}" for role in server.spec.passwords}
