"""Who else may write into a folder of ours: in its place they could put files that we trust."""

import grp
import pwd
import stat
from pathlib import Path


def other_writers(folder: Path) -> str:
    """Return who may write into `folder` beside its owner: "" if nobody may, else words such as "the group staff".

    A group whose only member is the owner, as many systems make one for each user, does not count. Raises OSError.
    """
    found = folder.stat()
    if found.st_mode & stat.S_IWOTH:
        return "every user of this machine"
    if found.st_mode & stat.S_IWGRP and not _is_alone(found.st_uid, found.st_gid):
        return f"the group {_name_of(found.st_gid)}"
    return ""


def _is_alone(uid: int, gid: int) -> bool:
    """Say whether nobody but this user is in a group, as far as this machine lists its users."""
    try:
        owner, members = pwd.getpwuid(uid).pw_name, grp.getgrgid(gid).gr_mem
    except KeyError:
        return False
    listed = {one.pw_name for one in pwd.getpwall() if one.pw_gid == gid}
    return listed | set(members) <= {owner}


def _name_of(gid: int) -> str:
    try:
        return grp.getgrgid(gid).gr_name
    except KeyError:
        return str(gid)
