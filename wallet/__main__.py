"""`python -m wallet`: one wallet process. Settings: `wallet.service.Settings`; stop with SIGTERM."""

import gc

# What is imported stays: the collector, which `process.run` switches on, would walk it a hundred times for nothing, an
# eighth of what all imports take.
gc.disable()

import asyncio  # noqa: E402
from pathlib import Path  # noqa: E402

from published.start import ensure_from_database  # noqa: E402
from runtime import process, settings  # noqa: E402
from schema import identity  # noqa: E402
from wallet.service import Settings, serve  # noqa: E402
from wire.keys import WALLET  # noqa: E402


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
