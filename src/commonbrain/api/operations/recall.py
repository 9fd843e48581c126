"""The operation recall."""

from dataclasses import dataclass
from typing import Literal

from pydantic import Field

from commonbrain.api.operation import PLAIN, Bound, Command, Name, Operation, Profile, Request
from commonbrain.client import Brain
from commonbrain.model import limits
from commonbrain.model.conflicts import Conflict
from commonbrain.model.query import TRUST_MIN_DEFAULT
from commonbrain.model.recall_result import (
    HEADING,
    Evidence,
    RecallResult,
    ResultStatus,
    to_evidence,
)
from commonbrain.retrieval.options import RecallOptions

_NOTHING = {
    ResultStatus.NOTHING_STORED: "Nothing is stored that this filter allows.",
    ResultStatus.BELOW_THRESHOLD: "Nothing stored answers this; use other words or drop a filter.",
    ResultStatus.FOUND: "Nothing fits the budget; raise max_tokens.",
}


class RecallRequest(Request):
    """A question, or nothing to browse the newest, with its bounds."""

    query: str = Field(default="", description="A question; empty: the newest")
    max_items: int = Field(default=limits.RECALL_ITEMS_DEFAULT, description="1 to 100")
    max_tokens: int = Field(default=limits.RECALL_TOKENS_DEFAULT, description="64 to 32000")
    project: Name = Field(default=None, description="This project and what holds for every one")
    kinds: list[str] = Field(default=[], description="Only these")
    labels: list[str] = Field(default=[], description="Only these", json_schema_extra=PLAIN)
    tags: list[str] = Field(default=[], description="All of these")
    people: list[str] = Field(default=[], description="Naming or said by one of these")
    field: Name = Field(default=None, description="Atoms by subject, action, outcome, consequences")
    agent: Name = Field(default=None, description="Its author")
    session: Name = Field(default=None, description="Of this one", json_schema_extra=PLAIN)
    thread: Name = Field(default=None, description="thr_...")
    scope: Name = Field(default=None, description="private, team or global")
    states: list[str] = Field(default=[], description="quarantined, needs_review, ..")
    since: Bound = Field(
        default=None, description="Occurred then or later: ISO 8601 or 'last monday'"
    )
    until: Bound = Field(default=None, description="Occurred at or before")
    as_of: Bound = Field(default=None, description="What was believed then")
    order: Literal["best", "timeline"] = Field(
        default="best", description="timeline: as it happened", json_schema_extra=PLAIN
    )
    trust_min: float = Field(default=TRUST_MIN_DEFAULT, description="0.3: untrusted web too")
    min_confidence: float = Field(default=0.0, description="0 to 1")
    deadline_ms: float | None = Field(default=None, description="Drop what is late")


def _handle(brain: Brain, request: RecallRequest) -> RecallResult:
    return brain.recall(request.query, **RecallOptions(**request.model_dump(exclude={"query"})))


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """A recollection as an agent reads it in JSON, which leaves out what is None."""

    notice: str | None
    items: tuple[Evidence, ...]
    conflicts: tuple[Conflict, ...] | None
    verdict: ResultStatus
    omitted: int | None
    degraded: tuple[str, ...] | None
    """The names of the arms that did not take part."""
    trace_id: str


def _answer(reply: RecallResult) -> Answer:
    return Answer(
        notice=HEADING if reply.items else None,
        items=to_evidence(reply.items),
        conflicts=reply.conflicts or None,
        verdict=reply.verdict,
        omitted=reply.omitted.count or None,
        degraded=tuple(what.partition(":")[0] for what in reply.degraded) or None,
        trace_id=reply.trace_id,
    )


def _tell(reply: RecallResult) -> str:
    skipped = [f"Skipped: {what.partition(',')[0]}" for what in reply.degraded]
    return "\n".join([reply.evidence or _NOTHING[reply.verdict], *skipped])


RECALL = Operation(
    name="recall",
    title="Recall",
    purpose="Find what is known about something: decisions, rules, facts, past conversations. "
    "Ask before work that others may have done or decided.",
    request=RecallRequest,
    profile=Profile.LITE,
    reply=RecallResult,
    handle=_handle,
    tell=_tell,
    for_agents=_answer,
    agent_reply=Answer,
    positional=("query",),
    commands=(
        Command(
            name="timeline",
            purpose="What happened, in its order: the newest, or what answers a question.",
            preset={"order": "timeline"},
            fields=frozenset(RecallRequest.model_fields) - {"order"},
        ),
    ),
    is_read_only=True,
    is_idempotent=True,
)
