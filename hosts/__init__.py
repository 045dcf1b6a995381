"""A region on one machine: hosts that are network namespaces, real programs in them, and the faults of real hosts.

    limits      how long each thing may take
    shell       `ip` and `nsenter`, run within a deadline
    subnet      two private networks that nothing on this machine uses
    ground      what a region takes of the machine: namespaces, links, a folder; recorded, and cleaned away
    host        one host: its addresses, its processes, its two cables; lost, frozen, cut off
    program     one process on a host
    etcd, patroni, nginx, memcached, prometheus
                the programs of others, as they are configured here
    cluster     three Postgres under Patroni as one server of the installation
    plan        which hosts there are
    installed   the installation's files, and what each process of ours is given
    region      all of it: started, reached, stopped
    drill/      load with a journal, one fault after the other, and the proof that nothing was lost

It may import everything below `cli`. Only root can use it: namespaces need that. It promises that nothing of it is
left: a region that ends, in whatever way, takes its processes along or leaves them recorded, and the next start ends
these and removes their namespaces, links and folder (`ground`, `tests/faults/test_hosts.py`). It touches no process,
namespace, address or file that it has not made. It fails with Refused `hosts_root` or `hosts_unsupported` where it
cannot work.
"""
