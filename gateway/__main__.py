"""Runs one gateway: `python -m gateway`, settings from HONGBAO_*."""

from pathlib import Path

from gateway.service import Gateway, GatewaySettings
from published.start import ensure_from_process
from runtime import process, settings
from runtime.tls import tls_of
from wire.keys import GATEWAY, WALLET, caller_key


async def _serve(stop: process.Stop) -> None:
    config = settings.load(GatewaySettings)
    key = caller_key(config.link_key, GATEWAY)
    tls = tls_of(config.tls_cert, config.tls_key, config.tls_ca)
    await ensure_from_process(Path(config.topology), WALLET, config.wallet_url, key, tls)
    await Gateway(config).run(stop)


if __name__ == "__main__":
    process.run("gateway", _serve, GatewaySettings)
