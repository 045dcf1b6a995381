"""The inventory as a file: read, checked, written in one step."""

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import msgspec
import tomlkit

from errors import Refused
from installation.inventory import earlier_form
from installation.inventory.check import check_inventory, invalid
from installation.inventory.spec import FORM, Inventory
from objectstore.address import is_address
from runtime.files import replace_private
from runtime.wording import ELSEWHERE

DEFAULT_NAME: Final = "installation.toml"
_HEADER = """\
What is installed, and where: hongbao's commands and processes find each other by this file.
`./run` writes it anew at each start and keeps [keys]; every field: docs/reference/installation.md
"""


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
            f"nothing is installed in {path.parent} yet; start it with ./run, or {ELSEWHERE} (for many hosts: ./run "
            "installation init)",
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


def save(made: Inventory, path: Path) -> None:
    """Replace the file in one step; durable when this returns. Raises Refused `inventory_invalid`."""
    check_inventory(made, path)
    document = tomlkit.document()
    for line in _HEADER.splitlines():
        document.add(tomlkit.comment(line))
    document.update({"version": made.version, **_relative(msgspec.to_builtins(made), path.parent)})
    replace_private(path, tomlkit.dumps(document).encode())
    earlier_form.beside(path).unlink(missing_ok=True)


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
