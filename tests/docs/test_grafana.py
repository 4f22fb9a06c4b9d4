"""The Grafana dashboard and the alert rules: Grafana's own models load them, and what they ask for is
what evenflow exposes."""

import json
import re
from pathlib import Path

import numpy as np
import pytest

from evenflow.dashboard.consumers import ConsumerLag, lag_families
from evenflow.metrics.prometheus import BatchCounters, exposition
from recorded_batches import batch_metrics

parser = pytest.importorskip("prometheus_client.parser")
promql = pytest.importorskip("promql_parser")
yaml = pytest.importorskip("yaml")

FOLDER = Path(__file__).parents[2] / "docs" / "grafana"
DASHBOARD = json.loads((FOLDER / "evenflow.json").read_text(encoding="utf-8"))
RULES = yaml.safe_load((FOLDER / "alerts.yml").read_text(encoding="utf-8"))["groups"][0]["rules"]
_NAME = re.compile(r"\bevenflow_\w+")
_STAND_INS = {"$__rate_interval": "5m", "$query": ".*"}


def expressions():
    for panel in DASHBOARD["panels"]:
        for target in panel["targets"]:
            yield f"{panel['id']} {panel['title']}", target["expr"]
    for annotation in DASHBOARD["annotations"]["list"]:
        yield annotation["name"], annotation["expr"]
    for rule in RULES:
        yield rule["alert"], rule["expr"]


@pytest.fixture(scope="module")
def exposed():
    counters = BatchCounters("hits")
    metrics = batch_metrics(0, 4, np.random.default_rng(0), requests={"tasks": {"reads": 1}})
    counters.take(metrics)
    text = exposition([counters], lag_families([ConsumerLag("b", "t", "g")])).decode()
    families = list(parser.text_string_to_metric_families(text))
    samples = {sample.name for family in families for sample in family.samples}
    return {family.name for family in families} | samples


@pytest.mark.parametrize(("where", "expression"), list(expressions()), ids=lambda text: text[:40])
def test_every_expression_parses_and_asks_for_what_is_exposed(where, expression, exposed):
    for name, value in _STAND_INS.items():
        expression = expression.replace(name, value)
    promql.parse(expression)
    names = set(_NAME.findall(expression))
    assert names
    assert names <= exposed, where


def test_grafana_s_own_models_load_the_dashboard():
    models = pytest.importorskip("grafana_foundation_sdk.models.dashboard")
    loaded = models.Dashboard.from_json(DASHBOARD)
    assert loaded.title == "Evenflow"
    assert loaded.schema_version == DASHBOARD["schemaVersion"] >= 36
    assert [panel.type_val for panel in loaded.panels] == [
        one["type"] for one in DASHBOARD["panels"]
    ]
    assert all(panel.grid_pos.w for panel in loaded.panels)
    again = json.loads(json.dumps(loaded, default=lambda one: one.to_json()))
    assert [one["title"] for one in again["panels"]] == [
        one["title"] for one in DASHBOARD["panels"]
    ]
    assert {one["name"] for one in again["templating"]["list"]} == {"source", "query"}


def test_panels_have_numbers_of_their_own_and_do_not_overlap():
    panels = DASHBOARD["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    taken = set()
    for panel in panels:
        at = panel["gridPos"]
        assert at["x"] + at["w"] <= 24
        columns, lines = range(at["x"], at["x"] + at["w"]), range(at["y"], at["y"] + at["h"])
        cells = {(column, line) for column in columns for line in lines}
        assert not cells & taken
        taken |= cells
        assert panel["datasource"]["uid"] == "${source}"
        assert len({target["refId"] for target in panel["targets"]}) == len(panel["targets"])


def test_three_alert_rules_have_what_prometheus_needs():
    assert len(RULES) == 3
    for rule in RULES:
        assert set(rule) <= {"alert", "expr", "for", "labels", "annotations"}
        assert re.fullmatch(r"[A-Za-z]+", rule["alert"])
        assert re.fullmatch(r"\d+[smh]", rule.get("for", "0s"))
        assert rule["labels"]["severity"] in ("warning", "critical")
        for text in rule["annotations"].values():
            assert set(re.findall(r"\$(\w+)", text)) <= {"labels", "value"}
