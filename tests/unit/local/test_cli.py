"""The `hongbao` command as a person meets it: words, exit statuses, and what is left behind."""

import json
import os
import socket
import subprocess
import sys
from pathlib import Path

import click
import jwt
import pytest
from click.testing import CliRunner

from cli import group
from cli.commands import restart, up
from cli.table import main
from errors import Refused
from installation.data_folder import DataFolder
from installation.keys import Secrets
from local import gateway_ports
from local.config import StackConfig
from local.running import Running
from local.stack import Stack
from runtime.version import VERSION

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
    assert CliRunner().invoke(main, ["--version"]).output == f"hongbao {VERSION}\n"
    assert "--sets" in CliRunner().invoke(main, ["--sets", "4", "--help"]).output
    assert CliRunner().invoke(main, ["--colour"]).exit_code == 2
    assert not started


def test_a_setting_that_a_restart_does_not_see(tmp_path, monkeypatch):
    """`./run restart` names the settings of its own environment that what it restarts will not have."""
    given = {"HONGBAO_AWAY_S": "5", "HONGBAO_RATES": "1"}
    began = subprocess.Popen(["/bin/cat"], env=given, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    try:
        # Popen returns a moment before the environment of the new program can be read.
        os.write(began.stdin.fileno(), b"begun")
        assert os.read(began.stdout.fileno(), 5) == b"begun"
        for name in [name for name in os.environ if name.startswith("HONGBAO_")]:
            monkeypatch.delenv(name)
        monkeypatch.setenv("HONGBAO_AWAY_S", "5")
        monkeypatch.setenv("HONGBAO_DATA", str(tmp_path))
        assert restart.unseen(began.pid) == []
        monkeypatch.setenv("HONGBAO_RATES", "2")
        monkeypatch.setenv("HONGBAO_TOKEN_KEYS", "/keys.json")
        assert restart.unseen(began.pid) == ["HONGBAO_RATES", "HONGBAO_TOKEN_KEYS"]
        Running(pid=began.pid, since="", parts=[]).save(DataFolder(tmp_path).running)
        answer = CliRunner().invoke(main, ["restart", "nothing"])
        assert "HONGBAO_TOKEN_KEYS of this environment is not seen" in answer.stderr
    finally:
        began.kill()
        began.communicate()
    assert restart.unseen(began.pid) == []


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
@pytest.mark.parametrize("port", [0, 999])
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


@pytest.mark.parametrize(
    ("fen", "advice"), [("1.5", "for 1.5 yuan write 150"), ("0.07", "write 7"), ("-5", "only adds"), ("-1.5", "'-1.5'")]
)
def test_an_amount_in_yuan_or_below_nothing_is_told_what_to_write(tmp_path, fen, advice):
    """Yuan are converted in the sentence; a negative amount is told that a deposit only adds."""
    answer = CliRunner().invoke(main, ["deposit", "bob", fen, "--data", str(tmp_path)])
    assert (answer.exit_code, advice in answer.stderr) == (2, True), answer.stderr


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["audti"], "no such command 'audti'; did you mean 'audit'?"),
        (["backup", "tkae"], "no such command 'tkae'; did you mean 'take'?"),
        (["zzzzz"], "no such command 'zzzzz'; main --help names all"),
        (["--zzzzz"], "no such option '--zzzzz'; main up --help names all"),
        (["--versoin"], "no such option '--versoin'; did you mean '--version'?"),
        (["token", "bob", "--hours", "x"], "--hours must be a number from 0.001 to 8784, not 'x'"),
        (["token", "bob", "--hours", "0"], "--hours must be a number from 0.001 to 8784, not '0.0'"),
        (["backup", "prune", "--keep", "x"], "--keep must be a whole number of at least 1, not 'x'"),
        (
            ["keys", "gatway"],
            "this must be one of gateway, setnode, wallet, ops, postgres, not 'gatway'; did you mean 'gateway'?",
        ),
        (["status", "--jsno"], "no such option '--jsno'; did you mean '--json'?"),
        (["--gatways", "2"], "no such option '--gatways'; did you mean '--gateways' or '--data'?"),
        (["deposit", "bob", "5", "--ordr-no", "x"], "no such option '--ordr-no'; did you mean '--order-no'?"),
        (["deposit", "bob"], "FEN is missing; write it as: main deposit USER FEN"),
        (["token"], "USER is missing; write it as: main token USER..."),
        (["installation", "init", "x.toml"], "--wallet is missing; add --wallet HOST:PORT: Where the wallet listens."),
        (["up", "--port"], "--port needs a value after it; --help says which"),
        (["--data", "a b", "status"], "the command stands first; write it as: ./run status --data 'a b'"),
        (["--data", "x", "token", "bob"], "the command stands first; write it as: ./run token --data x bob"),
        (["--data", "x", "zzzzz"], "Got unexpected extra argument (zzzzz)"),
        (["--data", "x", "status now"], "Got unexpected extra argument (status now)"),
    ],
)
def test_wrong_words_are_told_what_was_meant(started, words, sentence):
    """A typo is answered with the name that is almost like it, a missing value with what to add; exit status 2."""
    answer = CliRunner().invoke(main, words)
    assert (answer.exit_code, answer.stderr.splitlines()[-1]) == (2, f"Error: {sentence}")
    assert not started


def test_a_token_by_another_key_is_told(tmp_path, monkeypatch):
    """A key that is left in a terminal from another installation makes tokens that these gateways refuse."""
    Secrets.load(tmp_path / "secrets.json").ensure({})
    words = ["token", "alice", "--data", str(tmp_path)]
    assert CliRunner().invoke(main, words).stderr == ""
    monkeypatch.setenv("HONGBAO_TOKEN_KEY", "f" * 64)
    made = CliRunner().invoke(main, words)
    assert "is not the key of" in made.stderr
    assert made.stdout.count(".") == 2


def test_a_switch_that_nothing_has_is_refused_before_its_reason_is_asked_for():
    asked = CliRunner().invoke(main, ["switch", "on", "create"])
    assert (asked.exit_code, "create" in asked.stderr, "--reason" in asked.stderr) == (1, True, False)


def test_help_is_a_command_too():
    """`help COMMAND` is `COMMAND --help`, and a group lists whole sentences."""
    for words in (["help"], ["help", "deposit"], ["help", "backup", "take"]):
        asked = CliRunner().invoke(main, words)
        assert asked.output == CliRunner().invoke(main, [*words[1:], "--help"]).output
        assert asked.exit_code == 0
    listed = CliRunner().invoke(main, ["user", "--help"]).output
    assert "..." not in listed.partition("Commands:")[2]


def test_tokens_of_several_users_come_from_one_call(tmp_path):
    """A line for each, the user and the token; --json has them in a list. One user's output is the token alone."""
    secrets = Secrets.load(tmp_path / "secrets.json")
    secrets.ensure({})

    def hongbao(*words):
        return CliRunner().invoke(main, ["token", *words, "--data", str(tmp_path)])

    def user_of(token):
        return jwt.decode(token, secrets.key("TOKEN_KEY"), algorithms=["HS256"])["sub"]

    lines = [line.split(" ") for line in hongbao("a", "b", "c").stdout.splitlines()]
    assert [(user, user_of(token)) for user, token in lines] == [("a", "a"), ("b", "b"), ("c", "c")]
    told = json.loads(hongbao("a", "b", "--json").stdout)
    assert [(one["user"], user_of(one["token"])) for one in told["tokens"]] == [("a", "a"), ("b", "b")]
    assert all(one.keys() == {"user", "token", "expires_at"} for one in told["tokens"])
    assert json.loads(hongbao("a", "--json").stdout).keys() == {"user", "token", "expires_at"}
    assert user_of(hongbao("a").stdout.removesuffix("\n")) == "a"
    wrong = hongbao("a", "no user")
    assert (wrong.exit_code, wrong.stdout) == (1, "")


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_shell_gets_its_completion(shell):
    """The script is click's, for a command of the name `hongbao`."""
    answer = CliRunner().invoke(main, ["completion", shell])
    assert answer.exit_code == 0, answer.output
    assert f"_HONGBAO_COMPLETE={shell}_complete" in answer.stdout
    assert CliRunner().invoke(main, ["completion", "tcsh"]).exit_code == 2


COMPLETES = """
import sys
from cli.table import run
try:
    run()
finally:
    print(*sorted(name for name in sys.modules if name.startswith(("cli.commands.", "loadtest"))), file=sys.stderr)
"""


@pytest.mark.parametrize(
    ("words", "at", "offered", "imported"),
    [
        ("hongbao au", 1, "audit", ""),
        ("hongbao ", 1, "doctor", ""),
        ("hongbao --ga", 1, "--gateways", "cli.commands.up"),
        ("hongbao backup t", 2, "take", "cli.commands.backup"),
        ("hongbao keys g", 2, "gateway", "cli.commands.keys"),
    ],
)
def test_what_a_shell_is_offered(words, at, offered, imported):
    """Names come from the table, quickly: no command is imported for them; options and values from the command."""
    env = {**os.environ, "PYTHONPATH": str(ROOT), "_HONGBAO_COMPLETE": "bash_complete", "COMP_WORDS": words}
    done = subprocess.run(
        [sys.executable, "-c", COMPLETES], check=False, capture_output=True, text=True, timeout=60,
        env={**env, "COMP_CWORD": str(at)},
    )  # fmt: skip
    assert f"plain,{offered}" in done.stdout.splitlines(), done.stderr
    assert imported in done.stderr.split() if imported else done.stderr.split() == [], done.stderr


def test_packages_that_are_missing_complete_nothing(monkeypatch):
    """A command that cannot be imported is no traceback in the middle of a line that somebody types."""
    monkeypatch.setattr(group.importlib, "import_module", lambda _: (_ for _ in ()).throw(ImportError("locust")))
    assert main.get_command(click.Context(main, resilient_parsing=True), "bench") is None
    with pytest.raises(ImportError):
        main.get_command(click.Context(main), "bench")


def test_what_a_start_says_first(tmp_path):
    """Only a first start takes longer, and beside a stack that runs nothing is starting."""
    folder = DataFolder(tmp_path)
    assert up.starting(folder) == ["starting; the first time takes a few seconds more"]
    folder.inventory.touch()
    assert up.starting(folder) == ["starting"]
    Running(pid=os.getpid(), since="", parts=[]).save(folder.running)
    assert up.starting(folder) == []


def test_a_start_says_the_page_and_what_to_do_next():
    """With users to play with: where to open it, and as whom; without: where the calls are, and how to sign in."""
    page, operators, step = up.what_next("http://h:1", "http://h:2/ops/", ("xiaoming", "alice"))
    assert page == "open http://h:1 in a browser and be one of 2 users to play with"
    assert "http://h:2/ops/" in operators
    assert ("./run demo --watch" in step, "as alice" in step, "./run doctor" in step) == (True, True, True)
    page, step = up.what_next("http://h:1", "", ())
    assert ("http://h:1/docs" in page, "./run token USER" in step) == (True, True)


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
