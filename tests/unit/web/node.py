"""Runs the page's modules in Node, where there is one: the page itself needs none."""

import json
import shutil
import subprocess
from pathlib import Path

import pytest

from gateway.site.files import FOLDER

WEB = FOLDER
NO_NODE = "there is no node on this machine: the page's modules are not run outside a browser"
TIMEOUT_S = 60


def run(script: str, given: object = None) -> object:
    """Run `script`, an ES module that has `given` as `input`, and `web(name)`; return what it gives to `say`."""
    node = shutil.which("node")
    if node is None:
        pytest.skip(NO_NODE)
    text = "\n".join(
        (
            'import { readFileSync } from "node:fs";',
            "const input = JSON.parse(readFileSync(0, 'utf8'));",
            "const say = (value) => console.log(JSON.stringify(value));",
            f"const web = (name) => import({json.dumps(WEB.as_uri())} + '/' + name);",
            script,
        )
    )
    done = subprocess.run(
        [node, "--input-type=module", "-e", text],
        input=json.dumps(given),
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
        cwd=Path(WEB),
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return json.loads(done.stdout)
