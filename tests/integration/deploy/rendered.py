"""An installation in Kubernetes as kubectl renders it, and as a pod of it sees it."""

import json
import shutil
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml

from installation import inventory
from installation.access import Access
from installation.finding import find
from installation.host_files import files_of, read_processes
from installation.keys import Secrets
from tests.integration.deploy.programs import run
from tests.unit.deploy.manifests import HERE, Pod, pods

OVERLAYS = ("small", "region")
JOBS = ("prepare", "migrate")


async def rendered(folder: Path) -> list[dict[str, Any]]:
    """Return the manifests that kubectl makes of a kustomization; skip where there is none."""
    if shutil.which("kubectl") is None:
        pytest.skip("kubectl is not on PATH: install it to have deploy/kubernetes rendered")
    return [one for one in yaml.safe_load_all(await run("kubectl", "kustomize", str(folder))) if one]


@cache
def known() -> dict[str, list[dict[str, Any]]]:
    """What was rendered, by overlay or job."""
    return {}


async def manifests_of(name: str) -> list[dict[str, Any]]:
    """Return the manifests of an overlay, or of a job; each is rendered once."""
    if name not in known():
        known()[name] = await rendered(HERE / ("jobs" if name in JOBS else "overlays") / name)
    return known()[name]


def access_of(folder: Path, manifests: list[dict[str, Any]], secret: str) -> Access:
    """Return the installation as a pod sees it that has this Secret."""
    (text,) = (one["data"]["installation.toml"] for one in manifests if one["kind"] == "ConfigMap")
    file = folder / secret / "installation.toml"
    file.parent.mkdir(exist_ok=True)
    file.write_text(text)
    made = inventory.load(file)
    all_secrets = Secrets.load(folder / "secrets.json")
    all_secrets.ensure({name: tuple(one.dsns) for name, one in made.clusters.items()})
    name = secret.removeprefix("hongbao-")
    words = [f"setnode:{one}" for one, server in made.setnodes.items() if server.set == name] or [name]
    _, content = files_of(made, all_secrets, read_processes(words, made))
    (file.parent / "secrets.json").write_text(json.dumps(content))
    return find(file)


def secret_of(pod: Pod) -> str:
    """Return the name of the Secret with the keys of a pod."""
    (found,) = (
        source["secret"]["name"]
        for volume in pod.spec["volumes"]
        for source in volume.get("projected", {"sources": []})["sources"]
        if "secret" in source
    )
    return found


def ours(manifests: list[dict[str, Any]]) -> list[Pod]:
    """Return the pods that run our image."""
    return [pod for pod in pods(manifests) if pod.component not in ("memcached", "set-postgres", "wallet-postgres")]


def names_of(pod: Pod, manifests: list[dict[str, Any]]) -> list[str]:
    """Return the names of the pods of a StatefulSet."""
    (one,) = (one for one in manifests if f"{one['kind']}/{one['metadata']['name']}" == pod.workload)
    return [f"{one['metadata']['name']}-{number}" for number in range(one["spec"]["replicas"])]
