"""What all processes go by and operators change, on however many hosts: the topology, and the switches (floor 4).

What lives here: `documents`, the two by name, and the files in which a host keeps them; `table`, their rows in
Postgres, and `databases`, where these are; `follower`, how a process hears of a newer one; `start`, how it hears of the
first; `publisher`, how an operator's command changes one, and `switching`, what is different about switches.

May import: `wire`, `switches`, `schema`, `sharding`, `runtime`, `errors`.

Authority: the table `published` of the wallet's database. A change is a row with the next version, which the table
takes once: of two who change the same version one is refused, looks again and decides anew, or gives up (compare and
set). So a tool that slept cannot change what another has changed meanwhile, and `held` and the epochs in a topology are
fencing tokens (docs/decisions/0054). Each SET has copies of the rows; its servers read them when they are notified, and
look once a second. Gateways ask the wallet, and no setnode, which could give itself what is another SET's. Every host
keeps the newest in files, by which its processes start and go on while Postgres is away.

Switches are changed in bad hours, also while the wallet's database is away: they are decisions, of which the latest
about each name counts, merged by whoever reads or changes them (`switches.decisions`), and `switching` says which
databases a change has not reached.

Promises, with tests/integration/published: no process goes back to an older topology, and nothing that was closed or
opened is undone by an older list of switches, on disk or in a database; one version has one content, as long as
operators' files name the same SETs, and the release before does not change switches at the same time; a change of a
topology is whole or not at all; a SET that was away when something was changed hears of it once it is back. The newest
version counts wherever it is: a wallet that was restored to an earlier instant is given it back by the next change.

Fails by `Unavailable` (`not_published`: the wallet's Postgres does not answer, and nothing was changed;
`changed_meanwhile`), by `Refused` as `sharding.topology` and `switches.file`.
"""
