"""Real servers for all tests: one Postgres and one memcached a worker, a database of its own for each test.

    async def test_something(databases):
        dsn = await databases.clone("set", migrate_set)

builds the template `set` once a session and business date by `await migrate_set(dsn)` and gives the test a copy of it.
DSNs are those of the superuser; `databases.dsn_as(dsn, role)` gives another role's, `databases.roles` names those that
exist.

`./test` runs several workers (pytest-xdist), each with servers of its own; `tests.once` is what they share. Tests
that are long by nature ask `tests.sizes` for their size, which is full with `./test --all`.
"""

import contextlib
import os
import shutil
import signal
import tempfile
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from urllib.parse import quote, urlsplit, urlunsplit

import asyncpg
import hypothesis
import pytest
import pytest_asyncio
import structlog

from machine import ports
from machine.account import Account, server_account
from machine.memcached import Memcached, MemcachedSpec
from machine.postgres.cluster_folder import ClusterFolder
from machine.postgres.server import Postgres, PostgresSpec
from schema import roles
from schema.cluster_setup import set_up_cluster
from sharding.ids import business_date
from tests import once
from tests.sizes import FULL

ROLES = ("postgres", roles.OWNER, roles.SETNODE, roles.WALLET, roles.AUDIT, roles.EVENTS)
CONNECT_S = 10.0
_MEMORY = "/dev/shm"  # noqa: S108 - Linux's folder in memory, and mkdtemp's name in it
_ROOMY_BYTES = 8 << 30
_SHARED = "HONGBAO_TESTS_SHARE"
_NAME_CHARS = 40
_KEPT = ("HONGBAO_PG_BIN", ports.RANGE, _SHARED, FULL)

Build = Callable[[str], Awaitable[object]]

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # A shell starts what goes to the background with Ctrl-C ignored, and children inherit that: tests send it to them.
    signal.signal(signal.SIGINT, signal.default_int_handler)


# A busy machine is no fault of an example: each test has its own deadline (pytest-timeout).
hypothesis.settings.register_profile(
    "hongbao",
    hypothesis.settings.default,
    deadline=None,
    suppress_health_check=[hypothesis.HealthCheck.too_slow],
)
hypothesis.settings.load_profile("hongbao")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--all", action="store_true", help="everything at full size")
    parser.addoption("--quick", action="store_true", help="without the tests that are marked `long`")
    parser.addoption("--shots", metavar="DIR", help="keep the screenshots of browser tests here, such as docs/screens")


def pytest_configure(config: pytest.Config) -> None:
    if config.getoption("--all"):
        os.environ[FULL] = "1"
    once.give_ports()
    if not hasattr(config, "workerinput"):
        folder = _passable_folder(server_account())
        os.environ[_SHARED] = str(folder.__enter__())
        config.add_cleanup(folder.__exit__)


def pytest_make_parametrize_id(val: object) -> str | None:
    """Cut long values in the names of tests: what follows may be a time, and all workers must find the same names."""
    if isinstance(val, (str, bytes)) and len(val) > _NAME_CHARS:
        return f"{ascii(val[:_NAME_CHARS]).strip('b').strip(chr(39) + chr(34))}... of {len(val)}"
    return None


@pytest.hookimpl(tryfirst=True)  # xdist reads the groups in the same hook
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Keep tests that share servers together, in one worker; with `--quick` leave out those that are long."""
    if config.getoption("--quick"):
        left_out = [item for item in items if item.get_closest_marker("long")]
        items[:] = [item for item in items if not item.get_closest_marker("long")]
        config.hook.pytest_deselected(items=left_out)
    for item in items:
        if group := _shares(item):
            item.add_marker(pytest.mark.xdist_group(group))


def pytest_collection_finish(session: pytest.Session) -> None:
    """Stop if xdist has not taken up the groups: all would pass, and each worker start the servers of each module.

    Stop as well if a fixture of the session is a module's own, because the module has imported it: there would be one
    of it for each such module, all of them alive to the end.
    """
    for name in ("stack", "site", "chromium", "axe_script", "s3"):
        found = {one for item in session.items for one in _of_session(item, name)}
        if len(found) > 1:
            raise pytest.UsageError(f"{name} would be made {len(found)} times; let no test module import it")
    if getattr(session.config.option, "loadgroup", False):
        for item in session.items:
            if item.get_closest_marker("xdist_group") and "@" not in item.nodeid:
                raise pytest.UsageError(f"pytest-xdist ignores the group of {item.nodeid}; see pytest's pin")


def _of_session(item: pytest.Item, name: str) -> list[object]:
    """Return what a test's fixture of this name is, if it is one of the session."""
    fixtures = getattr(item, "_fixtureinfo").name2fixturedefs  # noqa: B009 - pytest has no public name for it
    return [one for one in fixtures.get(name, ())[-1:] if one.scope == "session"]


def _shares(item: pytest.Item) -> str:
    """Name what a test shares with others, which one worker runs then: its module's fixture, a stack, a browser, S3."""
    fixtures = getattr(item, "_fixtureinfo").name2fixturedefs  # noqa: B009 - pytest has no public name for it
    for whole in ("stack", "chromium", "s3"):
        if whole in fixtures and fixtures[whole][-1].scope == "session":
            return whole
    of_module = any(found[-1].scope == "module" for found in fixtures.values() if found)
    return item.nodeid.split("::", maxsplit=1)[0] if of_module else ""


@pytest.fixture(scope="session")
def account() -> Account:
    """Whom servers run as."""
    return server_account()


@pytest.fixture(scope="session", autouse=True)
def _one_initdb(account: Account) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        once.copy_initdb(patch, Path(os.environ[_SHARED]), account)
        yield


@pytest.fixture(autouse=True)
def _own_logging() -> Iterator[None]:
    """Let a test that runs a command in this process leave the level of its logs behind for no other test."""
    before = structlog.get_config()
    yield
    structlog.configure(**before)


@pytest.fixture
def own_initdb(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the clusters of this test be made by initdb, as in earnest: each has a system identifier of its own."""
    monkeypatch.setattr(ClusterFolder, "_initdb", once.INITDB)


@pytest.fixture(scope="session")
def _session_folder(account: Account) -> Iterator[Path]:
    with _passable_folder(account) as folder:
        yield folder


@pytest.fixture
def server_folder(account: Account) -> Iterator[Path]:
    """A folder that servers can reach also when we are root (pytest's own tmp_path is closed to them)."""
    with _passable_folder(account) as folder:
        yield folder


class _passable_folder:  # noqa: N801 - reads as the function it is
    def __init__(self, account: Account) -> None:
        self._mode = 0o711 if account.drop_privileges else 0o700

    def __enter__(self) -> Path:
        self._path = Path(tempfile.mkdtemp(prefix="hongbao-test-", dir=_roomy_memory()))
        self._path.chmod(self._mode)
        return self._path

    def __exit__(self, *_: object) -> None:
        shutil.rmtree(self._path, ignore_errors=True)


def _roomy_memory() -> str | None:
    """Return a folder in memory where there is room for all servers of the session, else None for the usual place.

    Each database that a test gets is hundreds of files; a disk's file system takes longer to make and delete them than
    Postgres for the rest. Tests end processes, not the machine, so what is lost with it need not be held.
    """
    with contextlib.suppress(OSError):
        if shutil.disk_usage(_MEMORY).free >= _ROOMY_BYTES and os.access(_MEMORY, os.W_OK | os.X_OK):
            return _MEMORY
    return None


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def postgres(_session_folder: Path, account: Account) -> AsyncIterator[Postgres]:
    """The session's Postgres, with our durability settings and roles; do not stop it."""
    spec = PostgresSpec(
        "tests",
        _session_folder / "postgres" / "tests",
        _session_folder / "logs" / "postgres.log",
        {role: f"secret_of_{role}" for role in ROLES},
    )
    server = Postgres(spec, account=account)
    await server.start()
    try:
        await set_up_cluster(server.dsn(), server.spec.passwords)
        yield server
    finally:
        await server.stop("immediate")


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def _memcached(_session_folder: Path, account: Account) -> AsyncIterator[Memcached]:
    server = Memcached(
        MemcachedSpec("tests", _session_folder, _session_folder / "logs" / "memcached.log"), account=account
    )
    await server.start()
    try:
        yield server
    finally:
        await server.stop()


@pytest.fixture
def memcached(_memcached: Memcached) -> str:
    """host:port of an empty memcached."""
    import socket

    host, port = _memcached.address.split(":")
    with socket.create_connection((host, int(port)), timeout=5) as connection:
        connection.sendall(b"flush_all\r\n")
        assert connection.recv(64) == b"OK\r\n"
    return _memcached.address


class Databases:
    """Makes databases for one test from templates that the session builds once; drops them at its end."""

    def __init__(self, server: Postgres, built: dict[str, str]) -> None:
        self.day = business_date(datetime.now(UTC))
        """The business day on which the test began. A run may go past midnight: what one test builds is of one day."""
        self._server = server
        self._built = built
        self._mine: list[str] = []
        self.roles = ROLES

    async def clone(self, template: str, build: Build) -> str:
        """Return the superuser's DSN of a fresh copy of `template`, which `await build(owner's dsn)` fills once."""
        source = f"template_{template.replace('-', '_')}_{self.day:%Y%m%d}"
        by = str(getattr(build, "func", build))
        if source not in self._built:
            await self._run(f"DROP DATABASE IF EXISTS {source} WITH (FORCE)")
            await self._create(source)
            await build(self._server.dsn(roles.OWNER, source))
            self._built[source] = by
        elif self._built[source] != by:
            # Whoever came second would get what the first has built.
            raise ValueError(f"the template {template} is built by {self._built[source]} and by {by}")
        return await self._fresh(f" TEMPLATE {source}")

    async def empty(self) -> str:
        """Return the superuser's DSN of a database without anything in it."""
        return await self._fresh("")

    def dsn_as(self, dsn: str, role: str) -> str:
        """Return `dsn` for another role."""
        parts = urlsplit(dsn)
        login = f"{quote(role)}:{quote(self._server.spec.passwords[role])}"
        return urlunsplit(parts._replace(netloc=f"{login}@{parts.hostname}:{parts.port}"))

    async def _fresh(self, how: str) -> str:
        name = f"test_{uuid.uuid4().hex[:16]}"
        await self._create(name, how)
        self._mine.append(name)
        return self._server.dsn("postgres", name)

    async def _create(self, name: str, how: str = "") -> None:
        # file_copy: a template of hundreds of leaves is copied faster as files than through the log.
        await self._run(f"CREATE DATABASE {name} OWNER {roles.OWNER} STRATEGY file_copy{how}")

    async def _run(self, *statements: str) -> None:
        connection = await asyncpg.connect(self._server.dsn(), timeout=CONNECT_S, command_timeout=60)
        try:
            # One by one: no transaction may hold CREATE or DROP DATABASE.
            for statement in statements:
                await connection.execute(statement)
        finally:
            await connection.close(timeout=CONNECT_S)

    async def drop_all(self) -> None:
        """Drop what this test made, also under open connections."""
        if self._mine:
            await self._run(*(f"DROP DATABASE IF EXISTS {name} WITH (FORCE)" for name in self._mine))


@pytest.fixture(scope="session")
def _built_templates() -> dict[str, str]:
    return {}


@pytest_asyncio.fixture
async def databases(postgres: Postgres, _built_templates: dict[str, str]) -> AsyncIterator[Databases]:
    """Where a test gets databases from."""
    factory = Databases(postgres, _built_templates)
    try:
        yield factory
    finally:
        await factory.drop_all()


@pytest.fixture(autouse=True)
def _no_settings_from_outside(monkeypatch: pytest.MonkeyPatch) -> None:
    """A developer's HONGBAO_* variables must not change what tests see (HONGBAO_PG_BIN chooses the server)."""
    for name in list(os.environ):
        if name.startswith("HONGBAO_") and name not in _KEPT:
            monkeypatch.delenv(name)
