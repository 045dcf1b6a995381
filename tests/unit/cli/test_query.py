"""`query --json` is JSON, whatever the query selects."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from cli.table import main


@pytest.mark.parametrize(
    ("sql", "row"),
    [
        ("'nan'::DOUBLE, 'inf'::FLOAT, '-inf'::DOUBLE, 1.5::DOUBLE", ["nan", "inf", "-inf", 1.5]),
        ("['nan'::DOUBLE, 2], {'one': 'inf'::DOUBLE}", [["nan", 2.0], {"one": "inf"}]),
    ],
)
def test_numbers_that_json_does_not_have_are_texts(tmp_path: Path, sql: str, row: list[object]) -> None:
    """Readers of JSON refuse a bare NaN or Infinity."""
    (tmp_path / "archive").mkdir()
    (tmp_path / "secrets.json").write_text(json.dumps({"keys": {"ARCHIVE_KEY": "k" * 64}}))
    ran = CliRunner().invoke(main, ["query", f"SELECT {sql}", "--json", "--data", str(tmp_path)])
    assert ran.exit_code == 0, ran.output

    def refuse(constant: str) -> None:
        pytest.fail(f"{constant} is no JSON")

    assert json.loads(ran.stdout, parse_constant=refuse)["rows"] == [row]
