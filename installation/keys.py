"""The secrets of one data folder: generated once, kept in one file that only its owner can read."""

import json
import os
import secrets
from pathlib import Path
from typing import Any

from errors import Refused

KEYS = ("TOKEN_KEY", "SHARE_KEY", "SLOT_KEY", "PASSWORD_KEY", "LINK_KEY", "ARCHIVE_KEY")
"""Given to the processes as HONGBAO_<name>. A variable of that name in our environment has precedence over the file."""


class Secrets:
    """The keys of the processes and the passwords of the databases, in `path`."""

    def __init__(self, path: Path, content: dict[str, Any]) -> None:
        self._path = path
        self._content = content

    @property
    def path(self) -> Path:
        """The file."""
        return self._path

    @classmethod
    def load(cls, path: Path) -> "Secrets":
        """Read the file, if there is one; nothing is written. Raises Refused `secrets_unreadable`."""
        try:
            content = json.loads(path.read_text(encoding="utf-8"))
        except FileNotFoundError:
            content = {}
        except (OSError, ValueError) as error:
            raise Refused("secrets_unreadable", f"cannot read {path}: {error}") from error
        return cls(path, content)

    def ensure(self, databases: dict[str, tuple[str, ...]]) -> None:
        """Generate missing keys, and a missing password for each role of each database server; durable on return."""
        before = json.dumps(self._content)
        keys = self._content.setdefault("keys", {})
        for name in KEYS:
            keys.setdefault(name, secrets.token_hex(32))
        for server, roles in databases.items():
            passwords = self._content.setdefault("postgres", {}).setdefault(server, {})
            for role in roles:
                passwords.setdefault(role, secrets.token_hex(24))
        if json.dumps(self._content) != before:
            write_private(self._path, self._content)

    def has(self, server: str) -> bool:
        """Say whether the keys, and passwords of this database server, were generated or read."""
        return bool(self._content.get("keys")) and server in self._content.get("postgres", {})

    def key(self, name: str) -> str:
        """Return a key; raises Refused `no_key` if neither the environment nor the file has it."""
        value = os.environ.get(f"HONGBAO_{name}") or self._content.get("keys", {}).get(name)
        if not value:
            raise Refused("no_key", f"no {name} in {self._path} yet; start hongbao once, or set HONGBAO_{name}")
        return str(value)

    def environment(self) -> dict[str, str]:
        """Return all keys as environment variables."""
        return {f"HONGBAO_{name}": self.key(name) for name in KEYS}

    def passwords(self, server: str) -> dict[str, str]:
        """Return one database server's passwords by role."""
        return dict(self._content["postgres"][server])


def write_private(path: Path, content: dict[str, Any]) -> None:
    """Replace `path` by `content` as JSON in one step, 0600; durable when this returns."""
    aside = path.with_name(f"{path.name}.new")
    aside.unlink(missing_ok=True)
    with open(os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as file:  # noqa: PTH123 - with a mode
        json.dump(content, file, indent=1)
        file.write("\n")
        file.flush()
        os.fsync(file.fileno())
    aside.replace(path)
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
