"""The page about tokens, docs/apps/signing-in.md: its lines make tokens that a gateway believes."""

import asyncio
import json
import os
import shutil
import subprocess
import time
from pathlib import Path
from typing import Any

import aiohttp
import jwt
import pytest

from gateway.service import GatewaySettings
from gateway.service import running as running_gateway
from machine.checkout import CHECKOUT
from tests.integration.gateway.fixtures import KEY, Client, Door, door
from tests.link_keys import GATEWAY_KEY
from tests.markdown_blocks import DOCS, Block, blocks

__all__ = ["door"]

PAGE = DOCS / "apps/signing-in.md"
JOSE = "6.2.18"
CACHE = CHECKOUT / ".tools" / "jose"
INSTALL_S, RUN_S = 60, 30
HEX_KEY = "0123456789abcdef" * 4


def lines_in(language: str) -> Block:
    return next(one for one in blocks(PAGE) if one.language == language)


async def user_of(door: Door, token: str) -> tuple[int, Any]:
    status, _, told = await door.call("GET", "/v1/me/wallet", None, Authorization=f"Bearer {token}")
    return status, told.get("user", told.get("code"))


async def test_the_lines_of_python(door: Door, monkeypatch: pytest.MonkeyPatch) -> None:
    """They are six at most, and the gateway knows the user for five minutes."""
    code = lines_in("python").code
    assert len([line for line in code.splitlines() if line.strip()]) <= 6
    monkeypatch.setenv("HONGBAO_TOKEN_KEY", KEY)
    scope: dict[str, Any] = {}
    exec(code, scope)  # noqa: S102 - our own page
    token = scope["token_of"]("bob")
    assert await user_of(door, token) == (200, "bob")
    claims = jwt.decode(token, KEY, algorithms=["HS256"])
    assert 290 < claims["exp"] - time.time() <= 300


async def test_the_lines_with_a_private_key(door: Door, tmp_path: Path) -> None:
    """What they write is a file that a gateway takes, and what they sign names its user there."""
    _, block = [one for one in blocks(PAGE) if one.language == "python"]
    scope: dict[str, Any] = {}
    exec(block.code, scope)  # noqa: S102 - our own page
    keys = tmp_path / "keys.json"
    keys.write_text(scope["jwks"]())
    settings = GatewaySettings(
        listen="127.0.0.1:0", topology=str(door.topology), wallet_url=door.wallet.url, link_key=GATEWAY_KEY.text,
        token_key=KEY, share_key=KEY, slot_key=KEY, token_keys=str(keys),
    )  # fmt: skip
    async with running_gateway(settings) as gateway, aiohttp.ClientSession() as session:
        client = Client(f"http://127.0.0.1:{gateway.port}", scope["token_of"], session)
        await door.until(lambda: not gateway.readiness.missing())
        assert (await client.call("GET", "/v1/me/wallet", "bob"))[2]["user"] == "bob"


def jose() -> Path:
    """Return a folder in which Node finds jose; skips where it cannot be had."""
    npm = shutil.which("npm")
    if npm is None or shutil.which("node") is None:
        pytest.skip("there is no node with npm on this machine: the lines of JavaScript were not run")
    package = CACHE / "package.json"
    text = json.dumps({"private": True, "type": "module", "dependencies": {"jose": JOSE}})
    if not (CACHE / "node_modules" / "jose").exists() or package.read_text() != text:
        CACHE.mkdir(parents=True, exist_ok=True)
        package.write_text(text)
        command = [npm, "install", "--silent", "--ignore-scripts", "--no-audit", "--no-fund"]
        try:
            done = subprocess.run(command, cwd=CACHE, capture_output=True, check=False, timeout=INSTALL_S)
        except subprocess.TimeoutExpired:
            done = None
        if done is None or done.returncode:
            package.unlink()
            pytest.skip("npm's registry cannot be reached: the lines of JavaScript were not run")
    return CACHE


def node(code: str, folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["node", "--input-type=module", "-"], input=code, cwd=folder, env={**os.environ, "HONGBAO_TOKEN_KEY": KEY},
        capture_output=True, text=True, check=False, timeout=RUN_S,
    )  # fmt: skip


async def test_the_lines_of_javascript(door: Door) -> None:
    """They are six at most, and the gateway knows the user; where Node or jose is missing the test says so."""
    code = lines_in("javascript").code
    assert len([line for line in code.splitlines() if line.strip()]) <= 6
    folder = jose()
    done = await asyncio.to_thread(node, f"{code}\nconsole.log(await tokenOf('bob'));\n", folder)
    assert done.returncode == 0, done.stderr
    assert await user_of(door, done.stdout.strip()) == (200, "bob")


async def test_what_the_page_says_of_claims(door: Door) -> None:
    """`sub` and `exp` are needed, `nbf` counts, `iat` and all others do not; only HS256, and only 2,048 characters."""
    now = int(time.time())
    good: dict[str, Any] = {"sub": "bob", "exp": now + 60}
    for more in ({}, {"iat": now + 999}, {"aud": "x", "iss": "y"}, {"nbf": now - 5}):
        assert await user_of(door, jwt.encode({**good, **more}, KEY)) == (200, "bob")
    for bad in ({"sub": "bob"}, {"exp": now + 60}, {**good, "nbf": now + 50}, {**good, "sub": "-bob"}):
        assert await user_of(door, jwt.encode(bad, KEY)) == (401, "token_invalid")
    assert await user_of(door, jwt.encode({**good, "exp": now - 1}, KEY)) == (401, "token_expired")
    assert await user_of(door, jwt.encode(good, KEY * 2, algorithm="HS512")) == (401, "token_invalid")
    assert await user_of(door, jwt.encode({**good, "x": "y" * 2048}, KEY)) == (401, "token_invalid")
    assert "2,048 characters" in PAGE.read_text()


def test_the_key_is_text(monkeypatch: pytest.MonkeyPatch) -> None:
    """A key of hexadecimal digits is used as its characters: decoded, it is another key."""
    monkeypatch.setenv("HONGBAO_TOKEN_KEY", HEX_KEY)
    scope: dict[str, Any] = {}
    exec(lines_in("python").code, scope)  # noqa: S102 - our own page
    token = scope["token_of"]("bob")
    assert jwt.decode(token, HEX_KEY.encode(), algorithms=["HS256"])["sub"] == "bob"
    with pytest.raises(jwt.InvalidSignatureError):
        jwt.decode(token, bytes.fromhex(HEX_KEY), algorithms=["HS256"])
