"""What describes an installation, and how a command reaches it.

What lives here: `inventory`, the file that names databases by role, addresses, archive and the place of the secrets,
and stays when nothing runs; `draft`, `preparation` and `host_files`, by which one for many hosts begins;
`data_folder`, where an installation on one machine keeps its files; `keys`, its secrets, and `reference`, one that is
elsewhere; `certificates`, its CA and what that has signed; `sandbox`, whether its clock may be moved;
`processes`, what each is given; `finding`, how a command comes to its installation; `access`, what it sees of it: DSNs,
the wallet, tokens, the audit.

May import: `audit`, `gateway` (tokens), `archive`, `published`, `wire`, `schema`, `sharding`, `machine`, `runtime`,
`errors`. Whatever starts the processes (`local`, or an operator by other means) writes the inventory; every command
reads it.

Promises: a command that needs only databases or files works from the inventory, whether or not a process of ours is
alive, and the inventory holds no password of a stack on this machine
(`test_what_is_installed_is_known_while_nothing_runs`). Inventory and secrets are 0600 and are replaced in one step; a
crash leaves the old file or the new one. A process is given the keys that it uses and no others
(tests/integration/local/test_keys.py). No command writes a host's files over secrets that are nowhere else, or makes
keys where an installation has others (tests/unit/installation/test_host_folders.py). One secret is not protected here:
whoever reads `secrets.json` can act as every process. Back up `secrets.json`, `topology.json` and `installation.toml`
with the databases: a start refuses to make new ones of what stood there before (`local.known_clusters`).

A data folder is a sandbox's from its first start on, or never (tests/unit/local/test_sandbox.py,
tests/faults/test_sandbox.py).

Fails by `Refused` (`not_installed` if there is no inventory, `inventory_invalid`, `inventory_unreadable`;
`is_sandbox`, `is_real`, `sandbox_clock_missing`; `no_key`, `key_weak`, `secret_missing`, `no_dsn`, `dsn_invalid`,
`unknown_set`, `archive_key_differs`; `secrets_would_be_lost`, `file_of_a_host`, `keys_missing`), and by
`Unavailable` if what the inventory names does not answer.
"""
