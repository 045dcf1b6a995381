"""Prometheus on a host of its own: every process of ours is scraped, and the alarms of deploy/prometheus are judged."""

import asyncio
import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import aiohttp

from errors import Unavailable
from hosts.host import Host
from hosts.limits import LOOK_S, PROMETHEUS_S
from hosts.program import HostProgram
from machine.account import Account
from machine.checkout import CHECKOUT
from machine.debian_programs import Program, find_program

PORT = 9090
SCRAPE_S = 5
RULES = CHECKOUT / "deploy" / "prometheus" / "rules"
_ANSWER_S = 5.0
_KEY = "metrics-key"

Job = Mapping[str, Mapping[str, str]]
"""What is scraped together: the labels of each process, by its address HOST:PORT."""


async def find_prometheus(account: Account, host: Host) -> Program:
    """Return Debian's Prometheus; raises Refused `no_prometheus`."""
    return await find_program("prometheus", account, host.folder)


def prometheus(program: Program, host: Host, jobs: Mapping[str, Job], key: str, account: Account) -> HostProgram:
    """Return it, not started. `jobs`: by name as in deploy/prometheus; `key`: the METRICS_KEY, for gateways."""
    own = host.folder / "prometheus"
    own.mkdir(mode=0o700)
    # Copied: its account cannot enter the checkout.
    for rules in RULES.glob("*.yml"):
        if not rules.name.endswith(".test.yml"):
            (own / rules.name).write_bytes(rules.read_bytes())
    (own / _KEY).write_text(key, encoding="utf-8")
    config = own / "prometheus.json"  # JSON is YAML
    config.write_text(json.dumps(_config(own, jobs)), encoding="utf-8")
    for path in (own, *own.iterdir()):
        account.chown(path)
    words = {
        "config.file": str(config),
        "storage.tsdb.path": str(own / "data"),
        "storage.tsdb.retention.time": "1d",
        "web.listen-address": f"{host.front}:{PORT}",
        "log.level": "warn",
    }
    argv = [str(program.path), *(f"--{name}={value}" for name, value in words.items())]
    return HostProgram("prometheus", host, account, argv, {**program.env(), "GOMAXPROCS": "1"})


def _config(own: Path, jobs: Mapping[str, Job]) -> dict[str, Any]:
    return {
        "global": {
            "scrape_interval": f"{SCRAPE_S}s",
            "scrape_timeout": "3s",
            "evaluation_interval": f"{SCRAPE_S}s",
            "external_labels": {"handbook": ""},
        },
        "rule_files": [str(own / "*.yml")],
        "scrape_configs": [
            {
                "job_name": name,
                "authorization": {"credentials_file": str(own / _KEY)},
                "static_configs": [{"targets": [address], "labels": dict(labels)} for address, labels in job.items()],
            }
            for name, job in jobs.items()
        ],
    }


class Watcher:
    """Asks Prometheus at `url`, such as http://10.0.0.9:9090."""

    def __init__(self, url: str) -> None:
        self.url = url

    async def wait(self) -> None:
        """Wait until every process is scraped; raises Unavailable `prometheus_failed`, with those that are not."""
        loop = asyncio.get_running_loop()
        end = loop.time() + PROMETHEUS_S
        while True:
            try:
                up = {one["metric"]["part"]: one["value"][1] for one in await self._ask("up")}
            except Unavailable:
                up = {}
            away = sorted(part for part, value in up.items() if value != "1")
            if up and not away:
                return
            if loop.time() > end:
                raise Unavailable("prometheus_failed", f"Prometheus reads no metrics of {', '.join(away) or 'anybody'}")
            await asyncio.sleep(LOOK_S)

    async def alarms(self, seconds: float) -> list[str]:
        """Return the alarms of the last `seconds`: `HongbaoSetAway`, or `HongbaoSetAway?` if it was pending only.

        Raises Unavailable `prometheus_failed`.
        """
        found = await self._ask(f"max by (alertname, alertstate) (max_over_time(ALERTS[{max(1, round(seconds))}s]))")
        return _named((one["metric"]["alertname"], one["metric"]["alertstate"] == "firing") for one in found)

    async def _ask(self, query: str) -> list[dict[str, Any]]:
        try:
            async with (
                aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=_ANSWER_S)) as session,
                session.get(f"{self.url}/api/v1/query", params={"query": query}) as response,
            ):
                answer = await response.json()
                return list(answer["data"]["result"])
        except (aiohttp.ClientError, TimeoutError, KeyError, ValueError) as error:
            raise Unavailable("prometheus_failed", f"Prometheus at {self.url} does not answer: {error!r}") from error


def _named(found: Iterable[tuple[str, bool]]) -> list[str]:
    fired: dict[str, bool] = {}
    for name, firing in found:
        fired[name] = fired.get(name, False) or firing
    return [name if firing else f"{name}?" for name, firing in sorted(fired.items())]
