"""Runs the operator's view: `python -m ops`, settings from HONGBAO_*."""

from ops.service import OpsSettings, serve
from runtime import process, settings


async def _serve(stop: process.Stop) -> None:
    await serve(settings.load(OpsSettings), stop)


if __name__ == "__main__":
    process.run("ops", _serve, OpsSettings)
