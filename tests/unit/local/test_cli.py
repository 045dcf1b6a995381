"""The `hongbao` command as a person meets it: words, exit statuses, and what is left behind."""

import json
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from cli.commands import up
from cli.table import main
from errors import Refused
from local import gateway_ports
from local.config import StackConfig
from local.stack import Stack

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture
def started(monkeypatch):
    """What `up` would have started."""
    seen = []

    async def serve(config):
        seen.append(config)
        return 0

    monkeypatch.setattr(up, "_serve", serve)
    return seen


@pytest.mark.parametrize("words", [[], ["up"], ["--sets", "4"], ["up", "--sets", "4"], ["--port=0", "--sets=4"]])
def test_options_without_a_command_are_those_of_up(started, words):
    """`./run --sets 4` is `./run up --sets 4`, as `./run` is `./run up`."""
    answer = CliRunner().invoke(main, words)
    assert answer.exit_code == 0, answer.output
    assert [config.sets for config in started] == [4 if len(words) > 1 else 2]


def test_the_command_s_own_options(started):
    """--help and --version are about all commands; an option that nobody has is refused."""
    assert "verify-split" in CliRunner().invoke(main, ["--help"]).output
    assert CliRunner().invoke(main, ["--version"]).output.startswith("main ")
    assert "--sets" in CliRunner().invoke(main, ["--sets", "4", "--help"]).output
    assert CliRunner().invoke(main, ["--colour"]).exit_code == 2
    assert not started


def test_ctrl_c_is_told(monkeypatch):
    """A command that is interrupted says so and ends with 130, whatever it was."""

    async def serve(_):
        raise KeyboardInterrupt

    monkeypatch.setattr(up, "_serve", serve)
    answer = CliRunner().invoke(main, [])
    assert (answer.exit_code, answer.stderr) == (130, "stopped before it was done\n")


def config(tmp_path, **more):
    return StackConfig(data=tmp_path / "data", notify=lambda _: None, **more)


async def test_a_taken_port_leaves_nothing_behind(tmp_path):
    """A first start that cannot be is refused before there is a data folder."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(Refused, match=f"port {port} on 127.0.0.1 is taken") as caught:
            async with Stack(config(tmp_path, port=port)):
                pass
    assert caught.value.code == "port_taken"
    assert not (tmp_path / "data").exists()


@pytest.mark.parametrize("host", ["256.1.1.1", "8.8.8.8", "no such host", "::1", "", "x" * 70])
@pytest.mark.parametrize("port", [0, 18_999])
async def test_a_host_that_is_not_here(tmp_path, host, port):
    """An address that this machine does not have is told as that, not as a taken port."""
    with pytest.raises(Refused, match="--host") as caught:
        async with Stack(config(tmp_path, host=host, port=port)):
            pass
    assert caught.value.code == "host_invalid"
    assert not (tmp_path / "data").exists()


def test_the_highest_port(tmp_path):
    """The last gateway's port is the highest that there is, and no higher."""
    assert config(tmp_path, port=65_535, gateways=1).port == 65_535
    with pytest.raises(Refused, match="0 to 65533"):
        config(tmp_path, port=65_535, gateways=2)


@pytest.mark.parametrize("slots", ["7", "15", "0", "-10", "1010"])
def test_slots_that_no_id_can_have_are_refused_before_anything_is_made(tmp_path, slots):
    """The sentence says what is possible; there is no data folder afterwards."""
    answer = CliRunner().invoke(main, ["up", "--slots", slots, "--data", str(tmp_path / "data")])
    assert answer.exit_code == 1
    assert f"--slots must be a multiple of 10 up to 1,000, is {slots}" in answer.stderr
    assert not (tmp_path / "data").exists()


@pytest.mark.parametrize("fen", ["1.5", "-5", "many", "0", "1e3", "10000000000001"])
def test_an_amount_that_is_no_whole_fen_is_told_what_a_fen_is(tmp_path, fen):
    """One sentence with an example, and the exit status of wrong words."""
    answer = CliRunner().invoke(main, ["deposit", "bob", fen, "--data", str(tmp_path)])
    assert (answer.exit_code, "No such option" in answer.stderr) == (2, False)
    assert "FEN is whole fen" in answer.stderr
    assert "150 is 1.50 yuan" in answer.stderr


@pytest.mark.parametrize("module", ["gateway", "setnode", "wallet"])
def test_a_process_says_which_settings_it_has(module):
    """`python -m gateway --help` lists each variable, whether it must be set, its default and what it is for."""
    command = [sys.executable, "-m", module]
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    shown = subprocess.run([*command, "--help"], check=True, capture_output=True, text=True, env=env, timeout=60)
    assert "HONGBAO_LISTEN" in shown.stdout
    assert "must be set" in shown.stdout
    assert shown.stderr == ""
    known = {"gateway": "HONGBAO_METRICS_KEY", "setnode": "HONGBAO_LIVE_SHARES", "wallet": "HONGBAO_PAYOUT_CHANNEL"}
    assert known[module] in shown.stdout
    wrong = subprocess.run([*command, "--port=1"], check=False, capture_output=True, text=True, env=env, timeout=60)
    assert wrong.returncode == 2
    assert "--help" in wrong.stderr


def test_a_port_of_root_s(monkeypatch):
    """A port below 1024 is told as that."""
    monkeypatch.setattr(gateway_ports.ports, "bind_error", lambda *_: PermissionError(13, "Permission denied"))
    with pytest.raises(Refused, match="only root may listen on port 80"):
        gateway_ports.check_gateway_ports(StackConfig(port=80))


DETAIL = {
    "envelope_id": "2611211234567890007", "split": "equal", "split_version": 1, "total_fen": 200, "count": 2,
    "split_seed": "00" * 32, "claims": [{"seq": 0, "amount_fen": 100}], "refund_fen": 100,
}  # fmt: skip
HOLDS = "66687aadf862bd776c8fc18b8e9f8e20089714856ee233b3902a591d0d5f2925"


@pytest.mark.parametrize(("commitment", "status"), [(HOLDS, 0), ("11" * 32, 1)])
@pytest.mark.parametrize("option", [[], ["--json"]])
def test_a_reader_who_leaves_changes_nothing(tmp_path, commitment, status, option):
    """`… | head` ends quietly, and with the status of what was asked."""
    file = tmp_path / "detail.json"
    file.write_text(json.dumps({**DETAIL, "split_commitment": commitment}))
    left, right = os.pipe()
    os.close(left)
    command = [sys.executable, "-m", "cli", "verify-split", str(file), *option]
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, check=False, stdout=right, stderr=subprocess.PIPE, env=env, timeout=60)
    os.close(right)
    assert (done.returncode, done.stderr) == (status, b"")


PAPER = """
import sys
from rich.table import Table
from runtime.reporting import print_output

def show(console):
    for number in range(3):
        console.print(Table("a", "b", title="x" * 100_000))

print_output(show)
print_output("more")
sys.exit(7)
"""


def test_a_reader_who_leaves_a_table():
    """A table that nobody reads is dropped, and the command goes on."""
    left, right = os.pipe()
    os.close(left)
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, "-c", PAPER], check=False, stdout=right, stderr=subprocess.PIPE, env=env, timeout=60
    )
    os.close(right)
    assert (done.returncode, done.stderr) == (7, b"")


@pytest.mark.parametrize("hops", [1, 2])
@pytest.mark.parametrize("script", ["run", "test"])
def test_a_link_to_the_scripts_is_followed(tmp_path, hops, script):
    """/usr/local/bin/hongbao may be a link to run: the checkout is where the file is, not where the link is."""
    checkout, away = tmp_path / "check out", tmp_path / "bin"
    setup = checkout / "setup"
    setup.mkdir(parents=True)
    away.mkdir()
    (checkout / script).write_text((ROOT / script).read_text())
    (checkout / script).chmod(0o755)
    (setup / "environment.sh").write_text('environment() { echo "$here"; exit 0; }\n')
    (away / "hongbao").symlink_to(checkout / script)
    link = away / "hongbao"
    if hops == 2:
        link = tmp_path / "link"
        link.symlink_to(Path("bin") / "hongbao")
    done = subprocess.run([str(link)], check=True, capture_output=True, text=True, cwd="/", timeout=20)
    assert done.stdout.strip() == str(checkout)
