"""Reflection: summarize events and messages as episodes, and propose facts from them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any, Final

from commonbrain.consolidation.corrections import rules
from commonbrain.consolidation.episodes import (
    RAW_KINDS,
    Drafts,
    EventPage,
    SourceFilter,
    already_summarized,
    compatibility_key,
    drafts,
    gather_events,
    to_reflection_inputs,
)
from commonbrain.ingestion.result import ItemResult, OnCommit
from commonbrain.ingestion.service import Remember, WriteOptions
from commonbrain.model import ids
from commonbrain.model.errors import RejectedError, UnavailableError
from commonbrain.model.kinds import Kind
from commonbrain.model.limits import (
    COMPACT_SOURCES_MAX,
    COMPACT_TOKENS_MAX,
    REFLECT_CANDIDATES_DEFAULT,
    REFLECT_CANDIDATES_MAX,
    REFLECT_HOURS_DEFAULT,
    REFLECT_HOURS_MAX,
)
from commonbrain.model.memory import Draft, Memory, State
from commonbrain.model.query import Filter
from commonbrain.model.scope import Caller
from commonbrain.retrieval.service import Recall
from commonbrain.services import Services
from commonbrain.storage.interface import QueryScope, Transaction
from commonbrain.text.normalisation import normalise_line
from commonbrain.text.summaries import COMPACTED, Reflection, Spent, digest
from commonbrain.text.tokens import estimate

_SOURCES_MIN: Final = 2
"""A single memory needs no summary."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SummaryResult:
    """An episode or its preview; without a body there is none."""

    id: str | None = None
    status: str | None = None
    """Its status, as from `remember`; None for a preview."""
    headline: str = ""
    body: str = ""
    sources: tuple[str, ...] = ()
    reduction_ratio: float = 0.0
    """The share of its sources' tokens that it saves, 0..1."""
    warnings: tuple[str, ...] = ()


def summarize(
    services: Services, caller: Caller, *, query: str, source_filter: SourceFilter, is_preview: bool
) -> SummaryResult:
    """Summarize events and messages that recall finds, using the largest compatible group.

    If two groups are equal in size, the one with the best match is used.
    """
    found = Recall(services, caller)(
        query,
        kinds=RAW_KINDS,
        project=source_filter.project,
        max_items=COMPACT_SOURCES_MAX,
        max_tokens=COMPACT_TOKENS_MAX,
        bump=False,
    )
    with services.store.snapshot(caller.tenant) as tx:
        best = [ids.parse(ids.MEMORY, one.id) for one in found.items]
        known = tx.memories.get(best)
    # The store returns memories in its own order, recall best first.
    seen = [known[id_] for id_ in best if id_ in known and source_filter.accepts(known[id_])]
    [(most, _)] = Counter(map(compatibility_key, seen)).most_common(1) or [((), 0)]
    alike = [one for one in seen if compatibility_key(one) == most]
    whole = list(_within(alike))
    warnings = [*found.degraded, *_warnings(found=len(known), alike=len(alike), whole=len(whole))]
    sources = sorted(whole, key=lambda one: (one.occurred_at, one.id))
    summary = digest(to_reflection_inputs(sources))
    if len(sources) < _SOURCES_MIN or not summary.points:
        return SummaryResult(warnings=(*warnings, "There is too little to be summed up."))
    episode = replace(drafts(summary, of=sources, caller=caller).episode, label=COMPACTED)
    result = None
    if not is_preview:
        [result] = (
            Remember(services, caller).write([episode], WriteOptions(is_user_write=False)).items
        )
        warnings += [*result.warnings, *([result.reason] if result.reason else [])]
    return SummaryResult(
        id=result.id if result else None,
        status=result.status if result else None,
        headline=episode.headline or "",
        body=episode.body,
        sources=tuple(ids.show(ids.MEMORY, one.id) for one in sources),
        reduction_ratio=_saved(episode.body, sources),
        warnings=tuple(warnings),
    )


def _within(memories: Sequence[Memory]) -> Iterator[Memory]:
    """Return the best memories, as many as can be read in full."""
    left = COMPACT_TOKENS_MAX
    for one in memories:
        left -= estimate(one.text)
        if left < 0:
            return
        yield one


def _warnings(*, found: int, alike: int, whole: int) -> Iterator[str]:
    if alike < found:
        yield f"{found - alike} are of another project, scope or trust, and left out."
    if whole < alike:
        yield f"{alike - whole} are past {COMPACT_TOKENS_MAX:,} tokens, and left out."


def _saved(body: str, sources: Sequence[Memory]) -> float:
    return round(max(1 - estimate(body) / sum(estimate(one.text) for one in sources), 0.0), 4)


_DOWN_MAX: Final = 3
"""Consecutive failures after which the model is not asked again in this run."""
_PROPOSED_MAX: Final = 1000
"""Open proposals that a new one is compared with."""


class AlreadySummarizedError(Exception):
    """Another run has summarized the same memories meanwhile."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReflectOptions:
    """The options of one reflection."""

    window_hours: int = REFLECT_HOURS_DEFAULT
    max_candidates: int = REFLECT_CANDIDATES_DEFAULT
    project: str | None = None

    @classmethod
    def of(cls, given: Mapping[str, Any]) -> ReflectOptions:
        """Parse the arguments of a job."""
        names = ("window_hours", "max_candidates", "project")
        return cls(**{name: given[name] for name in names if name in given})

    def __post_init__(self) -> None:
        """Check that both numbers are in range.

        Raises:
            RejectedError: `limit_exceeded`, one is out of range.

        """
        for what, number, most in (
            ("window_hours", self.window_hours, REFLECT_HOURS_MAX),
            ("max_candidates", self.max_candidates, REFLECT_CANDIDATES_MAX),
        ):
            if not 1 <= number <= most:
                raise RejectedError(
                    f"{what} is {number}; 1 to {most} is allowed.",
                    code="limit_exceeded",
                    hint="Bring it within bounds.",
                )


@dataclass(frozen=True, slots=True, kw_only=True)
class DraftPreview:
    """A memory that a reflection would store."""

    kind: Kind
    headline: str
    body: str
    sources: int
    """The number of its sources."""
    started_at: datetime | None = None
    ended_at: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ReflectPreview:
    """What a reflection would store now, from the first page of memories."""

    read: int
    episodes: tuple[DraftPreview, ...] = ()
    candidates: tuple[DraftPreview, ...] = ()
    is_more: bool = False
    """Whether there are more memories than were read."""


@dataclass(slots=True, kw_only=True)
class TokenBudget:
    """The tokens of a language model that one run has spent and may spend."""

    tokens_max: int
    spent: Spent = field(default_factory=Spent)
    fallbacks: int = 0
    """Episodes summarized by rule because the model was unavailable or out of budget."""
    down: int = 0

    @property
    def is_open(self) -> bool:
        """Whether the model may be asked again."""
        return self.down < _DOWN_MAX and self.spent.tokens < self.tokens_max


@dataclass(frozen=True, slots=True)
class Reflect:
    """Reflection for one caller: on visible memories, and no private ones of others."""

    services: Services
    caller: Caller

    def __call__(
        self,
        *,
        window_hours: int = REFLECT_HOURS_DEFAULT,
        max_candidates: int = REFLECT_CANDIDATES_DEFAULT,
        project: str | None = None,
    ) -> ReflectPreview:
        """Return what a reflection would store now, by rule and without a language model.

        Nothing is stored; `jobs.run("reflect")` does that.

        Args:
            window_hours: the age of recorded memories to include, 1 to 168.
            max_candidates: the largest number of proposed facts and rules, 1 to 32.
            project: only this project and global memories.

        Raises:
            RejectedError: `limit_exceeded`, a number is out of range.

        """
        options = ReflectOptions(
            window_hours=window_hours,
            max_candidates=max_candidates,
            project=normalise_line(project),
        )
        now = self.services.clock.now()
        after = ids.make_id(now - timedelta(hours=options.window_hours), 0) - 1
        with self.services.store.snapshot(self.caller.tenant) as tx:
            page = gather_events(tx, self.source_filter(options), after=after, until=ids.LAST)
            ruled = rules(tx, self.own, project=options.project, now=now)
        episodes: list[DraftPreview] = []
        candidates: list[DraftPreview] = []
        for cluster in page.clusters:
            reflection = digest(to_reflection_inputs(cluster), claims_max=options.max_candidates)
            if reflection.points:
                made = drafts(reflection, of=cluster, caller=self.own)
                episodes.append(_preview_draft(made.episode))
                candidates += map(_preview_draft, made.facts)
        candidates += map(_preview_draft, ruled)
        return ReflectPreview(
            read=page.read,
            episodes=tuple(episodes),
            candidates=tuple(candidates[: options.max_candidates]),
            is_more=page.last is not None,
        )

    def compact(
        self, query: str, *, project: str | None = None, is_preview: bool = False
    ) -> SummaryResult:
        """Summarize what events and messages say about a query, by rule and at once.

        Args:
            query: the topic, as for `recall`.
            project: only this project and global memories.
            is_preview: return the episode without storing it.

        """
        source_filter = self.source_filter(ReflectOptions(project=normalise_line(project)))
        return summarize(
            self.services, self.own, query=query, source_filter=source_filter, is_preview=is_preview
        )

    @property
    def own(self) -> Caller:
        """The caller as the author of what is stored in the sources' project."""
        return replace(self.caller, project=None, session=None)

    def source_filter(self, options: ReflectOptions) -> SourceFilter:
        """Return the filter of the current run."""
        return SourceFilter(
            caller=self.caller,
            project=options.project,
            now=self.services.clock.now(),
            space=self.services.store.space,
        )

    def page(self, options: ReflectOptions, *, after: int, until: int) -> EventPage:
        """Read the next page of memories without an episode."""
        with self.services.store.snapshot(self.caller.tenant) as tx:
            return gather_events(tx, self.source_filter(options), after=after, until=until)

    def make(
        self, cluster: tuple[Memory, ...], *, budget: TokenBudget, claims_max: int
    ) -> Drafts | None:
        """Summarize a group of memories; None if there is nothing to say.

        A model may take long, so no transaction is open meanwhile. If it fails, answers unusably or
        has spent its budget, sentences are chosen by rule.
        """
        reflection = self._ask(cluster, budget=budget, claims_max=claims_max)
        if reflection is None or not reflection.points:
            reflection = digest(to_reflection_inputs(cluster), claims_max=claims_max)
        return drafts(reflection, of=cluster, caller=self.own) if reflection.points else None

    def unsummarized(self, cluster: Sequence[Memory]) -> tuple[Memory, ...]:
        """Return the memories that still have no episode."""
        with self.services.store.snapshot(self.caller.tenant) as tx:
            reflection = already_summarized(tx, [one.id for one in cluster])
        return tuple(one for one in cluster if one.id not in reflection)

    def store_episode(self, made: Drafts, *, of: Sequence[Memory], on_commit: OnCommit) -> None:
        """Store an episode with its proposals in one transaction.

        Raises:
            AlreadySummarizedError: the same memories have an episode now; nothing was stored.

        """
        fresh = self._fresh(made.facts) if made.facts else []

        def check_and_commit(tx: Transaction, outcomes: Sequence[ItemResult]) -> None:
            """Check in the transaction that stores, where nothing else can interfere."""
            own = {ids.parse(ids.MEMORY, one.id) for one in outcomes if one.id is not None}
            if already_summarized(tx, [one.id for one in of], exclude_ids=own):
                raise AlreadySummarizedError
            on_commit(tx, outcomes)

        self._write([made.episode, *fresh], on_commit=check_and_commit)

    def corrections(self, options: ReflectOptions) -> list[Draft]:
        """Return rules to propose because of repeated corrections."""
        now = self.services.clock.now()
        with self.services.store.snapshot(self.caller.tenant) as tx:
            return rules(tx, self.own, project=options.project, now=now)

    def propose(self, proposed: list[Draft], *, on_commit: OnCommit) -> None:
        """Store rules as candidates in one transaction."""
        self._write(proposed, on_commit=on_commit)

    def _ask(
        self, cluster: tuple[Memory, ...], *, budget: TokenBudget, claims_max: int
    ) -> Reflection | None:
        reflector = self.services.reflector
        is_free = not self.services.reflector_tokens
        if not is_free and not budget.is_open:
            budget.fallbacks += 1
            return None
        try:
            reflection = reflector.reflect(to_reflection_inputs(cluster), claims_max=claims_max)
        except UnavailableError:
            budget.down += 1
            budget.fallbacks += 1
            return None
        budget.down = 0
        budget.spent = budget.spent.plus(reflection.spent)
        budget.fallbacks += not reflection.points
        return reflection

    def _fresh(self, facts: Sequence[Draft]) -> list[Draft]:
        """Drop facts that are already proposed."""
        source_filter = Filter(kinds=(Kind.FACT,), states=(State.CANDIDATE,), trust_min=0.0)
        query_scope = QueryScope(
            caller=self.caller, filter=source_filter, now=self.services.clock.now()
        )
        with self.services.store.snapshot(self.caller.tenant) as tx:
            hits = tx.memories.newest(query_scope, limit=_PROPOSED_MAX)
            known = tx.memories.get([hit.id for hit in hits]).values()
        reflection = {(one.body, one.project, one.scope) for one in known}
        return [one for one in facts if (one.body, one.project, one.scope) not in reflection]

    def _write(self, batch: list[Draft], *, on_commit: OnCommit) -> None:
        options = WriteOptions(is_user_write=False, on_commit=on_commit)
        Remember(self.services, self.own).write(batch, options)


def _preview_draft(draft: Draft) -> DraftPreview:
    detail: Any = draft.detail
    return DraftPreview(
        kind=Kind(draft.kind or Kind.FACT),
        headline=draft.headline or draft.body,
        body=draft.body,
        sources=len(draft.derived_from),
        started_at=getattr(detail, "started_at", None),
        ended_at=getattr(detail, "ended_at", None),
    )
