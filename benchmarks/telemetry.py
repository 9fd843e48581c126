"""What being listened to costs a call: the same calls unheard and heard, in turn, as a ratio."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any, Final

import typer
from commonbrain_server.observability.metrics import PrometheusMetrics
from commonbrain_server.observability.tracing import OtelSpans
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

import commonbrain
from benchmarks.corpus import drafts, questions
from benchmarks.large_stores import Filling
from benchmarks.timing import Lap, timed
from commonbrain.api.dispatch import dispatch
from commonbrain.api.operations import load_operations
from commonbrain.client import Brain
from commonbrain.model.memory import Draft
from commonbrain.observability.factory import TelemetryDispatch
from commonbrain.observability.interface import Telemetry
from commonbrain.observability.logs import ServerLog
from commonbrain.retrieval.write_behind import RecallLogPolicy, WriteBehindQueue

app = typer.Typer()
TOOLS: Final = {operation.name: operation for operation in load_operations()}
_MEMORIES: Final = 2000
_TIMES: Final = 400


@app.command()
def telemetry(times: int = _TIMES, memories: int = _MEMORIES) -> None:
    """Measure recall and remember with metrics, spans and a log, and without them."""
    with tempfile.TemporaryDirectory() as folder, commonbrain.open(Path(folder) / "b.db") as brain:
        Filling.of(brain)(0, until=memories)
        about = {"version": "bench", "space": brain.services.store.space.name}
        spans = OtelSpans.to(BatchSpanProcessor(InMemorySpanExporter()), about=about)
        meters = PrometheusMetrics(**about)
        log = ServerLog(Path(folder) / "log", "bench")
        every = TelemetryDispatch([log], spans=spans, meters=meters)
        recalls = [partial(_call, "recall", query=one) for one in questions(times, of=memories)]
        texts = drafts(2 * times, seed=99)
        writes = [partial(_remember, texts=texts) for _ in range(times)]
        variants: dict[str, Telemetry] = {
            "figures": meters,
            "spans": spans,
            "log": log,
            "all": every,
        }
        for name, telemetry in variants.items():
            _compare(f"recall, {name}", recalls, one=brain, other=_heard(brain, telemetry))
        _compare("remember, all", writes, one=brain, other=_heard(brain, every))
        _compare("recall, tool events kept", recalls, one=_eventless(brain), other=brain)
        every.close()


def _call(tool: str, brain: Brain, **given: object) -> Any:  # noqa: ANN401
    request = TOOLS[tool].request.model_validate(given)
    return dispatch(TOOLS[tool], brain, request=request)


def _remember(brain: Brain, *, texts: Iterator[Draft]) -> object:
    """Remember the next text: the same one again would only be found."""
    return _call("remember", brain, text=next(texts).body, kind="event")


def _heard(brain: Brain, telemetry: Telemetry) -> Brain:
    return Brain(replace(brain.services, telemetry=telemetry), brain.caller)


def _eventless(brain: Brain) -> Brain:
    services = brain.services
    ledger = RecallLogPolicy(event_retention=RecallLogPolicy().event_retention * 0)
    journal = WriteBehindQueue(
        services.store, services.secret_scanner, clock=services.clock, ledger=ledger
    )
    return Brain(replace(services, journal=journal), brain.caller)


def _compare(
    name: str, calls: list[Callable[[Brain], object]], *, one: Brain, other: Brain
) -> None:
    """Make each call both ways, now this first, now that, and tell the ratio of the work."""
    laps: dict[bool, list[Lap]] = {False: [], True: []}
    for number, call in enumerate(calls):
        for is_other in (number % 2 == 0, number % 2 == 1):
            laps[is_other].append(timed(partial(call, other if is_other else one)))
    work = {is_other: [lap.process_ms for lap in taken] for is_other, taken in laps.items()}
    without, with_ = median(work[False]), median(work[True])
    total = sum(work[True]) / sum(work[False])
    print(
        f"{name:<28} without {without:7.3f} ms   with {with_:7.3f} ms of work   "
        f"median {with_ / without - 1:+.1%}   sum {total - 1:+.1%}   n {len(calls)}"
    )
