"""Runs one gateway: `python -m gateway`, settings from HONGBAO_*."""

from gateway.service import Gateway, GatewaySettings
from runtime import process, settings


async def _serve(stop: process.Stop) -> None:
    await Gateway(settings.load(GatewaySettings)).run(stop)


if __name__ == "__main__":
    process.run("gateway", _serve, GatewaySettings)
