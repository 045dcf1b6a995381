"""What an inventory must fulfil before anything goes by it: a ladder of checks, each of which names the wrong field."""

import re
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

from errors import Refused
from installation.inventory.spec import Inventory
from installation.keys import KEYS
from runtime.dsn import place, wrong_dsn
from sharding.limits import NAME
from sharding.topology.check import wrong_memcached, wrong_server, wrong_url

_is_name = re.compile(NAME, re.ASCII).fullmatch
WALLET = "wallet"


def invalid(path: Path, field: str, sentence: str) -> Refused:
    """Return the refusal of an inventory whose `field` is wrong."""
    return Refused("inventory_invalid", f"{path}: {field} {sentence}")


def check_inventory(inventory: Inventory, path: Path) -> None:
    """Raise Refused `inventory_invalid`, with a sentence that names the file and the field, if anything is wrong."""
    for field, sentence in _faults(inventory):
        raise invalid(path, field, sentence)


def _faults(inventory: Inventory) -> Iterator[tuple[str, str]]:
    yield from _names(inventory)
    yield from _addresses(inventory)
    for name, one in inventory.setnodes.items():
        if wrong := wrong_server(name):
            yield "setnodes", f"has a name that no setnode may have: {wrong}"
        if one.set not in inventory.clusters or one.set == WALLET:
            yield f"setnodes.{name}.set", f"is {one.set!r}, and clusters has no SET of that name"
    yield from _references(inventory)
    led_to: dict[str, str] = {}
    for name, cluster in inventory.clusters.items():
        for role, dsn in cluster.dsns.items():
            if isinstance(dsn, str):
                other = led_to.setdefault(f"{place(dsn)}{urlsplit(dsn).path}", name)
                if other != name:
                    yield f"clusters.{name}.dsns.{role}", f"leads to the database of {other}: each has one of its own"


def _names(inventory: Inventory) -> Iterator[tuple[str, str]]:
    for table in ("gateways", "setnodes", "clusters"):
        for name in getattr(inventory, table):
            if not _is_name(name):
                yield table, f"has {name!r}, which is no name: 1 to 64 letters, digits or '.', '_', '-'"
    for name in inventory.keys:
        if name not in KEYS:
            yield "keys", f"has {name!r}, and there is no such key; there are {', '.join(KEYS)}"


def _addresses(inventory: Inventory) -> Iterator[tuple[str, str]]:
    urls = {name: getattr(inventory, name) for name in ("wallet_url", "ops_url", "events_url", "rotation_url")}
    urls |= {f"setnodes.{name}.url": one.url for name, one in inventory.setnodes.items()}
    seen: dict[str, str] = {}
    for field, url in urls.items():
        if not url:
            continue
        if wrong := wrong_url(url):
            yield field, wrong
        other = seen.setdefault(url, field)
        if other != field:
            yield field, f"is {url}, which is {other}, too: each process has an address of its own"
    for name, url in inventory.gateways.items():
        if wrong := wrong_url(url):
            yield f"gateways.{name}", wrong
    memcached = {"memcached": inventory.memcached}
    memcached |= {f"setnodes.{name}.memcached": one.memcached for name, one in inventory.setnodes.items()}
    for field, address in memcached.items():
        if address and (wrong := wrong_memcached(address)):
            yield field, wrong


def _references(inventory: Inventory) -> Iterator[tuple[str, str]]:
    named = {f"keys.{name}": one for name, one in inventory.keys.items()}
    for server, cluster in inventory.clusters.items():
        for role, dsn in cluster.dsns.items():
            if isinstance(dsn, str):
                if not dsn.startswith(("postgresql://", "postgres://")):
                    yield f"clusters.{server}.dsns.{role}", "is no DSN: it begins with postgresql://"
                if wrong := wrong_dsn(dsn):
                    yield f"clusters.{server}.dsns.{role}", wrong
            else:
                named[f"clusters.{server}.dsns.{role}"] = dsn
    for field, one in named.items():
        if bool(one.env) == bool(one.file):
            yield field, "says either env or file, where its text is"
        elif one.file and not Path(one.file).is_absolute():
            yield field, f"names {one.file!r}, and a secret's file has an absolute path"
