"""The index: HTML with the names of this version's files, and the policy that lets it load these and nothing else."""

import json
import posixpath
import re
from base64 import b64encode
from collections.abc import Mapping, Sequence
from hashlib import sha256
from html import escape
from typing import Final

from errors import InvariantBroken, Refused
from gateway.site.files import File

ASSETS: Final = "assets/"
_BARE: Final = {
    "preact": "vendor/preact.mjs",
    "preact/hooks": "vendor/hooks.mjs",
    "htm": "vendor/htm.mjs",
    "lean-qr": "vendor/lean-qr.mjs",
}
"""Packages that modules import by name, and where they are."""
_REFERENCE: Final = re.compile(rf'((?:href|src)="{ASSETS})([^"]+)"')
_IMPORT: Final = re.compile(r"""^(?:import\b[^;"']*?|export\b[^;"']*?\bfrom\s*)["']([^"']+)["']""", re.MULTILINE)
"""What a module imports before it runs, as its source has it at the beginning of a line."""
_ORIGIN: Final = re.compile(r"https?://[a-z0-9.-]+(?::[0-9]{1,5})?", re.ASCII)


def read_origins(name: str, text: str) -> tuple[str, ...]:
    """Return the origins of a setting, written with commas between; raises Refused `settings_invalid`."""
    origins = tuple(one.strip() for one in text.split(",") if one.strip())
    for one in origins:
        if _ORIGIN.fullmatch(one) is None:
            raise Refused("settings_invalid", f"{name}: {one!r} is not an origin such as https://app.example")
    return origins


def import_map(files: Mapping[str, File]) -> str:
    """Return the import map: from the names in the sources to this version's files, relative to the page's base."""
    imports = {name: f"./{ASSETS}{files[path].hashed}" for name, path in _BARE.items()}
    # A relative import is resolved against its module's URL first, which ends at the plain name.
    imports |= {f"./{ASSETS}{one.name}": f"./{ASSETS}{one.hashed}" for one in files.values() if one.name[-4:] != ".css"}
    return json.dumps({"imports": imports}, separators=(",", ":"))


def needed(files: Mapping[str, File], *names: str) -> list[str]:
    """Return the modules of these names and all that they import before they run.

    Raises InvariantBroken `site_incomplete` if one imports what is not there.
    """
    found: list[str] = []
    for name in names:
        _need(files, name, found)
    return found


def _need(files: Mapping[str, File], name: str, found: list[str]) -> None:
    if name in found:
        return
    found.append(name)
    for target in _IMPORT.findall(_named(files, name).body.decode()):
        _need(files, _BARE.get(target) or posixpath.normpath(posixpath.join(posixpath.dirname(name), target)), found)


def render(
    template: str,
    files: Mapping[str, File],
    base: str,
    parents: Sequence[str],
    modules: Sequence[str],
    *,
    sandbox: bool = False,
) -> str:
    """Return the index for a page whose files are below `base`, framed by `parents` at most.

    A browser asks for `modules` and all that they import at once: it would find them one after the other. In a
    `sandbox` the page shows and follows its clock. Raises
    InvariantBroken `site_incomplete` if the index names a file that is not there.
    """
    preloads = "\n".join(f'<link rel="modulepreload" href="{ASSETS}{name}">' for name in needed(files, *modules))
    page = template
    for mark, text in {
        "{base}": base,
        "{parents}": escape(" ".join(parents)),
        "{sandbox}": "yes" if sandbox else "no",
        "{importmap}": import_map(files),
        "{preloads}": preloads,
    }.items():
        if page.count(mark) != 1:
            raise InvariantBroken("site_incomplete", f"the index must have {mark} once")
        page = page.replace(mark, text)
    return _REFERENCE.sub(lambda found: f'{found[1]}{_named(files, found[2]).hashed}"', page)


def policy(files: Mapping[str, File], parents: Sequence[str]) -> str:
    """Return the Content-Security-Policy of the page. No eval, no style or script in the markup but the import map."""
    digest = b64encode(sha256(import_map(files).encode()).digest()).decode()
    return "; ".join(
        (
            "default-src 'none'",
            f"script-src 'self' 'sha256-{digest}'",
            "style-src 'self'",
            # A sender's own cover is a data: URL, kept in their browser.
            "img-src 'self' data:",
            "connect-src 'self'",
            "base-uri 'self'",
            "form-action 'none'",
            f"frame-ancestors {' '.join(parents) or chr(39) + 'none' + chr(39)}",
        )
    )


def _named(files: Mapping[str, File], name: str) -> File:
    if name not in files:
        raise InvariantBroken("site_incomplete", f"the index names {name}, which is not in web/")
    return files[name]
