"""The second stage of a recall: find candidates, and give each of them one score.

`RETRIEVERS` holds everything about each way to find memories. To add one, write its function and
its row; ranking, ablation, traces and the reasons shown with results follow from the row.

An answer is seldom said in the words of its question; what was said just before it often is. So a
memory of a thread or session is also scored by the passage around it: the mean of its neighbours'
own scores, for which nothing has to be embedded again.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import Future
from datetime import UTC, datetime
from itertools import chain, pairwise
from typing import TYPE_CHECKING, Final

from commonbrain.clock import Deadline
from commonbrain.embeddings.interface import EmbeddingSpace, Matrix
from commonbrain.model.errors import UnavailableError
from commonbrain.model.limits import PERIOD_CANDIDATES
from commonbrain.model.query import Place
from commonbrain.model.recall_result import Order
from commonbrain.model.values import dataclass, field, replace
from commonbrain.retrieval.plan import QueryPlan
from commonbrain.retrieval.skills import fired_skills
from commonbrain.retrieval.table import BLOCKER, GUIDANCE, SKILL, Table
from commonbrain.text.preferences import Guidance, mark_of
from commonbrain.text.time_expressions.mentions import marks_of

if TYPE_CHECKING:
    from commonbrain.retrieval.table import Column
    from commonbrain.storage.store import Transaction

ScoresById = dict[int, float]
"""Raw scores of one retriever by memory id."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Threshold:
    """What a candidate has to reach to count as relevant."""

    cosine: float
    is_about_time: bool = False
    """Whether the query asks for nothing but a period, or for one to come."""


@dataclass(slots=True, kw_only=True)
class Search:
    """One run of the retrievers: its input, and what the earlier ones found."""

    tx: Transaction
    plan: QueryPlan
    space: EmbeddingSpace
    deadline: Deadline
    get_vector: Callable[[], Future[Matrix]] | None
    """Returns the query's embedding, perhaps not computed yet; None if recall uses no vectors."""
    matches: dict[str, ScoresById] = field(default_factory=dict[str, ScoresById])
    """Scores by retriever; empty for those that found nothing."""
    degraded: list[str] = field(default_factory=list[str])
    """`name: code, message` for each retriever that could not take part."""
    oldest: Place | None = None
    """The last place of a page of a list; None if nothing follows."""
    query_vector: Matrix | None = None
    """Shape (1, dimensions), once the embedding was available in time."""


ALWAYS: Final = -math.inf
NEVER: Final = math.inf


@dataclass(frozen=True, slots=True, kw_only=True)
class Retriever:
    """One way to find candidates; no field has a default, so none can be forgotten."""

    applies_to: Callable[[Search], bool]
    """Whether the query gives this retriever anything to search for."""
    fetch: Callable[[Search], ScoresById]
    weight: float
    """Share in the fused score; 0 if the match counts as a ranking feature alone."""
    score_of_no_match: float | None
    """The raw score that means no match; None if only the lowest candidate's score does."""
    relevant_from: Callable[[Threshold], float]
    """The raw score from which a match alone makes a candidate relevant, or `ALWAYS` or `NEVER`."""
    reason: str | None
    """How results name a strong match; None if another feature names it."""


def _fetch_newest(search: Search) -> ScoresById:
    plan = search.plan
    limit = plan.candidates if plan.lists_time else plan.budget.max_items
    hits = search.tx.memories.newest(plan.query_scope, limit=limit, after=plan.after)
    if plan.has_pages and len(hits) == limit:
        search.oldest = datetime.fromtimestamp(hits[-1].score, UTC), hits[-1].id
    if not (plan.lists_time or plan.budget.order is Order.TIMELINE):
        return {hit.id: hit.score for hit in hits}
    criteria = plan.filter
    if criteria.since is None and hits:
        oldest = datetime.fromtimestamp(hits[-1].score, UTC)
        criteria = replace(criteria, since=oldest)
    if plan.after is not None:
        criteria = replace(criteria, until=min(plan.after[0], criteria.until or plan.after[0]))
    again = search.tx.memories.recurred(replace(plan.query_scope, filter=criteria), limit=limit)
    mentioning = dict.fromkeys(_fetch_mentioning(plan, search.tx), 0.0)
    return mentioning | {hit.id: hit.score for hit in (*hits, *again)}


def _fetch_mentioning(plan: QueryPlan, tx: Transaction) -> Sequence[int]:
    """List the newest memories that mention a date of the period that the query names."""
    periods = [one for one in (plan.period, plan.coming) if one is not None]
    marks = [mark for period in periods for mark in marks_of(period)]
    scope = plan.wider_scope or plan.query_scope
    return tx.memories.with_topics(marks, scope, limit=PERIOD_CANDIDATES) if marks else ()


def _fetch_skills(search: Search) -> ScoresById:
    plan = search.plan
    fired = fired_skills(search.tx, plan.query_scope, query=plan.query, project=plan.project)
    return dict.fromkeys(fired[: plan.parameters.skills_max], 1.0)


_BLOCKERS_MAX: Final = 50
"""BLOCKERs compared with a question; boot shows 20."""


def _fetch_blockers(search: Search) -> ScoresById:
    """Take what must not be broken, so that it is compared however many texts echo the question."""
    ranked = search.tx.briefing.blockers(search.plan.query_scope, limit=_BLOCKERS_MAX)
    return dict.fromkeys(ranked.ids, 1.0)


def _fetch_lexical(search: Search) -> ScoresById:
    """Search by stemmed words (BM25), once more within the period that the query names."""
    plan, index = search.plan, search.tx.index
    terms = (*plan.terms, *plan.extra_words)
    hits = index.lexical(terms, plan.query_scope, limit=plan.parameters.lexical_candidates)
    scores = {hit.id: hit.score for hit in hits}
    if plan.time_scoped is not None:
        # In a small store, the best of each search has a score of 1: the first score is kept.
        for hit in index.lexical(terms, plan.time_scoped, limit=PERIOD_CANDIDATES):
            scores.setdefault(hit.id, hit.score)
    return scores


def _fetch_by_time(search: Search) -> ScoresById:
    """Take the newest memories of the period that the query names, and what recurred in it.

    What mentions a date of it is added, and what recurred in the period of a filter, because other
    retrievers know only the first time of an event.
    """
    scope, memories = search.plan.time_scoped, search.tx.memories
    newest = [] if scope is None else memories.newest(scope, limit=PERIOD_CANDIDATES)
    again = memories.recurred(scope or search.plan.query_scope, limit=PERIOD_CANDIDATES)
    hits = [hit.id for hit in (*newest, *again)]
    return dict.fromkeys([*hits, *_fetch_mentioning(search.plan, search.tx)], 1.0)


def _fetch_by_vector(search: Search) -> ScoresById:
    """Search by cosine, and compare what was found for its time, which no words make relevant."""
    plan, index = search.plan, search.tx.index
    if search.get_vector is None:
        return {}
    try:
        vector = search.query_vector = search.deadline.wait_for(search.get_vector())
    except UnavailableError as error:
        search.degraded.append(f"{VECTOR}: {error.code}, {error.message}")
        return {}
    hits = index.nearest(vector, plan.query_scope, limit=plan.parameters.vector_candidates)
    if plan.time_scoped is not None:
        hits = [*hits, *index.nearest(vector, plan.time_scoped, limit=PERIOD_CANDIDATES)]
    near = {hit.id: hit.score for hit in hits}
    if plan.filter.field is not None and search.tx.missing_embeddings.any_fields():
        search.degraded.append(_FIELDS_PENDING)
    others = {id_ for name in ("time", SKILL, BLOCKER) for id_ in search.matches.get(name, ())}
    return near | _cosines(search, others - near.keys())


def _cosines(search: Search, memory_ids: Collection[int]) -> ScoresById:
    """Return the cosines of memories to the query, in the field that it asks for."""
    if search.query_vector is None or not memory_ids:
        return {}
    similarities = search.tx.index.similarities
    return similarities(search.query_vector, sorted(memory_ids), field=search.plan.filter.field)


"""The retriever and the feature of instructions and preferences.

"Always show times in UTC" shares neither words nor much meaning with "when does the job run?", so
it loses to texts about the job. Memories that state such a wish are marked on writing; the few that
fit a request best are found by their mark, and raised.
"""
_MARKS: Final = tuple(map(mark_of, Guidance))
_COMPARED_MAX: Final = 400
"""Marked memories compared with a request, the newest: one index lookup and their cosines."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Reach:
    """How far guidance reaches into the results of one sort of query."""

    count: int
    """Wishes raised at most; each takes the place of a memory about the topic itself."""
    low: float
    """Share of the space's relevance threshold from which a cosine counts."""
    full: float
    """Multiple of that threshold from which a cosine counts in full."""
    share: float
    """Value of a perfect fit, 0..1."""


# A wish names its topic in passing, so it is never as near as an answer. Both rows were measured on
# half of BEAM's chats: more reach in look-ups began to displace facts.
_REQUESTS: Final = _Reach(count=4, low=0.25, full=1.5, share=1.0)
_LOOKUPS: Final = _Reach(count=3, low=0.5, full=2.0, share=0.25)


def _fetch_guidance(search: Search) -> ScoresById:
    """Return the cosines of the marked memories nearest to the query."""
    vector, scope = search.query_vector, search.plan.query_scope
    if vector is None:
        return {}
    marked = search.tx.memories.with_topics(_MARKS, scope, limit=_COMPARED_MAX)
    near = search.tx.index.similarities(vector, marked) if marked else {}
    count = (_LOOKUPS if search.plan.is_lookup else _REQUESTS).count
    return {id_: near[id_] for id_ in sorted(near, key=lambda id_: (-near[id_], -id_))[:count]}


def score_guidance(
    cosines: Mapping[int, float], *, is_lookup: bool, space: EmbeddingSpace
) -> ScoresById:
    """Return how much each wish concerns a query, 0..1; those that do not are left out."""
    reach = _LOOKUPS if is_lookup else _REQUESTS
    low, full = (share * space.relevance_threshold for share in (reach.low, reach.full))
    return {
        id_: reach.share * min((cosine - low) / (full - low), 1.0)
        for id_, cosine in cosines.items()
        if cosine > low
    }


LEXICAL: Final = "lexical"
VECTOR: Final = "vector"

# In the order of their cost; the vector comes late because its embedding may take a while. The
# weights, equal for words and meaning, were measured: see docs/explanation/decisions.md.
RETRIEVERS: Final[Mapping[str, Retriever]] = {
    "recent": Retriever(
        applies_to=lambda search: not search.plan.query,
        fetch=_fetch_newest,
        weight=1.0,
        score_of_no_match=None,
        relevant_from=lambda _: ALWAYS,
        reason="newest",
    ),
    SKILL: Retriever(
        applies_to=lambda search: bool(search.plan.query) and search.plan.is_about_now,
        fetch=_fetch_skills,
        weight=0.0,
        score_of_no_match=None,
        relevant_from=lambda _: ALWAYS,
        reason=None,
    ),
    BLOCKER: Retriever(
        applies_to=lambda search: bool(search.plan.query) and search.plan.is_about_now,
        fetch=_fetch_blockers,
        weight=0.0,
        score_of_no_match=None,
        relevant_from=lambda _: NEVER,
        reason=None,
    ),
    LEXICAL: Retriever(
        applies_to=lambda search: bool(search.plan.terms or search.plan.extra_words),
        fetch=_fetch_lexical,
        weight=0.5,
        score_of_no_match=0.0,
        relevant_from=lambda _: ALWAYS,
        reason="words",
    ),
    "time": Retriever(
        applies_to=lambda search: bool(search.plan.query) and search.plan.has_period,
        fetch=_fetch_by_time,
        weight=0.0,
        score_of_no_match=None,
        relevant_from=lambda threshold: ALWAYS if threshold.is_about_time else NEVER,
        reason=None,
    ),
    VECTOR: Retriever(
        applies_to=lambda search: search.get_vector is not None,
        fetch=_fetch_by_vector,
        weight=0.5,
        score_of_no_match=None,
        relevant_from=lambda threshold: threshold.cosine,
        reason="meaning",
    ),
    GUIDANCE: Retriever(
        applies_to=lambda search: search.query_vector is not None and not search.plan.is_about_time,
        fetch=_fetch_guidance,
        weight=0.0,
        score_of_no_match=0.0,
        # A wish names its topic only in passing.
        relevant_from=lambda threshold: threshold.cosine / 2,
        reason=GUIDANCE,
    ),
}
RETRIEVER_WEIGHTS: Final[Mapping[str, float]] = {
    name: retriever.weight for name, retriever in RETRIEVERS.items()
}

_FIELDS_PENDING: Final = (
    f"{VECTOR}: fields_unembedded, some atoms have no vectors of their fields; "
    "`brain doctor --repair` makes them."
)


def retrieve(search: Search) -> Table:
    """Run the retrievers that apply, and combine what they found into a table, best first.

    A retriever that there is no time for, and a query that could not be embedded, is named in
    `degraded`; the others' matches stay.

    Raises:
        UnavailableError: the store cannot be read.

    """
    plan = search.plan
    for name, retriever in RETRIEVERS.items():
        if not (plan.overrides.is_enabled(name) and retriever.applies_to(search)):
            continue
        # The vector retriever waits for the embedder, so it checks the deadline itself.
        if name != VECTOR and search.deadline.is_over:
            search.degraded.append(f"{name}: deadline, there was no time left to ask.")
        elif scores := retriever.fetch(search):
            search.matches[name] = scores
    matches: Mapping[str, ScoresById] = search.matches
    if plan.overrides.is_enabled("threshold"):
        is_about_time = plan.is_about_time or plan.is_ahead
        cosine = search.space.relevance_threshold
        matches = relevant(matches, Threshold(cosine=cosine, is_about_time=is_about_time))
    return _table(search, matches)


def relevant(matches: Mapping[str, ScoresById], threshold: Threshold) -> dict[str, ScoresById]:
    """Drop every candidate that no retriever considers relevant."""
    ids: set[int] = set()
    for name, scores in matches.items():
        lowest = RETRIEVERS[name].relevant_from(threshold)
        ids.update([id_ for id_, score in scores.items() if score >= lowest])
    matching = {
        name: {id_: score for id_, score in scores.items() if id_ in ids}
        for name, scores in matches.items()
    }
    return {name: scores for name, scores in matching.items() if scores}


def _table(search: Search, matches: Mapping[str, ScoresById]) -> Table:
    """Add the neighbours of what matched, and score everything by itself and by its passage."""
    import numpy as np  # noqa: PLC0415 replies are described without it

    plan, space = search.plan, search.space
    if GUIDANCE in matches:
        concerned = score_guidance(matches[GUIDANCE], is_lookup=plan.is_lookup, space=space)
        matches = {**matches, GUIDANCE: concerned}
    lexical, meaning = matches.get(LEXICAL, {}), matches.get(VECTOR, {})
    sources, runs = _neighbours(search, {**lexical, **meaning})
    cosines = meaning | _cosines(search, {*lexical, *sources} - meaning.keys())
    passages = {
        LEXICAL: passage_means(runs, lexical, missing=0.0),
        VECTOR: passage_means(runs, cosines, missing=math.nan),
    }
    # A session is seldom about one thing only: what it stored next to a match has to be near too.
    lowest = space.relevance_threshold / 2
    for id_ in [id_ for id_, source in sources.items() if isinstance(source, str)]:
        if id_ not in lexical and cosines.get(id_, 1.0) < lowest:
            del cosines[id_], sources[id_]
    if cosines:
        matches = {**matches, VECTOR: cosines}
    weights = plan.overrides.of(RETRIEVER_WEIGHTS)
    ids, columns = fuse(matches, weights, passages=passages, sources=sources)
    # How far a wish concerns the query counts as it is, not relative to other wishes.
    wishes = matches.get(GUIDANCE, {})
    columns[GUIDANCE] = np.array([wishes.get(id_, 0.0) for id_ in ids])
    own = dict(zip(ids, columns["self_score"].tolist(), strict=True))
    after = dict(chain.from_iterable(map(pairwise, runs)))
    before = {later: id_ for id_, later in after.items()}
    columns["follows"] = np.array([own.get(before.get(id_, 0), 0.0) for id_ in ids])
    columns["leads"] = np.array([own.get(after.get(id_, 0), 0.0) for id_ in ids])
    best = np.argsort(-columns["fused"], kind="stable")
    # What has to be followed comes first, however little it matches.
    is_first = columns[SKILL] + columns[GUIDANCE] + columns[BLOCKER] > 0
    if is_first.any():
        best = np.concatenate([best[is_first[best]], best[~is_first[best]]])
    best = best[: plan.candidates]
    return Table(
        plan=plan,
        space=space,
        rows=[ids[place] for place in best],
        columns={name: column[best] for name, column in columns.items()},
        cosines=cosines,
        before=before,
        query_vector=search.query_vector,
        degraded=search.degraded,
        oldest=search.oldest,
    )


PASSAGES: Final = "passages"
_BEFORE: Final = 2
_AFTER: Final = 1
"""Fewer after than before: the next message replies more often than it explains."""
_CONTEXT_SHARE: Final = 0.5
"""Share of the passage in the fused score, before the length of the message is known."""
_SOURCE_TOP_K: Final = 3
"""A thread or session is scored by the mean of this many of its best memories."""


def _neighbours(
    search: Search, ids: Collection[int]
) -> tuple[dict[int, int | str], list[list[int]]]:
    """Return the thread or session of each memory around those that matched, and their runs.

    A run is memories that follow one another. Only what the caller may see is in it.
    """
    plan, far = search.plan, max(_BEFORE, _AFTER)
    if not (ids and plan.query and plan.overrides.is_enabled(PASSAGES)):
        return {}, []
    around = search.tx.threads.around(list(ids), plan.query_scope, before=far, after=far)
    sources = {id_: passage.source for passage in around.values() for id_ in passage.ids}
    after = dict(chain.from_iterable(pairwise(passage.ids) for passage in around.values()))
    later = set(after.values())
    runs: list[list[int]] = []
    for first in sources:
        if first not in later:
            run = [first]
            while (next_ := after.get(run[-1])) is not None:
                run.append(next_)
            runs.append(run)
    return sources, runs


def passage_means(
    runs: Sequence[Sequence[int]], scores: Mapping[int, float], *, missing: float
) -> ScoresById:
    """Return the mean score of the passage around each memory of some runs.

    A memory without a score counts as `missing`, or not at all if that is NaN; a passage without
    any is absent.
    """
    import numpy as np  # noqa: PLC0415 replies are described without it

    # Between two runs are as many gaps as a passage reaches, so that none reaches into another.
    gap = [None] * max(_BEFORE, _AFTER)
    line = [*gap, *chain.from_iterable([*run, *gap] for run in runs)]
    each = np.array([math.nan if id_ is None else scores.get(id_, missing) for id_ in line])
    is_known = ~np.isnan(each)
    window = np.ones(_BEFORE + 1 + _AFTER)
    middle = slice(_AFTER, _AFTER + len(line))
    totals = np.convolve(np.where(is_known, each, 0.0), window)[middle]
    counts = np.convolve(is_known, window)[middle].round()
    means = (totals / np.maximum(counts, 1)).tolist()
    return {
        id_: mean
        for id_, mean, count in zip(line, means, counts.tolist(), strict=True)
        if id_ is not None and count
    }


def fuse(
    matches: Mapping[str, Mapping[int, float]],
    weights: Mapping[str, float] = RETRIEVER_WEIGHTS,
    *,
    passages: Mapping[str, Mapping[int, float]] | None = None,
    sources: Mapping[int, int | str] | None = None,
) -> tuple[list[int], dict[str, Column]]:
    """Scale all scores to 0..1 and combine them, those of passages included.

    Returns:
        The memories, and for each a column: by each retriever its own score; `self_score`, the
        quadratic mean of these; `context_score`, the mean of its passage; `fused`, a blend of the
        two; and `thread`, the score of the best memories of its thread or session, relative to the
        best one.

    """
    import numpy as np  # noqa: PLC0415 replies are described without it

    passages, sources = passages or {}, sources or {}
    ids = list(dict.fromkeys(chain(*matches.values(), sources)))
    places = {id_: place for place, id_ in enumerate(ids)}
    columns = dict.fromkeys(RETRIEVERS, np.zeros(len(ids)))
    matching = {name for name, scores in matches.items() if scores}
    active = {name: weight for name, weight in weights.items() if weight and name in matching}
    total = sum(active.values())
    squares, context = np.zeros(len(ids)), np.zeros(len(ids))
    has_context = np.zeros(len(ids), dtype=np.bool_)
    for name in matching:
        scores, floor = matches[name], RETRIEVERS[name].score_of_no_match
        at = np.array([places[id_] for id_ in scores], dtype=np.intp)
        own = np.array([*scores.values()], dtype=np.float64)
        lowest = own.min()
        columns[name] = column = np.zeros(len(ids))
        # The best of those that share only common words must not count as much as the nearest.
        is_relative = name == LEXICAL and len(active) > 1
        column[at] = _scaled(
            own, floor=floor, top=min(max(own.max(), 0.0), 1.0) if is_relative else 1.0
        )
        share = active.get(name, 0.0) / total if total else 0.0
        squares += share * column**2
        near = {id_: one for id_, one in passages.get(name, {}).items() if id_ in places}
        if near:
            # With the lowest passage as zero, the second best of a few would count as no match;
            # with the best always as 1, passages that miss would outrank memories without one.
            at = np.array([places[id_] for id_ in near], dtype=np.intp)
            given = np.array([*near.values()], dtype=np.float64)
            top = float(column[at].max())
            context[at] += share * _scaled(given, floor=lowest if floor is None else floor, top=top)
            has_context[at] = True
    own = np.sqrt(squares)
    context = np.where(has_context, context, own)
    columns |= {
        "self_score": own,
        "context_score": context,
        "fused": own + _CONTEXT_SHARE * (context - own),
        "thread": _score_sources(ids, own, sources=sources),
    }
    return ids, columns


def _scaled(scores: Column, *, floor: float | None, top: float = 1.0) -> Column:
    """Scale scores to 0..`top` by min-max; equal scores all become `top`.

    `floor` is the score of no match, if it is lower than the lowest score given.
    """
    import numpy as np  # noqa: PLC0415 replies are described without it

    high, low = float(scores.max()), float(scores.min())
    if floor is not None and high > floor:
        low = min(low, floor)
    if high == low:
        return np.full(len(scores), top)
    return top * ((scores - low) / (high - low))


def _score_sources(
    ids: Sequence[int], scores: Column, *, sources: Mapping[int, int | str]
) -> Column:
    """Score each candidate by its source's best memories, or by itself without a source.

    Sources are divided by the best source, other candidates by the best candidate.
    """
    import numpy as np  # noqa: PLC0415 replies are described without it

    own = scores.tolist()
    by_source: defaultdict[int | str, list[float]] = defaultdict(list)
    for id_, score in zip(ids, own, strict=True):
        if id_ in sources:
            by_source[sources[id_]].append(score)
    best = {
        source: sum(sorted(those, reverse=True)[:_SOURCE_TOP_K]) / min(len(those), _SOURCE_TOP_K)
        for source, those in by_source.items()
    }
    best_source = max(best.values(), default=0.0) or 1.0
    best_score = max(own, default=0.0) or 1.0
    return np.array(
        [
            best[sources[id_]] / best_source if id_ in sources else score / best_score
            for id_, score in zip(ids, own, strict=True)
        ]
    )
