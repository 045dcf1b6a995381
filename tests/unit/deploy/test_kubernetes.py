"""The files of deploy/kubernetes, as they lie there."""

import copy
from pathlib import Path
from typing import Any

import jsonschema
import kubernetes_validate
import pytest

from machine.postgres.settings import RESERVED, SETTINGS
from tests.unit.deploy.files import document, documents
from tests.unit.deploy.manifests import HERE, check

FOLDERS = sorted(path.parent for path in HERE.rglob("kustomization.yaml"))
SIZES = {"max_connections", "shared_buffers"}


def manifests() -> list[tuple[Path, dict[str, Any]]]:
    """Return every manifest with its file."""
    found = [path for folder in FOLDERS for path in named(folder)[0] if path.is_file()]
    return [(path, one) for path in found for one in documents(path)]


def named(folder: Path) -> tuple[list[Path], list[Path]]:
    """Return what a kustomization takes as manifests, and what else it reads."""
    content = document(folder / "kustomization.yaml")
    more = [*content.get("configurations", ())]
    more += [one for made in content.get("configMapGenerator", ()) for one in made["files"]]
    return [(folder / one).resolve() for one in content["resources"]], [folder / one for one in more]


def test_every_file_is_taken_by_a_kustomization() -> None:
    """What a kustomization names is there, and each file is named by one."""
    taken = {path for folder in FOLDERS for some in named(folder) for path in some}
    assert [path for path in taken if not path.exists()] == []
    kustomizations = {folder / "kustomization.yaml" for folder in FOLDERS}
    assert {path for path in HERE.rglob("*") if path.is_file()} - taken - kustomizations == set()
    overlays = {HERE / "overlays" / name for name in ("small", "region")}
    assert {folder for folder in FOLDERS if folder not in taken} == overlays | set((HERE / "jobs").iterdir())


def test_every_manifest_is_valid() -> None:
    """Each is as the schemas of Kubernetes have it, unknown fields refused; those of CloudNativePG as ours has them."""
    assert len(manifests()) > 40
    for path, one in manifests():
        try:
            check(one)
        except (kubernetes_validate.ValidationError, jsonschema.ValidationError) as error:
            pytest.fail(f"{path.relative_to(HERE)}: {error.message}")


def test_what_is_wrong_is_found() -> None:
    """A misspelt field, and a Postgres whose commits wait for no standby, are refused."""
    deployment = copy.deepcopy(document_of("Deployment"))
    deployment["spec"]["template"]["spec"]["containers"][0]["livenesProbe"] = {}
    with pytest.raises(kubernetes_validate.ValidationError):
        check(deployment)
    cluster = copy.deepcopy(document_of("Cluster"))
    cluster["spec"]["postgresql"]["synchronous"]["dataDurability"] = "preferred"
    with pytest.raises(jsonschema.ValidationError):
        check(cluster)


def document_of(kind: str) -> dict[str, Any]:
    return next(one for _, one in manifests() if one["kind"] == kind)


def test_postgres_is_set_as_ours() -> None:
    """A Postgres in Kubernetes has the settings of those that we start, but for sizes."""
    ours = {**SETTINGS, "reserved_connections": str(RESERVED), "wal_compression": "lz4"}
    ours["pg_stat_statements.track_utility"] = "off"
    for _, one in manifests():
        if one["kind"] == "Cluster":
            given = one["spec"]["postgresql"]["parameters"]
            assert {name: value for name, value in given.items() if ours[name] != value}.keys() <= SIZES
            # What is left out is Postgres' default, or the operator's own.
            assert ours.keys() - given.keys() == {
                "fsync", "synchronous_commit", "full_page_writes", "huge_pages", "wal_level", "autovacuum",
                "listen_addresses", "unix_socket_directories", "timezone", "log_timezone", "log_checkpoints",
                "log_line_prefix",
            }  # fmt: skip
