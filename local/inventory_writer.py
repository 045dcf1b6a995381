"""Describes a started stack as an inventory, the file from which commands work whether or not anything runs."""

from collections.abc import Mapping, Sequence

from archive.manifest import fingerprint
from installation import inventory
from installation.data_folder import DataFolder
from installation.inventory import Cluster, Inventory, Setnode
from installation.reference import Reference
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
    setnodes: Mapping[str, Sequence[str]],
    sandbox: bool,
) -> None:
    """Replace the inventory in the data folder; durable when this returns. All clusters must have been started.

    `setnodes` are the names of the servers by SET. What an operator has written into the file before is kept: where
    keys are, and backups.
    """
    before = inventory.load(folder.inventory) if inventory.is_there(folder.inventory) else None
    inventory.save(
        Inventory(
            clusters={
                name: Cluster(dsns=_dsns(server), system_identifier=server.system_identifier)
                for name, server in backing.postgres.items()
            },
            gateways={f"gateway-{number}": url for number, url in enumerate(gateway_urls, 1)},
            setnodes={
                name: Setnode(set=set_name, url=factory.url(name))
                for set_name, names in setnodes.items()
                for name in names
            },
            keys=before.keys if before else {},
            backups=before.backups if before else "",
            wallet_url=factory.url(WALLET),
            memcached=backing.memcached.address,
            topology=str(folder.topology),
            archive=folder.archive_place,
            archive_key=fingerprint(factory.archive_key().encode()),
            secrets=str(folder.secrets),
            ops_url=factory.ops_url,
            events_url=factory.events_url,
            runner=True,
            sandbox=sandbox,
        ),
        folder.inventory,
    )


def _dsns(server: Postgres) -> dict[str, str | Reference]:
    """Return a DSN by role without its password: the inventory names the file that holds the passwords."""
    return {role: f"postgresql://{role}@{server.address}/{roles.DATABASE}" for role in server.spec.passwords}
