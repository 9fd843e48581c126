"""Reflect: events and messages become episodes, and what they state is proposed as facts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any, Final

from commonbrain.domain import ids
from commonbrain.domain.digest import digest
from commonbrain.domain.errors import Refused, Unavailable
from commonbrain.domain.kinds import Kind
from commonbrain.domain.limits import (
    REFLECT_CANDIDATES_DEFAULT,
    REFLECT_CANDIDATES_MAX,
    REFLECT_HOURS_DEFAULT,
    REFLECT_HOURS_MAX,
)
from commonbrain.domain.memory import Draft, Memory, State
from commonbrain.domain.normalise import normalise_line
from commonbrain.domain.query import Filter
from commonbrain.domain.reflection import Reflection, Spent
from commonbrain.domain.scope import Caller
from commonbrain.flows.house import House
from commonbrain.flows.reflect.compacting import Compacted, compact
from commonbrain.flows.reflect.correcting import rules
from commonbrain.flows.reflect.drafting import Drafts, drafts, told_by
from commonbrain.flows.reflect.gathering import Page, Wanted, gather, told_of
from commonbrain.flows.remember.outcome import Beside, Outcome
from commonbrain.flows.remember.pipeline import Course, Remember
from commonbrain.ports.store import Look, Transaction

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
