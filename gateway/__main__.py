"""Runs one gateway: `python -m gateway`, settings from HONGBAO_*."""

import gc

# What is imported stays: the collector, which `process.run` switches on, would walk it a hundred times for nothing, an
# eighth of what all imports take.
gc.disable()

from gateway.service import Gateway, GatewaySettings  # noqa: E402
from runtime import process, settings  # noqa: E402


async def _serve(stop: process.Stop) -> None:
    await Gateway(settings.load(GatewaySettings)).run(stop)


if __name__ == "__main__":
    process.run("gateway", _serve, GatewaySettings)
