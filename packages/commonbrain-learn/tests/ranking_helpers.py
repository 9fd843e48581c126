"""Rerankers of a few lines, good and bad, and brains that they serve."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from threading import Event
from typing import TYPE_CHECKING, NoReturn

import numpy as np
from commonbrain_learn.rollout import Actor, is_in_canary, start_canary
from commonbrain_learn.salience_model import LearnedSalience
from commonbrain_learn.serving import SALIENCE_LIMITS, Reranker, Runner
from commonbrain_models.guarded_model import ModelLimits

from commonbrain.client import Brain
from commonbrain.model import ids
from commonbrain.model.model_card import ModelCard, ModelRole, ModelState
from commonbrain.model.query import Feedback, FeedbackMark
from commonbrain.model.scope import Caller
from commonbrain.retrieval.write_behind import WriteBehindQueue
from commonbrain.services import TrainedModels
from commonbrain.testing.builders import FakeClock

if TYPE_CHECKING:
    from commonbrain.embeddings.interface import Matrix


@dataclass(frozen=True)
class ByFeature:
    """Orders by one feature, or against it."""

    name: str = "fused"
    sign: float = 1.0

    @property
    def features(self) -> tuple[str, ...]:
        return (self.name,)

    def scores(self, rows: Matrix) -> Matrix:
        return self.sign * rows[:, 0]


@dataclass(frozen=True)
class Then(ByFeature):
    """Does something first, but not while it is tried on two candidates that are nothing."""

    does: Callable[[], object] = bool

    def scores(self, rows: Matrix) -> Matrix:
        if rows.any():
            self.does()
        return super().scores(rows)


@dataclass(frozen=True)
class Numberless(ByFeature):
    """Gives what is no number."""

    def scores(self, rows: Matrix) -> Matrix:
        return super().scores(rows) * np.float32("nan") if rows.any() else rows[:, 0]


def crashing(message: str = "out of range") -> Reranker:
    def crash() -> None:
        raise IndexError(message)

    return Then(does=crash)


def slow(clock: FakeClock, ms: float) -> Reranker:
    return Then(does=lambda: clock.move(timedelta(milliseconds=ms)))


def hanging(until: Event) -> Reranker:
    return Then(does=lambda: until.wait(30))


@dataclass
class Shop:
    """Models by the digest of their card."""

    models: dict[str, Reranker] = field(default_factory=dict[str, Reranker])
    loads: int = 0

    def load(self, digest: str) -> Reranker:
        self.loads += 1
        return self.models[digest]

    def card(self, brain: Brain, reranker: Reranker, **more: object) -> ModelCard:
        """Make a candidate of a reranker."""
        number = len(self.models) + 1
        digest = f"{number:064x}"
        self.models[digest] = reranker
        now = brain.services.clock.now()
        card = ModelCard(
            id=ids.make_id(now, number),
            role=ModelRole.RERANKER,
            digest=digest,
            features=tuple(reranker.features),
            told={"ndcg@10": 0.5},
            made_at=now,
            moved_at=now,
        )
        card = replace(card, **more)  # pyright: ignore[reportArgumentType]
        with brain.services.store.begin(brain.caller.tenant) as tx:
            tx.models.add(card)
        return card


def with_models(brain: Brain, shop: Shop) -> Brain:
    """The same brain in a process of its own, which finds its models in a shop."""
    services = brain.services

    def make_runner() -> Runner:
        return Runner(
            services.store,
            clock=services.clock,
            load_reranker=shop.load,
            load_salience=no_salience,
            moved=trained.forget,
        )

    trained = TrainedModels(make_runner, store=services.store, clock=services.clock)
    journal = WriteBehindQueue(
        services.store,
        services.secret_scanner,
        clock=services.clock,
        on_written=trained.on_traces_written,
    )
    # It writes when a test says so, and by no thread of its own.
    journal.close()
    return Brain(replace(services, trained=trained, journal=journal), brain.caller)


def no_salience(digest: str) -> NoReturn:
    """Load no model of salience."""
    raise KeyError(digest)


def with_salience(
    brain: Brain,
    load: Callable[[str], LearnedSalience],
    *,
    limits: ModelLimits = SALIENCE_LIMITS,
) -> Brain:
    """The same brain in a process of its own, which loads models of salience so."""
    services = brain.services

    def make_runner() -> Runner:
        return Runner(
            services.store,
            clock=services.clock,
            load_reranker=Shop().load,
            load_salience=load,
            moved=trained.forget,
            salience_limits=limits,
        )

    trained = TrainedModels(make_runner, store=services.store, clock=services.clock)
    return Brain(replace(services, trained=trained), brain.caller)


def on_trial(
    brain: Brain,
    shop: Shop,
    reranker: Reranker,
    *,
    percent: float = 100.0,
    allow: tuple[str, ...] = (),
) -> ModelCard:
    """Put a model in canary as an admin would."""
    card = shop.card(brain, reranker)
    with brain.services.store.begin(brain.caller.tenant) as tx:
        by = Actor(at=brain.services.clock.now(), agent="ann", reason="a trial")
        [card] = start_canary(tx, card, percent=percent, allow=allow, by=by)
    brain.services.trained.forget(brain.caller.tenant)
    return card


def sessions_of(card: ModelCard, *, count: int, served: bool = True) -> list[str]:
    """Name sessions that a canary serves, or does not."""
    named = (f"s{number}" for number in range(100 * count))
    results = [
        one for one in named if is_in_canary(card, Caller(agent="ann", session=one)) is served
    ]
    return results[:count]


def state_of(brain: Brain, card: ModelCard) -> ModelState:
    with brain.services.store.snapshot(brain.caller.tenant) as tx:
        results = tx.models.get(card.id)
    assert results is not None
    return results.state


def marked(brain: Brain, trace: str, memory: str, mark: FeedbackMark = FeedbackMark.USED) -> None:
    """Record how a memory of a recall was used, once the recall is stored."""
    _mark(brain, [ids.parse(ids.TRACE, trace)], memory=ids.parse(ids.MEMORY, memory), mark=mark)


def marked_used(brain: Brain, traces: Sequence[int], *, memory: int) -> None:
    """Record for many recalls that a memory of them was used."""
    _mark(brain, traces, memory=memory, mark=FeedbackMark.USED)


def _mark(brain: Brain, traces: Sequence[int], *, memory: int, mark: FeedbackMark) -> None:
    feedback = [
        Feedback(
            trace_id=trace,
            memory_id=memory,
            mark=mark,
            agent="ann",
            session=None,
            at=brain.services.clock.now(),
        )
        for trace in traces
    ]
    with brain.services.store.begin(brain.caller.tenant) as tx:
        assert tx.recall_log.mark(feedback) == len(feedback)


def audited(brain: Brain) -> Mapping[str, str]:
    """What the audit says was done to models, by action: to which and why."""
    with brain.services.store.snapshot(brain.caller.tenant) as tx:
        lines = tx.credentials.audit_entries(limit=100)
    return {one.action: one.subject or "" for one in lines if one.action.startswith("model_")}
