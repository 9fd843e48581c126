"""Search, as agents do it: what recall returns, why, and what it leaves out."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Final

from commonbrain.api.operations.recall import RecallRequest
from commonbrain.api.operations.recalls import RECALLS, RecallsRequest
from commonbrain.model.errors import InvalidInputError, NotFoundError
from commonbrain.model.limits import IDS_PER_GET_MAX
from commonbrain.model.memory import State
from commonbrain.model.recall_result import RecallResult
from commonbrain.model.timestamps import show_instant
from commonbrain.retrieval.log import CandidateView
from commonbrain.web.screens.screen import Screen
from commonbrain.web.visit import READ_RECALL, Visit, read_memories, read_visible

DAYS_BACK_MAX: Final = 365
"""How far the slider reaches; the field for a date reaches any time."""
_DIGITS_MAX: Final = 4
_LEFT_OUT_SHOWN: Final = 20
_PARTS: Final = (
    ("words", "lexical"),
    ("meaning", "vector"),
    ("passage", "context_score"),
    ("links", "linked"),
    ("trust", "trust"),
    ("freshness", "recency"),
)
"""The parts of a score that a result shows, each a feature of the recall log."""
_FILTERS: Final = ("project", "kinds", "labels", "tags", "agent", "since", "until", "states")
_BUDGET: Final = ("max_items", "max_tokens")


@dataclass(frozen=True, slots=True, kw_only=True)
class Present:
    """What became of a memory that was believed at an earlier time."""

    state: State
    current_id: str
    """The id of what replaced it; its own if nothing did."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchView:
    """A question with its results."""

    query: str
    filters: Mapping[str, str]
    """The filters as given."""
    budget: Mapping[str, str]
    """The limits of items and tokens as given."""
    days_back: int
    as_of: str | None
    """The earlier time whose answer is shown too; None for none."""
    date: str
    """That time as the field for a date has it; empty if the slider names it."""
    result: RecallResult | None = None
    """None without a question."""
    then: RecallResult | None = None
    """The answer as of the earlier time."""
    present: Mapping[str, Present]
    """The present state of each item of `then`."""
    parts: Mapping[str, Mapping[str, float]]
    """The parts of the score by memory, each 0 to 1."""
    headlines: Mapping[str, str] = field(default_factory=dict[str, str])
    """The headlines of the memories that disagree, by id."""
    left_out: tuple[CandidateView, ...] = ()
    """Candidates that the result does not contain, best first, with the reason."""


def _load(visit: Visit) -> SearchView:
    request = visit.request(RecallRequest, as_of=None)
    days_back, as_of = _times(visit)
    filters = {name: ", ".join(visit.parameters.getlist(name)) for name in _FILTERS}
    budget = {name: visit.text(name) for name in _BUDGET}
    if not request.query:
        return SearchView(
            query="",
            filters=filters,
            budget=budget,
            days_back=days_back,
            as_of=as_of,
            date=visit.text("as_of")[:10],
            present={},
            parts={},
        )
    then: RecallResult | None = None
    present: Mapping[str, Present] = {}
    if as_of is not None:
        then = visit.call(READ_RECALL, request.model_copy(update={"as_of": as_of}))
        present = _present(visit, [one.id for one in then.items])
    result = visit.call(READ_RECALL, request)
    candidates = _candidates(visit, result)
    return SearchView(
        query=request.query,
        filters=filters,
        budget=budget,
        days_back=days_back,
        as_of=as_of,
        date=visit.text("as_of")[:10],
        result=result,
        then=then,
        present=present,
        parts={
            candidate.id: {
                name: candidate.features[feature]
                for name, feature in _PARTS
                if candidate.features.get(feature)
            }
            for candidate in candidates
        },
        headlines=_headlines(visit, result),
        left_out=tuple(one for one in candidates if one.shown is None)[:_LEFT_OUT_SHOWN],
    )


def _times(visit: Visit) -> tuple[int, str | None]:
    """Return the slider's position and the earlier time that it or the date field names."""
    given = visit.text("days_back") or "0"
    if not given.isdecimal() or len(given) > _DIGITS_MAX or int(given) > DAYS_BACK_MAX:
        raise InvalidInputError(
            f"days_back is {given[:20]!r}.", hint=f"Give 0 to {DAYS_BACK_MAX} days."
        )
    days_back = int(given)
    if as_of := visit.text("as_of"):
        return days_back, as_of
    if not days_back:
        return 0, None
    return days_back, show_instant(visit.now - timedelta(days=days_back))


def _present(visit: Visit, ids: list[str]) -> Mapping[str, Present]:
    return {
        memory.id: Present(state=memory.state, current_id=memory.current_id)
        for memory in read_memories(visit, ids[:IDS_PER_GET_MAX])
    }


def _headlines(visit: Visit, result: RecallResult) -> Mapping[str, str]:
    disagreeing = {id_ for conflict in result.conflicts for id_ in conflict.ids}
    shown = {item.id: item.headline for item in result.items if item.headline}
    known = {id_: shown[id_] for id_ in disagreeing & shown.keys()}
    others = read_visible(visit, sorted(disagreeing - known.keys())).values()
    return known | {memory.id: memory.headline for memory in others}


def _candidates(visit: Visit, result: RecallResult) -> tuple[CandidateView, ...]:
    """Return what recall considered; nothing if this recall is not in the log."""
    try:
        [recall] = visit.call(RECALLS, RecallsRequest(trace=result.trace_id)).recalls
    except NotFoundError:
        # The settings may log only a share of all recalls.
        return ()
    return recall.candidates or ()


SEARCH: Final = Screen(name="search", path="/search", title="Search", load=_load, key="s")
