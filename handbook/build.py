"""Runs Sphinx over `docs/`, takes styles and scripts out of its HTML, checks every link, and puts the site in place."""

import contextlib
import io
import re
import shutil
import tempfile
from pathlib import Path
from typing import Final

from sphinx.application import Sphinx
from sphinx.errors import SphinxError

from gateway.site.handbook import FOLDER
from handbook import links, markup

SOURCE: Final = Path(__file__).resolve().parents[1] / "docs"
_COLOUR: Final = re.compile(r"\x1b\[[0-9;]*m")
MARK: Final = ".hongbao-site"
"""A file in every site: only a folder that has it is replaced."""
_LEFTOVERS: Final = (".buildinfo", "objects.inv")


def build(target: Path, source: Path = SOURCE) -> list[str]:
    """Build the site into `target`; returns what is wrong with it, and keeps what stood there if anything is."""
    target = target.resolve()
    if why := _no_place(target, source.resolve()):
        return [why]
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=target.parent, prefix=f".{target.name}-") as aside:
        site = Path(aside, "html")
        problems = _run_sphinx(source, site, Path(aside, "doctrees"))
        if problems:
            return problems
        for name in _LEFTOVERS:
            site.joinpath(name).unlink(missing_ok=True)
        site.joinpath(MARK).touch()
        markup.externalize(site)
        problems = links.broken(site)
        if not problems:
            _put(site, target, Path(aside, "before"))
    return problems


def what_next(target: Path) -> str:
    """Return sentences that say where a site is and how it is read."""
    made = f"made {len(list(target.rglob('*.html')))} pages in {target}"
    if target.resolve() != FOLDER.resolve():
        return (
            f"{made}\nRead them from {target / 'index.html'}, or have a gateway serve them: HONGBAO_DOCS={target} ./run"
        )
    return (
        f"{made}\nA gateway of this checkout serves them at /docs/ from its next start on: ./run restart gateway-1 if\n"
        "one runs, else ./run. Then look at http://127.0.0.1:8080/docs/, or where ./run said that the gateway is."
    )


def _run_sphinx(source: Path, site: Path, doctrees: Path) -> list[str]:
    """Return Sphinx' warnings and its error, if it raised one."""
    said = io.StringIO()
    with contextlib.redirect_stderr(said):
        try:
            app = Sphinx(source, source, site, doctrees, "html", status=None, warning=said, freshenv=True)
            app.build()
        except SphinxError as error:
            return [*_plain(said.getvalue()), str(error)]
    return _plain(said.getvalue())


def _plain(said: str) -> list[str]:
    """Return lines without the colours of a terminal."""
    return _COLOUR.sub("", said).splitlines()


def _no_place(target: Path, source: Path) -> str:
    """Return why the site is not put there; "" if that is a site of ours, an empty folder, or nothing yet."""
    if source.is_relative_to(target) or target.is_relative_to(source):
        return f"{target} holds the sources, or is among them; choose another folder for the site"
    if not target.exists() or (target.is_dir() and ((target / MARK).exists() or not any(target.iterdir()))):
        return ""
    return f"{target} is not empty and not a site of before: nothing there was touched; choose another folder"


def _put(site: Path, target: Path, before: Path) -> None:
    with contextlib.suppress(FileNotFoundError):
        target.rename(before)
    try:
        site.rename(target)
    except OSError:
        if before.exists():
            before.rename(target)
        raise
    shutil.rmtree(before, ignore_errors=True)
