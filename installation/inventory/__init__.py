"""The inventory of an installation: one file, `installation.toml`, 0600, that every command and process goes by.

`./run` writes one for its own stack; for many hosts an operator writes it (docs/reference/installation.md). It stays
when nothing runs. Paths in it are relative to its folder. A DSN, or a key, is text, or says where its text is: in an
environment variable, or in a file. A DSN without a password gets that of its role from the file of secrets.

What lives here: `spec`, what it says; `file`, which reads and writes it; `check`, what must hold before anything goes
by it; `earlier_form`, how earlier releases wrote it.
"""

from installation.inventory.check import check_inventory
from installation.inventory.file import DEFAULT_NAME, is_there, load, save
from installation.inventory.spec import FORM, Cluster, Inventory, Setnode

__all__ = [
    "DEFAULT_NAME",
    "FORM",
    "Cluster",
    "Inventory",
    "Setnode",
    "check_inventory",
    "is_there",
    "load",
    "save",
]
