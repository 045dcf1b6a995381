"""The seam to `schema`: brings the databases up to date before any process uses them."""

import importlib

from envelope.errors import Refused

MODULE = "schema.migrate"


async def migrate(kind: str, dsn: str) -> None:
    """Migrate the database of a SET or of the wallet, as its owner. Idempotent.

    Imported here and not above: the commands that do not start anything need not pay for it.
    """
    try:
        module = importlib.import_module(MODULE)
    except ModuleNotFoundError as error:
        raise Refused("no_schema", f"{MODULE} is not installed: {error}") from error
    run = module.migrate_wallet if kind == "wallet" else module.migrate_set
    await run(dsn)
