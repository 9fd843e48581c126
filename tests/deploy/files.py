"""The files that servers are put up with."""

import json
from pathlib import Path
from typing import Any

import yaml

DEPLOY = Path(__file__).parents[2] / "deploy"


def documents(name: str) -> list[Any]:
    """Read every document of a YAML file."""
    return list(yaml.safe_load_all((DEPLOY / name).read_text("utf-8")))


def dashboard() -> dict[str, Any]:
    """Read what Grafana draws."""
    return json.loads((DEPLOY / "grafana" / "commonbrain.json").read_text("utf-8"))


def panels() -> list[dict[str, Any]]:
    """Give the panels that draw something."""
    return [panel for panel in dashboard()["panels"] if panel["type"] != "row"]


def expressions() -> list[str]:
    """Give every expression that the dashboard and the alert rules ask Prometheus."""
    drawn = [target["expr"] for panel in panels() for target in panel["targets"]]
    rules = [rule["expr"] for group in rules_file()["groups"] for rule in group["rules"]]
    variables = [
        one["definition"] for one in dashboard()["templating"]["list"] if "definition" in one
    ]
    return [*drawn, *rules, *variables]


def rules_file() -> dict[str, Any]:
    """Read the alert rules."""
    [read] = documents("prometheus/rules.yml")
    return read
