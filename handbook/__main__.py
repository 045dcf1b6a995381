"""`python -m handbook FOLDER` builds the site into FOLDER; `--write` writes the parts from the code into `docs/`."""

import sys
from pathlib import Path

import click

from handbook.build import SOURCE, build, what_next
from handbook.pages import stale

_ARGUMENTS = 2


def _write() -> None:
    written = stale(SOURCE)
    for path, text in written.items():
        path.write_text(text, encoding="utf-8")
        click.echo(f"written: {path.relative_to(SOURCE.parent)}")
    if not written:
        click.echo("every page has what the code says")


def _build(target: Path) -> None:
    if problems := build(target):
        sys.exit("\n".join(problems))
    click.echo(what_next(target))


_WRITE = "--write"
if len(sys.argv) != _ARGUMENTS or (sys.argv[1].startswith("-") and sys.argv[1] != _WRITE):
    sys.exit(f"usage: python -m handbook FOLDER|{_WRITE}")
if sys.argv[1] == _WRITE:
    _write()
else:
    _build(Path(sys.argv[1]))
