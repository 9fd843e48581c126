"""Metrics of models: their state, and the recalls that they order."""

import pytest
from commonbrain_server.observability.metrics import PrometheusMetrics
from ranking_helpers import Shop, crashing, on_trial, with_models

from commonbrain.client import Brain
from commonbrain.model.model_card import model_name
from tests.asking import stored
from tests.observability.reading import figure, heard
from tests.working import a_worker


@pytest.fixture
def meters() -> PrometheusMetrics:
    return PrometheusMetrics(version="1", space="words")


def test_models_by_state_and_jobs_by_outcome_are_metrics(
    brain: Brain, meters: PrometheusMetrics
) -> None:
    shop = Shop()
    watched = heard(with_models(brain, shop), meters)
    on_trial(watched, shop, crashing(), percent=5)
    watched.jobs.run("maintain", {})
    worker = a_worker(watched)
    worker.schedule()
    worker.sweep()
    assert figure(meters, "models", role="reranker", state="canary") == 1
    assert figure(meters, "models", role="reranker", state="rolled_back") == 0
    assert figure(meters, "canary_share", role="reranker") == pytest.approx(0.05)
    assert figure(meters, "jobs_worked_total", kind="maintain", outcome="done") == 1
    at = figure(meters, "job_done_timestamp_seconds", kind="maintain")
    assert at == brain.services.clock.now().timestamp()


def test_recalls_are_counted_by_the_model_that_ranks_them(
    brain: Brain, meters: PrometheusMetrics
) -> None:
    shop = Shop()
    learnt = heard(with_models(brain, shop), meters)
    stored(learnt, "The gate opens at six", kind="fact")
    learnt.recall("When does the gate open?")
    card = on_trial(learnt, shop, crashing())
    learnt.recall("When does the gate open?")
    failed = {"model": model_name(card), "outcome": "failed"}
    assert figure(meters, "recalls_ordered_total", model="weights", outcome="ordered") == 1
    assert figure(meters, "recalls_ordered_total", **failed) == 1
