"""How a command or a process comes to its installation: by a data folder, or by an installation file."""

import asyncio
from pathlib import Path

from installation import data_folder, inventory
from installation.access import Access
from installation.keys import Secrets
from installation.sandbox import clock_of


def find(data: Path | None) -> Access:
    """Return the installation of a data folder, or of an installation file (`installation.data_folder.locate`).

    Raises Refused `not_installed` if there is none, `sandbox_clock_missing` if it is a sandbox without its clock.
    """
    folder = data_folder.locate(data)
    found = inventory.load(folder.inventory)
    return Access(found, Secrets.load(Path(found.secrets), found.keys), clock_of(folder), folder.named)


async def current(data: Path | None) -> Access:
    """As `find`, with this host's topology and switches brought up to what is published.

    Where `./run` runs, its processes keep them so.
    """
    access = find(data)
    if not data_folder.locate(data).running.exists():
        await access.refresh()
    return access


def find_current(data: Path | None) -> Access:
    """As `current`, outside a running loop."""
    return asyncio.run(current(data))


def secrets_of(data: Path | None) -> Secrets:
    """Return the secrets of an installation, also before its first start has written an inventory."""
    folder = data_folder.locate(data)
    if not inventory.is_there(folder.inventory):
        return Secrets.load(folder.secrets)
    found = inventory.load(folder.inventory)
    return Secrets.load(Path(found.secrets), found.keys)
