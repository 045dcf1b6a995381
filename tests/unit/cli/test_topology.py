"""`topology move`: what is refused before anything is looked at."""

from pathlib import Path

import pytest
from click.testing import CliRunner

from cli.table import main


@pytest.mark.parametrize("day", ["9999-12-31", "2092-01-01", "1999-12-31"])
def test_a_move_from_a_date_that_no_envelope_has(tmp_path: Path, day: str) -> None:
    """The sentence says which years envelopes have; there is no traceback."""
    ran = CliRunner().invoke(main, ["topology", "move", "db_07", "--from-date", day, "--data", str(tmp_path)])
    assert (ran.exit_code, "reach from 2010 to 2092" in " ".join(ran.output.split())) == (2, True), ran.output
