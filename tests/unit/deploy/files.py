"""The files of deploy/, read as the tools read them."""

from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).resolve().parents[3]
DEPLOY = ROOT / "deploy"
RULES = DEPLOY / "prometheus" / "rules"


def documents(path: Path) -> list[Any]:
    """Return the documents of a YAML file; empty ones are left out."""
    return [one for one in yaml.safe_load_all(path.read_text(encoding="utf-8")) if one is not None]


def document(path: Path) -> Any:
    """Return the one document of a YAML file."""
    (one,) = documents(path)
    return one


def rule_files() -> list[Path]:
    """Return the files with alarms, without their tests."""
    return [one for one in sorted(RULES.glob("*.yml")) if not one.name.endswith(".test.yml")]


def alarms() -> dict[str, Any]:
    """Return every alarm by its name."""
    found = [rule for path in rule_files() for group in document(path)["groups"] for rule in group["rules"]]
    names = {rule["alert"]: rule for rule in found}
    assert len(names) == len(found)
    return names
