"""The metrics: what each process counts, from the definitions in the code."""

import importlib
import re
from pathlib import Path
from typing import Final

from handbook.markdown import code, sections, table, text
from runtime import metrics as registry

ROOMS: Final = {
    "gateway": "A gateway",
    "setnode": "A setnode",
    "wallet": "The wallet",
    "rotation": "`./run rotate --daemon`",
    "events": "The process that delivers events",
    "wire": "Every process with links to others",
    "sharding": "Every process that reads the topology",
    "switches": "Gateways and setnodes",
    "schema": "Every process that makes day tables",
    "runtime": "Every process",
}
"""Rooms that define metrics, and which processes have them."""
_DEFINES: Final = re.compile(r"\bmetrics\.(?:counter|gauge|seconds|sizes)\(")


def metrics() -> str:
    """Return a table for each room that counts something."""
    rooms = definitions()
    return sections(
        part
        for room, where in ROOMS.items()
        for part in (
            f"## {where}",
            table(
                ("metric", "kind", "labels", "meaning"),
                (
                    (code(one.name), one.kind, ", ".join(map(code, one.labels)), text(one.text))
                    for one in sorted(rooms[room])
                ),
            ),
        )
    )


def definitions() -> dict[str, list[registry.Definition]]:
    """Import every module that defines metrics, and return the definitions by room."""
    sources: dict[str, str] = {}
    for room in ROOMS:
        folder = Path(importlib.import_module(room).__path__[0])
        files = {path: path.read_text(encoding="utf-8") for path in sorted(folder.rglob("*.py"))}
        for path, source in files.items():
            if _DEFINES.search(source):
                importlib.import_module(".".join((room, *path.relative_to(folder).with_suffix("").parts)))
        sources[room] = "".join(files.values())
    rooms: dict[str, list[registry.Definition]] = {room: [] for room in ROOMS}
    for one in registry.DEFINED:
        for room, source in sources.items():
            if f'"{one.name}"' in source:
                rooms[room].append(one)
                break
        else:
            raise LookupError(f"no room of {', '.join(ROOMS)} defines {one.name}")
    return rooms
