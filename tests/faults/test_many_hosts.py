"""An installation on many hosts, from nothing: each host has its own folder, files and secrets, and shares no file."""

import asyncio
import contextlib
import json
import os
import shutil
import signal
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from cli.table import main
from client import NO_PATIENCE, ApiError, Hongbao
from installation.access import Access
from installation.finding import find
from local.service import probe
from machine import ports
from machine.account import Account
from machine.postgres.server import Postgres, PostgresSpec
from rotation.daemon import Daemon, DaemonSettings
from rotation.wiring import rotations
from runtime.tls import Tls
from sharding.topology import load
from switches.file import beside

pytestmark = [pytest.mark.faults, pytest.mark.timeout(180)]
OURS = {"gateway-1", "set-1-a", "wallet"}
SUPERUSER = {"postgres": "secret_of_postgres"}


@contextlib.asynccontextmanager
async def clusters(folder: Path, account: Account) -> AsyncIterator[dict[str, Postgres]]:
    """A Postgres that somebody else runs, for the SET and for the wallet."""
    specs = [
        PostgresSpec(name, folder / "db" / name, folder / "logs" / f"{name}.log", SUPERUSER)
        for name in ("wallet", "set-1")
    ]
    made = {spec.name: Postgres(spec, account=account) for spec in specs}
    await asyncio.gather(*(one.start() for one in made.values()))
    try:
        yield made
    finally:
        await asyncio.gather(*(one.stop("immediate") for one in made.values()))


class Host:
    """One host: a folder with what `installation host` wrote, and the processes that `serve` runs there."""

    def __init__(self, folder: Path, tls: Tls | None) -> None:
        self.file = folder / "installation.toml"
        self._tls = tls

    def _tls_of(self, kind: str) -> Tls | None:
        """Clients call gateways without TLS of ours."""
        return None if kind == "gateway" else self._tls

    @contextlib.asynccontextmanager
    async def serves(self, *words: str, address: str) -> AsyncIterator[asyncio.subprocess.Process]:
        """Run a process until the end of the block; it is ready at its beginning, and ends in good order."""
        env = {name: value for name, value in os.environ.items() if not name.startswith("HONGBAO_")}
        with self.file.with_name(f"{words[0]}.log").open("wb") as log:
            process = await asyncio.create_subprocess_exec(
                sys.executable,
                "-m",
                "cli",
                "serve",
                *words,
                "--installation",
                str(self.file),
                env=env,
                stdout=log,
                stderr=log,
            )
        host, port = address.split(":")
        try:
            async with asyncio.timeout(30):
                while not (await probe(host, int(port), "/readyz", self._tls_of(words[0]))).startswith("200"):
                    assert process.returncode is None, self.file.with_name(f"{words[0]}.log").read_text()
                    await asyncio.sleep(0.05)
            yield process
            process.send_signal(signal.SIGTERM)
            assert await asyncio.wait_for(process.wait(), 30) == 0
            lines = self.file.with_name(f"{words[0]}.log").read_text().splitlines()
            assert [json.loads(line)["level"] for line in lines]
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()


async def command(file: Path, *words: str, code: int = 0) -> Any:
    """Run a command for an installation file; returns what it prints as JSON."""
    ran = await asyncio.to_thread(CliRunner().invoke, main, [*words, "--installation", str(file), "--json"])
    assert ran.exit_code == code, ran.output
    return json.loads(ran.stdout.splitlines()[-1])


def everything_below(content: Any) -> Iterator[str]:
    """Yield each text of a JSON document."""
    if isinstance(content, dict):
        for one in content.values():
            yield from everything_below(one)
    else:
        yield str(content)


async def until(condition: Any) -> None:
    async with asyncio.timeout(20):
        while not condition():
            await asyncio.sleep(0.05)


@pytest.mark.parametrize("tls", [pytest.param(False, marks=pytest.mark.long, id="plain"), pytest.param(True, id="tls")])
async def test_from_nothing_to_a_change_of_topology(
    server_folder: Path, memcached: str, account: Account, *, tls: bool
) -> None:
    """Init, prepare, migrate, apply, serve on three hosts; switches and a pause reach the gateway's, too."""
    wallet, setnode, gateway = (f"127.0.0.1:{ports.free_port()}" for _ in range(3))
    operator = server_folder / "operator" / "installation.toml"
    async with clusters(server_folder, account) as made:
        ran = CliRunner().invoke(
            main,
            ["installation", "init", str(operator), "--wallet", wallet, "--memcached", memcached,
             "--postgres", f"wallet={made['wallet'].address}", "--postgres", f"set-1={made['set-1'].address}",
             "--setnode", f"set-1-a=set-1@{setnode}", "--gateway", f"gateway-1={gateway}",
             "--archive", str(server_folder / "archive"), *(["--tls"] if tls else [])],
        )  # fmt: skip
        assert ran.exit_code == 0, ran.output
        await kept_for_whoever_makes_the_cluster(operator)
        # These clusters are there already: the operator writes the password that they have, or where it is.
        operator.write_text(
            operator.read_text().replace("postgresql://postgres@", "postgresql://postgres:secret_of_postgres@")
        )
        identities = (await command(operator, "installation", "prepare"))["clusters"]
        assert identities == {name: one.system_identifier for name, one in made.items()}
        assert (await command(operator, "installation", "prepare"))["clusters"] == identities
        assert (await command(operator, "migrate"))["holds"]
        assert (await command(operator, "topology", "apply", "--slots", "100"))["version"] == 1
        await command(operator, "topology", "apply", "--slots", "100")
        if tls:
            made_now = (await command(operator, "installation", "certificates"))["certificates"]
            assert {one["name"] for one in made_now} == {"set-1-a", "wallet", "gateway", "operator"}
        await no_process_of_another_starts(operator, made)
        assert (await command(operator, "rotate", "run"))["days"] == []
        hosts = {}
        for name, words in {"host-1": ["wallet"], "host-2": ["gateway"], "host-3": ["setnode:set-1-a"]}.items():
            folder = server_folder / name
            ran = CliRunner().invoke(
                main, ["installation", "host", str(folder), *words, "--installation", str(operator)]
            )
            assert ran.exit_code == 0, ran.output
            hosts[name] = Host(folder, find(operator).tls)
        await serve_and_change(operator, hosts, wallet, setnode, gateway)


async def kept_for_whoever_makes_the_cluster(operator: Path) -> None:
    """`keys postgres` prints the password that `prepare` logs in with, and says so where the cluster has another."""
    kept = json.loads((operator.parent / "secrets.json").read_text())["postgres"]["wallet"]["postgres"]
    printed = await command(operator, "keys", "postgres", "--set", "wallet")
    assert printed["environment"] == {"PGPASSWORD": kept}
    ran = await asyncio.to_thread(
        CliRunner().invoke, main, ["keys", "postgres", "--set", "set-9", "--installation", str(operator)]
    )
    assert "has no passwords of a cluster 'set-9'" in ran.stderr
    refused = await asyncio.to_thread(
        CliRunner().invoke, main, ["installation", "prepare", "--installation", str(operator)]
    )
    assert "hongbao keys postgres --set wallet" in refused.stderr


async def no_process_of_another_starts(operator: Path, made: dict[str, Postgres]) -> None:
    """Who is given the address of another's database changes nothing there: its password is another."""
    folder = operator.parent.with_name("mistaken")
    ran = CliRunner().invoke(main, ["installation", "host", str(folder), "operator", "--installation", str(operator)])
    assert ran.exit_code == 0, ran.output
    file = folder / "installation.toml"
    here, there = made["set-1"].address, made["wallet"].address
    file.write_text(file.read_text().replace(here, "HERE").replace(there, here).replace("HERE", there))
    (told,) = (await command(file, "migrate", "set-1", code=1))["databases"]
    assert "refuses the login: password authentication failed" in told["error"]
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "cli", "serve", "wallet", "--installation", str(file), stderr=asyncio.subprocess.PIPE
    )
    _, err = await asyncio.wait_for(process.communicate(), 30)
    assert (process.returncode, b"refuses the login" in err) == (1, True), err


async def serve_and_change(operator: Path, hosts: dict[str, Host], wallet: str, setnode: str, gateway: str) -> None:
    whole = json.loads((operator.parent / "secrets.json").read_text())
    door = json.loads((hosts["host-2"].file.parent / "secrets.json").read_text())
    assert set(door["keys"]) == {"TOKEN_KEY", "SHARE_KEY", "SLOT_KEY", "METRICS_KEY"}
    assert (list(door["links"]), door["postgres"]) == (["gateway"], {})
    passwords = set(everything_below(whole["postgres"])) | {whole["keys"]["LINK_SECRET"]}
    assert not passwords & set(everything_below(door))
    assert "dsns" not in hosts["host-2"].file.read_text().replace("[clusters.wallet.dsns]", "").replace(
        "[clusters.set-1.dsns]", ""
    )
    await make_tables(find(operator))
    async with (
        hosts["host-1"].serves("wallet", address=wallet),
        hosts["host-3"].serves("setnode", "--name", "set-1-a", address=setnode),
        hosts["host-2"].serves("gateway", "--name", "gateway-1", address=gateway),
    ):
        access = find(operator)
        there = hosts["host-2"].file.with_name("topology.json")
        assert load(there) == load(access.topology_path)
        async with access.wallet() as bank:
            await bank.deposit(access.order_no(), "alice", 1_000)
        async with Hongbao(f"http://{gateway}", patience=NO_PATIENCE) as hongbao:
            alice = hongbao.user(access.token("alice"))
            envelope = await alice.create(total_fen=1_000, count=2)
            assert (await hongbao.user(access.token("bob")).open(envelope)).amount_fen
            told = (await command(operator, "installation", "check", code=1))["findings"]
            assert [one["check"] for one in told if one["level"] == "wrong"] == ["archive"]
            Path(find(operator).archive().folder).mkdir()
            assert (await command(operator, "installation", "check"))["holds"]
            await all_parts_are_known(operator)
            await jobs_work_in_folders_of_their_own(operator)
            await command(operator, "switch", "on", "creates", "--reason", "test", "--for", "10m")
            await until(lambda: beside(there).exists())
            await asyncio.sleep(1)
            with pytest.raises(ApiError) as told:
                await alice.create(total_fen=100, count=1)
            assert told.value.code == "degraded"
            await command(operator, "switch", "off", "creates")
            await command(operator, "dba", "pause", "set-1")
            # The setnode's host hears of it by its SET's Postgres, the gateway's by the wallet.
            setnodes = hosts["host-3"].file.with_name("topology.json")
            await until(lambda: load(there).sets[0].paused and load(setnodes).sets[0].paused)
            await asyncio.sleep(1)
            with pytest.raises(ApiError) as told:
                await alice.open(envelope)
            assert told.value.code == "set_paused"
            await command(operator, "dba", "resume", "set-1")
            await until(lambda: not load(there).sets[0].paused)
        assert (await command(operator, "audit"))["holds"]
    await command(operator, "installation", "check", code=1)
    status = await command(operator, "status", code=1)
    assert {one["name"] for one in status["parts"] if not one["answers"]} == OURS


async def all_parts_are_known(operator: Path) -> None:
    """`status` of an installation that no `./run` starts asks every part that its files name."""
    status = await command(operator, "status")
    assert {one["name"] for one in status["parts"]} == {*OURS, "postgres-wallet", "postgres-set-1", "memcached"}
    assert (status["up"], status["pid"], status["sets"][0]["days_ahead"] > 0) == (True, 0, True)


async def jobs_work_in_folders_of_their_own(operator: Path) -> None:
    """A unit's folder has the two files alone; what is published comes from the databases."""
    jobs = {
        "check": ("installation", "check"),
        "retention": ("retention", "apply", "--yes"),
        "archive": ("archive", "verify"),
        "payouts": ("payout", "stuck"),
    }
    for name, words in jobs.items():
        folder = operator.parent / f"job-{name}"
        folder.mkdir(mode=0o700)
        for file in ("installation.toml", "secrets.json"):
            shutil.copy(operator.parent / file, folder)
        if (certificates := operator.parent / "certificates").exists():
            shutil.copytree(certificates, folder / "certificates")
        await command(folder / "installation.toml", *words)


async def make_tables(access: Access) -> None:
    """Make the day tables, as the rotation process does in its first round."""
    done = await Daemon(lambda: rotations(access), lambda: access.topology().zone, DaemonSettings()).run_once()
    assert done.made
    assert not done.failed
