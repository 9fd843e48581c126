import re
import shutil
import subprocess
from pathlib import Path

import pytest
from commonbrain_server.observability.metrics import PrometheusMetrics
from prometheus_client.parser import text_string_to_metric_families

from tests.deploy_files import DEPLOY, dashboard, expressions, panels, rules_file
from tests.observability.reading import an_event

PROMTOOL = shutil.which("promtool")
needs_promtool = pytest.mark.skipif(
    PROMTOOL is None, reason="promtool is not installed: apt-get install prometheus"
)
GUIDE = Path(__file__).parents[3] / "docs" / "how-to" / "operate.md"


def exported() -> dict[str, set[str]]:
    """Give every series that a server shows, with its labels."""
    meters = PrometheusMetrics(version="1", space="words")
    meters.called(an_event(), http_status=200)
    families = text_string_to_metric_families(meters.metrics()[0].decode())
    return {
        f"{family.name}{ending}": set()
        for family in families
        for ending in ("", "_total", "_bucket", "_count", "_sum")
    }


def promtool(*arguments: str) -> str:
    assert PROMTOOL
    done = subprocess.run(
        [PROMTOOL, *arguments],
        cwd=DEPLOY / "prometheus",
        check=False,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )
    assert done.returncode == 0, done.stdout.decode()
    return done.stdout.decode()


def test_dashboards_and_alerts_use_only_exported_metrics() -> None:
    named = {name for one in expressions() for name in re.findall(r"commonbrain_\w+", one)}
    assert named
    assert named - set(exported()) == set()


@pytest.mark.requirement("OB-08")
def test_dashboard_shows_latency_growth_hit_quality_and_tokens_saved() -> None:
    titles = " ".join(panel["title"] for panel in panels())
    for what in ("p50 by tool", "p95 by tool", "Growth by tenant", "Growth by kind"):
        assert what in titles
    assert titles.count("Hit quality") == 3
    assert "Tokens saved" in titles


def test_dashboard_panels_do_not_overlap_and_have_unique_ids() -> None:
    taken: set[tuple[int, int]] = set()
    for panel in dashboard()["panels"]:
        at = panel["gridPos"]
        cells = {
            (x, y)
            for x in range(at["x"], at["x"] + at["w"])
            for y in range(at["y"], at["y"] + at["h"])
        }
        assert not cells & taken
        assert max(x for x, _ in cells) < 24
        taken |= cells
    numbers = [panel["id"] for panel in dashboard()["panels"]]
    assert len(set(numbers)) == len(numbers)


@pytest.mark.requirement("OB-09")
def test_alerts_cover_latency_errors_authorisation_jobs_and_models() -> None:
    names = {rule["alert"] for group in rules_file()["groups"] for rule in group["rules"]}
    assert {
        "CommonbrainRecallSlow",
        "CommonbrainRememberSlow",
        "CommonbrainErrorBudgetBurnsFast",
        "CommonbrainAuthorisationFailures",
        "CommonbrainDeadLetters",
        "CommonbrainEmbedderDown",
        "CommonbrainModelRolledBack",
    } <= names


def test_every_alert_links_to_its_section_of_the_guide() -> None:
    headings = {
        line.lstrip("# ").strip().lower().replace(" ", "-")
        for line in GUIDE.read_text("utf-8").splitlines()
        if line.startswith("#")
    }
    for group in rules_file()["groups"]:
        for rule in group["rules"]:
            page, _, heading = rule["annotations"]["runbook"].partition("#")
            assert page == "docs/how-to/operate.md"
            assert heading in headings


@needs_promtool
def test_prometheus_accepts_the_rules_and_the_configuration() -> None:
    assert "11 rules found" in promtool("check", "rules", "rules.yml")
    promtool("check", "config", "prometheus.yml")


@needs_promtool
def test_alert_rules_pass_their_promtool_tests() -> None:
    assert "SUCCESS" in promtool("test", "rules", "rules_test.yml")
