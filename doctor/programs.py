"""What is installed: Python and packages against what this release asks for, Postgres, memcached, what is optional."""

import platform
from collections.abc import Iterator
from importlib import metadata
from typing import NamedTuple

from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet

from doctor.finding import Finding, Level
from doctor.place import Place
from errors import Refused
from machine.account import server_account
from machine.debian_programs import installed_program
from machine.postgres.binaries import installed_binaries

PACKAGE = "hongbao"
_AGAIN = "Remove .venv in the checkout and call ./run, which installs what is locked."


class Optional(NamedTuple):
    """A program that only some commands and tests use. `file`: as in `machine.debian_programs`."""

    name: str
    needed_for: str
    file: str = ""


OPTIONAL = (
    Optional("chromium", "tests in a browser", "usr/lib/chromium/chromium"),
    Optional("node", "tests of the page's modules"),
    Optional("luajit", "loadtest overload"),
    Optional("wrk", "bench"),
    Optional("redis-server", "bench"),
    Optional("nginx", "tests behind a balancer"),
    Optional("haproxy", "tests behind a balancer"),
)


def python(place: Place) -> Iterator[Finding]:
    """Compare the version of Python with the one that is asked for."""
    del place
    version = platform.python_version()
    try:
        asked = metadata.metadata(PACKAGE)["Requires-Python"]
    except metadata.PackageNotFoundError:
        yield Finding("python", Level.WRONG, "Python", f"{PACKAGE} is not installed for this Python {version}.", _AGAIN)
        return
    if SpecifierSet(asked).contains(version, prereleases=True):
        yield Finding("python", Level.OK, "Python", f"Python {version}")
        return
    do = "Name one that fits in HONGBAO_PYTHON, remove .venv in the checkout, and call ./run."
    yield Finding("python", Level.WRONG, "Python", f"Python {version} is not {asked}, which this release needs.", do)


def packages(place: Place) -> Iterator[Finding]:
    """Compare the packages that are installed with those that are asked for."""
    del place
    try:
        asked = [Requirement(text) for text in metadata.requires(PACKAGE) or ()]
    except metadata.PackageNotFoundError:
        return  # `python` says it
    needed = [one for one in asked if one.marker is None or one.marker.evaluate({"extra": ""})]
    wrong = [finding for one in needed if (finding := unfit(one)) is not None]
    yield from wrong
    if not wrong:
        yield Finding("packages", Level.OK, "packages", f"{len(needed)} packages as asked for")


def unfit(asked: Requirement) -> Finding | None:
    """Return what is wrong with one package, None if nothing is."""
    try:
        found = metadata.version(asked.name)
    except metadata.PackageNotFoundError:
        return Finding("packages", Level.WRONG, asked.name, f"The package {asked.name} is not installed.", _AGAIN)
    if asked.specifier.contains(found, prereleases=True):
        return None
    what = f"The package {asked.name} is {found}, and {asked.specifier} is needed."
    return Finding("packages", Level.WRONG, asked.name, what, _AGAIN)


def postgres(place: Place) -> Iterator[Finding]:
    """Say which Postgres a start takes, and whether the account that it runs under may run it."""
    del place
    try:
        found = installed_binaries(server_account())
    except Refused as refused:
        do = "Call ./run, which installs it, or set HONGBAO_PG_BIN to the bin folder of a Postgres."
        yield Finding("postgres", Level.WRONG, "Postgres", f"There is no Postgres to start: {refused.detail}.", do)
    else:
        yield Finding("postgres", Level.OK, "Postgres", f"Postgres {found.major} in {found.folder}")


def memcached(place: Place) -> Iterator[Finding]:
    """Say which memcached a start takes."""
    del place
    if (found := installed_program("memcached")) is not None:
        yield Finding("memcached", Level.OK, "memcached", f"memcached is {found}")
        return
    what = "memcached is not on this machine; ./run tries to fetch it at its start."
    do = "apt-get install memcached, or call ./run once with a network."
    yield Finding("memcached", Level.SOON, "memcached", what, do)


def optional(place: Place) -> Iterator[Finding]:
    """Say which programs are missing that only some commands and tests use."""
    del place
    missing = [one for one in OPTIONAL if installed_program(one.name, file=one.file) is None]
    if not missing:
        yield Finding("optional", Level.OK, "optional programs", ", ".join(one.name for one in OPTIONAL))
        return
    names = ", ".join(f"{one.name} ({one.needed_for})" for one in missing)
    node = " (but for node: apt-get install nodejs)" if any(one.name == "node" for one in missing) else ""
    do = f"Nothing: what uses one fetches it{node}."
    yield Finding("optional", Level.NOTE, "optional programs", f"Not on this machine: {names}.", do)
