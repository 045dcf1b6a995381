"""The inventory of an installation: one file, `installation.toml`, 0600, that every command and process goes by.

`./run` writes one for its own stack; for many hosts an operator writes it (docs/reference/installation.md). It stays
when nothing runs. Paths in it are relative to its folder. A DSN, or a key, is text, or says where its text is: in an
environment variable, or in a file. A DSN without a password gets that of its role from the file of secrets.
"""

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import msgspec
import tomlkit

from errors import Refused
from installation import earlier_form
from installation.inventory_check import check_inventory, invalid
from installation.reference import Reference
from objectstore.address import is_address
from runtime.files import replace_private

FORM: Final = 1
"""The number of the form of the file, `version` in it. It rises when a release before could misread a file."""
DEFAULT_NAME: Final = "installation.toml"
_HEADER = """\
What is installed, and where: hongbao's commands and processes find each other by this file.
`./run` writes it anew at each start and keeps [keys]; every field: docs/reference/installation.md
"""


class Cluster(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """One Postgres cluster, alone or with its standbys: a DSN for each role, the identifier that initdb gave it."""

    dsns: dict[str, str | Reference]
    system_identifier: str = ""


class Setnode(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """One setnode server: its SET, where others reach it, and the memcached of its host ("": the installation's)."""

    set: str
    url: str
    memcached: str = ""


class Inventory(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """`clusters`: Postgres by SET name, and "wallet". `setnodes`, `gateways`: by name; a gateway is its URL.

    `topology`, `archive`, `secrets`: paths; `backups`: where `hongbao backup` keeps them unless told otherwise, "" if
    nowhere; `archive` and `backups` also `s3://bucket/prefix`. `ops_url`: where the operator's view is served,
    `events_url`, `rotation_url`: where the process that delivers events, and the one that rotates days, have their
    probes; "" if nowhere. `keys`: where keys are that the file of secrets does not have, by their names
    (`installation.keys.KEYS`).

    `runner`: whether `./run` starts all of it, on this machine, clusters included. `sandbox`: whether its clock can be
    moved; the clock lies beside this file (`installation.sandbox`). `archive_key`
    is the fingerprint of the key with which the servers verify the archive ("" if unknown).
    """

    version: int = FORM
    wallet_url: str
    memcached: str
    topology: str
    archive: str
    secrets: str
    backups: str = ""
    archive_key: str = ""
    ops_url: str = ""
    events_url: str = ""
    rotation_url: str = ""
    runner: bool = False
    sandbox: bool = False
    gateways: dict[str, str]
    setnodes: dict[str, Setnode] = {}
    clusters: dict[str, Cluster]
    keys: dict[str, Reference] = {}

    @property
    def gateway_urls(self) -> list[str]:
        """All addresses at which clients find gateways."""
        return list(self.gateways.values())

    def save(self, path: Path) -> None:
        """Replace the file in one step; durable when this returns. Raises Refused `inventory_invalid`."""
        check_inventory(self, path)
        document = tomlkit.document()
        for line in _HEADER.splitlines():
            document.add(tomlkit.comment(line))
        document.update({"version": self.version, **_relative(msgspec.to_builtins(self), path.parent)})
        replace_private(path, tomlkit.dumps(document).encode())
        earlier_form.beside(path).unlink(missing_ok=True)


def is_there(path: Path) -> bool:
    """Say whether there is an inventory at `path`, in this form or that of releases before."""
    return path.exists() or earlier_form.beside(path).exists()


def load(path: Path) -> Inventory:
    """Return an inventory with absolute paths.

    Raises Refused `not_installed` if there is none, `inventory_unreadable` if it is damaged, `inventory_invalid` with
    the field in the sentence.
    """
    try:
        content = _read(path)
    except FileNotFoundError:
        raise Refused(
            "not_installed",
            f"nothing is installed in {path.parent} yet; start it once with ./run, or write {path.name} there for many "
            "hosts with hongbao installation init",
        ) from None
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError, msgspec.DecodeError) as error:
        raise Refused("inventory_unreadable", f"cannot read {path}: {error}") from error
    form = content.get("version", FORM)
    if form != FORM:
        raise invalid(path, "version", f"is {form!r}, and this release reads {FORM}: run the release that wrote it")
    try:
        found = msgspec.convert(content, Inventory)
    except msgspec.ValidationError as error:
        raise Refused("inventory_invalid", f"{path}: {error}") from error
    check_inventory(found, path)
    folder = path.absolute().parent
    places = {name: _absolute(getattr(found, name), folder) for name in ("topology", "archive", "secrets", "backups")}
    return msgspec.structs.replace(found, **places)


def _read(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return earlier_form.read(earlier_form.beside(path))


def _absolute(place: str, folder: Path) -> str:
    return place if is_address(place) or not place else str(folder / place)


def _relative(content: Mapping[str, Any], folder: Path) -> dict[str, Any]:
    """Return the content with paths below `folder` relative to it: they hold where the folder is brought to."""
    inside = {
        name: str(Path(content[name]).relative_to(folder.absolute()))
        for name in ("topology", "archive", "secrets", "backups")
        if content.get(name) and Path(content[name]).is_relative_to(folder.absolute())
    }
    return {**content, **inside}
