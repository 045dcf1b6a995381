"""What an inventory says, as `installation.toml` holds it."""

from typing import Final

import msgspec

from installation.reference import Reference

FORM: Final = 1
"""The number of the form of the file, `version` in it. It rises when a release before could misread a file."""


class Cluster(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """One Postgres cluster, alone or with its standbys: a DSN for each role, the identifier that initdb gave it."""

    dsns: dict[str, str | Reference]
    system_identifier: str = ""


class Setnode(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """One setnode server: its SET, where others reach it, and the memcached of its host ("": the installation's)."""

    set: str
    url: str
    memcached: str = ""


class Inventory(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """`clusters`: Postgres by SET name, and "wallet". `setnodes`, `gateways`: by name; a gateway is its URL.

    `topology`, `archive`, `secrets`: paths; `backups`: where `hongbao backup` keeps them unless told otherwise, "" if
    nowhere; `archive` and `backups` also `s3://bucket/prefix`. `ops_url`: where the operator's view is served,
    `events_url`, `rotation_url`: where the process that delivers events, and the one that rotates days, have their
    probes; "" if nowhere. `keys`: where keys are that the file of secrets does not have, by their names
    (`installation.keys.KEYS`).

    `runner`: whether `./run` starts all of it, on this machine, clusters included. `sandbox`: whether its clock can be
    moved; the clock lies beside this file (`installation.sandbox`). `archive_key`
    is the fingerprint of the key with which the servers verify the archive ("" if unknown).
    """

    version: int = FORM
    wallet_url: str
    memcached: str
    topology: str
    archive: str
    secrets: str
    backups: str = ""
    archive_key: str = ""
    ops_url: str = ""
    events_url: str = ""
    rotation_url: str = ""
    runner: bool = False
    sandbox: bool = False
    gateways: dict[str, str]
    setnodes: dict[str, Setnode] = {}
    clusters: dict[str, Cluster]
    keys: dict[str, Reference] = {}

    @property
    def gateway_urls(self) -> list[str]:
        """All addresses at which clients find gateways."""
        return list(self.gateways.values())
