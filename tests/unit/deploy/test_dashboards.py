"""The dashboards of deploy/grafana: each query reads what processes export, by labels that are there."""

import json
import re
from itertools import combinations
from typing import Any

import pytest

from tests.unit.deploy.files import DEPLOY
from tests.unit.deploy.promql import TARGETS, exported, metrics, wrong

DASHBOARDS = sorted((DEPLOY / "grafana").glob("*.json"))
STAND_INS = {"$__rate_interval": "1m", "$set": "set-1"}
"""What Grafana puts in the place of its variables before it asks."""


def dashboard(name: str) -> dict[str, Any]:
    content: dict[str, Any] = json.loads((DEPLOY / "grafana" / f"{name}.json").read_text())
    return content


def as_asked(query: str) -> str:
    for variable, text in STAND_INS.items():
        query = query.replace(variable, text)
    return query


@pytest.mark.parametrize("name", [path.stem for path in DASHBOARDS])
def test_every_query_reads_what_is_exported(name: str) -> None:
    """Each query is one of Prometheus, its metrics and labels are exported, and its legend shows labels that it has."""
    for panel in dashboard(name)["panels"]:
        for target in panel["targets"]:
            query = as_asked(target["expr"])
            assert "$" not in query
            assert wrong(query) == [], panel["title"]
            known = TARGETS.union(*(exported()[one] for one in metrics(query)))
            assert set(re.findall(r"{{(\w+)}}", target["legendFormat"])) <= known, panel["title"]
            # What a sum keeps is all that a legend can show.
            for shown in re.findall(r"{{(\w+)}}", target["legendFormat"]):
                kept = re.findall(r"by \(([\w, ]+)\)", query)
                assert not kept or any(shown in one.split(", ") for one in kept), panel["title"]


@pytest.mark.parametrize("name", [path.stem for path in DASHBOARDS])
def test_every_panel_is_whole(name: str) -> None:
    """Panels say what they show, lie beside each other, and ask the source that is chosen above them."""
    content = dashboard(name)
    panels = content["panels"]
    variables = {one["name"] for one in content["templating"]["list"]}
    assert set(re.findall(r"\$\{?(\w+)", json.dumps(content))) - variables <= {"__rate_interval", "__all"}
    for one in content["templating"]["list"]:
        if one["type"] == "query":
            metric, label = re.fullmatch(r"label_values\((\w+), (\w+)\)", one["query"]).groups()  # type: ignore[union-attr]
            assert label in exported()[metric] | TARGETS
    assert len({one["id"] for one in panels}) == len(panels)
    for one in panels:
        assert one["description"]
        assert {target["datasource"]["uid"] for target in one["targets"]} == {"${datasource}"}
        assert one["gridPos"]["x"] + one["gridPos"]["w"] <= 24
    for one, other in combinations([panel["gridPos"] for panel in panels], 2):
        beside = one["x"] + one["w"] <= other["x"] or other["x"] + other["w"] <= one["x"]
        assert beside or one["y"] + one["h"] <= other["y"] or other["y"] + other["h"] <= one["y"]


def test_there_is_one_for_each_who_looks() -> None:
    """There are dashboards for users' view, a SET, money, and the platform, each under an address of its own."""
    found = {path.stem: dashboard(path.stem) for path in DASHBOARDS}
    assert set(found) == {"users", "set", "money", "platform"}
    assert {one["uid"] for one in found.values()} == {f"hongbao-{name}" for name in found}
    asked = {
        name: {m for p in one["panels"] for t in p["targets"] for m in metrics(as_asked(t["expr"]))}
        for name, one in found.items()
    }
    assert {"hongbao_http_seconds_bucket", "hongbao_refused_total", "hongbao_opens_total"} <= asked["users"]
    assert {"hongbao_unreconciled_fen", "hongbao_payouts_total", "hongbao_payouts_stuck_total"} <= asked["money"]
    assert {"hongbao_commit_seconds_bucket", "hongbao_mailbox_wait_seconds_bucket"} <= asked["set"]
    assert {"hongbao_standby_missing", "hongbao_rotation_days_unproven", "hongbao_events_behind_seconds"} <= asked[
        "platform"
    ]
