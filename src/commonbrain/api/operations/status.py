"""The operation status."""

import os
from collections.abc import Iterator, Mapping
from importlib.metadata import version
from typing import ClassVar, Final

from pydantic import Field

from commonbrain.administration.status import FailedCall, Health, StoreStatus, ToolStats
from commonbrain.administration.trends import Trends
from commonbrain.api.operation import Operation, Request, argument, for_agents
from commonbrain.api.operations.review import render_review_queue
from commonbrain.client import Brain
from commonbrain.embeddings.interface import Thresholds
from commonbrain.history.review_queue import ReviewQueue
from commonbrain.model.escaping import pluralize
from commonbrain.model.limits import FAULTS_MAX
from commonbrain.model.memory import State
from commonbrain.model.scope import Role
from commonbrain.model.timestamps import show_second
from commonbrain.model.values import dataclass, fields
from commonbrain.runtime.pause import pause_in


class StatusRequest(Request):
    """What to report in addition to the counts."""

    SHOWN: ClassVar = ("review",)

    review: bool = argument(
        "List conflicts, memories to review, proposals", default=False, agents=""
    )
    health: bool = argument(
        "Check store, embedder and queue, for at most 5 s", default=False, agents=""
    )
    metrics: bool = argument(
        "Calls, errors and latencies by tool, last day", default=False, agents=""
    )
    trends: bool = argument(
        "Memories, recalls, calls and tokens over time", default=False, agents=""
    )
    errors: int = Field(
        default=0,
        ge=0,
        le=FAULTS_MAX,
        description="How many recent failed calls to list",
        json_schema_extra=for_agents("a number"),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class StatusReply(StoreStatus):
    """The counts, the caller, and the requested extras."""

    tenant: str
    agent: str
    role: Role
    review: ReviewQueue | None = None
    version: str = ""
    health: Health | None = None
    metrics: Mapping[str, ToolStats] | None = None
    trends: Trends | None = None
    errors: tuple[FailedCall, ...] | None = None


def _handle(brain: Brain, request: StatusRequest) -> StatusReply:
    counted = brain.status()
    own = {field.name: getattr(counted, field.name) for field in fields(StoreStatus)}
    return StatusReply(
        **own,
        tenant=brain.caller.tenant,
        agent=brain.caller.agent,
        role=brain.caller.role,
        review=brain.review() if request.review else None,
        version=version("commonbrain"),
        health=brain.metrics.health() if request.health else None,
        metrics=brain.metrics.figures() if request.metrics else None,
        trends=brain.metrics.trends() if request.trends else None,
        errors=brain.metrics.faults(request.errors) if request.errors else None,
    )


def _lines(reply: StatusReply) -> Iterator[str]:
    memories = pluralize(reply.memories, "memory", many="memories")
    yield f"{memories} ({_counts(reply.by_kind) or 'none yet'}) in {reply.store}"
    if pause := pause_in(os.environ):
        yield f"Paused {pause}: hooks are off, and agents store nothing."
    yield f"You are {reply.agent}, {reply.role} of the tenant {reply.tenant}."
    if reply.by_state.keys() - {State.ACTIVE}:
        yield f"States: {_counts(reply.by_state)}."
    yield f"Space {reply.space}; {threshold_line(reply.thresholds)}."
    if reply.embedding_pending:
        yield f"{reply.embedding_pending:,} wait for an embedding."
    if reply.reranker:
        yield f"Reranker: {reply.reranker}."
    if reply.jobs:
        yield f"Jobs: {_counts(reply.jobs)}."
    yield from hook_lines(reply)
    if reply.review is not None:
        yield render_review_queue(reply.review)
    yield from metrics_lines(reply)
    yield from trend_lines(reply.trends)


def _counts(named: Mapping[str, int]) -> str:
    return ", ".join(f"{count:,} {name}" for name, count in sorted(named.items()))


_ORIGINS: Final = {
    "measured": "measured for this model",
    "calibrated": "calibrated for this model with the labelled pairs of Commonbrain",
    "cautious": "cautious defaults: this model was never measured",
    "settings": "set by COMMONBRAIN_..._THRESHOLD where that is set",
}


def threshold_line(thresholds: Thresholds) -> str:
    """Render the thresholds of similarity, and where they come from."""
    answer = "none" if thresholds.answer is None else f"{thresholds.answer:.2f}"
    return (
        f"thresholds: similar {thresholds.similar:.2f}, "
        f"relevance {thresholds.relevance:.2f}, answer {answer}; {_ORIGINS[thresholds.origin]}"
    )


def trend_lines(trends: Trends | None) -> Iterator[str]:
    """Render figures over time, a line for each day or hour, if they were requested."""
    if trends is None:
        return
    for stored in trends.stored:
        kinds = ", ".join(f"{count} {kind}" for kind, count in stored.by_kind.items())
        yield f"{stored.day} stored: {kinds}"
    for day in trends.recalls:
        yield (
            f"{day.day} recalls: {day.recalls}, {day.helped} helped, {day.misled} misled, "
            f"{day.unanswered} unanswered"
        )
    for shown in trends.tokens:
        yield f"{shown.day} hooks: {shown.runs} runs, {shown.tokens:,} tokens shown"
    for hour in trends.calls:
        yield (
            f"{hour.at:%Y-%m-%d %H:00} calls: {hour.calls}, {hour.errors} errors, "
            f"p50 {hour.p50_ms:.1f}, p95 {hour.p95_ms:.1f} ms"
        )
    if (savings := trends.savings).recalls:
        yield (
            f"The latest {savings.recalls} recalls showed {savings.shown:,} of "
            f"{savings.considered:,} tokens considered ({savings.share:.0%} saved)."
        )


def hook_lines(reply: StatusReply) -> Iterator[str]:
    """Render the hooks that ran, the clients that are silent and the tokens, a line each."""
    for one in reply.hooks:
        memories = "memory" if one.shown == 1 else "memories"
        last = f", last {', '.join(one.last_ids)}" if one.last_ids else ""
        shown = f"; {one.shown:,} {memories} shown, {one.tokens:,} tokens{last}"
        ran = f"hook {one.client} {one.event}: ran {show_second(one.last_run)}"
        late = f"; {one.timed_out:,} timed out" if one.timed_out else ""
        by_words = f"; {one.by_words:,} searched by words alone" if one.by_words else ""
        yield ran + (shown if one.tokens else "") + late + by_words
    for silent in reply.silent_clients:
        since = show_second(silent.since)
        yield f"{silent.client} is silent: no hook ran since {since}. {silent.advice}"
    if reply.hooks:
        yield f"{reply.token_use.line} by hooks in 30 days."


def metrics_lines(reply: StatusReply) -> Iterator[str]:
    """Render health, metrics and errors, a line each, if they were requested."""
    for one in reply.health.dependencies if reply.health else ():
        is_there = "answers" if one.is_there else "does not answer"
        yield f"{one.name} {is_there} ({one.detail}, {one.took_ms:.0f} ms)"
    for one in reply.health.replicas if reply.health else ():
        state = f"lags by {one.behind_bytes:,} bytes" if one.behind_bytes else "keeps up"
        state = f"is not read from: {one.trouble}" if one.trouble is not None else state
        counts = f"{one.answered} reads answered, {one.lagged} lagging, {one.failed} failed"
        name = one.replica.removeprefix("replica ")
        yield f"replica {name} {state} ({counts}); the primary answers the rest"
    for tool, of in (reply.metrics or {}).items():
        yield (
            f"{tool}: {of.calls} calls, {of.errors} errors, mean {of.mean_ms:.1f}, p50 "
            f"{of.p50_ms:.1f}, p95 {of.p95_ms:.1f}, p99 {of.p99_ms:.1f} ms, {of.slow} slow"
        )
    for fault in reply.errors or ():
        yield f"{fault.at:%Y-%m-%d %H:%M:%S} {fault.tool} {fault.code} by {fault.agent} {fault.id}"


STATUS = Operation(
    name="status",
    title="Status",
    purpose="Count what is stored; list what needs a decision.",
    request=StatusRequest,
    reply=StatusReply,
    handle=_handle,
    render_text=lambda reply: "\n".join(_lines(reply)),
    is_read_only=True,
    is_idempotent=True,
)
