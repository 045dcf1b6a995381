"""Delivers events: `python -m events`, settings from HONGBAO_*."""

from events.service import EventsSettings, serve
from runtime import process, settings


async def _serve(stop: process.Stop) -> None:
    await serve(settings.load(EventsSettings), stop)


if __name__ == "__main__":
    process.run("events", _serve, EventsSettings)
