"""The units of deploy/systemd against the code: commands, settings, limits, folders, keys."""

import re

from gateway.limits import CONNECTIONS, DRAIN_S
from handbook.variables import OTHERS, PROCESSES
from installation.host_files import KINDS
from runtime.process import STOP_S
from tests.unit.deploy.commands import complaint
from tests.unit.deploy.files import ROOT
from tests.unit.deploy.units import HERE, PROGRAM, commands, services, settings

PAGE = ROOT / "docs" / "production" / "systemd.md"
SPARE_FILES = 128
BY_HAND = {"hongbao-migrate.service", "hongbao-failed@.service"}


def test_every_command_exists() -> None:
    """The command line takes the arguments of each service, and reads the file that was put into its own folder."""
    seen = set()
    for path in services():
        for words in commands(path):
            assert complaint(words) == "", path.name
            (before,) = settings(path)["ExecStartPre"]
            folder = before.split()[-1]
            same = " -C" if "hongbao-ops" in folder else ""  # two services have this folder
            assert before == f"/usr/bin/install{same} -m 600 %d/installation.toml %d/secrets.json {folder}"
            where = {"%t": "RuntimeDirectory", "%S": "StateDirectory"}[folder[:2]]
            assert settings(path)[where] == [folder[3:-1]]
            assert settings(path)[f"{where}Mode"] == ["0700"]
            assert f"--installation {folder}installation.toml" in " ".join(settings(path)["ExecStart"])
            seen.add(words[1] if words[0] == "serve" else words[0])
    assert {"gateway", "setnode", "wallet", "events", "rotation", "ops", "audit", "migrate", "backup"} <= seen


def test_every_service_is_started_by_something() -> None:
    """Processes belong to the target and come again by themselves; jobs have a timer and say that they failed."""
    timers = {path.stem for path in HERE.glob("*.timer")}
    for path in services():
        unit = settings(path)
        if unit["Type"] == ["exec"]:
            assert unit["WantedBy"] == ["hongbao.target"] == unit["PartOf"]
            assert (unit["Restart"], unit["StartLimitIntervalSec"]) == (["always"], ["0"])
        else:
            assert path.stem in timers or path.name in BY_HAND
            assert path.name == "hongbao-failed@.service" or unit["OnFailure"] == ["hongbao-failed@%n.service"]
    assert timers <= {path.stem for path in services()}


def test_a_restart_leaves_a_process_its_topology() -> None:
    """A restart keeps the folder in /run: without the topology in it no gateway starts while the wallet is away."""
    for path in services():
        unit = settings(path)
        if unit["Type"] == ["exec"] and "RuntimeDirectory" in unit:
            assert unit.get("RuntimeDirectoryPreserve") == ["restart"], path.name


def test_a_process_has_time_and_files() -> None:
    """A unit waits longer than its process drains and stops, and lets a gateway open as many files as it promises."""
    for path in services():
        unit = settings(path)
        if "TimeoutStopSec" in unit:
            drain = DRAIN_S if "gateway" in path.name else 0
            assert int(unit["TimeoutStopSec"][0]) >= drain + STOP_S + 5
    assert int(settings(HERE / "hongbao-gateway@.service")["LimitNOFILE"][0]) >= CONNECTIONS + SPARE_FILES


def test_what_is_written_may_be_written() -> None:
    """A folder that a command is told to write to is the one that the unit lets it write to."""
    for path in services():
        folders = {words[words.index("--folder") + 1] for words in commands(path) if "--folder" in words}
        if "rotation" in path.name:
            folders = {"/srv/hongbao/archive"}
        assert set(settings(path).get("ReadWritePaths", ())) == folders


def test_settings_are_known() -> None:
    """Each variable that a unit or the page sets is a setting of a process, or of the commands."""
    page = PAGE.read_text()
    known = {f"HONGBAO_{name.upper()}" for kind in PROCESSES.values() for name in kind.__struct_fields__}
    given = {one.split("=")[0] for path in services() for one in settings(path).get("Environment", ())}
    given |= set(re.findall(r"^(HONGBAO_\w+)=", page, re.MULTILINE))
    assert given <= known | set(OTHERS)
    assert "HONGBAO_ROTATE_LISTEN" in given


def test_each_process_gets_its_own_keys_only() -> None:
    """A unit loads the folder of its kind, which the page makes by `installation host`; operators' jobs load theirs."""
    made = dict(re.findall(rf"^{PROGRAM} installation host (\S+) (\w+)", PAGE.read_text(), re.MULTILINE))
    assert set(made.values()) == set(KINDS) - {"ops"}
    for path in services():
        for words in commands(path):
            kind = words[1] if words[0] == "serve" and words[1] != "ops" else "operator"
            (folder,) = (folder for folder, one in made.items() if one == kind)
            assert settings(path)["LoadCredential"] == [
                f"{file}:{folder}/{file}" for file in ("installation.toml", "secrets.json")
            ]


def test_the_page_names_every_unit() -> None:
    """Each unit stands in the table of the page, and no other."""
    named = set(re.findall(r"`(hongbao[\w@.-]*\.(?:service|timer|target))`", PAGE.read_text()))
    assert named == {path.name for path in HERE.iterdir() if path.suffix in (".service", ".timer", ".target")}
