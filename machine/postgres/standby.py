"""A hot standby of a cluster of this machine: copied from its primary, and fed by it."""

import asyncio
import os
import subprocess
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from errors import Unavailable
from machine.account import Account
from machine.postgres.server import Postgres


async def make_standby(primary: Postgres, folder: Path, log: Path, account: Account, name: str = "standby") -> Postgres:
    """Copy a running primary into `folder` and start the copy as its standby; the caller stops it.

    It follows by a replication slot of its name; commits wait for it only once the primary's
    `synchronous_standby_names` says so. Raises Unavailable `not_copied`.
    """
    binaries = primary.binaries
    slot = name.replace("-", "_")
    words = ["-D", str(folder), "-R", "-C", "-S", slot, "-X", "stream", "-c", "fast", "-d", primary.dsn()]
    drops: dict[str, Any] = {}
    if account.drop_privileges:
        drops = {"user": account.uid, "group": account.gid, "extra_groups": []}
    copying = partial(
        subprocess.run,
        [str(binaries.program("pg_basebackup")), *words],
        env={"LC_ALL": "C", "PATH": os.defpath}, capture_output=True, text=True, check=False, **drops,
    )  # fmt: skip
    done = await asyncio.to_thread(copying)
    if done.returncode:
        raise Unavailable("not_copied", f"the cluster of {primary.name} could not be copied: {done.stderr[-300:]}")
    spec = replace(primary.spec, name=name, folder=folder, log=log, port=None, known=primary.system_identifier)
    standby = Postgres(spec, account=account)
    await standby.start()
    return standby
