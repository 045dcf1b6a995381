"""deploy/container: the script that builds the code for images and hosts, and the compose file against the code."""

import os
import re
import shlex
import shutil
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from cli.table import main
from handbook.variables import OTHERS, PROCESSES
from installation import inventory
from installation.finding import find
from machine.checkout import CHECKOUT
from machine.postgres.settings import RESERVED, SETTINGS
from runtime.settings import host_and_port, load
from runtime.version import VERSION
from schema import roles
from tests.integration.deploy.programs import run
from tests.markdown_blocks import DOCS, blocks
from tests.sizes import sized
from tests.unit.deploy.commands import complaint
from tests.unit.deploy.files import DEPLOY, document

HERE = DEPLOY / "container"
PAGE = DOCS / "production/containers.md"
WAYS = ["uv", *["pip"] * sized(1, 0)]
STARTS = """
import asyncio, archive.export, audit.proof, events.service, gateway.service, ops.service, rotation.daemon
import setnode.service, wallet.service
from importlib.resources import files
from gateway.site.site import Site
from runtime import sql
assert (files("web") / "app.js").is_file() and (files("ops") / "web" / "words.js").is_file()
assert sql.read("setnode", "append_claims") and (files("schema") / "set.sql").is_file()
print(gateway.__file__)
"""
"""Imports what each process is made of, and reads what lies beside the code."""


@pytest.mark.parametrize("way", WAYS)
async def test_the_code_runs_from_its_own_folder(way: str, tmp_path: Path) -> None:
    """What build.sh makes has all that processes need, and needs nothing of the checkout."""
    prefix, programs = tmp_path / "opt", Path(sys.executable).parent
    path = f"{programs}:{os.environ['PATH']}" if way == "uv" else "/usr/bin:/bin"
    cache = {"UV_CACHE_DIR": str(CHECKOUT / ".tools" / "cache"), "UV_COMPILE_BYTECODE": "0"}
    env = {"PATH": path, "HONGBAO_PYTHON": str(Path(sys.executable).resolve()), **cache}
    assert way == "pip" or shutil.which("uv", path=path)
    said = await run("sh", str(HERE / "build.sh"), str(prefix), env=env)
    assert f"hongbao {VERSION}" in said.splitlines()
    said = await run(str(prefix / "bin" / "python"), "-I", "-c", STARTS)
    assert said.startswith(str(prefix))
    assert "SIGTERM" in await run(str(prefix / "bin" / "hongbao"), "serve", "--help")


def services() -> dict[str, Any]:
    """Return the services of the compose file that run our image, and all others."""
    content: dict[str, Any] = document(HERE / "compose.yml")["services"]
    return content


def ours() -> dict[str, Any]:
    return {name: one for name, one in services().items() if one["image"].startswith("hongbao:")}


def test_every_service_is_confined() -> None:
    """No service of ours may write to its image or gain rights; three know a network outside."""
    for name, one in services().items():
        assert one["image"].partition(":")[2], name
        if not name.startswith("postgres"):
            assert (one["read_only"], one["cap_drop"]) == (True, ["ALL"])
            assert one["security_opt"] == ["no-new-privileges:true"]
    assert {name for name, one in services().items() if "outside" in one["networks"]} == {"gateway", "events", "ops"}
    assert [one["ports"] for one in services().values() if "ports" in one] == [["8080:8080"], ["127.0.0.1:9000:9000"]]


def test_every_command_and_setting_of_compose_exists() -> None:
    """The command line takes what each service runs, and the code knows each setting."""
    for name, one in ours().items():
        if name != "operator":
            assert complaint(one["command"]) == "", name
        known = {f"HONGBAO_{field.upper()}" for kind in PROCESSES.values() for field in kind.__struct_fields__}
        assert set(one.get("environment", ())) <= known | set(OTHERS)
    page = PAGE.read_text().replace("\n", " ")
    for words in re.findall(r"run (?:--rm|-d) operator ([a-z][^`\n;#…]*?)(?=`| docker|  |\n|$)", page):
        assert complaint(shlex.split(words)) == "", words


def test_postgres_of_compose_is_set_as_ours() -> None:
    """Both Postgres have the settings of those that we start, but for sizes, and are of a version that is served."""
    for name in ("postgres-wallet", "postgres-set-1"):
        given = dict(word.removeprefix("-c").split("=") for word in services()[name]["command"][1:])
        more = {"reserved_connections": str(RESERVED), "wal_compression": "lz4"}
        statements = {"shared_preload_libraries": "pg_stat_statements", "pg_stat_statements.track_utility": "off"}
        known = {**SETTINGS, **more, **statements}
        assert {one for one, value in given.items() if known[one] != value} == {"shared_buffers", "max_connections"}


async def test_the_documented_keys_start_every_service(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the folders that the page makes each service has all settings, and is where the others look for it."""
    monkeypatch.chdir(tmp_path)
    (block,) = (one for one in blocks(PAGE) if one.run_by)
    for line in block.code.replace("\\\n", " ").splitlines():
        done = CliRunner().invoke(main, shlex.split(line)[1:])
        assert done.exit_code == 0, done.output
    made = inventory.load(tmp_path / "keys" / "installation.toml")
    assert {one.memcached or made.memcached for one in made.setnodes.values()} == {"memcached-set-1:11211"}
    for name, one in ours().items():
        folder = one["volumes"][0].removeprefix("./").partition(":")[0]
        access = find(tmp_path / folder / "installation.toml")
        words = dict(zip(one.get("command", ()), one.get("command", ())[1:], strict=False))
        if name in ("operator", "rotation"):
            dsns = {server: access.dsn(server, roles.OWNER) for server in ("wallet", "set-1")}
            assert all(f"@postgres-{server}:5432/" in dsn for server, dsn in dsns.items())
            continue
        settings, where = access.process(words["serve"], words.get("--name", ""))
        load(PROCESSES[words["serve"]], {**settings, "HONGBAO_LISTEN": words["--listen"]})
        port = host_and_port(words["--listen"])[1]
        assert where in (f"{name}:{port}", ""), name
        if "healthcheck" in one:
            assert f"http://127.0.0.1:{port}/readyz" in one["healthcheck"]["test"][-1]
    assert made.gateways == {"gateway": "http://gateway:8080"}
    volumes = [volume for one in services().values() for volume in one.get("volumes", ())]
    archives = {volume.split(":")[1] for volume in volumes if volume.startswith("archive:")}
    assert archives == {made.archive}


def test_an_image_has_the_code_and_nothing_else() -> None:
    """The image is built from the packages of the project, the lock and the script, by that script."""
    text = (HERE / "Dockerfile.dockerignore").read_text()
    kept = {line[1:] for line in text.splitlines() if line.startswith("!")}
    project = tomllib.loads((CHECKOUT / "pyproject.toml").read_text())
    packages = set(project["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"])
    assert kept - packages == {"pyproject.toml", "README.md", "LICENSE", "requirements", "deploy/container/build.sh"}
    assert packages <= kept
    runs = re.findall(r"^RUN (.+)$", (HERE / "Dockerfile").read_text(), re.MULTILINE)
    assert [one for one in runs if "useradd" not in one] == ["sh /src/deploy/container/build.sh /opt/hongbao"]
