"""Manifests of Kubernetes: whether they are valid, and what is in their pods."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import jsonschema
import kubernetes_validate

from tests.unit.deploy.files import DEPLOY

HERE = DEPLOY / "kubernetes"
RELEASE = "1.37"
CUSTOM = ("postgresql.cnpg.io/v1", "barmancloud.cnpg.io/v1")
_SCHEMA = json.loads(Path(__file__).with_name("cnpg.schema.json").read_text())
PODS = ("Deployment", "StatefulSet", "Job", "CronJob")


class Pod(NamedTuple):
    """The pods of one workload, as it describes them."""

    workload: str
    labels: dict[str, str]
    spec: dict[str, Any]

    @property
    def component(self) -> str:
        """What it is a part of."""
        return self.labels["app.kubernetes.io/component"]

    @property
    def containers(self) -> list[dict[str, Any]]:
        """All its containers, those that run first among them."""
        return [*self.spec.get("initContainers", ()), *self.spec["containers"]]

    @property
    def ports(self) -> dict[str, int]:
        """Its named ports."""
        return {port["name"]: port["containerPort"] for one in self.containers for port in one.get("ports", ())}


def check(manifest: dict[str, Any]) -> None:
    """Raise an error of validation unless the manifest is as Kubernetes, or CloudNativePG, takes it."""
    if manifest["apiVersion"] in CUSTOM:
        jsonschema.validate(manifest, _SCHEMA)
    else:
        kubernetes_validate.validate(manifest, RELEASE, strict=True)


def pods(manifests: list[dict[str, Any]]) -> Iterator[Pod]:
    """Yield the pods of each workload; those of a Postgres are CloudNativePG's own."""
    for one in manifests:
        name = f"{one['kind']}/{one['metadata']['name']}"
        if one["kind"] in PODS:
            spec = one["spec"]["jobTemplate"]["spec"] if one["kind"] == "CronJob" else one["spec"]
            yield Pod(name, spec["template"]["metadata"]["labels"], spec["template"]["spec"])
        elif one["kind"] == "Cluster":
            ports = [{"name": "postgres", "containerPort": 5432}, {"name": "status", "containerPort": 8000}]
            yield Pod(name, one["spec"]["inheritedMetadata"]["labels"], {"containers": [{"ports": ports}]})
