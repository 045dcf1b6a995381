"""Who gives a command, for journals and rows that say who has changed something."""

import getpass
import os


def login() -> str:
    """Return the name of the account that runs this; `account NUMBER` where it has none, as in a container."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return f"account {os.getuid()}"
