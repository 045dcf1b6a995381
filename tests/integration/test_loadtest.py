"""`./run loadtest` as a person calls it: real stack, real locust, a proof at the end, and nothing left behind."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.integration.test_cluster_up import running_under

ROOT = Path(__file__).resolve().parents[2]
pytestmark = pytest.mark.faults


def start(folder, *words):
    """Start the command; its scratch folder and all it starts are found under `folder`."""
    env = {**os.environ, "PYTHONPATH": str(ROOT), "TMPDIR": str(folder)}
    command = [sys.executable, "-m", "cluster", "loadtest", *words]
    return subprocess.Popen(command, env=env, cwd="/", stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def left_behind(folder):
    return [one for one in folder.iterdir() if one.name.startswith("hongbao-loadtest-")], running_under(folder)


@pytest.mark.parametrize("workers", [0, 2])
def test_a_small_new_year_s_eve(server_folder, workers):
    """People come, win, repeat and double-click; no failure, a clean audit, a report with pictures, nothing left."""
    words = ["nye", "--quick", "--users", "20", "--seconds", "4", "--workers", str(workers)]
    process = start(
        server_folder, *words, "--json", str(server_folder / "r.json"), "--report", str(server_folder / "p")
    )
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
    assert left_behind(server_folder) == ([], [])


def test_an_open_loop(server_folder):
    """Opens at a rate: all are sent, all win, and what the clients were told stands in the claim log."""
    words = ["openloop", "--rate", "300", "--seconds", "2", "--connections", "20", "--arrivals", "even"]
    process = start(server_folder, *words, "--json", str(server_folder / "r.json"))
    out, said = process.communicate(timeout=100)
    assert process.returncode == 0, out + said
    report = json.loads((server_folder / "r.json").read_text())
    assert report["lines"][0]["results"] == {"opened": 600}
    assert report["told"] == 600
    assert left_behind(server_folder) == ([], [])


@pytest.mark.parametrize(("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_interrupted(server_folder, number, status):
    """Stopped while people are there, it ends with the signal's status, without a traceback, and leaves nothing."""
    process = start(server_folder, "mix", "--quick", "--users", "5", "--seconds", "60", "--workers", "1")
    deadline = time.monotonic() + 60
    while not any("locust" in words for words in running_under(server_folder)):
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline
        time.sleep(0.1)
    process.send_signal(number)
    _, said = process.communicate(timeout=40)
    assert process.returncode == status
    assert said == "stopped before it was done\n"
    assert left_behind(server_folder) == ([], [])


def test_a_hot_envelope_on_a_stack_that_runs(server_folder):
    """With --data the stack of that folder is used, and its data is kept."""
    data = server_folder / "data"
    for _ in range(2):
        process = start(server_folder, "hot", "--quick", "--users", "3", "--seconds", "2", "--data", str(data))
        out, said = process.communicate(timeout=100)
        assert process.returncode == 0, out + said
    assert data.exists()
    assert "2 envelopes" in out
