import asyncio
import base64
import hashlib
import hmac
import os
import shutil
import signal
import socket
import subprocess
import sys
from pathlib import Path

import asyncpg
import pytest

from errors import Refused
from machine.account import Account
from machine.postgres.server import Postgres, PostgresSpec
from machine.postgres.settings import RESERVED_SINCE
from schema import roles
from schema.cluster_setup import set_up_cluster
from schema.scram import matches, verifier

pytestmark = pytest.mark.faults


def spec(folder: Path, name: str = "one", **more: object) -> PostgresSpec:
    return PostgresSpec(name, folder / "postgres" / name, folder / "logs" / f"{name}.log", {"postgres": "pw"}, **more)


async def run(server: Postgres, *statements: str) -> object:
    connection = await asyncpg.connect(server.dsn(), timeout=10)
    try:
        for statement in statements[:-1]:
            await connection.execute(statement)
        return await connection.fetchval(statements[-1])
    finally:
        await connection.close()


async def test_data_survives_stop_kill_and_restart(server_folder: Path, account: Account) -> None:
    """What was committed is there after a stop, a kill -9 of the postmaster and an immediate stop; same port."""
    server = Postgres(spec(server_folder), account=account)
    await server.start()
    try:
        port = server.port
        await run(server, "CREATE TABLE t (n int)", "INSERT INTO t VALUES (1) RETURNING n")
        await server.restart()
        await run(server, "INSERT INTO t VALUES (2) RETURNING n")
        server.kill()
        assert await server.wait() == -signal.SIGKILL
        await server.start()
        await run(server, "INSERT INTO t VALUES (3) RETURNING n")
        await server.restart("immediate")
        assert await run(server, "SELECT array_agg(n ORDER BY n) FROM t") == [1, 2, 3]
        assert server.port == port
        assert await run(server, "SHOW fsync") == await run(server, "SHOW synchronous_commit") == "on"
    finally:
        await server.stop()
    assert not server.running


async def test_a_password_is_needed(server_folder: Path, account: Account) -> None:
    """A loopback connection without the right password is refused: no trust, not even here."""
    server = Postgres(spec(server_folder), account=account)
    await server.start()
    try:
        with pytest.raises(asyncpg.InvalidPasswordError):
            await asyncpg.connect(server.dsn().replace(":pw@", ":other@"), timeout=10)
        assert not list(server_folder.rglob("*.password"))
    finally:
        await server.stop()


PARENT = """
import asyncio, sys
from pathlib import Path
from machine.postgres.server import Postgres, PostgresSpec
from schema.scram import matches, verifier
from machine.memcached import Memcached, MemcachedSpec

async def main():
    folder = Path(sys.argv[1])
    server = Postgres(PostgresSpec("one", folder / "postgres" / "one", folder / "one.log", {"postgres": "pw"}))
    cache = Memcached(MemcachedSpec("cache", folder, folder / "cache.log"))
    await asyncio.gather(server.start(), cache.start())
    print(server.pid, cache.pid, flush=True)
    await asyncio.sleep(60)

asyncio.run(main())
"""


async def test_nothing_outlives_a_killed_parent(server_folder: Path, account: Account) -> None:
    """After kill -9 of the parent, Postgres and memcached are gone in 3 s, and the next start works at once."""
    parent = subprocess.Popen([sys.executable, "-c", PARENT, str(server_folder)], stdout=subprocess.PIPE)  # noqa: ASYNC220
    assert parent.stdout is not None
    with parent.stdout:
        pids = [int(word) for word in (await asyncio.to_thread(parent.stdout.readline)).split()]
        assert len(pids) == 2
        parent.kill()
        parent.wait(10)
    server = Postgres(spec(server_folder), account=account)
    await server.start()
    await server.stop()
    async with asyncio.timeout(3):
        while any(alive(pid) for pid in pids):
            await asyncio.sleep(0.02)


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except FileNotFoundError:
        return False


async def test_a_second_server_on_one_folder_is_refused(
    server_folder: Path, account: Account, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two servers never work on one folder: the second start names the first one's process and how to stop it."""
    monkeypatch.setattr("machine.postgres.cluster_folder.LEAVE_S", 0.2)
    first = Postgres(spec(server_folder), account=account)
    await first.start()
    try:
        with pytest.raises(Refused, match=f"kill -INT {first.pid}") as caught:
            await Postgres(spec(server_folder), account=account).start()
        assert caught.value.code == "postgres_already_running"
        assert await run(first, "SELECT 1") == 1
    finally:
        await first.stop()


async def test_a_stale_pid_file_is_no_obstacle(server_folder: Path, account: Account) -> None:
    """A postmaster.pid of before a crash whose number now belongs to somebody else does not stop a start."""
    server = Postgres(spec(server_folder), account=account)
    await server.start()
    await server.stop()
    bystander = subprocess.Popen([*account.command_prefix(), "sleep", "60"])  # noqa: ASYNC220
    try:
        pid_file = server.spec.folder / "postmaster.pid"
        pid_file.write_text(f"{bystander.pid}\n{server.spec.folder}\n")
        account.chown(pid_file)
        await server.start()
        await server.stop()
        assert bystander.poll() is None
    finally:
        bystander.kill()
        bystander.wait(5)


async def test_a_folder_of_another_major_version_is_refused(server_folder: Path, account: Account) -> None:
    """Data of another major version is left alone; the refusal names both versions."""
    server = Postgres(spec(server_folder), account=account)
    server.spec.folder.mkdir(parents=True)
    (server.spec.folder / "PG_VERSION").write_text("13\n")
    with pytest.raises(Refused, match="made by Postgres 13") as caught:
        await server.start()
    assert caught.value.code == "postgres_other_version"


async def test_a_taken_port_is_refused(server_folder: Path, account: Account) -> None:
    """A port that was asked for and is taken is named; nothing is left running."""
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        server = Postgres(spec(server_folder, port=port), account=account)
        with pytest.raises(Refused, match=f"port {port}") as caught:
            await server.start()
    assert caught.value.code == "port_taken"
    assert not server.running


async def test_a_full_disk_is_refused(server_folder: Path, account: Account, monkeypatch: pytest.MonkeyPatch) -> None:
    """With too little space nothing is started: Postgres would stop in the middle of a commit."""
    much = shutil.disk_usage("/").total * 1000
    monkeypatch.setattr("machine.postgres.server.MIN_FREE_TO_MAKE_BYTES", much)
    with pytest.raises(Refused, match="make room") as caught:
        await Postgres(spec(server_folder), account=account).start()
    assert caught.value.code == "disk_full"
    assert not (server_folder / "postgres").exists()


async def test_a_cluster_that_stands_starts_with_little_room(
    server_folder: Path, account: Account, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After a crash on a small disk it starts again with less than a first start needs, and warns; not with nothing."""
    server = Postgres(spec(server_folder), account=account)
    await server.start()
    await server.stop()
    much = shutil.disk_usage("/").total * 1000
    monkeypatch.setattr("machine.postgres.server.MIN_FREE_TO_MAKE_BYTES", much)
    said: list[str] = []
    server = Postgres(spec(server_folder, warn=said.append), account=account)
    await server.start()
    await server.stop()
    assert ["make room soon" in line for line in said] == [True]
    monkeypatch.setattr("machine.postgres.server.MIN_FREE_BYTES", much)
    with pytest.raises(Refused, match="make room for at least"):
        await server.start()


async def test_a_killed_initdb_heals(server_folder: Path, account: Account) -> None:
    """What a killed initdb left behind is thrown away by the next start."""
    aside = server_folder / "postgres" / "one.new"
    aside.mkdir(parents=True)
    (aside / "PG_VERSION").write_text("18\n")
    (server_folder / "postgres" / "one.password").write_text("old")
    server = Postgres(spec(server_folder), account=account)
    await server.start()
    await server.stop()
    assert not aside.exists()


async def test_a_bad_setting_is_told_in_one_line(server_folder: Path, account: Account) -> None:
    """When Postgres does not start, its own reason is in the error."""
    from errors import Unavailable

    server = Postgres(spec(server_folder, settings={"shared_buffers": "many"}), account=account)
    with pytest.raises(Unavailable, match="shared_buffers"):
        await server.start()


async def test_a_start_waits_for_orphaned_backends(server_folder: Path, account: Account) -> None:
    """While a backend of a killed postmaster still works in the folder, no second server touches its data."""
    server = Postgres(spec(server_folder), account=account)
    await server.start()
    orphan = await asyncpg.connect(server.dsn(), timeout=10)
    backend = await orphan.fetchval("SELECT pg_backend_pid()")
    os.kill(backend, signal.SIGSTOP)
    try:
        server.kill()
        await server.wait()
        starting = asyncio.create_task(server.start())
        await asyncio.sleep(0.5)
        assert not starting.done()
        assert not server.running
    finally:
        os.kill(backend, signal.SIGCONT)
    await starting
    orphan.terminate()
    await server.stop()


async def test_no_password_is_in_a_statement(server_folder: Path, account: Account) -> None:
    """Statistics show no password after a start or a subscription; one that did not change is not set again."""
    passwords = {role: f"secret_of_{role}" for role in roles.roles_of("set")}
    folder = server_folder / "postgres" / "one"
    server = Postgres(PostgresSpec("one", folder, server_folder / "one.log", passwords), account=account)
    await server.start()
    rows = "SELECT array_agg((rolname, rolpassword)::text ORDER BY rolname) FROM pg_authid WHERE rolcanlogin"
    try:
        # As an earlier version left it: the counters outlive a restart.
        await run(server, "CREATE DATABASE hongbao", "SELECT 1")
        connection = await asyncpg.connect(server.dsn(database=roles.DATABASE), timeout=10)
        await connection.execute("CREATE EXTENSION pg_stat_statements; SET pg_stat_statements.track_utility = on")
        await connection.execute("CREATE ROLE hongbao_audit LOGIN PASSWORD 'secret_of_old'")
        await connection.close()
        await set_up_cluster(server.dsn(), server.spec.passwords)
        before = await run(server, rows)
        await server.restart()
        await set_up_cluster(server.dsn(), server.spec.passwords)
        assert await run(server, rows) == before
        await run(
            server,
            "CREATE SUBSCRIPTION s CONNECTION 'password=secret_of_another' PUBLICATION p WITH (connect = false)",
            "ALTER SUBSCRIPTION s SET (slot_name = NONE)",
            "DROP SUBSCRIPTION s",
        )
        audit = await asyncpg.connect(server.dsn(roles.AUDIT, roles.DATABASE), timeout=10)
        try:
            told = await audit.fetch("SELECT query FROM pg_stat_statements WHERE query IS NOT NULL")
            assert told
            assert not [row["query"] for row in told if "secret_of" in row["query"]]
        finally:
            await audit.close()
        await run(server, "ALTER ROLE hongbao_audit NOLOGIN", "SELECT 1")
        await set_up_cluster(server.dsn(), server.spec.passwords)
        await (await asyncpg.connect(server.dsn(roles.AUDIT, roles.DATABASE), timeout=10)).close()
    finally:
        await server.stop()


def test_a_verifier_is_that_of_the_standard() -> None:
    """The exchange of RFC 7677, section 3, gives the keys that its proof and signature were made with."""
    salt = base64.b64decode("W22ZaJ0SNY7soEsUEjb6gQ==")
    kept = verifier("pencil", salt, 4096)
    stored, server_key = (base64.b64decode(one) for one in kept.split("$")[2].split(":"))
    said = (
        b"n=user,r=rOprNGfwEbeRWgbNEkqO,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,"
        b"s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096,c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0"
    )
    signature = base64.b64encode(hmac.digest(server_key, said, "sha256"))
    assert signature == b"6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="
    proof = base64.b64decode("dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=")
    client_key = bytes(a ^ b for a, b in zip(proof, hmac.digest(stored, said, "sha256"), strict=True))
    assert hashlib.sha256(client_key).digest() == stored
    assert matches(kept, "pencil")
    assert not matches(kept, "pencils")
    assert not matches(None, "pencil")
    assert not matches("md5c6c6", "pencil")


async def test_a_role_has_no_right_that_it_does_not_use(server_folder: Path, account: Account) -> None:
    """A reader takes no lock that others wait for; nobody makes temporary tables or large objects, or goes elsewhere.

    What the processes use still works: the locks of those who write.
    """
    passwords = {role: f"{role}-password" for role in roles.roles_of("set")}
    one = PostgresSpec("one", server_folder / "postgres" / "one", server_folder / "one.log", passwords)
    server = Postgres(one, account=account)
    await server.start()
    try:
        await set_up_cluster(server.dsn(), server.spec.passwords)
        await set_up_cluster(server.dsn(), server.spec.passwords)
        for role, statement in (
            (roles.AUDIT, "SELECT pg_advisory_lock(7110001)"),
            (roles.AUDIT, "SELECT pg_try_advisory_lock(hashtext('hongbao_sweeper'))"),
            (roles.AUDIT, "SELECT pg_advisory_xact_lock_shared(1, 2)"),
            (roles.AUDIT, "CREATE TEMP TABLE t (n int)"),
            (roles.SETNODE, "CREATE TEMP TABLE t (n int)"),
            (roles.SETNODE, "SELECT lo_create(0)"),
            (roles.SETNODE, "SELECT lo_from_bytea(0, 'x')"),
        ):
            connection = await asyncpg.connect(server.dsn(role, roles.DATABASE), timeout=10)
            with pytest.raises(asyncpg.InsufficientPrivilegeError):
                await connection.execute(statement)
            await connection.close()
        for role in (roles.SETNODE, roles.AUDIT, roles.OWNER):
            for database in ("postgres", "template1"):
                with pytest.raises(asyncpg.InsufficientPrivilegeError):
                    await asyncpg.connect(server.dsn(role, database), timeout=10)
        for role in (roles.SETNODE, roles.OWNER):
            connection = await asyncpg.connect(server.dsn(role, roles.DATABASE), timeout=10)
            assert await connection.fetchval("SELECT pg_try_advisory_lock(hashtext('hongbao_sweeper'))")
            await connection.close()
    finally:
        await server.stop()


async def test_silent_logins_end_soon_and_keep_no_auditor_out(server_folder: Path, account: Account) -> None:
    """A crowd that connects and says nothing is hung up on within seconds; then everybody can log in again."""
    passwords = {role: f"{role}-password" for role in roles.roles_of("set")}
    server = Postgres(
        PostgresSpec("one", server_folder / "pg" / "one", server_folder / "one.log", passwords), account=account
    )
    await server.start()
    silent = []
    try:
        await set_up_cluster(server.dsn(), server.spec.passwords)
        host, port = server.address.split(":")
        silent = [await asyncio.open_connection(host, int(port)) for _ in range(130)]
        async with asyncio.timeout(20):
            for reader, _ in silent:
                await reader.read()
            connection = await asyncpg.connect(server.dsn(roles.AUDIT, roles.DATABASE), timeout=10)
        assert await connection.fetchval("SHOW authentication_timeout") == "5s"
        await connection.close()
    finally:
        for _, writer in silent:
            writer.close()
        await server.stop()


async def test_the_audit_gets_in_when_all_connections_are_taken(server_folder: Path, account: Account) -> None:
    """Where Postgres can (16 and later), some connections are kept for the audit role; others are turned away."""
    passwords = {role: f"{role}-password" for role in roles.roles_of("set")}
    server = Postgres(
        PostgresSpec("one", server_folder / "pg" / "one", server_folder / "one.log", passwords), account=account
    )
    await server.start()
    taken = []
    try:
        await set_up_cluster(server.dsn(), server.spec.passwords)
        with pytest.raises(asyncpg.PostgresError, match=r"reserved|too many"):  # noqa: PT012 - the one that is too many
            for _ in range(65):
                taken.append(  # noqa: PERF401 - those before it are closed at the end
                    await asyncpg.connect(server.dsn(roles.SETNODE, roles.DATABASE), timeout=10)
                )
        assert len(taken) >= 57
        if taken[0].get_server_version().major < RESERVED_SINCE:
            pytest.skip("this Postgres reserves connections for the superuser only")
        connection = await asyncpg.connect(server.dsn(roles.AUDIT, roles.DATABASE), timeout=10)
        await connection.close()
    finally:
        for connection in taken:
            connection.terminate()
        await server.stop()
