"""What a disk says that takes no more, in our words."""

import errno
from pathlib import Path

from errors import Refused


def disk_error(where: Path, error: OSError) -> Refused | None:
    """Return Refused `disk_full` or `backup_folder_unwritable`; None if the error is about something else.

    `shutil.copytree` puts the errors of all files into one: the first of them counts.
    """
    number, said = error.errno, str(error)
    if number in (errno.ENOSPC, errno.EDQUOT) or (number is None and "No space left" in said):
        return Refused("disk_full", f"{where} was not written, its disk is full: make room, then try again")
    if number in (errno.EACCES, errno.EPERM, errno.EROFS) or (number is None and "Permission denied" in said):
        return Refused(
            "backup_folder_unwritable", f"{where} cannot be written ({error.strerror or 'permission denied'})"
        )
    return None
