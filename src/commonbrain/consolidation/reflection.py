"""Reflect: events and messages become episodes, and what they state is proposed as facts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any, Final

from commonbrain.consolidation.corrections import rules
from commonbrain.consolidation.episodes import (
    RAW,
    Drafts,
    Page,
    Wanted,
    class_of,
    drafts,
    gather,
    told_by,
    told_of,
)
from commonbrain.ingestion.result import Beside, Outcome
from commonbrain.ingestion.service import Course, Remember
from commonbrain.model import ids
from commonbrain.model.errors import Refused, Unavailable
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
from commonbrain.services import House
from commonbrain.storage.interface import Look, Transaction
from commonbrain.text.normalisation import normalise_line
from commonbrain.text.summaries import COMPACTED, Reflection, Spent, digest
from commonbrain.text.tokens import estimate

_SOURCES_MIN: Final = 2
"""One memory is as short as it is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Compacted:
    """An episode of what was found, or what it would be; without a body there is none."""

    id: str | None = None
    status: str | None = None
    """What became of it, as `remember` says it; None of a preview."""
    headline: str = ""
    body: str = ""
    sources: tuple[str, ...] = ()
    reduction_ratio: float = 0.0
    """The share of the tokens of its sources that it does without, 0..1."""
    warnings: tuple[str, ...] = ()


def compact(
    house: House, caller: Caller, *, query: str, wanted: Wanted, is_preview: bool
) -> Compacted:
    """Sum up what a recall of events and messages finds, as far as most of it may stand together.

    Of two classes of as many memories it is the one with the best.
    """
    found = Recall(house, caller)(
        query,
        kinds=tuple(sorted(RAW)),
        project=wanted.project,
        max_items=COMPACT_SOURCES_MAX,
        max_tokens=COMPACT_TOKENS_MAX,
        bump=False,
    )
    with house.store.snapshot(caller.tenant) as tx:
        best = [ids.parse(ids.MEMORY, one.id) for one in found.items]
        known = tx.memories.get(best)
    # The store gives them in an order of its own, recall the best first.
    seen = [known[id_] for id_ in best if id_ in known and wanted.takes(known[id_])]
    [(most, _)] = Counter(map(class_of, seen)).most_common(1) or [((), 0)]
    alike = [one for one in seen if class_of(one) == most]
    whole = list(_within(alike))
    warnings = [*found.degraded, *_warnings(found=len(known), alike=len(alike), whole=len(whole))]
    sources = sorted(whole, key=lambda one: (one.occurred_at, one.id))
    told = digest(told_by(sources))
    if len(sources) < _SOURCES_MIN or not told.points:
        return Compacted(warnings=(*warnings, "There is too little to be summed up."))
    episode = replace(drafts(told, of=sources, caller=caller).episode, label=COMPACTED)
    kept = None
    if not is_preview:
        [kept] = Remember(house, caller).write([episode], Course(is_deed=False)).items
        warnings += [*kept.warnings, *([kept.reason] if kept.reason else [])]
    return Compacted(
        id=kept.id if kept else None,
        status=kept.status if kept else None,
        headline=episode.headline or "",
        body=episode.body,
        sources=tuple(ids.show(ids.MEMORY, one.id) for one in sources),
        reduction_ratio=_saved(episode.body, sources),
        warnings=tuple(warnings),
    )


def _within(memories: Sequence[Memory]) -> Iterator[Memory]:
    """Give the best of them, as many as may be read whole."""
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
"""Failures in a row after which a model is not asked again in this run: each may take long."""
_PROPOSED_MAX: Final = 1000
"""Open proposals that a new one is held against."""


class AlreadyTold(Exception):
    """Of the same memories somebody else has made an episode meanwhile."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """What one reflection is asked for."""

    window_hours: int = REFLECT_HOURS_DEFAULT
    max_candidates: int = REFLECT_CANDIDATES_DEFAULT
    project: str | None = None

    @classmethod
    def of(cls, given: Mapping[str, Any]) -> Wish:
        """Read what a job was given."""
        names = ("window_hours", "max_candidates", "project")
        return cls(**{name: given[name] for name in names if name in given})

    def __post_init__(self) -> None:
        """Keep both numbers within their limits.

        Raises:
            Refused: `limit_exceeded`, one of them is out of bounds.

        """
        for what, number, most in (
            ("window_hours", self.window_hours, REFLECT_HOURS_MAX),
            ("max_candidates", self.max_candidates, REFLECT_CANDIDATES_MAX),
        ):
            if not 1 <= number <= most:
                raise Refused(
                    f"{what} is {number}; 1 to {most} is allowed.",
                    code="limit_exceeded",
                    hint="Bring it within bounds.",
                )


@dataclass(frozen=True, slots=True, kw_only=True)
class Sketch:
    """Something that a reflection would store."""

    kind: Kind
    headline: str
    body: str
    sources: int
    """From how many memories it is taken."""
    started_at: datetime | None = None
    ended_at: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Foreseen:
    """What a reflection would make now, of the first page of what there is."""

    read: int
    episodes: tuple[Sketch, ...] = ()
    candidates: tuple[Sketch, ...] = ()
    is_more: bool = False
    """Whether there is more than was looked at."""


@dataclass(slots=True, kw_only=True)
class Budget:
    """What one run has spent of a language model, and may spend."""

    tokens_max: int
    spent: Spent = field(default_factory=Spent)
    fallbacks: int = 0
    """Episodes that were made without the model that was to make them."""
    down: int = 0

    @property
    def is_open(self) -> bool:
        """Say whether the model may be asked once more."""
        return self.down < _DOWN_MAX and self.spent.tokens < self.tokens_max


@dataclass(frozen=True, slots=True)
class Reflect:
    """Reflection for one caller: on what they may see, and no private memory but their own."""

    house: House
    caller: Caller

    def __call__(
        self,
        *,
        window_hours: int = REFLECT_HOURS_DEFAULT,
        max_candidates: int = REFLECT_CANDIDATES_DEFAULT,
        project: str | None = None,
    ) -> Foreseen:
        """Say what a reflection would make now, by rule and without a language model.

        Nothing is stored; `jobs.run("reflect")` does it.

        Args:
            window_hours: how far back it looks at what was recorded, 1 to 168.
            max_candidates: facts and rules that it proposes at most, 1 to 32.
            project: only of this project and of none.

        Raises:
            Refused: `limit_exceeded`, a number is out of bounds.

        """
        wish = Wish(
            window_hours=window_hours,
            max_candidates=max_candidates,
            project=normalise_line(project),
        )
        now = self.house.clock.now()
        after = ids.make_id(now - timedelta(hours=wish.window_hours), 0) - 1
        with self.house.store.snapshot(self.caller.tenant) as tx:
            page = gather(tx, self.wanted(wish), after=after, until=ids.LAST)
            ruled = rules(tx, self.own, project=wish.project, now=now)
        episodes: list[Sketch] = []
        candidates: list[Sketch] = []
        for cluster in page.clusters:
            told = digest(told_by(cluster), claims_max=wish.max_candidates)
            if told.points:
                made = drafts(told, of=cluster, caller=self.own)
                episodes.append(_sketch(made.episode))
                candidates += map(_sketch, made.facts)
        candidates += map(_sketch, ruled)
        return Foreseen(
            read=page.read,
            episodes=tuple(episodes),
            candidates=tuple(candidates[: wish.max_candidates]),
            is_more=page.last is not None,
        )

    def compact(
        self, query: str, *, project: str | None = None, is_preview: bool = False
    ) -> Compacted:
        """Sum up what events and messages tell of a question in an episode, by rule and at once.

        Args:
            query: what it is to be about, as `recall` takes it.
            project: only of this project and of none.
            is_preview: say what it would be, and store nothing.

        """
        wanted = self.wanted(Wish(project=normalise_line(project)))
        return compact(self.house, self.own, query=query, wanted=wanted, is_preview=is_preview)

    @property
    def own(self) -> Caller:
        """The caller as whom is stored: what is made belongs where its sources do."""
        return replace(self.caller, project=None, session=None)

    def wanted(self, wish: Wish) -> Wanted:
        """Say what is gathered now."""
        return Wanted(
            caller=self.caller,
            project=wish.project,
            now=self.house.clock.now(),
            space=self.house.store.space,
        )

    def page(self, wish: Wish, *, after: int, until: int) -> Page:
        """Read the next page of what is still to be reflected on."""
        with self.house.store.snapshot(self.caller.tenant) as tx:
            return gather(tx, self.wanted(wish), after=after, until=until)

    def make(
        self, cluster: tuple[Memory, ...], *, budget: Budget, claims_max: int
    ) -> Drafts | None:
        """Say what becomes of memories that belong together; None where they say nothing.

        Asking a model may take long: no transaction is open meanwhile. Where it is down, answers
        what cannot be used or has had its tokens, sentences are chosen by rule instead.
        """
        told = self._ask(cluster, budget=budget, claims_max=claims_max)
        if told is None or not told.points:
            told = digest(told_by(cluster), claims_max=claims_max)
        return drafts(told, of=cluster, caller=self.own) if told.points else None

    def untold(self, cluster: Sequence[Memory]) -> tuple[Memory, ...]:
        """Give those of these memories of which there is no episode by now."""
        with self.house.store.snapshot(self.caller.tenant) as tx:
            told = told_of(tx, [one.id for one in cluster])
        return tuple(one for one in cluster if one.id not in told)

    def keep(self, made: Drafts, *, of: Sequence[Memory], beside: Beside) -> None:
        """Store an episode and what is proposed with it, in one transaction with what is beside.

        Raises:
            AlreadyTold: somebody has made an episode of the same meanwhile; nothing was stored.

        """
        fresh = self._fresh(made.facts) if made.facts else []

        def alone(tx: Transaction, outcomes: Sequence[Outcome]) -> None:
            """Look in the very transaction that stores, for in it nobody else does."""
            own = {ids.parse(ids.MEMORY, one.id) for one in outcomes if one.id is not None}
            if told_of(tx, [one.id for one in of], besides=own):
                raise AlreadyTold
            beside(tx, outcomes)

        self._write([made.episode, *fresh], beside=alone)

    def corrections(self, wish: Wish) -> list[Draft]:
        """Give the rules that are to be proposed, because the same was corrected so often."""
        now = self.house.clock.now()
        with self.house.store.snapshot(self.caller.tenant) as tx:
            return rules(tx, self.own, project=wish.project, now=now)

    def propose(self, proposed: list[Draft], *, beside: Beside) -> None:
        """Store rules as candidates, in one transaction with what is beside."""
        self._write(proposed, beside=beside)

    def _ask(
        self, cluster: tuple[Memory, ...], *, budget: Budget, claims_max: int
    ) -> Reflection | None:
        reflector = self.house.reflector
        is_free = not self.house.reflector_tokens
        if not is_free and not budget.is_open:
            budget.fallbacks += 1
            return None
        try:
            told = reflector.reflect(told_by(cluster), claims_max=claims_max)
        except Unavailable:
            budget.down += 1
            budget.fallbacks += 1
            return None
        budget.down = 0
        budget.spent = budget.spent.and_(told.spent)
        budget.fallbacks += not told.points
        return told

    def _fresh(self, facts: Sequence[Draft]) -> list[Draft]:
        """Leave out the facts that await somebody's approval already."""
        wanted = Filter(kinds=(Kind.FACT,), states=(State.CANDIDATE,), trust_min=0.0)
        look = Look(caller=self.caller, filter=wanted, now=self.house.clock.now())
        with self.house.store.snapshot(self.caller.tenant) as tx:
            hits = tx.memories.newest(look, limit=_PROPOSED_MAX)
            known = tx.memories.get([hit.id for hit in hits]).values()
        told = {(one.body, one.project, one.scope) for one in known}
        return [one for one in facts if (one.body, one.project, one.scope) not in told]

    def _write(self, batch: list[Draft], *, beside: Beside) -> None:
        course = Course(is_deed=False, beside=beside)
        Remember(self.house, self.own).write(batch, course)


def _sketch(draft: Draft) -> Sketch:
    detail: Any = draft.detail
    return Sketch(
        kind=Kind(draft.kind or Kind.FACT),
        headline=draft.headline or draft.body,
        body=draft.body,
        sources=len(draft.derived_from),
        started_at=getattr(detail, "started_at", None),
        ended_at=getattr(detail, "ended_at", None),
    )
