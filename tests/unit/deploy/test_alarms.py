"""The alarms of deploy/prometheus: all that the documentation names, with a test and a runbook for each."""

import re
import shlex
from pathlib import Path

from schema.jobs import JOBS
from tests.handbook_site import handbook_site
from tests.unit.deploy.commands import complaint
from tests.unit.deploy.files import DEPLOY, ROOT, RULES, alarms, document, rule_files
from tests.unit.deploy.promql import TARGETS, exported, metrics, wrong

__all__ = ["handbook_site"]

RUNBOOKS = ROOT / "docs" / "production" / "alarms.md"
TABLES = [*sorted((ROOT / "docs" / "operations").glob("*.md")), ROOT / "docs" / "overload.md"]
PARTS = ("Means", "Users see", "Look", "Do", "Over when")


def test_every_metric_that_is_to_be_watched_has_an_alarm() -> None:
    """A metric that stands first in a row of a table for operators is in the rule of an alarm."""
    named = {
        name
        for page in TABLES
        for row in page.read_text().splitlines()
        if row.startswith("| `hongbao_")
        for name in re.findall(r"hongbao_[a-z_]+", row.split("|")[1])
    }
    watched = {name for rule in alarms().values() for name in metrics(rule["expr"])}
    watched |= {name.removesuffix("_bucket") for name in watched}
    assert len(named) > 40
    assert named - watched == set()


def test_every_rule_reads_what_processes_export() -> None:
    """Each rule is a query of Prometheus, whose metrics and labels the code exports."""
    assert [said for rule in alarms().values() for said in wrong(rule["expr"])] == []


def test_what_no_process_exports_is_found() -> None:
    """A misspelt metric, a label that it has not, and a sum by one are found; a query that is none is refused."""
    assert wrong("hongbao_opens > 0") == ["no process exports hongbao_opens"]
    assert wrong('hongbao_opens_total{results="x"}') == ["hongbao_opens_total has no label results"]
    assert len(wrong("sum by (peer) (rate(hongbao_opens_total[1m]))")) == 1
    assert len(wrong("hongbao_switch_on > on (peer) hongbao_opens_total")) == 1


def test_a_summary_names_labels_that_its_alarm_has() -> None:
    """Each label that the sentence of an alarm shows is one of its metrics, or of the scrape."""
    for name, rule in alarms().items():
        known = TARGETS.union(*(exported()[one] for one in metrics(rule["expr"])))
        assert set(re.findall(r"\$labels\.(\w+)", rule["annotations"]["summary"])) <= known, name


def test_every_alarm_has_a_test_and_a_severity() -> None:
    """Each alarm is proven silent and firing by the tests beside it, which promtool runs, and says who hears it."""
    for path in rule_files():
        tests = {one["name"]: one for one in document(path.with_name(f"{path.stem}.test.yml"))["tests"]}
        names = [rule["alert"] for group in document(path)["groups"] for rule in group["rules"]]
        assert list(tests) == names
        for name, test in tests.items():
            said = {
                "firing" in one["expr"]: one["exp_samples"][0]["value"]
                for one in test["promql_expr_test"]
                if f'alertname="{name}"' in one["expr"]
            }
            assert said == {False: 0, True: 1}, name
    assert {rule["labels"]["severity"] for rule in alarms().values()} == {"page", "look", "note"}
    assert {one.stem.removesuffix(".test") for one in RULES.iterdir()} == {one.stem for one in rule_files()}


def test_a_job_is_missed_by_the_alarm_when_it_is_by_the_code() -> None:
    """Each job that is noted is in the alarm HongbaoJobMissed, with the bound of `schema.jobs`."""
    bounds = re.findall(r'task=~?"([\w|-]+)"\}\) > (\d+)', alarms()["HongbaoJobMissed"]["expr"])
    found = {name: float(seconds) for names, seconds in bounds for name in names.split("|")}
    assert found == {job.value: known.missed_after.total_seconds() for job, known in JOBS.items()}


def test_every_alarm_has_a_runbook() -> None:
    """Each alarm links to its part of docs/production/alarms.md, which says all five things; no part is without one."""
    text = RUNBOOKS.read_text()
    parts = dict(re.findall(r"^### (Hongbao\w+)\n(.*?)(?=^##|\Z)", text, re.MULTILINE | re.DOTALL))
    assert set(parts) == set(alarms())
    for name, rule in alarms().items():
        link = rule["annotations"]["runbook_url"]
        assert link == "{{ $externalLabels.handbook }}/production/alarms.html#" + name.lower()
        assert re.findall(r"^- \*\*([\w ]+):\*\*", parts[name], re.MULTILINE) == list(PARTS), name
        assert f"`{rule['labels']['severity']}`" + (f", after {rule['for']}" if "for" in rule else "") in parts[name]


def test_the_link_of_an_alarm_leads_to_its_runbook(handbook_site: Path) -> None:
    """The page and the anchor that an alarm links to are in the documentation as it is served."""
    text = (handbook_site / "production" / "alarms.html").read_text()
    for name in alarms():
        assert f'id="{name.lower()}"' in text


def test_commands_of_the_runbooks_exist() -> None:
    """The command line takes every `hongbao …` that a runbook names."""
    named = set(re.findall(r"`hongbao ([a-z][^`…]*)`", RUNBOOKS.read_text()))
    assert len(named) > 30
    assert [said for words in sorted(named) if (said := complaint(shlex.split(words)))] == []


def test_prometheus_reads_all_rules() -> None:
    """Both configurations name every file of rules, and give the label by which the runbooks are found."""
    for name in ("prometheus.yml", "prometheus-kubernetes.yml"):
        config = document(DEPLOY / "prometheus" / name)
        assert {DEPLOY / "prometheus" / one for one in config["rule_files"]} == set(rule_files())
        assert "handbook" in config["global"]["external_labels"]
        assert {one["job_name"] for one in config["scrape_configs"]} == {
            "hongbao-gateways", "hongbao-setnodes", "hongbao-wallet", "hongbao-inside",
        }  # fmt: skip
