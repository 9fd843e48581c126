"""The values that callers pass to a store and receive from it, and the protocol of its index."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Final, Protocol, TypeVar

from commonbrain.embeddings.interface import Matrix, Vectors
from commonbrain.model.errors import StoreCorruptError
from commonbrain.model.jobs import JobState
from commonbrain.model.kinds import CausalField
from commonbrain.model.links import LinkType
from commonbrain.model.memory import Memory
from commonbrain.model.query import Filter
from commonbrain.model.retention import Retention
from commonbrain.model.scope import NO_POLICY, Caller, Policy
from commonbrain.model.sessions import Session
from commonbrain.model.trust import Trust


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryScope:
    """Who looks for what at which moment: what every search of the store is confined to."""

    caller: Caller
    filter: Filter
    now: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Hit:
    """A memory that an arm found; a higher `score` is better, comparable within one call only."""

    id: int
    score: float


class Index(Protocol):
    """The shelf of what can be derived from the rows: full text and vectors.

    A scope at one field of atoms is answered by the words and vectors of that field alone.
    """

    def put(self, memory: Memory, given: Vectors | None) -> None:
        """Make a memory findable by its words, and by its meaning where vectors are given."""
        ...

    def reword(self, memory: Memory) -> None:
        """Index the words of a memory anew, whose tags or people changed; its vectors stay."""
        ...

    def drop(self, memory_id: int) -> None:
        """Make a memory unfindable: neither words nor vectors of it remain."""
        ...

    def lexical(self, terms: Sequence[str], scope: QueryScope, *, limit: int) -> list[Hit]:
        """Rank by BM25 over stemmed words, best first; any of the terms may match.

        Of no terms nothing is found. Within one transaction the same terms score a memory the
        same, whatever the scope.
        """
        ...

    def nearest(
        self, query: Matrix, scope: QueryScope, *, limit: int, at_least: float = -1.0
    ) -> list[Hit]:
        """Rank by cosine to a unit vector `(d,)`, the best window of each memory, best first.

        What is farther than `at_least` is left out, which spares the search of a narrow scope.
        """
        ...

    def similarities(
        self, query: Matrix, ids: Sequence[int], *, field: CausalField | None = None
    ) -> dict[int, float]:
        """Give the cosine of each memory, or of a field; those without a vector are absent."""
        ...

    def cosines(self, ids: Sequence[int]) -> list[list[float]]:
        """Give the cosine of every two of these memories, each by the mean of its windows.

        In rows and columns in the order of the ids; 0 where one of the two has no vector.
        """
        ...

    def first_windows(self, ids: Sequence[int]) -> dict[int, Matrix]:
        """Give the vector `(d,)` of how each memory begins; those without a vector are absent.

        As it is kept, which is to half precision, and of the serving space.
        """
        ...

    def follow(self) -> None:
        """Bring what this process keeps of vectors up to the rows.

        Searching does so by itself; doing it before a transaction that writes keeps others from
        waiting for it.
        """
        ...

    def pending(self) -> int:
        """Count the findable memories that lack vectors: all, or those of their fields."""
        ...

    def lacks_fields(self) -> bool:
        """Say whether there are findable atoms whose fields never got vectors."""
        ...

    def unembedded(self, *, limit: int, after: int = 0) -> list[int]:
        """List findable memories above an id, superseded ones too, that lack vectors; ascending."""
        ...

    def unworded(self, *, limit: int, after: int = 0) -> list[int]:
        """List findable memories above an id whose words are lost; ascending, usually none."""
        ...

    def embed(self, memory_id: int, given: Vectors) -> bool:
        """Give a memory the vectors that it lacks, if it is findable.

        Returns:
            Whether it got them; another process may have been faster, or have forgotten it.

        """
        ...

    def drop_unsound_vectors(self) -> int:
        """Take away vectors of another size or of memories that cannot be found; count them."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class DueBy:
    """What upkeep looks for: memories whose time is over, tasks long due, what is too old."""

    now: datetime
    tasks_before: datetime
    """Tasks that are not done and were due before it."""
    rules: Sequence[Retention] = ()


Answer = TypeVar("Answer")


class IdTaken(Exception):
    """A freshly drawn id exists already: draw another and try again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryAccess:
    """Memories that somebody was shown, and when."""

    tenant: str
    ids: tuple[int, ...]
    at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditEntry:
    """One line of the append-only audit: who did what to which memory, and its keyed digest."""

    action: str
    memory_id: int
    agent: str
    session: str | None
    reason: str | None
    content: str
    """Never stored: the store keeps an HMAC of it under the tenant's key."""
    at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """What a call with an idempotency key was answered: `digest` tells its content apart."""

    agent: str
    key: str
    digest: str
    body: Mapping[str, object]
    """The answer as plain JSON values."""
    memory_ids: tuple[int, ...]
    """What the answer speaks of, so that erasing one of them erases the answer."""
    at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Annotation:
    """What somebody noted beside a memory, under an authority of their own."""

    id: int = 0
    """Drawn by the shelf."""
    memory_id: int
    text: str
    agent: str
    trust: Trust
    at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class EntryFilter:
    """Which recalls are read; what is left out does not matter."""

    since: datetime | None = None
    until: datetime | None = None
    """Asked before."""
    is_marked: bool = False
    """Only those with a mark."""
    ranker: int | None = None
    """Only those that this model ordered."""
    is_by_weights: bool = False
    """Only those with a question that no model ordered."""
    share: float = 1.0
    """Only so many of them, 0..1, drawn by their ids: every reader draws the same."""
    agent: str | None = None
    """Only this one's."""
    session: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Heartbeat:
    """A sign of life, or of an end: the session as who heard it at `heartbeat_at` knows it."""

    tenant: str
    session: Session


@dataclass(frozen=True, slots=True, kw_only=True)
class ThreadPassage:
    """A message with what was said just before and after it in its thread, in that order."""

    thread: int
    ids: tuple[int, ...]
    """Of what a scope allows, the message itself among them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RankedRule:
    """The first of some memories by their ids, best first, and how many there are in all."""

    ids: tuple[int, ...] = ()
    total: int = 0


class Direction(StrEnum):
    """In which direction links are followed."""

    ALONG = "along"
    """From the memory that a link leads from to the one that it leads to."""
    AGAINST = "against"


@dataclass(frozen=True, slots=True, kw_only=True)
class GraphReader:
    """For whom is walked: only over what this caller may see, trusts enough, and was let in."""

    caller: Caller
    trust_min: float = 0.0


@dataclass(frozen=True, slots=True)
class ReachedMemory:
    """A memory that a walk came to: after how many steps, from which one, over what link."""

    id: int
    depth: int
    via_id: int
    type: LinkType


@dataclass(frozen=True, slots=True)
class Walk:
    """What a walk came to, the nearest first; `is_cut` when it met its limit before its end."""

    reached: tuple[ReachedMemory, ...]
    is_cut: bool = False

    def path(self, id_: int) -> list[int]:
        """Give the memories from one that was reached back to where the walk began, both in it."""
        via = {one.id: one.via_id for one in self.reached}
        path = [id_]
        while path[-1] in via:
            path.append(via[path[-1]])
        return path


ADMITTING: Final = "admit"
"""The action under which the audit tells of who was turned away at the door."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tenant:
    """One tenant, as its owner sees it."""

    name: str
    created_at: datetime
    policy: Policy = NO_POLICY
    suspended_at: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class AccessEntry:
    """One line of the audit of access: who was refused what and why, or governed what."""

    at: datetime
    action: str
    """The operation that was asked for, or what was done to whom can call."""
    code: str | None = None
    """Why it was refused; None when it was done."""
    agent: str | None = None
    """None when nobody could be told from the credential."""
    credential: str | None = None
    request_id: str | None = None
    subject: str | None = None
    """The agent or key that was governed."""
    count: int = 1
    """How many alike this line stands for."""


class SpaceMismatch(StoreCorruptError):
    """A store's vectors live in another space, `known` by name; it was left as found."""

    default_code = "space_mismatch"

    def __init__(self, known: str, *, made: str) -> None:
        super().__init__(
            f"This store's vectors live in the space {known}; the embedder makes {made}.",
            hint="Vectors of two spaces cannot be compared. Open it with the embedder that serves; "
            "`brain embeddings build` moves it to another one.",
        )
        self.known = known


@dataclass(frozen=True, slots=True, kw_only=True)
class JobFilter:
    """Which jobs are listed; what is left out does not matter."""

    state: JobState | None = None
    kind: str | None = None
    agent: str | None = None
    """For whom they are done."""
    key: str | None = None


class PasswordHasher(Protocol):
    """Seals secrets, and says whether one fits a seal."""

    def seal(self, secret: str) -> str:
        """Make a seal of a secret, another one each time."""
        ...

    def fits(self, seal: str | None, *, secret: str) -> bool:
        """Say whether a seal was made of this secret; without a seal it takes as long.

        Raises:
            UnavailableError: too many are being checked at once.

        """
        ...
