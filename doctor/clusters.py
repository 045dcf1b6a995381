"""Whether the clusters of this machine are there, are those of before, and can be started by this Postgres."""

from collections.abc import Iterator

from doctor.finding import Finding, Level, sentence
from doctor.place import Place
from errors import Refused
from installation import inventory
from installation.inventory import Cluster
from machine.account import server_account
from machine.postgres.binaries import installed_binaries
from machine.postgres.cluster_folder import ClusterFolder
from runtime.dsn import hosts
from runtime.settings import is_loopback
from runtime.wording import counted


def clusters(place: Place) -> Iterator[Finding]:
    """Check each cluster that `./run` starts on this machine, as a start does."""
    if place.access is None:
        return
    installed = inventory.load(place.folder.inventory)
    if not installed.runner:
        return
    here = {name: one for name, one in installed.clusters.items() if _is_here(one)}
    try:
        binaries = installed_binaries(server_account())
    except Refused:
        return  # `postgres` says it
    wrong = 0
    for name, one in here.items():
        cluster = ClusterFolder(place.folder.postgres(name), binaries, server_account())
        try:
            cluster.check_identity(one.system_identifier)
            cluster.check_major()
        except Refused as refused:
            wrong += 1
            what, _, do = refused.detail.partition("; ")
            yield Finding("clusters", Level.WRONG, name, sentence(what), sentence(do))
    if here and not wrong:
        what = f"{counted(len(here), 'cluster')} of Postgres {binaries.major}, the same as before"
        yield Finding("clusters", Level.OK, "clusters", what)


def _is_here(one: Cluster) -> bool:
    named = [dsn for dsn in one.dsns.values() if isinstance(dsn, str)]
    return bool(named) and all(is_loopback(host) for dsn in named for host, _ in hosts(dsn))
