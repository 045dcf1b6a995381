"""The reference is whole: what the code has stands in the built site, each under an anchor of its own."""

import html
import re
from pathlib import Path

import click
import jsonschema_rs
import msgspec
import pytest

from cli.table import COMMANDS, main
from gateway.openapi import document
from gateway.openapi.schemas import SCHEMAS
from gateway.problems import ADVICE, PROBLEMS
from handbook import examples, figures, tables
from handbook.variables import OTHERS, PROCESSES
from runtime.settings import PREFIX, meanings
from tests.handbook_site import ROOT, handbook_site
from wire.cloud_events import EVENTS, CloudEvent

__all__ = ["handbook_site"]

SPEC = document()
OPERATIONS = {one["operationId"]: one for path in SPEC["paths"].values() for one in path.values()}


def page(site: Path, name: str) -> str:
    return (site / "reference" / f"{name}.html").read_text()


def words(markup: str) -> str:
    return " ".join(html.unescape(re.sub(r"<[^>]+>", "", markup)).split())


def test_operations(handbook_site: Path) -> None:
    """Every operation and object has its anchor; every field of an object, every parameter and code is named."""
    text = page(handbook_site, "api")
    for name in (*OPERATIONS, *SCHEMAS):
        assert text.count(f'id="{name}"') == 1, name
    for schema in SCHEMAS.values():
        for field in (*schema.get("properties", ()), *schema.get("enum", ())):
            assert f">{field}<" in text
    for operation in OPERATIONS.values():
        assert words(operation["description"].split("\n\n")[0].replace("`", "")) in words(text)
        assert operation["summary"] in text


@pytest.mark.parametrize("name", OPERATIONS)
def test_example_answers(name: str) -> None:
    """Every operation has an example answer, and it is what the operation's schema says."""
    assert name in examples.ANSWERS
    (media, content), *_ = next(
        list(one["content"].items()) for status, one in OPERATIONS[name]["responses"].items() if status[0] == "2"
    )
    if media == "application/json":
        schema = {**content["schema"], "components": SPEC["components"]}
        jsonschema_rs.Draft202012Validator(schema).validate(examples.ANSWERS[name])


def test_the_event_of_the_example_is_a_frame() -> None:
    """The data of the example stream is a LiveFrame."""
    data = re.findall(r"^data: (.*)$", examples.ANSWERS["watchEnvelopes"], flags=re.MULTILINE)
    schema = {"$ref": "#/components/schemas/LiveFrame", "components": SPEC["components"]}
    assert len(data) == 1
    jsonschema_rs.Draft202012Validator(schema).validate(msgspec.json.decode(data[0]))


def test_problems(handbook_site: Path) -> None:
    """Every code has its anchor, as the `type` of a problem has it, with title and advice."""
    text = page(handbook_site, "problems")
    for code, row in PROBLEMS.items():
        assert text.count(f'id="{code}"') == 1, code
        assert row.title in html.unescape(text)
    for advice in ADVICE.values():
        assert words(advice.replace("`", "")) in words(text)


def test_commands(handbook_site: Path) -> None:
    """Every command, every subcommand and every option is there."""
    text = words(page(handbook_site, "commands"))
    context = click.Context(main, info_name="hongbao")
    for name in [name for section in COMMANDS.values() for name in section]:
        command = main.get_command(context, name)
        assert command is not None
        every = [command, *(command.commands.values() if isinstance(command, click.Group) else ())]
        for one in every:
            for option in one.params:
                assert not isinstance(option, click.Option) or option.opts[0] in text
        assert f"$ ./run {name}" in text


@pytest.mark.parametrize("process", PROCESSES)
def test_settings(handbook_site: Path, process: str) -> None:
    """Every setting of every process is there with its meaning, and has one."""
    text = words(page(handbook_site, "settings"))
    told = meanings(PROCESSES[process])
    for field in msgspec.structs.fields(PROCESSES[process]):
        assert f"{PREFIX}{field.name.upper()}" in text
        assert words(told[field.name].replace("`", "")) in text


def test_no_process_and_no_variable_is_left_out(handbook_site: Path) -> None:
    """Every struct of settings in a room is in the reference, and every variable that is read without one."""
    structs, read = set(), set()
    for path in ROOT.glob("*/**/*.py"):
        room = path.relative_to(ROOT).parts[0]
        if room in {"tests", "loadtest", "handbook", "docs", ".venv", ".tools"} or room.startswith("."):
            continue
        source = path.read_text()
        structs |= set(re.findall(r"^class (\w*Settings)\(msgspec\.Struct", source, flags=re.MULTILINE))
        read |= set(re.findall(r"""environ(?:\.get\(|\[)"(HONGBAO_\w+)""", source))
    assert structs == {kind.__name__ for kind in PROCESSES.values()}
    settings = {f"{PREFIX}{name.upper()}" for kind in PROCESSES.values() for name in kind.__struct_fields__}
    assert read - settings <= set(OTHERS)
    text = words(page(handbook_site, "settings"))
    assert [name for name in OTHERS if name not in text] == []


def test_metrics(handbook_site: Path) -> None:
    """Every metric that a module of a room defines is there; so is every one that operators are told to watch."""
    text = words(page(handbook_site, "metrics"))
    defined = {one.name for room in figures.definitions().values() for one in room}
    assert len(defined) > 60
    assert [name for name in sorted(defined) if name not in text] == []
    watched = set(re.findall(r"`(hongbao_\w+)", (ROOT / "docs/operations/README.md").read_text()))
    known = defined | {"hongbao_part_up"}
    assert sorted(watched - known) == []


@pytest.mark.parametrize("schema", ["set", "wallet"])
def test_tables(handbook_site: Path, schema: str) -> None:
    """Every table, column, constraint and index of the readable schema is there."""
    source = (tables.FOLDER / f"{schema}.sql").read_text()
    markup = page(handbook_site, "tables")
    text = words(markup)
    names = re.findall(r"^CREATE TABLE (\w+)", source, flags=re.MULTILINE)
    assert len(names) > 5
    for name in names:
        assert markup.count(f'id="{schema}.{name}"') == 1
    bodies = re.findall(r"^CREATE TABLE \w+ \(\n(.*?)^\)", source, flags=re.MULTILINE | re.DOTALL)
    for body in bodies:
        for one in re.findall(r"^    ([a-z_0-9]+) |CONSTRAINT (\w+)", body, flags=re.MULTILINE):
            assert "".join(one) in text
    assert [one for one in re.findall(r"INDEX (\w+) ON", source) if one not in text] == []


def test_events(handbook_site: Path) -> None:
    """Every type of event has its anchor, with its meaning and every member of its data."""
    markup = page(handbook_site, "events")
    text = words(markup)
    for kind in EVENTS:
        assert markup.count(f'id="{kind.TYPE}"') == 1
        assert words((kind.__doc__ or "").splitlines()[0]) in text
        for name in kind.__struct_fields__:
            assert name in text
    for name in CloudEvent.__struct_fields__:
        assert name in text
