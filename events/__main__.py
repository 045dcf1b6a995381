"""Delivers events: `python -m events`, settings from HONGBAO_*."""

import gc

# What is imported stays: the collector, which `process.run` switches on, would walk it a hundred times for nothing, an
# eighth of what all imports take.
gc.disable()

from events.service import EventsSettings, serve  # noqa: E402
from runtime import process, settings  # noqa: E402


async def _serve(stop: process.Stop) -> None:
    await serve(settings.load(EventsSettings), stop)


if __name__ == "__main__":
    process.run("events", _serve, EventsSettings)
