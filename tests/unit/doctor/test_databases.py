"""What is said of a database that answers."""

from doctor.databases import Database, judge
from doctor.finding import Level
from schema.migrate import Difference

WELL = Database("set-1", {}, "7", "7", "set-1", Difference([], [], []))


def levels(one: Database) -> list[tuple[Level, str]]:
    return [(finding.level, finding.do) for finding in judge(one)]


def test_one_as_it_should_be_says_nothing() -> None:
    """Every role logs in, the identity is the known one, the schema is this release's."""
    assert levels(WELL) == []


def test_each_thing_that_is_wrong_says_what_to_do() -> None:
    """A role, another cluster, an edited or older schema are wrong; a newer one is a note."""
    assert levels(WELL._replace(refused={"hongbao_events": "no such role"}))[0][0] is Level.WRONG
    assert levels(WELL._replace(identity="8"))[0][0] is Level.WRONG
    assert "clusters.set-1" in levels(WELL._replace(belongs_to="set-2"))[0][1]
    assert "./run migrate" in levels(WELL._replace(schema=Difference(["0012_x"], [], [])))[0][1]
    assert levels(WELL._replace(schema=Difference([], ["0099_x"], [])))[0][0] is Level.NOTE
    assert levels(WELL._replace(schema=Difference([], [], ["0001_core"])))[0][0] is Level.WRONG


def test_an_identity_that_is_not_known_is_not_compared() -> None:
    """An installation file written by hand may lack it."""
    assert levels(WELL._replace(expected="")) == []
