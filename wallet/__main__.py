"""`python -m wallet`: one wallet process. Settings: `wallet.service.Settings`; stop with SIGTERM."""

import asyncio
from pathlib import Path

from published.start import ensure_from_database
from runtime import process, settings
from wallet.service import Settings, serve


def main() -> None:
    """Run the process."""

    async def started(stop: asyncio.Event) -> None:
        config = settings.load(Settings)
        if config.topology:
            await ensure_from_database(Path(config.topology), config.postgres_dsn)
        await serve(config, stop)

    process.run("wallet", started, Settings)


if __name__ == "__main__":
    main()
