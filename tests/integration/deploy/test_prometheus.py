"""Prometheus' own tools on deploy/prometheus: rules fire when they should, configurations are read."""

from functools import partial
from pathlib import Path

import yaml

from tests.integration.deploy.programs import check
from tests.unit.deploy.files import DEPLOY, RULES, document, rule_files

HERE = DEPLOY / "prometheus"


async def test_every_alarm_fires_and_is_silent(tmp_path: Path) -> None:
    """Of each alarm's test promtool says that it is silent while all is well, and fires once it is not."""
    promtool = partial(check, "prometheus", tmp_path, "promtool")
    await promtool("check", "rules", *map(str, rule_files()))
    await promtool("test", "rules", *map(str, sorted(RULES.glob("*.test.yml"))))


async def test_the_configurations_are_read(tmp_path: Path) -> None:
    """Both scrape configurations are taken by promtool, that of the alert manager by amtool.

    Debian's promtool is built without the search for pods, so that of Kubernetes is checked with fixed targets.
    """
    promtool = partial(check, "prometheus", tmp_path, "promtool", "check", "config", "--syntax-only")
    await promtool(str(HERE / "prometheus.yml"))
    config = document(HERE / "prometheus-kubernetes.yml")
    for job in config["scrape_configs"]:
        assert [set(one) for one in job.pop("kubernetes_sd_configs")] == [{"role", "namespaces"}]
        job["static_configs"] = [{"targets": ["127.0.0.1:8080"]}]
    (tmp_path / "kubernetes.yml").write_text(yaml.safe_dump(config))
    await promtool(str(tmp_path / "kubernetes.yml"))
    await check("prometheus-alertmanager", tmp_path, "amtool", "check-config", str(HERE / "alertmanager.yml"))
