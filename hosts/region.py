"""A whole region: networks, hosts, the programs of others, databases, our own processes; one `async with`."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from hosts import installed, memcached, nginx, prometheus
from hosts.cluster import Cluster
from hosts.etcd import etcd_servers, find_etcd, wait_for_etcd
from hosts.ground import Ground, ground
from hosts.host import Host, lay_out
from hosts.patroni import PatroniProgram, find_patroni, patroni_config, patroni_member
from hosts.plan import EDGE, ETCDS, GATEWAYS, SETS, WALLET, WATCH, Plan
from hosts.program import HostProgram
from hosts.shell import check_machine
from hosts.subnet import Subnet, free_subnet
from installation.access import Access
from installation.data_folder import DataFolder
from installation.keys import Secrets
from local.day_table_service import DayTableService
from local.service import Service
from machine.account import Account, cache_account, server_account
from machine.debian_programs import find_program
from machine.postgres.binaries import Binaries, find_binaries
from runtime.clock import SystemClock
from runtime.together import all_or_first_error
from schema import identity, roles
from schema.cluster_setup import set_up_cluster
from schema.migrate import Kind, migrate

AHEAD_DAYS = 1
"""Day tables after today's: a drill that begins before midnight ends after it."""

Notify = Callable[[str], None]


@dataclass
class Region:
    """What runs. `services` are our own processes by host, `memcached` by SET."""

    plan: Plan
    mine: Ground
    subnet: Subnet
    hosts: dict[str, Host]
    data: DataFolder
    secrets: Secrets
    notify: Notify
    account: Account
    binaries: Binaries
    patroni: PatroniProgram
    etcd: list[HostProgram] = field(default_factory=list)
    clusters: dict[str, Cluster] = field(default_factory=dict)
    memcached: dict[str, HostProgram] = field(default_factory=dict)
    services: dict[str, Service] = field(default_factory=dict)
    edge: HostProgram | None = None
    watch: HostProgram | None = None
    _day_tables: DayTableService | None = None

    @property
    def url(self) -> str:
        """Where clients find it."""
        return f"http://{self.hosts[EDGE].front}:{nginx.PORT}"

    @property
    def watcher(self) -> prometheus.Watcher:
        """Prometheus, as one asks it."""
        return prometheus.Watcher(f"http://{self.hosts[WATCH].front}:{prometheus.PORT}")

    def access(self) -> Access:
        """Return it as a command sees it."""
        return installed.access_of(self.data)

    def cluster(self, name: str, hosts: Sequence[str], scope: str) -> Cluster:
        """Return a Postgres of these hosts, not started; `scope` is its name in etcd."""
        passwords = self.secrets.passwords(name)
        etcd_hosts = [self.hosts[one] for one in ETCDS]
        members = []
        for one in hosts:
            host = self.hosts[one]
            config = patroni_config(
                scope, host, self.subnet, self.binaries, etcd_hosts, passwords["postgres"], alone=len(hosts) == 1
            )
            members.append(patroni_member(self.patroni, config, host, self.account))
        return Cluster(name, members, passwords)

    async def start(self) -> None:
        """Start everything; it serves when this returns."""
        cache = cache_account()
        program = await find_etcd(cache, self.mine.folder)
        self.etcd = etcd_servers(program, [self.hosts[one] for one in ETCDS], cache)
        self.notify("etcd")
        for one in self.etcd:
            one.start()
        await wait_for_etcd(self.etcd)
        self.clusters = {name: self.cluster(name, self.plan.postgres_hosts(name), name) for name in self.plan.postgres}
        self.notify(f"{sum(self.plan.postgres.values())} Postgres under Patroni")
        await all_or_first_error(*(self._begin(cluster) for cluster in self.clusters.values()))
        await self._install()
        self.notify("wallet, setnodes, gateways")
        await self._start_memcached(cache)
        await self._start_services()
        self.edge = nginx.nginx(
            await nginx.find_nginx(cache, self.hosts[EDGE]),
            self.hosts[EDGE],
            [self.services[one].address for one in GATEWAYS],
            cache,
        )
        self.edge.start()
        await self._start_prometheus(cache)

    async def stop(self) -> None:
        """End our own work here; what runs on the hosts is ended with the ground."""
        if self._day_tables is not None:
            await self._day_tables.stop()

    def memcached_address(self, set_name: str) -> str:
        """Return where a SET's memcached listens."""
        return f"{self.hosts[self.plan.memcached_host(set_name)].front}:{memcached.PORT}"

    async def write_inventory(self) -> None:
        """Write what is installed as it is now."""
        cache = {name: self.memcached_address(name) for name in SETS}
        await installed.write_inventory(self.data, self.secrets, self.clusters, self.plan, self.hosts, self.url, cache)

    def make_services(self) -> dict[str, Service]:
        """Return our own processes as the installation's files describe them now, not started."""
        return installed.services_of(self.data, self.plan, self.hosts, self.hosts[EDGE].front)

    async def _begin(self, cluster: Cluster) -> None:
        await cluster.begin()
        self.notify(f"{cluster.name} has a primary and {len(cluster.members) - 1} that follow it")
        await set_up_cluster(cluster.dsn(), cluster.passwords)
        kind = Kind.WALLET if cluster.name == WALLET else Kind.SET
        owner = cluster.dsn(roles.OWNER, roles.DATABASE)
        await migrate(owner, kind, cluster.name)
        await identity.claim(owner, cluster.name)

    async def _install(self) -> None:
        """Write the installation's file, publish the topology, and make today's tables."""
        await self.write_inventory()
        access = self.access()
        await installed.publish(access)
        owners = {name: access.set_dsn(name, roles.OWNER) for name in SETS}
        self._day_tables = DayTableService(self.data.topology, owners, self.notify, AHEAD_DAYS, SystemClock())
        await self._day_tables.make_today()
        self._day_tables.start()

    async def _start_memcached(self, account: Account) -> None:
        program = await find_program("memcached", account, self.mine.folder)
        for name in SETS:
            host = self.hosts[self.plan.memcached_host(name)]
            self.memcached[name] = memcached.memcached(program, host, account)
            self.memcached[name].start()

    async def _start_prometheus(self, account: Account) -> None:
        host = self.hosts[WATCH]
        jobs, key = installed.scraped(self.services, self.plan, self.data)
        self.watch = prometheus.prometheus(await prometheus.find_prometheus(account, host), host, jobs, key, account)
        self.watch.start()
        await self.watcher.wait()

    async def _start_services(self) -> None:
        self.services = self.make_services()
        await all_or_first_error(*(one.start() for one in self.services.values()))


@contextlib.asynccontextmanager
async def region(plan: Plan, notify: Notify, where: Path | None = None) -> AsyncIterator[Region]:
    """Run a region for the block; nothing of it is left afterwards.

    Raises Refused `hosts_root`, `hosts_unsupported`, `hosts_busy`, `no_free_network`, and what is missing to run it;
    Unavailable where a part does not start.
    """
    await check_machine()
    async with ground(where) as mine:
        account = server_account()
        data = DataFolder(mine.folder / "data")
        data.prepare(account)
        subnet = await free_subnet()
        notify(f"hosts in {subnet.front} and {subnet.back}, their files in {mine.folder}")
        made = Region(
            plan=plan,
            mine=mine,
            subnet=subnet,
            hosts=await lay_out(plan.names(), mine, subnet),
            data=data,
            secrets=installed.passwords_of(data, list(plan.postgres)),
            notify=notify,
            account=account,
            binaries=find_binaries(account, data.path),
            patroni=await find_patroni(account, data.path),
        )
        try:
            await made.start()
            yield made
        finally:
            await asyncio.shield(made.stop())
