"""`python -m benchmarks listing`: pages and facets of a long list of memories, on both engines."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from itertools import islice
from typing import Final

import numpy as np

from benchmarks.corpus import drafts
from benchmarks.filling import EMBEDDED, Filling, Lending
from commonbrain.client import Brain
from commonbrain.history.unit_of_work import write_unit
from commonbrain.model.memory import Draft
from commonbrain.model.revision import Action, superseded
from commonbrain.model.scope import Scope
from commonbrain.testing.builders import FakeClock

NOW: Final = datetime(2026, 6, 1, tzinfo=UTC)
_YEARS: Final = timedelta(days=2 * 365)
_KINDS: Final = ("fact",) * 5 + ("event",) * 3 + ("rule", "incident")
_LABELS: Final = (None, None, "decision", "convention", "preference", "bug", "release")
_AGENTS: Final = ("ann", "bob", "codex", "claude-code", "cursor")
_TAGS: Final = 300
_PRIVATE: Final = 0.05
_SUPERSEDED: Final = 10
"""Every so many-th memory is superseded by the next."""


@dataclass(slots=True)
class NoEmbedding:
    """Gives every text a random vector, for a store whose meaning nobody searches."""

    lending: Lending

    @classmethod
    def of(cls, brain: Brain) -> Lending:
        """Lend random vectors from the first text on."""
        source = np.random.default_rng(5)
        size = brain.services.embedder.space.dimensions
        owned = source.normal(0, 1, (EMBEDDED, size))
        owned /= np.linalg.norm(owned, axis=1, keepdims=True)
        return Lending(brain.services.embedder, owned=list(owned.astype(np.float32)))


def varied(count: int) -> Iterator[tuple[str, Draft]]:
    """Give authors and memories of two years, of several kinds, labels, tags and scopes."""
    chance = random.Random(7)
    for number, draft in enumerate(drafts(count)):
        tags = {
            f"tag-{int(chance.paretovariate(0.7)) % _TAGS}" for _ in range(chance.randint(0, 3))
        }
        yield (
            _AGENTS[min(int(chance.expovariate(0.7)), len(_AGENTS) - 1)],
            replace(
                draft,
                kind=chance.choice(_KINDS),
                label=chance.choice(_LABELS),
                project=None if number % 11 == 0 else draft.project,
                tags=tuple(sorted(tags)),
                scope=Scope.PRIVATE if chance.random() < _PRIVATE else None,
                occurred_at=NOW - _YEARS * chance.random(),
            ),
        )


def fill(brain: Brain, count: int) -> None:
    """Store memories of several agents over two years; some are superseded."""
    clock = FakeClock(NOW - _YEARS)
    services = replace(brain.services, clock=clock)
    lending = NoEmbedding.of(brain)
    rest = varied(count)
    batch = 64
    while given := list(islice(rest, batch)):
        for agent in dict.fromkeys(agent for agent, _ in given):
            author = Brain(services, replace(brain.caller, agent=agent))
            own = [draft for one, draft in given if one == agent]
            _supersede(author, Filling.of(author, lending).write(own))
        clock.move(_YEARS * batch / count)


def _supersede(brain: Brain, ids: Sequence[int]) -> None:
    pairs = [(ids[at], ids[at + 1]) for at in range(0, len(ids) - 1, _SUPERSEDED)]
    with write_unit(brain.services, brain.caller) as unit:
        memories = unit.tx.memories.get(list(ids))
        for old, new in pairs:
            unit.amend(
                memories[old],
                superseded(memories[old], by=new, at=unit.now),
                change_context=unit.change_context(Action.SUPERSEDE, "A newer value."),
            )
