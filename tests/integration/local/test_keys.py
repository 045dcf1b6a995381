"""Which process has which key, and that an installation of an earlier release gets the keys it lacks."""

import asyncio
import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from cli.table import main
from errors import Refused
from installation.keys import KEYS, Secrets
from local import running
from local.stack import Stack
from runtime.files import write_private
from tests.integration.local.test_stack import config, told
from wire.keys import accepted_keys, caller_key

pytestmark = pytest.mark.faults

OLD_KEYS = ("TOKEN_KEY", "SHARE_KEY", "SLOT_KEY", "PASSWORD_KEY", "LINK_KEY", "ARCHIVE_KEY")
"""Those of the first release."""


async def test_each_process_has_the_keys_that_it_uses_and_no_others(
    server_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No gateway has the key of passwords or of the archive, nobody the root, and nobody our operator's environment."""
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "the operator's own")
    monkeypatch.setenv("HONGBAO_TOKEN_KEY", "t" * 32)
    monkeypatch.setenv("HONGBAO_REJECTED_TOKENS_PER_S", "77")
    async with Stack(config(server_folder, sets=2, servers=1, env={"HONGBAO_ARCHIVE_KEY": "a" * 32})) as stack:
        parts = running.load(stack.folder.running).parts
        ours = {"wallet", "set-1-a", "set-2-a", "gateway-1"}
        found = {
            part.name: await asyncio.to_thread(told, f"http://{part.address}") for part in parts if part.name in ours
        }
        secrets = Secrets.load(stack.folder.secrets)
    secret = {*(f"HONGBAO_{name}" for name in KEYS), "HONGBAO_LINK_KEY", "HONGBAO_ACCEPT_KEYS", "HONGBAO_POSTGRES_DSN"}
    has = {name: {one.removeprefix("HONGBAO_") for one in env if one in secret} for name, env in found.items()}
    assert has == {
        "gateway-1": {"TOKEN_KEY", "SHARE_KEY", "SLOT_KEY", "METRICS_KEY", "LINK_KEY"},
        "set-1-a": {"PASSWORD_KEY", "ARCHIVE_KEY", "LINK_KEY", "ACCEPT_KEYS", "POSTGRES_DSN"},
        "set-2-a": {"PASSWORD_KEY", "ARCHIVE_KEY", "LINK_KEY", "ACCEPT_KEYS", "POSTGRES_DSN"},
        "wallet": {"ACCEPT_KEYS", "POSTGRES_DSN"},
    }
    for env in found.values():
        assert "AWS_SECRET_ACCESS_KEY" not in env
        assert env["HONGBAO_REJECTED_TOKENS_PER_S"] == "77"
        assert secrets.key("LINK_SECRET") not in " ".join(env.values())
    assert found["set-1-a"]["HONGBAO_ARCHIVE_KEY"] == "a" * 32
    caller_key(found["gateway-1"]["HONGBAO_LINK_KEY"], "gateway")
    caller_key(found["set-2-a"]["HONGBAO_LINK_KEY"], "setnode/set-2")
    assert found["set-1-a"]["HONGBAO_LINK_KEY"] != found["set-2-a"]["HONGBAO_LINK_KEY"]
    assert found["set-1-a"]["HONGBAO_LINK_KEY"].split(":")[1] not in found["gateway-1"]["HONGBAO_LINK_KEY"]


async def test_an_installation_of_the_first_release_gets_the_new_keys(server_folder: Path) -> None:
    """Its secrets.json is completed at the start: old keys stay, new ones come, the key that everybody knew goes."""
    folder = server_folder / "data"
    folder.mkdir(mode=0o711)
    old = {"keys": {name: name.lower().ljust(64, "0") for name in OLD_KEYS}}
    write_private(folder / "secrets.json", old)
    async with Stack(config(server_folder, sets=1, servers=1)) as stack:
        env = await asyncio.to_thread(told, stack.gateway_url)
        assert env["HONGBAO_TOKEN_KEY"] == old["keys"]["TOKEN_KEY"]
    kept = json.loads((folder / "secrets.json").read_text())["keys"]
    assert set(kept) == set(KEYS)
    assert {name: kept[name] for name in OLD_KEYS if name != "LINK_KEY"} == {
        name: old["keys"][name] for name in OLD_KEYS if name != "LINK_KEY"
    }
    assert len(kept["LINK_SECRET"]) == 64
    assert old["keys"]["LINK_KEY"] not in (folder / "secrets.json").read_text()


def test_a_short_key_from_the_environment_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A key that could be guessed is refused before anything starts, with its name and without its value."""
    secrets = Secrets.load(tmp_path / "secrets.json")
    secrets.ensure({})
    monkeypatch.setenv("HONGBAO_LINK_SECRET", "guess me")
    with pytest.raises(Refused, match="HONGBAO_LINK_SECRET must have at least 16 characters") as caught:
        secrets.environment("gateway", "gateway-1")
    assert caught.value.code == "key_weak"
    assert "guess me" not in caught.value.detail


def test_keys_of_a_process_are_printed_for_those_who_start_it_themselves(tmp_path: Path) -> None:
    """What `keys` prints is what `./run` would give to that process: it starts with them, and others do not."""
    secrets = Secrets.load(tmp_path / "secrets.json")
    secrets.ensure({})
    words = ["keys", "setnode", "--set", "set-2", "--server", "set-2-b", "--data", str(tmp_path)]
    done = CliRunner().invoke(main, words)
    assert done.exit_code == 0, done.output
    env = dict(line.split("=", 1) for line in done.stdout.splitlines())
    assert env == secrets.environment("setnode", "set-2-b", "set-2")
    caller_key(env["HONGBAO_LINK_KEY"], "setnode/set-2")
    accepted_keys(env["HONGBAO_ACCEPT_KEYS"], "set-2-b", ("gateway", "operator"))
    with pytest.raises(Refused):
        accepted_keys(env["HONGBAO_ACCEPT_KEYS"], "set-2-a", ("gateway", "operator"))
    refused = CliRunner().invoke(main, ["keys", "setnode", "--data", str(tmp_path)])
    assert (refused.exit_code, refused.stderr.count("\n")) == (1, 1)
    assert "name the setnode" in refused.stderr
