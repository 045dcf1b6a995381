"""Clients that are made from the OpenAPI document: they compile as they come, and play an envelope's life."""

import asyncio
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from machine.checkout import CHECKOUT
from tests.integration.gateway.fixtures import RealStack
from tests.markdown_blocks import DOCS, blocks

pytestmark = pytest.mark.timeout(600)

TOOLS = CHECKOUT / ".tools"
NPM = {"typescript": "5.9.3", "openapi-typescript": "7.13.0", "openapi-fetch": "0.17.0", "@types/node": "20.19.0"}
PYTHON = "openapi-python-client==0.29.1"
INSTALL_S, RUN_S = 240, 240

LIFE_TS = """
import createClient from "openapi-fetch";
import type { components, paths, webhooks } from "./schema.js";

const url = process.env["GATEWAY"]!;
const as = (user: "ALICE" | "BOB") =>
  createClient<paths>({ baseUrl: url, headers: { Authorization: `Bearer ${process.env[user]}` } });
const alice = as("ALICE");
const bob = as("BOB");

type Opened = webhooks["share.opened"]["post"]["requestBody"]["content"]["application/cloudevents+json"];
const heard = (event: Opened): number => event.data.amount_fen;

const kind: components["schemas"]["Kind"] = "lucky";
const key = crypto.randomUUID();
const made = await alice.POST("/v1/envelopes", {
  params: { header: { "Idempotency-Key": key } },
  body: { kind, total_fen: 888, count: 2, greeting: "恭喜发财" },
});
if (!made.data) throw new Error(made.error.detail);
const path = { id: made.data.share_id };
const opened = await bob.POST("/v1/envelopes/{id}/open", { params: { path } });
if (!opened.data) throw new Error(opened.error.code);
const wrong = await bob.POST("/v1/envelopes/{id}/cancel", { params: { path } });
const ended = await alice.POST("/v1/envelopes/{id}/cancel", { params: { path } });
if (!ended.data) throw new Error(ended.error.code);
const status: components["schemas"]["Status"] = ended.data.status;
const broke = await bob.POST("/v1/envelopes", {
  params: { header: { "Idempotency-Key": key } },
  body: { kind: "equal", total_fen: 1_000_000, count: 1 },
});
console.log(JSON.stringify({
  result: opened.data.result,
  amount_fen: opened.data.amount_fen,
  hears: typeof heard,
  wrong: wrong.error?.code,
  status,
  refund_fen: ended.data.refund_fen,
  broke: broke.error && [broke.error.code, broke.error.retry],
}));
"""

LIFE_PY = """
import json, os, uuid
from hongbao_client import AuthenticatedClient
from hongbao_client.api.default import cancel_envelope, create_envelope, open_envelope
from hongbao_client.models import CreateEnvelope, Kind, Problem

def user(name):
    return AuthenticatedClient(base_url=os.environ["GATEWAY"], token=os.environ[name])

alice, bob = user("ALICE"), user("BOB")
terms = CreateEnvelope(kind=Kind.LUCKY, total_fen=888, count=2, greeting="恭喜发财")
made = create_envelope.sync(client=alice, body=terms, idempotency_key=uuid.uuid4().hex)
opened = open_envelope.sync(id=made.share_id, client=bob)
wrong = cancel_envelope.sync(id=made.share_id, client=bob)
ended = cancel_envelope.sync(id=made.share_id, client=alice)
terms = CreateEnvelope(kind=Kind.EQUAL, total_fen=1_000_000, count=1)
broke = create_envelope.sync(client=bob, body=terms, idempotency_key=uuid.uuid4().hex)
assert isinstance(wrong, Problem) and isinstance(broke, Problem)
print(json.dumps({
    "result": opened.result, "amount_fen": opened.amount_fen, "wrong": wrong.code, "status": ended.status,
    "refund_fen": ended.refund_fen, "broke": [broke.code, broke.retry],
}))
"""


async def run(*command: str | Path, cwd: Path, limit_s: float = RUN_S, **env: str) -> str:
    """Run a command; returns what it prints, and fails with it where it fails."""
    done = await asyncio.to_thread(
        subprocess.run, [*map(str, command)], cwd=cwd, capture_output=True, text=True, timeout=limit_s, check=False,
        env={**os.environ, **env},
    )  # fmt: skip
    assert done.returncode == 0, f"{done.stdout[-3000:]}{done.stderr[-3000:]}"
    return done.stdout


async def people(stack: RealStack) -> dict[str, str]:
    """Where a client goes, and as whom."""
    await stack.deposit("generated-alice", 10_000)
    tokens = {name: stack.token(f"generated-{name.lower()}") for name in ("ALICE", "BOB")}
    return {"GATEWAY": stack.gateway_url, **tokens}


def assert_lived(text: str) -> None:
    told = json.loads(text)
    amount_fen = told.pop("amount_fen")
    assert told.pop("hears", "function") == "function"
    assert told == {
        "result": "opened",
        "wrong": "not_the_sender",
        "status": "canceled",
        "refund_fen": 888 - amount_fen,
        "broke": ["insufficient_funds", "changed"],
    }


async def document(stack: RealStack, folder: Path) -> Path:
    path = folder / "openapi.json"
    command = "import sys, urllib.request; sys.stdout.write(urllib.request.urlopen(sys.argv[1]).read().decode())"
    path.write_text(await run(sys.executable, "-c", command, f"{stack.gateway_url}/openapi.json", cwd=folder))
    return path


@pytest.mark.long
async def test_typescript(stack: RealStack, tmp_path: Path) -> None:
    """openapi-typescript and openapi-fetch, checked as strictly as TypeScript can, run in Node."""
    node = shutil.which("node")
    npm = shutil.which("npm")
    if node is None or npm is None:
        pytest.skip("there is no node with npm on this machine: no TypeScript client is made")
    folder = TOOLS / "openapi-typescript"
    text = json.dumps({"private": True, "type": "module", "dependencies": NPM})
    package = folder / "package.json"
    if not package.exists() or package.read_text() != text:
        folder.mkdir(parents=True, exist_ok=True)
        package.write_text(text)
        command = [npm, "install", "--silent", "--ignore-scripts", "--no-audit", "--no-fund"]
        done = await asyncio.to_thread(subprocess.run, command, cwd=folder, capture_output=True, timeout=INSTALL_S)
        if done.returncode:
            package.unlink()
            pytest.skip("npm's registry cannot be reached: no TypeScript client is made")
    bin_ = folder / "node_modules" / ".bin"
    (tmp_path / "node_modules").symlink_to(folder / "node_modules")
    (tmp_path / "package.json").write_text('{"type": "module"}')
    await run(bin_ / "openapi-typescript", await document(stack, tmp_path), "-o", "schema.d.ts", cwd=tmp_path)
    (tmp_path / "life.ts").write_text(LIFE_TS, encoding="utf-8")
    options = [
        "--strict", "--exactOptionalPropertyTypes", "--noUncheckedIndexedAccess",
        "--noPropertyAccessFromIndexSignature",
        "--target", "es2022", "--module", "nodenext", "--moduleResolution", "nodenext", "--types", "node",
    ]  # fmt: skip
    await run(bin_ / "tsc", *options, "life.ts", cwd=tmp_path)
    them = await people(stack)
    assert_lived(await run(node, "life.js", cwd=tmp_path, **them))
    # The bot of docs/apps/yours.md, as its reader makes and compiles it.
    (bot,) = [one.code for one in blocks(DOCS / "apps" / "yours.md") if one.language == "typescript"]
    (tmp_path / "bot.ts").write_text(bot, encoding="utf-8")
    (tmp_path / "schema.d.ts").rename(tmp_path / "hongbao.d.ts")
    await run(
        bin_ / "tsc",
        "--strict",
        "--target",
        "es2022",
        "--module",
        "nodenext",
        "--types",
        "node",
        "bot.ts",
        cwd=tmp_path,
    )
    assert (await run(node, "bot.js", cwd=tmp_path, **them)).startswith("opened ")


async def test_python(stack: RealStack, tmp_path: Path) -> None:
    """openapi-python-client: it imports as it comes, and has a class for a problem, not one for each status."""
    folder = TOOLS / "openapi-python-client"
    uv = Path(sys.executable).with_name("uv")
    if not uv.exists():
        pytest.skip("there is no uv here: no Python client is made")
    mark = folder / "installed"
    if not mark.exists() or mark.read_text() != PYTHON:
        shutil.rmtree(folder, ignore_errors=True)
        command = [uv, "pip", "install", "--quiet", "--python", sys.executable, "--target", folder, PYTHON]
        done = await asyncio.to_thread(subprocess.run, command, capture_output=True, timeout=INSTALL_S, cwd=tmp_path)
        if done.returncode:
            pytest.skip("PyPI cannot be reached: no Python client is made")
        mark.write_text(PYTHON)
    spec = await document(stack, tmp_path)
    paths = {"PYTHONPATH": f"{tmp_path / 'made'}{os.pathsep}{folder}", "PYTHONDONTWRITEBYTECODE": "1"}
    (tmp_path / "config.yml").write_text("package_name_override: hongbao_client\npost_hooks: []\n")
    await run(
        sys.executable, "-m", "openapi_python_client", "generate", "--path", spec, "--meta", "none",
        "--output-path", tmp_path / "made" / "hongbao_client", "--config", tmp_path / "config.yml",
        cwd=tmp_path, PYTHONPATH=str(folder),
    )  # fmt: skip
    models = [*(tmp_path / "made" / "hongbao_client" / "models").glob("*.py")]
    assert len(models) < 80
    await run(sys.executable, "-m", "compileall", "-q", tmp_path / "made", cwd=tmp_path, PYTHONPATH="")
    assert_lived(await run(sys.executable, "-c", LIFE_PY, cwd=tmp_path, **paths, **await people(stack)))
