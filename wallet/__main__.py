"""`python -m wallet`: one wallet process. Settings: `wallet.service.Settings`; stop with SIGTERM."""

import asyncio

from runtime import process, settings
from wallet.service import Settings, serve


def main() -> None:
    """Run the process."""

    async def started(stop: asyncio.Event) -> None:
        await serve(settings.load(Settings), stop)

    process.run("wallet", started, Settings)


if __name__ == "__main__":
    main()
