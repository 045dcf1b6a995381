"""`./run loadtest` as a person calls it: real stack, real locust, a proof at the end, and nothing left behind."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.integration.local.test_up import running_under

ROOT = Path(__file__).resolve().parents[3]
pytestmark = pytest.mark.faults


@pytest.fixture
def start(server_folder):
    """Starts the command: its scratch folder and its children's environment name `server_folder`; ends it, too."""
    started = []

    def start(*words):
        env = {**os.environ, "PYTHONPATH": str(ROOT), "TMPDIR": str(server_folder)}
        command = [sys.executable, "-m", "cli", "loadtest", *words]
        process = subprocess.Popen(command, env=env, cwd="/", stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        started.append(process)
        return process

    yield start
    for process in started:
        if process.poll() is None:
            process.terminate()
            process.communicate(timeout=20)


def left_behind(folder):
    """What is still there: scratch folders, servers that name the folder, clients that have it in their environment."""
    folders = [one.name for one in folder.iterdir() if one.name.startswith("hongbao-loadtest-")]
    clients = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            try:
                environment = (entry / "environ").read_bytes()
            except OSError:
                continue
            if f"TMPDIR={folder}".encode() in environment:
                clients.append(entry.name)
    return folders, running_under(folder), clients


NOTHING = ([], [], [])


def test_a_small_new_year_s_eve(start, server_folder):
    """People come, win, repeat and double-click; no failure, a clean audit, a report with pictures, nothing left."""
    words = ["nye", "--quick", "--users", "20", "--seconds", "4", "--workers", "2"]
    process = start(*words, "--json", str(server_folder / "r.json"), "--report", str(server_folder / "p"))
    out, said = process.communicate(timeout=100)
    assert process.returncode == 0, out + said
    report = json.loads((server_folder / "r.json").read_text())
    assert report["holds"]
    assert report["failures"] == {}
    assert report["audit"]["violation_count"] == 0
    results = {line["call"]: line["results"] for line in report["lines"]}
    assert results["open"]["opened"] == report["told"] == report["audit"]["claims"] > 0
    assert results["create"]["created"] >= report["audit"]["envelopes"] > 0
    assert {one.name for one in (server_folder / "p").iterdir()} == {"answers.svg", "latency.svg"}
    assert "everything adds up" in out
    assert left_behind(server_folder) == NOTHING


@pytest.mark.long
def test_an_open_loop(start, server_folder):
    """Opens at a rate: all are sent, all win, and what the clients were told stands in the claim log."""
    words = ["openloop", "--rate", "300", "--seconds", "2", "--connections", "20", "--arrivals", "even"]
    process = start(*words, "--json", str(server_folder / "r.json"))
    out, said = process.communicate(timeout=100)
    assert process.returncode == 0, out + said
    report = json.loads((server_folder / "r.json").read_text())
    assert report["lines"][0]["results"] == {"opened": 600}
    assert report["told"] == 600
    assert left_behind(server_folder) == NOTHING


@pytest.mark.long
@pytest.mark.parametrize(("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_interrupted(start, server_folder, number, status):
    """Stopped while people are there, it ends with the signal's status, without a traceback, and leaves nothing."""
    process = start("mix", "--quick", "--users", "5", "--seconds", "60", "--workers", "1")
    deadline = time.monotonic() + 60
    while not any(server_folder.glob("hongbao-loadtest-*/clients/progress.json")):
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline
        time.sleep(0.1)
    assert all(left_behind(server_folder))
    process.send_signal(number)
    _, said = process.communicate(timeout=40)
    assert process.returncode == status
    assert said == "stopped before it was done\n"
    assert left_behind(server_folder) == NOTHING


@pytest.mark.long
def test_a_hot_envelope_on_a_data_folder(start, server_folder):
    """With --data the stack of that folder is used, and its data is kept; one locust process does it all."""
    data = server_folder / "data"
    process = start("hot", "--quick", "--users", "3", "--seconds", "2", "--data", str(data))
    out, said = process.communicate(timeout=100)
    assert process.returncode == 0, out + said
    assert data.exists()
    assert "1 envelopes" in out
