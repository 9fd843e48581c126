"""What calls leave in the store and in telemetry."""

from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta
from typing import Any

from prometheus_client.parser import text_string_to_metric_families

from commonbrain.api.dispatch import dispatch
from commonbrain.api.operations import Transport, load_operations
from commonbrain.client import Brain
from commonbrain.observability.interface import Telemetry
from commonbrain.observability.tool_events import ToolEvent
from commonbrain.testing.builders import NOON

Figures = Mapping[tuple[str, frozenset[tuple[str, str]]], float]

TOOLS = {operation.name: operation for operation in load_operations()}


def events(brain: Brain) -> list[ToolEvent]:
    """Write pending events, and return those of the brain's tenant, oldest first."""
    brain.services.journal.flush()
    since = brain.services.clock.now() - timedelta(days=400)
    with brain.services.store.snapshot(brain.caller.tenant) as tx:
        return tx.events.latest(limit=10_000, since=since)[::-1]


def call(brain: Brain, tool: str, *, transport: Transport = Transport.MCP, **given: object) -> Any:  # noqa: ANN401
    """Make a call as a network transport does."""
    request = TOOLS[tool].request.model_validate(given)
    return dispatch(TOOLS[tool], brain, request=request, transport=transport)


def an_event(**more: Any) -> ToolEvent:  # noqa: ANN401
    """Make an event with the given fields."""
    plain = ToolEvent(
        id=1,
        tenant="default",
        at=NOON,
        session="s1",
        agent="ann",
        tool="recall",
        transport="mcp",
        duration_ms=1.5,
        outcome="ok",
    )
    return replace(plain, **more)


def heard(brain: Brain, telemetry: Telemetry) -> Brain:
    """Return a brain whose calls a telemetry receives."""
    return Brain(replace(brain.services, telemetry=telemetry), brain.caller)


def figures(telemetry: Telemetry) -> Figures:
    """Return all metrics, by name and labels."""
    text, _ = telemetry.metrics()
    return {
        (sample.name.removeprefix("commonbrain_"), frozenset(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(text.decode())
        for sample in family.samples
    }


def figure(telemetry: Telemetry, name: str, **labels: str) -> float:
    """Return one metric; zero where nothing was counted."""
    return figures(telemetry).get((name, frozenset(labels.items())), 0.0)
