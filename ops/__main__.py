"""Runs the operator's view: `python -m ops`, settings from HONGBAO_*."""

import gc

# What is imported stays: the collector, which `process.run` switches on, would walk it a hundred times for nothing, an
# eighth of what all imports take.
gc.disable()

from ops.service import OpsSettings, serve  # noqa: E402
from runtime import process, settings  # noqa: E402


async def _serve(stop: process.Stop) -> None:
    await serve(settings.load(OpsSettings), stop)


if __name__ == "__main__":
    process.run("ops", _serve, OpsSettings)
