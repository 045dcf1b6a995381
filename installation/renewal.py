"""Replaces keys and passwords of an installation: those that are old, or that a stranger may know."""

import secrets
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, NamedTuple

from errors import Refused
from installation.access import SUPERUSER
from installation.keys import KEYS, Secrets
from wire.keys import WALLET


class Renewable(NamedTuple):
    """A key that may be replaced: what ends with the old one, and whose folders are to be written again."""

    ends: str
    kinds: tuple[str, ...]


RENEWABLE: Final = {
    "LINK_SECRET": Renewable(
        "no process is answered by another one until both have new keys: restart all of them at once",
        ("gateway", "setnode", "wallet", "operator"),
    ),
    "METRICS_KEY": Renewable("Prometheus is refused by gateways until it has the new one", ("gateway", "operator")),
    "OPS_KEY": Renewable("all sessions at the operator's view", ("operator",)),
    "OPS_VIEW_KEY": Renewable("all sessions at the operator's view that may only look", ("operator",)),
    "TOKEN_KEY": Renewable("all bearer tokens that were signed with it", ("gateway", "operator")),
    "SHARE_KEY": Renewable("all share tokens: links to envelopes that are still open", ("gateway", "operator")),
}
"""By name (docs/security.md); all others protect what is stored, and must stay."""
_LOGINS: Final = "logins with the old passwords, once `hongbao installation prepare` has set the new ones"
PASSWORDS_OF_A_SET: Final = Renewable(_LOGINS, ("setnode", "events", "rotation", "operator"))
PASSWORDS_OF_THE_WALLET: Final = Renewable(_LOGINS, ("wallet", "rotation", "operator"))


def renew(known: Secrets, name: str) -> tuple[Renewable, Path]:
    """Make a new key NAME, or new passwords of `postgres/SERVER`; returns what ends, and the file as it was before.

    Durable on return. Of a server all roles get new passwords but the superuser, whose password is set elsewhere too.
    Raises Refused `key_must_stay`, `unknown_key`, `key_elsewhere`, `unknown_set`, `file_of_a_host`.
    """
    kind, _, server = name.partition("/")
    if kind == "postgres" and server:
        found = PASSWORDS_OF_THE_WALLET if server == WALLET else PASSWORDS_OF_A_SET
        return found, known.renew_passwords(server, leave=SUPERUSER, aside=_aside())
    if name in RENEWABLE:
        return RENEWABLE[name], known.renew_key(name, aside=_aside())
    if name in KEYS:
        text = f"{name} protects what is stored: with another one nothing of before could be read or verified"
        raise Refused("key_must_stay", f"{text} (docs/security.md); nothing was changed")
    raise Refused("unknown_key", f"there is no key {name[:40]!r}; there are {', '.join(RENEWABLE)} and postgres/SERVER")


def _aside() -> str:
    return f"{datetime.now(UTC):%Y%m%dT%H%M%SZ}-{secrets.token_hex(2)}"
