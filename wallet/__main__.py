"""`python -m wallet`: one wallet process. Settings: `wallet.service.Settings`; stop with SIGTERM."""

import asyncio
from pathlib import Path

from published.start import ensure_from_database
from runtime import process, settings
from schema import identity
from wallet.service import Settings, serve
from wire.keys import WALLET


def main() -> None:
    """Run the process."""

    async def started(stop: asyncio.Event) -> None:
        config = settings.load(Settings)
        await identity.wait_for(config.postgres_dsn, WALLET)
        if config.topology:
            await ensure_from_database(Path(config.topology), config.postgres_dsn)
        await serve(config, stop)

    process.run("wallet", started, Settings)


if __name__ == "__main__":
    main()
