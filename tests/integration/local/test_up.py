import asyncio
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import jwt
import pytest
from click.testing import CliRunner

from cli.table import COMMANDS, main
from installation.keys import Secrets
from sharding.topology import change
from sharding.topology.changes import paused

pytestmark = pytest.mark.faults

UP = """
import asyncio, sys
from pathlib import Path
from cli.commands.up import _serve
from local.config import StackConfig
from runtime import logs

logs.set_up("test", "warning")
modules = dict.fromkeys(("wallet", "setnode", "gateway"), "tests.integration.local.stub_service")
few = {"sets": 1, "slots": 20, "ahead_days": 1}
sys.exit(asyncio.run(_serve(StackConfig(data=Path(sys.argv[1]), port=0, modules=modules, **few))))
"""


def start(folder: Path) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", UP, str(folder)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGHUP])
def test_up_prints_its_address_and_stops_on_a_signal(server_folder: Path, number: signal.Signals) -> None:
    """`up` prints where it listens when it is ready; Ctrl-C, TERM and a closed terminal stop all of it in 3 s."""
    process = start(server_folder / "data")
    assert process.stdout is not None
    assert process.stdout.readline().startswith("http://127.0.0.1:")
    begun = time.monotonic()
    process.send_signal(number)
    _, said = process.communicate(timeout=10)
    assert time.monotonic() - begun < 15
    assert process.returncode == 0
    assert "all data is kept" in said
    assert "/docs" in said, "where the calls are"
    assert "next: ./run token USER" in said
    assert "Traceback" not in said
    assert not running_under(server_folder)


def test_a_start_says_what_is_still_out_of_service(server_folder: Path) -> None:
    """What was paused before, and forgotten since, is said with the way back once everything is up."""
    for paused_before in (False, True):
        process = start(server_folder / "data")
        assert process.stdout is not None
        assert process.stdout.readline().startswith("http://127.0.0.1:")
        process.send_signal(signal.SIGTERM)
        _, said = process.communicate(timeout=10)
        assert ("still out of service: set-1 is paused" in said) is paused_before, said
        change(server_folder / "data" / "topology.json", lambda old: paused(old, "set-1", on=True))


@pytest.mark.long
@pytest.mark.parametrize(
    ("until", "number"),
    [("secrets.json", signal.SIGINT), ("**/postmaster.pid", signal.SIGINT), ("secrets.json", signal.SIGTERM)],
)
async def test_ctrl_c_during_the_start_leaves_nothing(server_folder: Path, until: str, number: signal.Signals) -> None:
    """An interrupted start says so and ends with the signal's status, no process left; the next start works."""
    process = await asyncio.to_thread(start, server_folder / "data")
    assert process.stderr is not None
    assert "starting" in process.stderr.readline()
    async with asyncio.timeout(10):
        while not list((server_folder / "data").glob(until)):
            await asyncio.sleep(0.01)
    process.send_signal(number)
    _, said = await asyncio.to_thread(process.communicate, timeout=10)
    assert "Traceback" not in said
    assert "stopped before it was ready" in said
    assert process.returncode == 128 + number
    async with asyncio.timeout(3):
        # What an initdb had started itself needs a moment to see that nobody reads it any more.
        while running_under(server_folder):
            await asyncio.sleep(0.05)
    again = await asyncio.to_thread(start, server_folder / "data")
    assert again.stdout is not None
    assert (await asyncio.to_thread(again.stdout.readline)).startswith("http://")
    again.send_signal(signal.SIGTERM)
    await asyncio.to_thread(again.communicate, timeout=10)


def running_under(folder: Path) -> list[str]:
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            try:
                words = (entry / "cmdline").read_bytes()
            except OSError:
                continue
            if str(folder).encode() in words:
                found.append(words.decode(errors="replace"))
    return found


def test_a_token_names_its_user_and_expires(tmp_path: Path) -> None:
    """The token is signed with the key in the data folder: sub, iat, exp and nothing else."""
    secrets = Secrets.load(tmp_path / "secrets.json")
    secrets.ensure({})
    answer = CliRunner().invoke(main, ["token", "alice", "--hours", "1", "--data", str(tmp_path)])
    assert answer.exit_code == 0, answer.output
    claims = jwt.decode(answer.stdout.strip(), secrets.key("TOKEN_KEY"), algorithms=["HS256"])
    assert claims["sub"] == "alice"
    assert claims["exp"] - claims["iat"] == 3600
    assert set(claims) == {"sub", "iat", "exp"}


def test_a_key_of_the_environment_that_differs_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One that is left in a terminal from another installation is in force there alone; the same one is no news."""
    secrets = Secrets.load(tmp_path / "secrets.json")
    secrets.ensure({})
    monkeypatch.setenv("HONGBAO_SHARE_KEY", secrets.key("SHARE_KEY"))
    assert secrets.replaced() == []
    monkeypatch.setenv("HONGBAO_TOKEN_KEY", "f" * 64)
    assert secrets.replaced() == ["TOKEN_KEY"]


def test_a_deliberate_error_is_one_line(tmp_path: Path) -> None:
    """Without a key there is one line on standard error that says what to do, exit status 1 and no traceback."""
    answer = CliRunner().invoke(main, ["token", "alice", "--data", str(tmp_path)])
    assert answer.exit_code == 1
    assert answer.stdout == ""
    assert answer.stderr.startswith("error: no TOKEN_KEY")
    assert answer.stderr.count("\n") == 1


def test_help_imports_no_command() -> None:
    """The help is a map and stays quick: it lists all commands and imports none of them."""
    code = """
import sys
from cli.table import main
main(["--help"], standalone_mode=False)
sys.exit(any(name.startswith("cli.commands.") for name in sys.modules))
"""
    done = subprocess.run([sys.executable, "-c", code], check=False, capture_output=True, text=True, timeout=30)
    assert done.returncode == 0, done.stderr
    for group in COMMANDS.values():
        for name, entry in group.items():
            assert name in done.stdout
            assert entry.summary in done.stdout


def test_every_command_of_the_map_exists() -> None:
    """Each name in the map can be imported and has a help text of its own."""
    for group in COMMANDS.values():
        for name in group:
            answer = CliRunner().invoke(main, [name, "--help"])
            assert answer.exit_code == 0, answer.output
