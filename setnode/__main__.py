"""`python -m setnode`: one server of a SET, settings from HONGBAO_*."""

import gc

# What is imported stays: the collector, which `process.run` switches on, would walk it a hundred times for nothing, an
# eighth of what all imports take.
gc.disable()

import asyncio  # noqa: E402
from pathlib import Path  # noqa: E402

from published.start import ensure_from_database  # noqa: E402
from runtime import process, settings  # noqa: E402
from schema import identity  # noqa: E402
from setnode.service import Setnode  # noqa: E402
from setnode.settings import SetnodeSettings  # noqa: E402


async def _serve(stop: asyncio.Event) -> None:
    config = settings.load(SetnodeSettings)
    await identity.wait_for(config.postgres_dsn, config.set)
    await ensure_from_database(Path(config.topology), config.postgres_dsn)
    await Setnode(config).run(stop)


if __name__ == "__main__":
    process.run("setnode", _serve, SetnodeSettings)
