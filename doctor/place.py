"""What checks look at: the data folder, what is installed in it and what runs, read once."""

import asyncio
from dataclasses import dataclass
from pathlib import Path

from doctor.finding import Finding, Level, sentence
from errors import Refused
from installation import data_folder
from installation.access import Access
from installation.data_folder import DataFolder
from installation.finding import find
from local import running
from local.running import Running
from runtime.wording import ELSEWHERE
from sharding.topology import Topology, unknown_fields


@dataclass(frozen=True)
class Place:
    """None: there is none, or it cannot be read; `troubles` says which. `backups`: what --backups names, or ""."""

    folder: DataFolder
    access: Access | None = None
    topology: Topology | None = None
    running: Running | None = None
    backups: str = ""
    troubles: tuple[Finding, ...] = ()


def look(data: Path | None, backups: str = "") -> Place:
    """Read the files of the data folder; what cannot be read is a trouble. Raises Refused `no_server_account`."""
    folder = data_folder.locate(data)
    troubles: list[Finding] = []
    access = _installed(folder, troubles)
    topology = None if access is None else _topology(access, troubles)
    return Place(folder, access, topology, _running(folder, access, troubles), backups, tuple(troubles))


def _installed(folder: DataFolder, troubles: list[Finding]) -> Access | None:
    where = str(folder.path)
    try:
        access = find(folder.named)
        if not access.topology_path.exists() and not access.runner:
            # A job's own folder: it has the two files, and what is published comes from the databases.
            asyncio.run(access.refresh())
    except Refused as refused:
        level = Level.NOTE if refused.code == "not_installed" else Level.WRONG
        do = (
            f"./run makes and starts everything there; {ELSEWHERE}."
            if level is Level.NOTE
            else "Bring the file back from where the backups are, or mend it."
        )
        troubles.append(Finding("installation", level, where, sentence(refused.detail), do))
        return None
    troubles.append(Finding("installation", Level.OK, where, f"{', '.join(access.servers())} in {where}"))
    return access


def _topology(access: Access, troubles: list[Finding]) -> Topology | None:
    path = access.topology_path
    try:
        topology = access.topology()
        unknown = unknown_fields(path)
    except (Refused, OSError) as error:
        what = f"The topology file cannot be read: {str(getattr(error, 'detail', error)).rstrip('.')}."
        do = f"Bring {path} back from where the backups are; processes that run keep the one they have."
        troubles.append(Finding("topology", Level.WRONG, str(path), what, do))
        return None
    if unknown:
        what = f"The topology file has fields that this release does not know and ignores: {', '.join(unknown)}."
        do = "Nothing, if a later release wrote them; take them out if they are slips."
        troubles.append(Finding("topology", Level.NOTE, str(path), what, do))
    troubles.append(Finding("topology", Level.OK, str(path), f"version {topology.version}, {len(topology.sets)} SETs"))
    return topology


def _running(folder: DataFolder, access: Access | None, troubles: list[Finding]) -> Running | None:
    """Return what ./run has started. That nothing runs is said by `parts`: it may run by other means."""
    try:
        return running.load(folder.running)
    except Refused as refused:
        if refused.code != "not_up" or folder.running.exists():
            do = f"./run starts it again; ./run logs says what happened before ({folder.log('supervisor')})."
            level = Level.WRONG if access is not None else Level.NOTE
            troubles.append(Finding("stack", level, str(folder.path), sentence(refused.detail), do))
        return None
