"""The table of candidates: what the stages of a recall hand to one another.

`retrieve` makes it: a row for each candidate with its scores. `load` adds what the store knows of
each, `score` their features, `order` brings them into their order, and `pack` reads it.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from commonbrain.model.values import dataclass, field

if TYPE_CHECKING:
    from datetime import datetime

    import numpy as np
    from numpy.typing import NDArray

    from commonbrain.embeddings.interface import EmbeddingSpace, Matrix
    from commonbrain.model.links import Conflict, Link
    from commonbrain.model.memory import Memory
    from commonbrain.model.model_card import ModelCard
    from commonbrain.model.query import Candidate, Place
    from commonbrain.model.revision import BeliefPeriod
    from commonbrain.model.support import Review
    from commonbrain.retrieval.plan import QueryPlan
    from commonbrain.retrieval.value_history import ValueChange
    from commonbrain.storage.interface import Annotation, ThreadSubject

    Column = NDArray[np.float64]
    """One number for each row."""


BLOCKER: Final = "blocker"
GUIDANCE: Final = "guidance"
SKILL: Final = "skill"


@dataclass(slots=True, kw_only=True)
class Table:
    """The candidates of one recall, and what each stage has learned of them."""

    plan: QueryPlan
    space: EmbeddingSpace
    """The space of the vectors, with its thresholds."""

    # Of `retrieve`.
    rows: list[int] = field(default_factory=list[int])
    """The memories of the rows, best first by their scores alone."""
    columns: dict[str, Column] = field(default_factory=dict[str, "Column"])
    """Scores and features by name, in the order of the rows."""
    cosines: Mapping[int, float] = field(default_factory=dict[int, float])
    """The cosines of the question, by memory."""
    before: Mapping[int, int] = field(default_factory=dict[int, int])
    """The memory before another in its thread or session."""
    query_vector: Matrix | None = None
    """Shape (1, dimensions), once the embedding was available in time."""
    degraded: list[str] = field(default_factory=list[str])
    """`name: code, message` for each part that could not take part."""
    oldest: Place | None = None
    """The last place of a page of a list; None if nothing follows."""

    # Of `load`.
    memories: list[Memory] = field(default_factory=list["Memory"])
    """In the order of the rows; a list of times repeats one for each of its times."""
    speakers: Mapping[int, str] = field(default_factory=dict[int, str])
    """Who said a message, case-folded, by memory."""
    links: Sequence[Link] = ()
    """Of the best candidates."""
    known: Mapping[int, Memory] = field(default_factory=dict[int, "Memory"])
    """The candidates, and the memories at the other ends of their links."""
    reviews: Mapping[int, Sequence[Review]] = field(default_factory=dict[int, "Sequence[Review]"])
    """The open reviews of each memory that needs review."""
    believed: Mapping[int, Sequence[BeliefPeriod]] = field(
        default_factory=dict[int, "Sequence[BeliefPeriod]"]
    )
    """When memories were believed, for a question about the past."""
    times: Mapping[int, Sequence[datetime]] = field(default_factory=dict[int, "Sequence[datetime]"])
    """All times of events that came again in the same words, earliest first."""
    mentioned: Mapping[int, datetime] = field(default_factory=dict[int, "datetime"])
    """The date that a memory of another time mentions of the period that the query names."""
    annotations: Mapping[int, Sequence[Annotation]] = field(
        default_factory=dict[int, "Sequence[Annotation]"]
    )
    subjects: Mapping[int, ThreadSubject] = field(default_factory=dict[int, "ThreadSubject"])
    """Of the threads of messages."""
    review_notes: Mapping[int, str] = field(default_factory=dict[int, str])
    outdated: Sequence[Conflict] = ()
    """Conflicts of candidates that repeat what a source said before it was superseded."""
    changes: Mapping[int, ValueChange] = field(default_factory=dict[int, "ValueChange"])
    """What surely changed a candidate."""
    histories: Mapping[int, str] = field(default_factory=dict[int, str])
    """What candidates said before."""
    derived: Mapping[int, Collection[int]] = field(default_factory=dict[int, "Collection[int]"])
    """What candidates were derived from, by id."""
    sources: Mapping[int, Sequence[Memory]] = field(default_factory=dict[int, "Sequence[Memory]"])
    """What candidates were derived from, as far as the caller may see it."""
    similarity: tuple[Mapping[int, int], Column] | None = None
    """The place of candidates in a matrix of their cosines to each other; None if not needed."""
    is_empty: bool = False
    """Whether no stored memory passes the filter."""

    # Of `score`, and in their final order of `order`.
    ranked: list[Candidate] = field(default_factory=list["Candidate"])
    ranker: ModelCard | None = None
    """The model that ordered them, or that failed to."""
    taken_ms: Mapping[str, float] = field(default_factory=dict[str, float])
    """Time of models, by stage."""
    considered: Sequence[Candidate] = ()
    """All of them in the order of their scores, for the recall log."""
    passed: frozenset[int] = frozenset()
    """Those that the caller may see and asked for."""
    conflicts: Sequence[Conflict] = ()
    is_answered: bool = False
    """Whether one of them seems to answer the query."""
