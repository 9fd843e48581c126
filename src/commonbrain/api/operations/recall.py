"""The operation recall."""

from typing import Literal

from pydantic import Field

from commonbrain.api.operation import (
    OMIT_DESCRIPTION,
    Command,
    Cursor,
    Name,
    Operation,
    Profile,
    Request,
    TimeBound,
    for_agents,
)
from commonbrain.client import Brain
from commonbrain.model.paging import more_line
from commonbrain.model.recall_result import (
    HEADING,
    UNSURE,
    Certainty,
    Evidence,
    RecallResult,
    ResultStatus,
    closing_line,
    to_evidence,
)
from commonbrain.model.values import dataclass
from commonbrain.retrieval.plan import RecallOptions

_NO_RESULT_MESSAGES = {
    ResultStatus.NOTHING_STORED: "Nothing is stored that this filter allows.",
    ResultStatus.BELOW_THRESHOLD: "Nothing stored answers this; use other words or drop a filter.",
    ResultStatus.FOUND: "Nothing fits the budget; raise max_tokens.",
}


class RecallRequest(Request):
    """A question, or none for the newest memories, with filters and limits."""

    query: str = Field(default="", description="A question; empty: the newest")
    max_items: int | None = Field(
        default=None, description="1 to 100, else 12", json_schema_extra=for_agents("Default 12")
    )
    max_tokens: int | None = Field(
        default=None,
        description="64 to 32000, else 1400",
        json_schema_extra=for_agents("Default 1400"),
    )
    project: Name = Field(
        default=None,
        description="This project, and memories of none",
        json_schema_extra=for_agents("And memories of none"),
    )
    kinds: list[str] = Field(default=[], description="Only these")
    labels: list[str] = Field(
        default=[], description="Only these", json_schema_extra=OMIT_DESCRIPTION
    )
    tags: list[str] = Field(default=[], description="All of these")
    people: list[str] = Field(
        default=[],
        description="Naming or said by one of these",
        json_schema_extra=for_agents("Any of these"),
    )
    field: Name = Field(
        default=None,
        description="Atoms by subject, action, outcome, consequences",
        json_schema_extra=for_agents("atom: subject, action, outcome, consequences"),
    )
    agent: Name = Field(default=None, description="Its author")
    session: Name = Field(
        default=None, description="Of this one", json_schema_extra=OMIT_DESCRIPTION
    )
    thread: Name = Field(default=None, description="thr_...")
    scope: Name = Field(
        default=None, description="private, team or global", json_schema_extra=OMIT_DESCRIPTION
    )
    states: list[str] = Field(default=[], description="quarantined, needs_review, ..")
    since: TimeBound = Field(
        default=None,
        description="Occurred then or later: ISO 8601 or 'last monday'",
        json_schema_extra=for_agents("ISO 8601 or 'last monday'"),
    )
    until: TimeBound = Field(
        default=None, description="Occurred at or before", json_schema_extra=OMIT_DESCRIPTION
    )
    as_of: TimeBound = Field(default=None, description="What was believed then")
    order: Literal["relevance", "timeline"] = Field(
        default="relevance",
        description="timeline: as it happened",
        json_schema_extra=OMIT_DESCRIPTION,
    )
    trust_min: float | None = Field(default=None, description="0.3: untrusted web too")
    min_confidence: float = Field(
        default=0.0, description="0 to 1", json_schema_extra=OMIT_DESCRIPTION
    )
    deadline_ms: float | None = Field(
        default=None, description="Skip late retrievers", json_schema_extra=OMIT_DESCRIPTION
    )
    cursor: Cursor = Field(default=None, description="`next` of the page before, without query")


def _handle(brain: Brain, request: RecallRequest) -> RecallResult:
    return brain.recall(request.query, **RecallOptions(**request.model_dump(exclude={"query"})))


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactResponse:
    """The result in JSON for agents; fields that are None are left out."""

    notice: str
    """What the items are, or why there are none."""
    items: tuple[Evidence, ...]
    conflicts: tuple[str, ...] | None
    """A sentence for each pair."""
    verdict: ResultStatus
    certainty: Certainty | None
    """How sure the items are as a whole; None if medium, as most are."""
    tokens: int
    """Estimate for the reply, as text or as JSON, whichever is more."""
    omitted: int | None
    next: str | None
    """The cursor of the next page."""
    more: int | None
    degraded: tuple[str, ...] | None
    """Names of the retrievers that did not take part."""
    trace_id: str


def _to_compact(reply: RecallResult) -> CompactResponse:
    is_unsure = reply.verdict is ResultStatus.BELOW_THRESHOLD
    notice = f"{HEADING} {UNSURE}" if is_unsure else HEADING
    return CompactResponse(
        notice=notice if reply.items else _NO_RESULT_MESSAGES[reply.verdict],
        items=tuple(map(to_evidence, reply.items)),
        conflicts=tuple(conflict.line() for conflict in reply.conflicts) or None,
        verdict=reply.verdict,
        certainty=None if reply.certainty is Certainty.MEDIUM else reply.certainty,
        tokens=reply.tokens,
        omitted=reply.omitted.count or None,
        next=reply.next,
        more=reply.more or None,
        degraded=tuple(reason.partition(":")[0] for reason in reply.degraded) or None,
        trace_id=reply.trace_id,
    )


def _render(reply: RecallResult) -> str:
    skipped = [f"Skipped: {reason.partition(',')[0]}" for reason in reply.degraded]
    size = [closing_line(reply.tokens, reply.certainty)] if reply.items else []
    more = more_line(reply.more, reply.next)
    evidence = reply.evidence or _NO_RESULT_MESSAGES[reply.verdict]
    return "\n".join([evidence, *skipped, *size, *more])


RECALL = Operation(
    name="recall",
    title="Recall",
    purpose="Find what is known about something: decisions, rules, facts, past conversations. "
    "Ask before work that others may have done or decided.",
    request=RecallRequest,
    profile=Profile.LITE,
    reply=RecallResult,
    handle=_handle,
    render_text=_render,
    to_compact=_to_compact,
    compact_reply=CompactResponse,
    positional=("query",),
    commands=(
        Command(
            name="timeline",
            purpose="List memories in order of events: the newest, or those that match a query.",
            preset={"order": "timeline"},
            fields=frozenset(RecallRequest.model_fields) - {"order"},
        ),
    ),
    is_read_only=True,
    is_idempotent=True,
)
