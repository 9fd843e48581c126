"""The operation recall."""

from typing import ClassVar, Literal

from commonbrain.api.operation import (
    Command,
    Cursor,
    Name,
    Operation,
    Profile,
    Request,
    TimeBound,
    argument,
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

    SHOWN: ClassVar = ("query", "max_items", "project", "kinds", "tags", "since", "until")

    query: str = argument(
        "A question; without one, the newest memories", "", agents="A question; empty: the newest"
    )
    max_items: int | None = argument(
        "How many memories at most, 1 to 100; 12 by default", agents=""
    )
    max_tokens: int | None = argument(
        "How many tokens at most, 64 to 32000; 1400 by default", agents=""
    )
    project: Name = argument(
        "Only memories of this project, and those without a project", agents="And those of none"
    )
    kinds: list[str] = argument("Only memories of this kind", [], agents="Only these")
    labels: list[str] = argument("Only memories with this label", [], agents="")
    tags: list[str] = argument("Only memories with all of these tags", [], agents="All of these")
    people: list[str] = argument(
        "Only memories that name one of these people, or that one of them said",
        [],
        agents="Any of these",
    )
    field: Name = argument(
        "Search only this field of causes: subject, action, outcome or consequences",
        agents="of atoms",
    )
    agent: Name = argument("Only memories by this agent", agents="its author")
    session: Name = argument("Only memories of this session", agents="")
    thread: Name = argument("Only messages of this thread, thr_...", agents="thr_...")
    scope: Name = argument("Only memories of this scope: private, team or global", agents="")
    states: list[str] = argument(
        "Also memories in this state, such as quarantined or needs_review",
        [],
        agents="quarantined, ..",
    )
    since: TimeBound = argument(
        "Only what occurred then or later: ISO 8601, or words such as 'last monday'",
        agents="ISO 8601 or 'last monday'",
    )
    until: TimeBound = argument("Only what occurred then or before", agents="")
    as_of: TimeBound = argument("Search what was believed at that time", agents="as believed then")
    order: Literal["relevance", "timeline"] = argument(
        "relevance, or timeline: in the order in which it happened", "relevance", agents=""
    )
    trust_min: float | None = argument(
        "The lowest trust, from 0 to 1; 0.3 includes the untrusted web",
        agents="0.3: untrusted web too",
    )
    min_confidence: float = argument("The lowest confidence, from 0 to 1", 0.0, agents="")
    deadline_ms: float | None = argument(
        "Leave out what is not searched within so many milliseconds", agents=""
    )
    cursor: Cursor = argument(
        "`next` of the page before, without query", agents="`next`, without query"
    )


def _handle(brain: Brain, request: RecallRequest) -> RecallResult:
    return brain.recall(request.query, **RecallOptions(**request.model_dump(exclude={"query"})))


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactRecallResult:
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


def _to_compact(reply: RecallResult) -> CompactRecallResult:
    is_unsure = reply.verdict is ResultStatus.BELOW_THRESHOLD
    notice = f"{HEADING} {UNSURE}" if is_unsure else HEADING
    return CompactRecallResult(
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
    compact_reply=CompactRecallResult,
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
