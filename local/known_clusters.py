"""Which clusters stood here at earlier starts: one that is missing now, or is another, is refused and not made anew.

An empty cluster in the place of one whose disk is not mounted would serve: every envelope of it `not_found`, and its
sweeper would refund creates whose headers it does not see. The inventory has each cluster's system identifier, and is
written before any process serves. Where it was lost, the topology file still says which SETs there were.
"""

from errors import Refused
from installation import inventory
from installation.data_folder import DataFolder
from installation.keys import Secrets
from local.config import StackConfig
from local.stable_ports import WALLET
from sharding import topology


def known_clusters(config: StackConfig, folder: DataFolder) -> dict[str, str | None]:
    """Return for each server of `config` what is known of its cluster (`machine.postgres.cluster_folder`).

    Of those in `config.new_clusters` nothing is: what stands there is taken, or an empty cluster is made.
    """
    names = [WALLET, *config.set_names()]
    earlier: dict[str, str] = {}
    if folder.topology.exists():
        # It is written once all clusters of a start are up.
        earlier = dict.fromkeys([WALLET, *(one.name for one in topology.load(folder.topology).sets)], "")
    if inventory.is_there(folder.inventory):
        clusters = inventory.load(folder.inventory).clusters
        earlier |= {name: one.system_identifier for name, one in clusters.items()}
    return {name: None if name in config.new_clusters else earlier.get(name) for name in names}


def check_secrets(folder: DataFolder, secrets: Secrets, names: list[str]) -> None:
    """Raise Refused `secrets_missing` if a cluster stands and its passwords, or one of the keys, are not in the file.

    New keys would make what the old ones protect useless: archives, share tokens, passwords and seals of envelopes.
    """
    standing = [name for name in names if (folder.postgres(name) / "PG_VERSION").exists()]
    if not standing:
        return
    lost = [f"the passwords of {name}" for name in standing if not secrets.has_passwords(name)]
    lost += secrets.lost_keys()
    if lost:
        raise Refused(
            "secrets_missing",
            f"{folder.postgres(standing[0])} stands, and {folder.secrets} lacks {', '.join(lost)}; bring the file back "
            "from where the backups are. Nothing was changed",
        )
