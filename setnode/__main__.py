"""`python -m setnode`: one server of a SET, settings from HONGBAO_*."""

import asyncio

from runtime import process, settings
from setnode.service import Setnode
from setnode.settings import SetnodeSettings


async def _serve(stop: asyncio.Event) -> None:
    await Setnode(settings.load(SetnodeSettings)).run(stop)


if __name__ == "__main__":
    process.run("setnode", _serve, SetnodeSettings)
