"""The ledger: what recalls considered and packed, and what became of it."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Final

from commonbrain.domain.recollection import Item
from commonbrain.domain.scope import Caller


class Extent(StrEnum):
    """How much of a memory an answer told."""

    WHOLE = "whole"
    EXCERPT = "excerpt"
    HEADLINE = "headline"
    BARE = "bare"
    """Its id alone."""

    @classmethod
    def of(cls, item: Item) -> "Extent":
        """Read it off an item of an answer."""
        if item.body is not None:
            return cls.WHOLE
        if item.excerpt is not None:
            return cls.EXCERPT
        return cls.BARE if item.headline is None else cls.HEADLINE


class Mark(StrEnum):
    """What was told of a memory that a recall had packed."""

    USED = "used"
    """Its body was fetched, or something was built on it."""
    USEFUL = "useful"
    """Somebody said that it helped."""
    WRONG = "wrong"
    """Somebody said that it misled."""


MARKED_WITHIN: Final = timedelta(hours=1)
"""What is done with a memory later than that is not the doing of the recall that showed it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Feedback:
    """One mark on one memory of one recall."""

    trace_id: int
    memory_id: int
    mark: Mark
    agent: str
    session: str | None
    at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Use:
    """What an agent did with memories, whether or not a recall had shown them to it."""

    tenant: str
    agent: str
    session: str | None
    ids: tuple[int, ...]
    mark: Mark
    at: datetime
    is_fetch: bool = False
    """Whether it asked for the body, which tells nothing where it had been shown all of it."""

    @classmethod
    def by(cls, caller: Caller, ids: Iterable[int], *, mark: Mark, at: datetime) -> "Use":
        """Say what a caller did."""
        given = tuple(dict.fromkeys(ids))
        return cls(
            tenant=caller.tenant,
            agent=caller.agent,
            session=caller.session,
            ids=given,
            mark=mark,
            at=at,
        )

    def marks(self, shown: Mapping[int, int]) -> list[Feedback]:
        """Give the marks that it leaves on the recalls that showed what was used."""
        return [
            Feedback(
                trace_id=trace,
                memory_id=memory,
                mark=self.mark,
                agent=self.agent,
                session=self.session,
                at=self.at,
            )
            for memory, trace in shown.items()
        ]


@dataclass(frozen=True, slots=True, kw_only=True)
class Weighed:
    """A candidate as its trace holds it; a feature that was 0 is left out."""

    memory_id: int
    score: float
    features: Mapping[str, float]
    left_out: str | None
    """Why it is not in the answer; None where it is."""
    shown: Extent | None = None
    """How much of it the answer told; None where it is not in it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One recall as the ledger holds it."""

    id: int
    asked_at: datetime
    agent: str
    session: str | None
    query: str
    """Empty where an erase has reached it."""
    verdict: str
    ranker: int | None
    """The model that ordered its candidates; None where fixed weights did."""
    considered: tuple[Weighed, ...]
    """Best first, as they were ordered then."""
    packed: tuple[int, ...]
    degraded: tuple[str, ...]
    stages_ms: Mapping[str, float]
    marks: Mapping[int, frozenset[Mark]]
    """By memory; those without one are absent."""
