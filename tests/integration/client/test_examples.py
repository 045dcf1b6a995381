"""The examples of README and docs/client.md are run as they stand."""

import asyncio
import inspect
import json
import os
import re
import subprocess
import sys
import time
import zipfile
from pathlib import Path
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from client import Envelope, Hongbao, NotSignedIn
from double import Double
from machine.checkout import CHECKOUT
from runtime.version import VERSION
from tests.integration.gateway.fixtures import RealStack

_BLOCK = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)
_ADDRESS = "http://127.0.0.1:8080"
LIMIT_S = 60.0


def examples(name: str) -> list[str]:
    return _BLOCK.findall((CHECKOUT / name).read_text(encoding="utf-8"))


def installed_alone(folder: Path) -> str:
    """Build the client as a distribution of its own, and return a folder that has its module and no other."""
    build = [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", str(folder)]
    subprocess.run(build, cwd=CHECKOUT / "client", check=True, capture_output=True, timeout=LIMIT_S)
    (wheel,) = folder.glob("hongbao_client-*.whl")
    assert f"-{VERSION}-" in wheel.name
    with zipfile.ZipFile(wheel) as packed:
        assert {name.partition("/")[0].partition("-")[0] for name in packed.namelist()} == {"hongbao_client"}
        assert "hongbao_client/py.typed" in packed.namelist()
        packed.extractall(folder / "site")
    return str(folder / "site")


def test_the_first_envelope_of_the_readme(stack: RealStack, tmp_path: Path) -> None:
    """Its lines, as a reader types them: alice sends, bob opens by the share ID, and the link is there for people."""
    by_hand = (CHECKOUT / "README.md").read_text().partition("The same by hand")[2]
    found = re.search(r"^(?:    .*\n)+", by_hand, re.MULTILINE)
    assert found
    (tmp_path / "run").write_text(f'#!/bin/sh\nexec {sys.executable} -P -m cli "$@"\n')
    (tmp_path / "run").chmod(0o700)
    typed = found[0].replace("localhost:8080", stack.gateway_url.removeprefix("http://"))
    done = subprocess.run(
        ["bash", "-eu"],
        input=f'{typed}\ncurl -s -o page -w "%{{http_code}}\\n" "{stack.gateway_url}/s/$S"\n',
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(CHECKOUT), "HONGBAO_DATA": str(stack.data)},
        capture_output=True,
        text=True,
        check=False,
        timeout=LIMIT_S,
    )
    assert (done.returncode, done.stderr) == (0, "")
    deposit, envelope, link, opened, wallet, page = done.stdout.splitlines()
    assert deposit.startswith("alice has ")
    assert link == f"{stack.gateway_url}/s/{json.loads(envelope)['share_id']}"
    assert json.loads(opened)["result"] == "opened"
    assert json.loads(wallet)["user"] == "bob"
    assert page == "200"


@pytest.mark.parametrize("alone", [False, True])
async def test_the_first_program_of_the_readme(stack: RealStack, tmp_path: Path, alone: bool) -> None:
    """As a file of its own: it sends, opens and watches, and ends when others have taken the rest.

    So it does in an app that has installed the client alone.
    """
    (text,) = examples("README.md")
    assert _ADDRESS in text
    assert "from client import" in text
    if alone:
        text = text.replace("from client import", "from hongbao_client import")
    path = installed_alone(tmp_path) if alone else str(CHECKOUT)
    program = tmp_path / "first.py"
    program.write_text(text.replace(_ADDRESS, stack.gateway_url), encoding="utf-8")
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-u",
        str(program),
        env={"PYTHONPATH": path},
        stdout=asyncio.subprocess.PIPE,
    )
    assert process.stdout is not None
    said: list[str] = []
    async with asyncio.timeout(LIMIT_S), Hongbao(stack.gateway_url) as hongbao:
        while not said or "of 3" not in said[-1]:
            said.append((await process.stdout.readline()).decode())
        share_id = said[-1].split()[-1]
        for name in ("carol", "dave"):
            assert (await hongbao.play(name).open(share_id)).opened
        rest = (await process.stdout.read()).decode()
        assert await process.wait() == 0
    assert "result='opened'" in said[0]
    assert f"3 of 3 are opened: {share_id}" in rest


async def test_the_examples_of_the_page_on_the_client() -> None:
    """Each function is called with what it asks for."""
    named: dict[str, Any] = {}
    for text in examples("docs/client.md"):
        exec(text, named)  # noqa: S102 - our own page
    await named["test_what_is_left_comes_back"]()
    async with Double() as double:
        double.deposit("alice", 500)
        await named["greet"](double.hongbao, double.token)
        alice = double.user("alice")
        envelope: Envelope = await alice.create(total_fen=100, count=1)
        telling = asyncio.ensure_future(named["tell"](alice, envelope))
        assert (await double.user("bob").open(envelope)).opened
        await asyncio.wait_for(telling, LIMIT_S)
    functions = {name for name, one in named.items() if inspect.iscoroutinefunction(one)}
    assert functions == {"greet", "tell", "test_what_is_left_comes_back"}


async def test_a_program_that_signs_its_own_tokens(tmp_path: Path) -> None:
    """A double takes the key of a program, shared or in a JWKS file, and still makes tokens of its own."""
    key = "k" * 40
    private = Ed25519PrivateKey.generate()
    row = jwt.get_algorithm_by_name("EdDSA").to_jwk(private.public_key(), as_dict=True)
    keys = tmp_path / "keys.json"
    keys.write_text(json.dumps({"keys": [{**row, "kid": "app", "alg": "EdDSA"}]}))
    claims = {"sub": "alice", "exp": int(time.time()) + 60}
    async with Double(token_key=key, token_keys=keys) as double, Hongbao(double.url) as hongbao:
        double.deposit("alice", 500)
        tokens = [
            jwt.encode(claims, key),
            jwt.encode(claims, private, "EdDSA", headers={"kid": "app"}),
            double.token("alice"),
        ]
        assert [await hongbao.user(one).balance_fen() for one in tokens] == [500] * 3
        with pytest.raises(NotSignedIn, match="not made with the shared key"):
            await hongbao.user(jwt.encode(claims, "x" * 40)).balance_fen()
    async with Double() as double:
        with pytest.raises(NotSignedIn):
            await double.hongbao.user(tokens[0]).balance_fen()


async def test_a_double_is_there_at_once() -> None:
    """A test of a program may have one of its own: it costs no process and no database."""
    began = time.process_time()
    async with Double() as double:
        assert await double.user("alice").balance_fen() == 0
    assert time.process_time() - began < 2.0
