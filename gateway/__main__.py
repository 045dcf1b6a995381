"""Runs one gateway: `python -m gateway`, settings from HONGBAO_*."""

import gc

# What is imported stays: the collector, which `process.run` switches on, would walk it a hundred times for nothing, an
# eighth of what all imports take.
gc.disable()

from pathlib import Path  # noqa: E402

from gateway.service import Gateway, GatewaySettings  # noqa: E402
from published.start import ensure_from_process  # noqa: E402
from runtime import process, settings  # noqa: E402
from runtime.tls import tls_of  # noqa: E402
from wire.keys import GATEWAY, WALLET, caller_key  # noqa: E402


async def _serve(stop: process.Stop) -> None:
    config = settings.load(GatewaySettings)
    key = caller_key(config.link_key, GATEWAY)
    tls = tls_of(config.tls_cert, config.tls_key, config.tls_ca)
    await ensure_from_process(Path(config.topology), WALLET, config.wallet_url, key, tls)
    await Gateway(config).run(stop)


if __name__ == "__main__":
    process.run("gateway", _serve, GatewaySettings)
