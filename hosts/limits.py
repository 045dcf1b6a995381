"""Bounds of a region: how long each step may take, and how large it is."""

from errors import check_limit

COMMAND_S = 10.0
"""For `ip` and its like, which take milliseconds; many at once on two cores take longer."""
KILL_S = 10.0
"""For all processes of a host to be gone after SIGKILL."""
KILL_LOOK_S = 0.02
MOST_HOSTS = 60
"""The lowest host's address ends in 11; the last byte has room for so many and more."""

ETCD_S = 30.0
"""For three etcd to elect a leader."""
CLUSTER_S = 180.0
"""For a Patroni cluster: initdb, a first leader, and copies of it, all clusters at once on two cores."""
MEMBER_S = 90.0
"""For a Postgres host that was lost to be a standby again: pg_rewind, or a new copy."""
LOOK_S = 0.2
"""Between two looks at what is waited for."""
PROGRAM_STOP_S = 5.0
PROMETHEUS_S = 60.0
"""For Prometheus to start on a busy machine, and to scrape every process once."""

TTL_S, LOOP_S, RETRY_S = 20, 5, 5
"""Patroni: how long a leader's key lives, how often it is renewed, how long etcd is asked again."""
WAL_SENDER_S = 5
"""A standby that is silent for so long has gone: Postgres' own patience is a minute, in which every commit waits."""

check_limit(LOOP_S + 2 * RETRY_S <= TTL_S, "Patroni must be able to renew its key within the key's life")
check_limit(WAL_SENDER_S < TTL_S, "a standby must be given up before its primary is")
