"""The secrets of one data folder: generated once, kept in one file that only its owner can read."""

import json
import os
import secrets
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from errors import Refused
from installation.reference import Reference
from runtime.files import write_private
from runtime.wording import ELSEWHERE
from wire.keys import GATEWAY, OPERATOR, SETNODE, WALLET, LinkKey, read_key, root_key

KEYS = (
    "TOKEN_KEY", "SHARE_KEY", "SLOT_KEY", "PASSWORD_KEY", "LINK_SECRET", "ARCHIVE_KEY", "METRICS_KEY",
    "OPS_KEY", "OPS_VIEW_KEY",
)  # fmt: skip
"""A variable HONGBAO_<name> in our environment, or the file that HONGBAO_<name>_FILE names, has precedence over
`secrets.json`; so has what the inventory's `keys` names.

LINK_SECRET is given to no process but `ops`, and to that only if no file has it: the key of each is derived from it
(`wire.keys`).
"""
OPS = "ops"
"""The kind of the process that serves the operator's view. It calls parts as an operator, with what the file has."""
EVENTS = "events"
"""The kind of the process that delivers events. It has no key of ours: what it reads and calls is in the SETs."""
USES: Mapping[str, tuple[str, ...]] = {
    GATEWAY: ("TOKEN_KEY", "SHARE_KEY", "SLOT_KEY", "METRICS_KEY"),
    SETNODE: ("PASSWORD_KEY", "ARCHIVE_KEY"),
    WALLET: (),
    OPS: ("METRICS_KEY", "OPS_KEY", "OPS_VIEW_KEY"),
    EVENTS: (),
}
"""By kind of process, the keys that it gets as HONGBAO_<name>; it gets no others."""
SECRET = frozenset({f"HONGBAO_{name}" for name in (*KEYS, "LINK_KEY", "ACCEPT_KEYS", "POSTGRES_DSN", "SET_DSNS")})
"""Variables that a process does not inherit from the shell or the runner that starts it."""
REPLACED = ("LINK_KEY",)
"""Keys of earlier releases that open nothing any more: every process knew it, and sent it to any listener."""
REPLACEABLE = ("LINK_SECRET", "METRICS_KEY", "OPS_KEY", "OPS_VIEW_KEY")
"""Keys that protect nothing that is stored, and came after the first release: made anew wherever they are missing."""
BEYOND_ADD = frozenset({"METRICS_KEY", "OPS_KEY", "OPS_VIEW_KEY"})
"""Keys without which a SET may be added: they open no process and no stored data."""
LINKS = "links"
"""In a host's file alone, with the link keys of its processes in place of LINK_SECRET (`installation.host_files`)."""
SHORTEST_OF = {"TOKEN_KEY": 32}
"""Of those for which the processes ask for more than SHORTEST."""
SHORTEST = 16
"""Characters of a key that an operator gives in the environment; ours have 64. A process may ask for more."""


class Secrets:
    """The keys of the processes and the passwords of the databases, in `path`; `elsewhere`: where other keys are."""

    def __init__(self, path: Path, content: dict[str, Any], elsewhere: Mapping[str, Reference] | None = None) -> None:
        self._path = path
        self._content = content
        self._elsewhere = elsewhere or {}

    @property
    def path(self) -> Path:
        """The file."""
        return self._path

    @property
    def content(self) -> Mapping[str, Any]:
        """All that the file has."""
        return self._content

    @classmethod
    def load(cls, path: Path, elsewhere: Mapping[str, Reference] | None = None) -> "Secrets":
        """Read the file, if there is one; nothing is written. Raises Refused `secrets_unreadable`."""
        try:
            content = json.loads(path.read_text(encoding="utf-8"))
        except FileNotFoundError:
            content = {}
        except (OSError, ValueError) as error:
            raise Refused("secrets_unreadable", f"cannot read {path}: {error}") from error
        return cls(path, content, elsewhere)

    def ensure(self, databases: dict[str, tuple[str, ...]]) -> None:
        """Generate missing keys, and a missing password for each role of each database server; durable on return.

        A key that the environment gives is not generated: another one in the file would silently take its place at
        the first start without the variable. Raises Refused `file_of_a_host`.
        """
        self.refuse_a_host()
        before = json.dumps(self._content)
        keys = self._content.setdefault("keys", {})
        for name in REPLACED:
            keys.pop(name, None)
        for name in KEYS:
            if not self._given(name):
                keys.setdefault(name, secrets.token_hex(32))
        for server, roles in databases.items():
            self._make_passwords(server, roles)
        if json.dumps(self._content) != before:
            write_private(self._path, self._content)

    def add_passwords(self, server: str, roles: Iterable[str]) -> None:
        """Generate a password for each role of one more database server; durable on return. No key is made.

        Raises Refused `file_of_a_host`, or `keys_missing`: what is written here for hosts would not have the keys of
        the processes that run.
        """
        self.refuse_a_host()
        missing = [name for name in KEYS if name not in BEYOND_ADD and not self._has(name)]
        if missing:
            text = (
                f"{self._path} lacks {', '.join(missing)}; bring back the whole file of the installation, or give them"
            )
            raise Refused("keys_missing", f"{text} as its start was given them: HONGBAO_{missing[0]} …")
        self._make_passwords(server, roles)
        write_private(self._path, self._content)

    def refuse_a_host(self) -> None:
        """Raise Refused `file_of_a_host` if the file has the secrets of one host's processes alone."""
        if LINKS in self._content:
            text = f"{self._path} has the secrets of one host's processes alone"
            raise Refused("file_of_a_host", f"{text}; give the command in the installation's own folder")

    def _make_passwords(self, server: str, roles: Iterable[str]) -> None:
        passwords = self._content.setdefault("postgres", {}).setdefault(server, {})
        for role in roles:
            passwords.setdefault(role, secrets.token_hex(24))

    def renew_key(self, name: str, *, aside: str) -> Path:
        """Make a key anew; returns the file as it was, `secrets-ASIDE.json` beside it. Durable on return.

        Raises Refused `key_elsewhere` if the file does not have it, `file_of_a_host`.
        """
        self.refuse_a_host()
        if self._given(name) or not self._content.get("keys", {}).get(name):
            text = f"{name} is not in {self._path}: replace it where the environment or the installation file says"
            raise Refused("key_elsewhere", text)
        kept = self._keep(aside)
        self._content["keys"][name] = secrets.token_hex(32)
        write_private(self._path, self._content)
        return kept

    def renew_passwords(self, server: str, *, leave: str, aside: str) -> Path:
        """Make the passwords of a database server anew but for the role `leave`; returns as `renew_key`.

        Raises Refused `unknown_set`, `file_of_a_host`.
        """
        self.refuse_a_host()
        if not self.has_passwords(server):
            known = ", ".join(self._content.get("postgres", {}))
            raise Refused("unknown_set", f"{self._path} has no passwords of {server!r}; it has those of {known}")
        kept = self._keep(aside)
        passwords = self._content["postgres"][server]
        self._content["postgres"][server] = {
            role: word if role == leave else secrets.token_hex(24) for role, word in passwords.items()
        }
        write_private(self._path, self._content)
        return kept

    def _keep(self, aside: str) -> Path:
        kept = self._path.with_name(f"{self._path.stem}-{aside}.json")
        write_private(kept, self._content)
        return kept

    def has_passwords(self, server: str) -> bool:
        """Say whether the passwords of this database server were generated or read."""
        return server in self._content.get("postgres", {})

    def lost_keys(self) -> list[str]:
        """Return the keys that neither the environment nor the file has and that cannot be replaced by others."""
        return [name for name in KEYS if name not in REPLACEABLE and not self._has(name)]

    def is_key(self, name: str, text: str) -> bool:
        """Say whether the key is this text, here or where else the installation has it."""
        return text in (self._given(name), self._content.get("keys", {}).get(name))

    def _has(self, name: str) -> bool:
        return bool(self._given(name) or self._content.get("keys", {}).get(name))

    def replaced(self) -> list[str]:
        """Return the keys of which the environment gives another one than the file has."""
        keys = self._content.get("keys", {})
        return [name for name in KEYS if (given := self._given(name)) and keys.get(name) not in (None, "", given)]

    def key(self, name: str) -> str:
        """Return a key; raises Refused `no_key` if neither the environment nor a file has it, `secret_missing`."""
        value = self._given(name) or self._content.get("keys", {}).get(name)
        if not value:
            text = f"no {name} in {self._path} yet; start it once with ./run, or {ELSEWHERE}; or set HONGBAO_{name}"
            raise Refused("no_key", text)
        least = SHORTEST_OF.get(name, SHORTEST)
        if len(value) < least:
            raise Refused(
                "key_weak", f"HONGBAO_{name} must have at least {least} characters; 64 random digits are good"
            )
        return str(value)

    def link_key(self, role: str, *names: str) -> LinkKey:
        """Return the key of a path (`wire.keys`): `link_key("setnode", "set-1")`; raises Refused `no_key`.

        A host that has not the root has keys of its processes' paths alone (`installation.host_files`).
        """
        links: Mapping[str, str] = self._content.get(LINKS, {})
        steps = (role, *names)
        for length in range(1, len(steps) + 1):
            if (text := links.get("/".join(steps[:length]))) is not None:
                key = read_key(self._path.name, text)
                for name in steps[length:]:
                    key = key.below(name)
                return key
        return root_key(self.key("LINK_SECRET"), role, *names)

    def environment(self, kind: str, name: str, set_name: str = "") -> dict[str, str]:
        """Return the keys that a process gets as environment variables, nothing else.

        `kind` is one of USES, `name` the server's, `set_name` its SET if it is a setnode.
        """
        env = {f"HONGBAO_{one}": self.key(one) for one in USES[kind]}
        if kind == EVENTS:
            return env
        if kind == OPS:
            # It reads the others in the file, as commands do: one that was given instead stands in no file.
            given = {f"HONGBAO_{one}": self._given(one) for one in ("ARCHIVE_KEY", "LINK_SECRET")}
            return {**env, **{name: value for name, value in given.items() if value}}
        if kind == GATEWAY:
            return {**env, "HONGBAO_LINK_KEY": self.link_key(GATEWAY).text}
        callers = [self.link_key(role, name) for role in (GATEWAY, OPERATOR)]
        if kind == WALLET:
            callers.append(self.link_key(SETNODE))
        else:
            env["HONGBAO_LINK_KEY"] = self.link_key(SETNODE, set_name).text
        return {**env, "HONGBAO_ACCEPT_KEYS": " ".join(key.text for key in callers)}

    def passwords(self, server: str) -> dict[str, str]:
        """Return one database server's passwords by role."""
        return dict(self._content["postgres"][server])

    def _given(self, name: str) -> str | None:
        """Return a key that is not in our file but in the environment, or where the inventory says; None if neither."""
        variable = f"HONGBAO_{name}"
        if os.environ.get(variable):
            return os.environ[variable]
        file = os.environ.get(f"{variable}_FILE")
        where = Reference(file=file) if file else self._elsewhere.get(name)
        return where.read(name) if where is not None else None
