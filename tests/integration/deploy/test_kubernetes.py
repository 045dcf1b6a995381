"""An installation in Kubernetes as kubectl renders it: all that it names is what the code and its own parts have."""

import json
import re
import shlex
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from cli.table import main
from gateway.limits import DRAIN_S
from handbook.variables import OTHERS, PROCESSES
from installation import inventory
from runtime import dsn
from runtime.process import STOP_S
from runtime.settings import host_and_port, load
from schema import roles
from tests.integration.deploy.programs import run
from tests.integration.deploy.rendered import JOBS, OVERLAYS, access_of, manifests_of, names_of, ours, secret_of
from tests.markdown_blocks import DOCS, blocks
from tests.unit.deploy.commands import complaint
from tests.unit.deploy.manifests import HERE, check, pods
from tests.unit.deploy.network import connections

PAGE = DOCS / "production/kubernetes.md"
EVERYWHERE = {("gateway", "setnode"), ("gateway", "wallet"), ("setnode", "wallet"), ("wallet", "wallet-postgres")}
FROM_INSIDE = {"gateway", "setnode", "wallet", "events", "rotation", "memcached", "set-postgres", "wallet-postgres"}
TALK = (
    EVERYWHERE
    | {("setnode", "memcached"), ("setnode", "set-postgres"), ("events", "set-postgres")}
    | {("rotation", "set-postgres"), ("rotation", "wallet-postgres")}
    | {("set-postgres", "set-postgres"), ("wallet-postgres", "wallet-postgres")}
    | {(one, other) for one in ("ops", "job") for other in FROM_INSIDE}
    | {("job", "ops")}
)
"""Who may open a connection to whom."""


@pytest.mark.parametrize("name", [*OVERLAYS, *JOBS])
async def test_what_is_rendered_is_valid(name: str) -> None:
    """Every manifest is valid after prefixes, labels and patches, and all are of one namespace."""
    manifests = await manifests_of(name)
    for one in manifests:
        check(one)
    assert {one["metadata"]["namespace"] for one in manifests if one["kind"] != "Namespace"} == {"hongbao"}


@pytest.mark.parametrize("name", [*OVERLAYS, *JOBS])
async def test_every_command_and_setting_exists(name: str) -> None:
    """The command line takes the arguments of each container of ours, and the code knows each of its settings."""
    for pod in ours(await manifests_of(name)):
        for one in pod.containers:
            assert one["image"].startswith("registry.example/hongbao:"), pod.workload
            if "command" in one:
                assert one["command"][0] == "sh"
                continue
            assert complaint(one["args"]) == ""
            kind = {"rotation": "rotate --daemon"}.get(pod.component, pod.component)
            struct = PROCESSES.get(kind)
            settings = {f"HONGBAO_{field.upper()}" for field in struct.__struct_fields__} if struct else set()
            given = {variable["name"] for variable in one.get("env", ())} - {"POD_NAME"}
            assert given <= settings | set(OTHERS), pod.workload


@pytest.mark.parametrize("name", OVERLAYS)
async def test_every_process_has_what_it_starts_with(name: str, tmp_path: Path) -> None:
    """With its Secret and the file of the overlay each process has all its settings, and listens at its pod's port."""
    manifests = await manifests_of(name)
    seen = set()
    for pod in ours(manifests):
        if pod.component == "job":
            continue
        access = access_of(tmp_path, manifests, secret_of(pod))
        container = pod.spec["containers"][-1]
        words = dict(zip(container["args"], container["args"][1:], strict=False))
        env = {one["name"]: one["value"] for one in container.get("env", ()) if "value" in one}
        servers = names_of(pod, manifests) if pod.component == "setnode" else [""]
        if pod.component == "rotation":
            for server in access.servers():
                assert all(access.dsn(server, role) for role in (roles.OWNER, roles.AUDIT))
        else:
            for server in servers:
                settings, where = access.process(words["serve"], server)
                load(PROCESSES[pod.component], {**settings, "HONGBAO_LISTEN": words["--listen"], **env})
                assert not where or host_and_port(where)[1] == pod.ports["http"]
        assert host_and_port(words["--listen"]) == ("0.0.0.0", pod.ports["http"])
        seen.add(pod.component)
    assert seen == {"gateway", "setnode", "wallet", "events", "rotation", "ops"}


@pytest.mark.parametrize("name", OVERLAYS)
async def test_addresses_are_those_of_services(name: str, tmp_path: Path) -> None:
    """Each address of the installation's file leads to a Service, and through it to a port of its pods."""
    manifests = await manifests_of(name)
    found = list(pods(manifests))
    access = access_of(tmp_path, manifests, "hongbao-operator")
    made = inventory.load(tmp_path / "hongbao-operator" / "installation.toml")
    reached = {}
    for one in (one for one in manifests if one["kind"] == "Service"):
        (port,) = one["spec"]["ports"]
        behind = [pod for pod in found if one["spec"]["selector"].items() <= pod.labels.items()]
        assert len(behind) == 1, one["metadata"]["name"]
        assert behind[0].ports[port["targetPort"]] == port["port"]
        reached[f"{one['metadata']['name']}.hongbao.svc:{port['port']}"] = behind[0]
    nodes = {}
    for pod in (one for one in found if one.component == "setnode"):
        (address,) = (where for where, behind in reached.items() if behind == pod)
        nodes |= {server: (pod, f"http://{server}.{address}") for server in names_of(pod, manifests)}
    assert {server: one.url for server, one in made.setnodes.items()} == {one: url for one, (_, url) in nodes.items()}
    for server, one in made.setnodes.items():
        assert nodes[server][0].labels["hongbao/set"] == one.set
        assert reached[one.memcached].labels["hongbao/set"] == one.set
    others = [made.wallet_url, made.ops_url, made.events_url, made.rotation_url, *made.gateways.values()]
    known = [reached[url.removeprefix("http://")].component for url in others]
    assert known == ["wallet", "ops", "events", "rotation", "gateway"]
    databases = {one["metadata"]["name"] for one in manifests if one["kind"] == "Cluster"}
    hosts = {
        server: {dsn.hosts(access.dsn(server, role))[0] for role in one.dsns} for server, one in made.clusters.items()
    }
    assert hosts == {server: {(f"{server}-db-rw.hongbao.svc", 5432)} for server in made.clusters}
    assert databases == {f"{server}-db" for server in made.clusters}


@pytest.mark.parametrize("name", [*OVERLAYS, *JOBS])
async def test_probes_mounts_and_secrets_are_there(name: str) -> None:
    """Probes ask for what is served at a port of the pod; what is mounted is made here, or by the documentation."""
    manifests = [*await manifests_of(name), *(await manifests_of("small") if name in JOBS else [])]
    text = PAGE.read_text()
    made = set(re.findall(r"create secret generic (\S+)", text)) | {
        "hongbao-superuser-wallet",
        "hongbao-superuser-set-1",
    }
    made |= {one.replace("set-1", "set-2") for one in made} if name == "region" else set()
    claims = {one["metadata"]["name"] for one in manifests if one["kind"] == "PersistentVolumeClaim"}
    claims |= {
        f"{claim['metadata']['name']}-{one['metadata']['name']}-0"
        for one in manifests
        if one["kind"] == "StatefulSet"
        for claim in one["spec"].get("volumeClaimTemplates", ())
    }
    used = set()
    for pod in pods(manifests):
        volumes = {one["name"] for one in pod.spec.get("volumes", ())}
        if pod.workload == "StatefulSet/ops":
            volumes.add("state")
        for one in pod.containers:
            probes = [one[probe] for probe in ("startupProbe", "livenessProbe", "readinessProbe") if probe in one]
            for probe in probes:
                asked = probe.get("httpGet") or probe["tcpSocket"]
                assert asked["port"] in pod.ports
                assert asked.get("path", "/healthz") in ("/healthz", "/readyz")
            assert {mount["name"] for mount in one.get("volumeMounts", ())} <= volumes
        for volume in pod.spec.get("volumes", ()):
            assert volume.get("persistentVolumeClaim", {}).get("claimName", "archive") in claims | {"archive"}
            for source in volume.get("projected", {"sources": []})["sources"]:
                ((kind, what),) = source.items()
                assert (
                    what["items"] == [{"key": one, "path": one} for one in ("installation.toml",)] or kind == "secret"
                )
                if kind == "secret":
                    assert what["items"] == [{"key": "secrets.json", "path": "secrets.json"}]
                    used.add(what["name"])
                else:
                    assert what["name"] == "installation"
    used |= {one["spec"]["superuserSecret"]["name"] for one in manifests if one["kind"] == "Cluster"}
    used |= {key["name"] for one in manifests if one["kind"] == "ObjectStore" for key in keys_of(one)}
    assert used <= made
    assert name in JOBS or used == made
    clusters = {one["metadata"]["name"] for one in manifests if one["kind"] == "Cluster"}
    assert {one["spec"]["cluster"]["name"] for one in manifests if one["kind"] == "ScheduledBackup"} == clusters


def keys_of(store: dict[str, Any]) -> list[dict[str, str]]:
    return list(store["spec"]["configuration"]["s3Credentials"].values())


async def test_a_pod_has_a_folder_as_a_host_has(tmp_path: Path) -> None:
    """What runs first in a pod makes a private folder of the mounted files, linked as a kubelet links them."""
    mounted, state = tmp_path / "mounted", tmp_path / "state"
    (mounted / "..2026").mkdir(parents=True)
    state.mkdir()
    (mounted / "..data").symlink_to("..2026")
    for name in ("installation.toml", "secrets.json"):
        (mounted / "..2026" / name).write_text(name)
        (mounted / "..2026" / name).chmod(0o440)
        (mounted / name).symlink_to(f"..data/{name}")
    for pod in ours([one for name in (*OVERLAYS, *JOBS) for one in await manifests_of(name)]):
        first = pod.containers[0]
        places = {one["mountPath"]: {"files": mounted, "state": state}[one["name"]] for one in first["volumeMounts"]}
        words = first["command"]
        for place, folder in places.items():
            words = [word.replace(place, str(folder)) for word in words]
        await run(*words)
        made = state / "installation"
        assert {path.name: path.read_text() for path in made.iterdir()} == {
            name: name for name in ("installation.toml", "secrets.json")
        }
        assert [path.stat().st_mode & 0o777 for path in (made, *sorted(made.iterdir()))] == [0o700, 0o600, 0o600]
        read = [word for one in pod.containers[1:] for word in one["args"] if word.endswith(".toml")]
        assert set(read) == {"/var/lib/hongbao/installation/installation.toml"}


@pytest.mark.parametrize("name", OVERLAYS)
async def test_only_the_right_pods_talk(name: str) -> None:
    """All policies together allow what processes need and nothing else; no SET reaches the memcached of another."""
    manifests = await manifests_of(name)
    found = list(connections(manifests, list(pods(manifests))))
    assert {(one.component, other.component) for one, other, _ in found} == TALK
    for one, other, port in found:
        if one.component == "setnode" and other.component in ("memcached", "set-postgres"):
            assert one.labels["hongbao/set"] == other.labels["hongbao/set"]
        assert port != 8000 or one.component == other.component
    closed = next(one["spec"] for one in manifests if one["metadata"]["name"] == "closed")
    assert closed == {"podSelector": {}, "policyTypes": ["Ingress", "Egress"]}


@pytest.mark.parametrize("name", [*OVERLAYS, *JOBS])
async def test_pods_are_confined(name: str) -> None:
    """No container runs as root, writes to its image, gains rights, is without limits, or has a token."""
    for pod in pods(await manifests_of(name)):
        if pod.component.endswith("-postgres"):
            continue
        assert pod.spec["automountServiceAccountToken"] is False
        who = pod.spec["securityContext"]
        assert who["runAsNonRoot"] is True
        assert who["runAsUser"] > 0
        assert who["seccompProfile"] == {"type": "RuntimeDefault"}
        for one in pod.containers:
            assert one["securityContext"] == {
                "allowPrivilegeEscalation": False, "readOnlyRootFilesystem": True, "capabilities": {"drop": ["ALL"]},
            }  # fmt: skip
            assert {"cpu", "memory"} == set(one["resources"]["limits"]) == set(one["resources"]["requests"])


@pytest.mark.parametrize("name", OVERLAYS)
async def test_pods_have_the_time_to_stop(name: str) -> None:
    """Kubernetes waits longer than a process drains and stops; a gateway drains longer than unless it is told."""
    for pod in ours(await manifests_of(name)):
        env = {one["name"]: one.get("value") for one in pod.spec["containers"][0].get("env", ())}
        drain = float(env.get("HONGBAO_DRAIN_S", 0))
        assert pod.component != "gateway" or drain > DRAIN_S
        if pod.component != "job":
            assert pod.spec["terminationGracePeriodSeconds"] >= drain + STOP_S + 5


@pytest.mark.parametrize("name", OVERLAYS)
async def test_what_writes_the_archive_may(name: str) -> None:
    """The rotation, and the pod in which all commands are given: `user forget` writes archives anew there."""
    writers = set()
    for pod in ours(await manifests_of(name)):
        mounts = [mount for one in pod.containers for mount in one["volumeMounts"] if mount["name"] == "archive"]
        if any(not mount.get("readOnly") for mount in mounts):
            writers.add(pod.component)
    assert writers == {"rotation", "ops"}


@pytest.mark.parametrize("name", OVERLAYS)
async def test_what_an_audit_has_proven_outlives_its_night(name: str) -> None:
    """Its folder is a volume, as that of its unit of systemd: else it reads all days each night, up to its deadline."""
    (audit,) = (pod for pod in ours(await manifests_of(name)) if pod.workload == "CronJob/audit")
    (state,) = (one for one in audit.spec["volumes"] if one["name"] == "state")
    assert state["persistentVolumeClaim"] == {"claimName": "audit"}


@pytest.mark.parametrize("name", OVERLAYS)
async def test_a_drain_leaves_one_of_each(name: str) -> None:
    """What there are several of has a budget: the nodes of all its pods may be drained at once."""
    manifests = await manifests_of(name)
    budgets = [one["spec"] for one in manifests if one["kind"] == "PodDisruptionBudget"]
    assert all(one["maxUnavailable"] == 1 for one in budgets)
    scaled = {one["spec"]["scaleTargetRef"]["name"] for one in manifests if one["kind"] == "HorizontalPodAutoscaler"}
    several = {
        f"{one['kind']}/{one['metadata']['name']}"
        for one in manifests
        if one["metadata"]["name"] in scaled or one.get("spec", {}).get("replicas", 1) > 1
    }
    for pod in (one for one in ours(manifests) if one.workload in several):
        assert [one for one in budgets if one["selector"]["matchLabels"].items() <= pod.labels.items()], pod.workload
    assert {"Deployment/gateway", "StatefulSet/wallet", "Deployment/events"} <= several


async def test_a_zone_that_is_lost_is_no_zone_without_pods() -> None:
    """A rule that keeps pods waiting does not count nodes that are gone and still registered, tainted as they are."""
    strict = [
        (pod.component, rule.get("nodeTaintsPolicy"))
        for pod in ours(await manifests_of("region"))
        for rule in pod.spec.get("topologySpreadConstraints", ())
        if rule["whenUnsatisfiable"] == "DoNotSchedule"
    ]
    assert set(strict) == {("gateway", "Honor"), ("setnode", "Honor")}


def test_a_job_that_has_completed_is_deleted_before_it_runs_again() -> None:
    """Of each job that the page has applied a second time: applying it again does nothing."""
    text = PAGE.read_text()
    another = text[text.index("## Another SET") : text.index("## A new release")]
    assert another.index("delete job prepare") < another.index("apply -k deploy/kubernetes/jobs/prepare")
    assert "delete job migrate" in text[text.index("## A new release") :]


async def test_the_documented_keys_are_those_of_the_pods(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The commands of production/kubernetes.md make the file of the overlay, and what each Secret holds."""
    monkeypatch.chdir(tmp_path)
    (block,) = (one for one in blocks(PAGE) if one.run_by)
    for line in block.code.replace("\\\n", " ").splitlines():
        words = shlex.split(line)
        done = CliRunner().invoke(main, words[1:])
        assert done.exit_code == 0, done.output
    made = inventory.load(tmp_path / "keys" / "installation.toml")
    there = inventory.load(HERE / "overlays" / "small" / "installation.toml")
    assert made.setnodes.keys() == there.setnodes.keys()
    assert {name: one.url for name, one in made.setnodes.items()} == {n: one.url for n, one in there.setnodes.items()}
    assert (made.wallet_url, made.ops_url, made.events_url, made.gateways, made.archive) == (
        there.wallet_url, there.ops_url, there.events_url, there.gateways, there.archive,
    )  # fmt: skip
    for server, cluster in made.clusters.items():
        assert {role: f"{one}?sslmode=require" for role, one in cluster.dsns.items()} == there.clusters[server].dsns
    named = dict(re.findall(r"create secret generic (\S+) --from-file=secrets.json=(\S+)", PAGE.read_text()))
    assert len(named) == 6
    for file in named.values():
        assert json.loads((tmp_path / file).read_text())
