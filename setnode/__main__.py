"""`python -m setnode`: one server of a SET, settings from HONGBAO_*."""

import asyncio
from pathlib import Path

from published.start import ensure_from_database
from runtime import process, settings
from schema import identity
from setnode.service import Setnode
from setnode.settings import SetnodeSettings


async def _serve(stop: asyncio.Event) -> None:
    config = settings.load(SetnodeSettings)
    await identity.wait_for(config.postgres_dsn, config.set)
    await ensure_from_database(Path(config.topology), config.postgres_dsn)
    await Setnode(config).run(stop)


if __name__ == "__main__":
    process.run("setnode", _serve, SetnodeSettings)
