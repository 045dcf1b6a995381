"""`./run bench` in several sittings: what was measured stays, what is missing is measured, nothing is mixed."""

import json
from pathlib import Path

import click
import pytest
from rich.console import Console

from loadtest.bench.command import Run, _kept, command
from loadtest.bench.figures import Bench, Figures, Section


class Sections:
    """Sections that note who was measured; those in `dying` do not survive it."""

    def __init__(self, *names: str) -> None:
        self.measured: list[str] = []
        self.dying: set[str] = set()
        self.all = [self._section(name) for name in names]

    def _section(self, name: str) -> Section:
        async def measure(bench: Bench) -> Figures:
            if name in self.dying:
                raise RuntimeError("the machine went away")
            self.measured.append(name)
            bench.audit(name, holds=True)
            return {"of": name}

        return Section(name, name, measure, lambda _: ())


def console() -> Console:
    return Console(quiet=True)


async def test_what_was_measured_outlives_what_fails(tmp_path: Path) -> None:
    """The second sitting measures what the first did not finish, and tells all of it with every audit."""
    file, sections = tmp_path / "all.json", Sections("a", "b", "c")
    sections.dying = {"b"}
    with pytest.raises(RuntimeError):
        await Run(sections.all, True, file).measure(console())
    assert list(json.loads(file.read_text())["sections"]) == ["a"]
    sections.dying = set()
    figures = await Run(sections.all, True, file, _kept(file, quick=True)).measure(console())
    assert sections.measured == ["a", "b", "c"]
    assert figures["sections"] == {name: {"of": name} for name in "abc"}
    assert [one["section"] for one in figures["audits"]] == ["a", "b", "c"]
    assert (figures["sittings"], figures["holds"]) == (2, True)
    assert list(figures["stolen"]) == list(figures["lasted"]) == ["a", "b", "c"]
    assert json.loads(file.read_text()) == figures
    assert [path.name for path in tmp_path.iterdir()] == ["all.json"]


async def test_a_sitting_with_nothing_left_tells_what_is_known(tmp_path: Path) -> None:
    """Everything is there already: nothing is measured, the same figures are told."""
    file, sections = tmp_path / "all.json", Sections("a")
    figures = await Run(sections.all, False, file).measure(console())
    assert await Run(sections.all, False, file, _kept(file, quick=False)).measure(console()) == figures
    assert sections.measured == ["a"]


async def test_what_is_known_is_judged_anew(tmp_path: Path) -> None:
    """A file whose ratios were told by other rules, or left out, has those of today when it is gone on with."""
    file, sections = tmp_path / "all.json", Sections("a")
    figures = await Run(sections.all, False, file).measure(console())
    file.write_text(json.dumps({**figures, "ratios": {"gone": {"value": 1, "bar": 2, "holds": False}}, "holds": False}))
    told = await Run(sections.all, False, file, _kept(file, quick=False)).measure(console())
    assert (told["ratios"], told["holds"]) == ({}, True)


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"quick": true}', '{"quick": true, "machine": {"cores": 0}}'])
def test_what_cannot_be_gone_on_with_is_refused(tmp_path: Path, text: str) -> None:
    """Another machine, another size, or no file of ours: a sentence, and the file stays as it is."""
    file = tmp_path / "all.json"
    file.write_text(text)
    with pytest.raises(click.UsageError):
        _kept(file, quick=True)
    assert file.read_text() == text


async def test_the_size_of_the_run_is_part_of_it(tmp_path: Path) -> None:
    """A quick run's figures never stand among those of a full one."""
    file, sections = tmp_path / "all.json", Sections("a")
    figures = await Run(sections.all, True, file).measure(console())
    with pytest.raises(click.UsageError, match="size of run"):
        _kept(file, quick=False)
    del figures["sittings"]
    file.write_text(json.dumps(figures))
    with pytest.raises(click.UsageError, match="another version"):
        _kept(file, quick=True)


def test_resume_needs_a_file() -> None:
    """Without --json there is nothing to go on with."""
    with pytest.raises(click.UsageError, match="--json"):
        command.main(["--resume"], standalone_mode=False)
