"""Whether a data folder is a sandbox's: said by its clock file, and once more in the inventory.

A folder is made as one or the other by its first start, and stays it for ever: a sandbox's people, days and money lie
in a time that has not come, and nothing could tell a real installation which of it is true.
"""

from errors import Refused
from installation import inventory
from installation.data_folder import DataFolder
from runtime.clock import Clock, SystemClock
from runtime.sandbox_clock import SandboxClock


def is_sandbox(folder: DataFolder) -> bool:
    """Say whether the folder is a sandbox's. One that is empty, or not there, is not."""
    if folder.sandbox_clock.exists():
        return True
    return inventory.is_there(folder.inventory) and inventory.load(folder.inventory).sandbox


def clock_of(folder: DataFolder) -> Clock:
    """Return the clock by which the folder's installation goes; raises Refused `sandbox_clock_missing`."""
    return SandboxClock(folder.sandbox_clock) if is_sandbox(folder) else SystemClock()


def take(folder: DataFolder, *, sandbox: bool) -> Clock:
    """Return the clock for a start; the first start of a sandbox makes it. Call it with the folder's lock held.

    Raises Refused `is_sandbox` or `is_real` if the folder is the other kind's, `sandbox_clock_missing`; nothing is
    changed then.
    """
    if not sandbox and is_sandbox(folder):
        raise Refused(
            "is_sandbox",
            f"{folder.path} is the data folder of a sandbox: start it with ./run --sandbox, or choose another folder "
            "for a real installation with --data",
        )
    if sandbox and not is_sandbox(folder):
        if any(one.exists() for one in (folder.secrets, folder.topology, folder.clusters)) or inventory.is_there(
            folder.inventory
        ):
            raise Refused(
                "is_real",
                f"{folder.path} is the data folder of a real installation, whose clock is never moved: start it "
                "without --sandbox, or choose another folder for the sandbox with --data",
            )
        SandboxClock.create(folder.sandbox_clock)
    return clock_of(folder)
