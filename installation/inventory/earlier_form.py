"""The inventory as earlier releases wrote it, `installation.json`: read until the first start replaces it."""

import json
from pathlib import Path
from typing import Any

import msgspec


def beside(path: Path) -> Path:
    """Return where the earlier form of the inventory `path` is."""
    return path.with_name("installation.json")


def read(path: Path) -> dict[str, Any]:
    """Return the content as one of today; raises FileNotFoundError, OSError, and msgspec.DecodeError if damaged."""
    try:
        content: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        urls = content.pop("gateway_urls")
    except (ValueError, KeyError, AttributeError) as error:
        raise msgspec.DecodeError(f"{path.name}: {error}") from error
    for name in ("topology", "secrets"):
        # Brought to another machine or folder: they lie beside it, not where it says.
        moved = path.with_name(Path(str(content.get(name, ""))).name)
        if not Path(str(content.get(name, ""))).exists() and moved.exists():
            content[name] = str(moved)
    return {**content, "runner": True, "gateways": {f"gateway-{number}": url for number, url in enumerate(urls, 1)}}
