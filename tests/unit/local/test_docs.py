"""What the documents say of the tree: links, file names, floors, commands and the names of checks."""

import re
import tomllib
from pathlib import Path

import pytest

from cli.table import COMMANDS

ROOT = Path(__file__).resolve().parents[3]
PAGES = sorted(
    path.relative_to(ROOT)
    for path in (ROOT / "README.md", ROOT / "ARCHITECTURE.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").rglob("*.md"))
)
ARCHITECTURE = (ROOT / "ARCHITECTURE.md").read_text()
SOURCES = (".py", ".sql", ".md", ".sh", ".toml")
CONTRACT = (ROOT / "docs" / "contract.md").read_text()


@pytest.mark.parametrize("page", PAGES, ids=str)
def test_links_lead_somewhere(page: Path) -> None:
    """Each relative link of a page names a file or folder of the checkout."""
    folder = (ROOT / page).parent
    targets = re.findall(r"\]\(([^)#\s]+)[^)]*\)", (ROOT / page).read_text())
    away = [one for one in targets if "://" not in one and not (folder / one).exists()]
    assert away == []


def test_the_floors_are_those_of_the_linter() -> None:
    """ARCHITECTURE.md has the floors of pyproject's import-linter contract, from the top down."""
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    (layers,) = [one["layers"] for one in contracts if one["name"].startswith("Floors")]
    lines = re.findall(r"^    ([0-9 ]{2}) (\w+)/ ", ARCHITECTURE.partition("## The life")[0], flags=re.MULTILINE)
    floors: list[set[str]] = []
    for number, room in lines:
        if number.strip():
            assert int(number) == len(layers) - 1 - len(floors)
            floors.append(set())
        floors[-1].add(room)
    assert floors == [set(re.split(r"\W+", layer)) for layer in layers]


def test_the_reading_order_names_files() -> None:
    """Each file of the reading order exists."""
    names = re.findall(r"`([\w/]+\.(?:py|sql))`", ARCHITECTURE.partition("## Reading order")[2])
    assert len(names) > 15
    assert [one for one in names if not (ROOT / one).exists()] == []


def test_the_contract_has_every_command() -> None:
    """docs/contract.md says of each command what it prints."""
    commands = CONTRACT.partition("## Commands")[2].partition("## Invariants")[0]
    names = [name for section in COMMANDS.values() for name in section]
    assert [name for name in names if not re.search(rf"`{name}\b", commands)] == []


def test_the_checks_of_the_contract_are_in_the_code() -> None:
    """Each name of a check in docs/contract.md stands in the code or the schema, and each check of the audit in it."""
    invariants = CONTRACT.partition("## Invariants")[2]
    rooms = ("audit", "envelope", "setnode")
    sources = "".join(path.read_text() for room in rooms for path in (ROOT / room).rglob("*.py"))
    schema = (ROOT / "schema/wallet.sql").read_text()
    held = set(re.findall(r"(?:CONSTRAINT|TRIGGER) ([a-z_]+)", schema))
    named = set(re.findall(r"`([a-z]+(?:_[a-z]+)+)`", invariants)) - {"invariant_broken"}
    assert [one for one in sorted(named - held) if f'"{one}"' not in sources] == []
    audit = "".join(path.read_text() for path in (ROOT / "audit").rglob("*.py"))
    checks = set(re.findall(r'report\.add\(\s*"([a-z_]+)"', audit))
    assert len(checks) > 10
    assert checks <= named


def test_nothing_is_cited_that_is_not_here() -> None:
    """No source and no page cites a design that is not in the repository."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())
    folders = [*settings["tool"]["importlinter"]["root_packages"], "docs", "tests", "setup"]
    files = [one for folder in folders for one in (ROOT / folder).rglob("*") if one.suffix in SOURCES]
    files += [one for one in ROOT.iterdir() if one.suffix in SOURCES]
    assert len(files) > 500
    cited = [one for one in files if re.search(r"DESIGN\b|\bsection 6\b", one.read_text()) and one != Path(__file__)]
    assert cited == []
