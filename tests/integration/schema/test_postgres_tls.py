"""Postgres over TLS: a DSN with `sslmode=verify-full` works everywhere, and a wrong certificate is said in a sentence.

The Postgres of the wheel is built without TLS, so these tests take one that is installed; without any they are skipped.
"""

import asyncio
import contextlib
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from pathlib import Path

import asyncpg
import pytest

from backup.backups import Backups
from backup.programs import Source
from cli.commands import psql
from errors import Unavailable
from installation.certificates import OTHER, Certificates, Wanted
from machine.account import Account
from machine.postgres.server import Postgres, PostgresSpec
from runtime import postgres
from runtime.dsn import tls_environment, with_login
from schema import roles
from schema.cluster_setup import set_up_cluster
from schema.migrate import migrate_wallet
from tests.conftest import Databases
from tests.integration.wallet.test_process import Process
from tests.wallet_client import wallet_client

pytestmark = [pytest.mark.faults, pytest.mark.timeout(180)]

PASSWORDS = {"postgres": "pw", roles.OWNER: "owner", roles.WALLET: "wallet", roles.AUDIT: "audit"}
WAIT_S = 30.0


def installed_with_tls() -> Iterator[Path]:
    """The folders of Postgres programs on this machine that were built with TLS, the newest first."""
    for folder in sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True):
        config = folder / "pg_config"
        if (folder / "initdb").exists() and config.exists():
            built = subprocess.run([config, "--configure"], capture_output=True, text=True, check=False, timeout=10)
            if "--with-openssl" in built.stdout or "--with-ssl=openssl" in built.stdout:
                yield folder


@dataclass
class Secure:
    """A Postgres that speaks TLS alone; `ca` is the file of its CA, `other` that of another one."""

    server: Postgres
    ca: Path
    other: Path
    folder: Path

    def dsn(self, role: str = "postgres", ca: Path | None = None) -> str:
        dsn = with_login(self.server.dsn(role, roles.DATABASE), role, PASSWORDS[role])
        return f"{dsn}?sslmode=verify-full&sslrootcert={ca or self.ca}"


@pytest.fixture
async def secure(
    server_folder: Path, account: Account, own_initdb: None, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Secure]:
    bin_folder = next(installed_with_tls(), None)
    if bin_folder is None:
        pytest.skip("no Postgres with TLS is installed (apt-get install postgresql); the one of the wheel has none")
    monkeypatch.setenv("HONGBAO_PG_BIN", str(bin_folder))
    files = {name: Certificates(server_folder / name) for name in ("certificates", "other")}
    for one in files.values():
        one.ensure([Wanted("postgres-set-1", OTHER, ("127.0.0.1",))])
        one.folder.chmod(0o755)
        (one.folder / "ca.pem").chmod(0o644)
    shown = files["certificates"].folder / "postgres-set-1.pem"
    account.chown(shown)
    tls = {"ssl": "on", "ssl_cert_file": str(shown), "ssl_key_file": str(shown), "ssl_min_protocol_version": "TLSv1.3"}
    spec = PostgresSpec(
        "wallet", server_folder / "postgres" / "wallet", server_folder / "wallet.log", PASSWORDS, settings=tls
    )
    server = Postgres(spec, account=account)
    await server.start()
    try:
        await set_up_cluster(server.dsn(), server.spec.passwords)
        await migrate_wallet(server.dsn(roles.OWNER, roles.DATABASE))
        hba = spec.folder / "pg_hba.conf"
        hba.write_text(
            "hostssl all all 127.0.0.1/32 scram-sha-256\nhostssl replication all 127.0.0.1/32 scram-sha-256\n"
        )
        one = Secure(server, server_folder / "certificates/ca.pem", server_folder / "other/ca.pem", server_folder)
        connection = await asyncpg.connect(server.dsn(), ssl="require")
        await connection.execute("SELECT pg_reload_conf()")
        await connection.close()
        yield one
    finally:
        await server.stop()


@contextlib.asynccontextmanager
async def wallet_at(dsn: str, log: Path) -> AsyncIterator[Process]:
    """A wallet process, whose log goes to a file."""
    one = Process(dsn)
    with log.open("wb") as file:
        one.process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "wallet", env=one._environ, stderr=file
        )
    try:
        yield one
    finally:
        if one.process.returncode is None:
            await one.end(signal.SIGINT)


async def test_a_process_and_the_backup_speak_tls(secure: Secure) -> None:
    """The wallet serves, a backup is taken and verified, over a server that takes no connection without TLS."""
    async with wallet_at(secure.dsn(roles.WALLET), secure.folder / "process.log") as process:
        async with wallet_client(process.url) as client:
            assert await client.deposit("one", "ann", 500) == 500
        async with postgres.connected(secure.dsn()) as connection:
            seen = await connection.fetch(
                "SELECT DISTINCT ssl, version FROM pg_stat_ssl JOIN pg_stat_activity USING (pid) WHERE usename = $1",
                roles.WALLET,
            )
            assert [tuple(row) for row in seen] == [(True, "TLSv1.3")]
    base = await Backups(Source("wallet", secure.dsn(), PASSWORDS), secure.folder / "backups").take()
    assert base.path.exists()


@pytest.mark.parametrize("ca", ["of another installation", "that is not there"])
async def test_a_certificate_that_is_not_trusted_is_said(secure: Secure, ca: str) -> None:
    """A command ends with a sentence, a process says it in its log and is not ready, a backup fails with one."""
    file = secure.other if ca == "of another installation" else secure.folder / "nowhere.pem"
    sentence = "not of the CA that is trusted here" if file.exists() else "names cannot be read"
    with pytest.raises(Unavailable, match=sentence) as told:
        await postgres.connect(secure.dsn(ca=file))
    assert told.value.code == "database_unavailable"
    log = secure.folder / "process.log"
    async with wallet_at(secure.dsn(roles.WALLET, file), log), asyncio.timeout(WAIT_S):
        while sentence not in log.read_text():
            await asyncio.sleep(0.05)
    lines = [line for line in log.read_text().splitlines() if '"room":"postgres"' in line]
    assert len(lines) == 1, "said once, not at each try"
    with pytest.raises(Unavailable, match=sentence):
        await Backups(Source("wallet", secure.dsn(ca=file), PASSWORDS), secure.folder / "backups").take()


async def test_a_server_without_tls_is_refused_by_a_sentence(databases: Databases) -> None:
    """A DSN that asks for TLS sends nothing to a Postgres that has none."""
    dsn = await databases.empty()
    with pytest.raises(Unavailable, match="rejected SSL upgrade"):
        await postgres.connect(f"{dsn}?sslmode=require")


@pytest.mark.parametrize("wrong", ["sslmode=perhaps", "sslmode=verify-full&sslrootcert=/nowhere/ca.pem"])
async def test_parameters_that_cannot_be_are_said(databases: Databases, wrong: str) -> None:
    """A slip in the DSN is a sentence, not a server that does not answer."""
    with pytest.raises(Unavailable, match=r"the DSN of 127\.0\.0\.1:\d+ (cannot be used|names)"):
        await postgres.connect(f"{await databases.empty()}?{wrong}")


def test_programs_of_postgres_get_the_same_parameters() -> None:
    """They are read from variables; other parameters are not passed on."""
    dsn = "postgresql://u:p@h:1/d?sslmode=verify-full&sslrootcert=/a/ca.pem&target_session_attrs=read-write"
    assert tls_environment(dsn) == {"PGSSLMODE": "verify-full", "PGSSLROOTCERT": "/a/ca.pem"}
    assert tls_environment("postgresql://u@h/d") == {}
    assert psql.tls_environment is tls_environment


async def test_scram_alone_is_in_pg_hba_of_what_run_makes(databases: Databases) -> None:
    """Every line of a cluster that we make asks for scram-sha-256."""
    connection = await asyncpg.connect(await databases.empty())
    try:
        methods = await connection.fetch("SELECT DISTINCT auth_method, error FROM pg_hba_file_rules")
        assert [tuple(row) for row in methods] == [("scram-sha-256", None)]
        assert await connection.fetchval("SHOW password_encryption") == "scram-sha-256"
    finally:
        await connection.close()
