"""Keys of links: who may call whom. A key has a path, and opens its path and everything below it, nothing else.

The paths: `gateway/SERVER` calls that server as a gateway, `operator/SERVER` as an operator, `setnode/SET/wallet` calls
the wallet as that SET. The key of a path is derived from the key of the path above it, never the other way:

- a gateway has `gateway`, from which it makes the key for any server; a server has only its own `gateway/SERVER`, so a
  server that fell into wrong hands cannot pose as a gateway at another one;
- a setnode has `setnode/SET`; the wallet has `setnode`, so it knows a new SET without a restart;
- `secrets.json` has the root, from which the runner derives all of them; no process has it.

A key is written `PATH:HEX`, 256 bits. Standard HMAC-SHA-256 derives and proves (`wire.handshake`).
"""

import hmac
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

from errors import Refused
from sharding.limits import NAME

GATEWAY: Final = "gateway"
SETNODE: Final = "setnode"
OPERATOR: Final = "operator"
WALLET: Final = "wallet"
"""The name of the one server that is no setnode."""

PATH: Final = re.compile(rf"(?:{GATEWAY}|{SETNODE}|{OPERATOR})(?:/{NAME}){{0,2}}", re.ASCII)
_TEXT = re.compile(rf"({PATH.pattern}):([0-9a-f]{{64}})", re.ASCII)


@dataclass(frozen=True)
class LinkKey:
    """The key of one path."""

    path: str
    secret: bytes = field(repr=False)

    @property
    def role(self) -> str:
        """GATEWAY, SETNODE or OPERATOR."""
        return self.path.partition("/")[0]

    @property
    def text(self) -> str:
        """The key as a setting."""
        return f"{self.path}:{self.secret.hex()}"

    def below(self, name: str) -> "LinkKey":
        """Return the key of the path one step below; raises Refused `settings_invalid` for a name that is none."""
        path = f"{self.path}/{name}"
        if not PATH.fullmatch(path):
            raise Refused(
                "settings_invalid", f"{path!r} is no path of a key: a name has letters, digits, '.', '_', '-'"
            )
        return LinkKey(path, _derive(self.secret, name))


def root_key(secret: str, role: str, *names: str) -> LinkKey:
    """Return a key of the installation with this root secret."""
    key = LinkKey(role, _derive(secret.encode(), role))
    for name in names:
        key = key.below(name)
    return key


def caller_key(setting: str, path: str) -> LinkKey:
    """Return the key with which a process calls others; raises Refused `settings_invalid` if it is not that of `path`.

    A key of another role is refused at the start, not at the first call.
    """
    key = read_key("HONGBAO_LINK_KEY", setting)
    if key.path != path:
        raise Refused(
            "settings_invalid",
            f"HONGBAO_LINK_KEY is the key of {key.path}, and this process is {path}; give it its own",
        )
    return key


class Accepted:
    """The keys with which the server `name` recognizes its callers."""

    def __init__(self, name: str, keys: Iterable[LinkKey]) -> None:
        self.name = name
        self._keys = {key.path: key for key in keys}

    def key_of(self, path: str) -> LinkKey | None:
        """Return the key that a caller of this path must have; None if it is not for this server, or not known here."""
        steps = path.split("/")
        if steps[-1] != self.name or not PATH.fullmatch(path):
            return None
        for length in range(1, len(steps) + 1):
            key = self._keys.get("/".join(steps[:length]))
            if key is not None:
                for name in steps[length:]:
                    key = key.below(name)
                return key
        return None


def accepted_keys(setting: str, name: str, roles: Iterable[str]) -> Accepted:
    """Return the callers of the server `name` from its setting: keys of `roles`, each once, with spaces between.

    Raises Refused `settings_invalid` if one is missing, malformed, of another role, or for another server.
    """
    wanted = set(roles)
    keys = [read_key("HONGBAO_ACCEPT_KEYS", text) for text in setting.split()]
    for key in keys:
        # The wallet has the key of all SETs, from which it derives that of each.
        fits = key.path == SETNODE if key.role == SETNODE else key.path == f"{key.role}/{name}"
        if key.role not in wanted or not fits:
            raise Refused(
                "settings_invalid", f"HONGBAO_ACCEPT_KEYS has the key of {key.path}, which is none for {name}"
            )
    missing = wanted - {key.role for key in keys}
    if missing or len(keys) != len(wanted):
        raise Refused(
            "settings_invalid",
            f"HONGBAO_ACCEPT_KEYS needs one key each of {', '.join(sorted(wanted))}, PATH:HEX, with spaces between",
        )
    return Accepted(name, keys)


def read_key(setting: str, text: str) -> LinkKey:
    """Return the key that a setting has, PATH:HEX; raises Refused `settings_invalid`."""
    found = _TEXT.fullmatch(text)
    if found is None:
        # Never the text itself: it may be most of a key.
        raise Refused(
            "settings_invalid", f"{setting} is not PATH:HEX with 64 digits; make it anew from the root secret"
        )
    return LinkKey(found[1], bytes.fromhex(found[2]))


def _derive(secret: bytes, name: str) -> bytes:
    return hmac.digest(secret, b"hongbao link key\0" + name.encode(), "sha256")
