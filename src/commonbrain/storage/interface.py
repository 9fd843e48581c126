"""The values that callers pass to a store and receive from it, and the protocol of its index."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from enum import StrEnum
from typing import Final, Protocol

from commonbrain.embeddings.interface import Matrix, Vectors
from commonbrain.model.errors import StoreCorruptError
from commonbrain.model.jobs import JobState
from commonbrain.model.kinds import CausalField
from commonbrain.model.limits import SHOWN_MAX
from commonbrain.model.links import LinkType
from commonbrain.model.memory import Memory
from commonbrain.model.query import Filter
from commonbrain.model.scope import NO_POLICY, Authority, Caller, Policy, Trust
from commonbrain.model.sessions import Session
from commonbrain.model.values import dataclass
from commonbrain.storage.retention_rules import Retention


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryScope:
    """The caller, filter and time that every search of the store is restricted to."""

    caller: Caller
    filter: Filter
    now: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Hit:
    """A memory found by a search; a higher `score` is better, comparable within one call."""

    id: int
    score: float


class Index(Protocol):
    """Full text and vectors, which are derived from the rows.

    A scope that names a field of atoms searches the words and vectors of that field alone.
    """

    def put(self, memory: Memory, given: Vectors | None) -> None:
        """Index the words of a memory, and its vectors if given."""
        ...

    def reword(self, memory: Memory) -> None:
        """Index the words of a memory again after its tags or people changed; vectors stay."""
        ...

    def drop(self, memory_id: int) -> None:
        """Remove the words and vectors of a memory."""
        ...

    def lexical(self, terms: Sequence[str], scope: QueryScope, /, *, limit: int) -> list[Hit]:
        """Rank by BM25 over stemmed words, best first; any of the terms may match.

        Without terms the result is empty. A score of 1 is that of a memory of average length with
        little more than one word that no other has, or with the only word of a query; in a store of
        few memories, that of the best. Within one transaction of a larger one the score of a memory
        depends on the terms alone, not on the scope.
        """
        ...

    def nearest(
        self, query: Matrix, scope: QueryScope, /, *, limit: int, at_least: float = -1.0
    ) -> list[Hit]:
        """Rank by cosine to a unit vector `(d,)`, the best window of each memory, best first.

        Memories below the cosine `at_least` are left out, which shortens narrow searches.
        """
        ...

    def similarities(
        self, query: Matrix, ids: Sequence[int], *, field: CausalField | None = None
    ) -> dict[int, float]:
        """Map memories to their cosine, or that of a field; those without a vector are absent."""
        ...

    def cosines(self, ids: Sequence[int]) -> list[list[float]]:
        """Return the cosines of every two memories, by the means of their windows.

        Rows and columns are in the order of the ids; 0 if either memory has no vector.
        """
        ...

    def first_windows(self, ids: Sequence[int]) -> dict[int, Matrix]:
        """Map memories to the vector `(d,)` of their first window; others are absent.

        Half precision, as stored, in the serving space.
        """
        ...

    def follow(self) -> None:
        """Update the vectors cached by this process from the rows.

        Searches do so themselves; calling it before a write keeps other writers from waiting.
        """
        ...

    def unworded(self, *, limit: int, after: int = 0) -> list[int]:
        """List findable memories above an id without full text; ascending, normally none."""
        ...

    def embed(self, memory_id: int, given: Vectors) -> bool:
        """Store the missing vectors of a memory if it is findable.

        Returns:
            False if another process was faster or has forgotten the memory.

        """
        ...

    def drop_unsound_vectors(self) -> int:
        """Delete vectors of the wrong size or of unfindable memories; return the number."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class DueBy:
    """Criteria of maintenance: expired memories, overdue tasks, and retention rules."""

    now: datetime
    tasks_before: datetime
    """Unfinished tasks that were due before it are overdue."""
    rules: Sequence[Retention] = ()


class IdTaken(Exception):
    """A new id is already taken: draw another and try again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Trigger:
    """What makes a rule a skill, as it is stored, and the authority of the rule."""

    fields: Mapping[str, object]
    authority: Authority

    @classmethod
    def of(
        cls, fields: Mapping[str, object], *, project: str | None, authority: Authority
    ) -> Trigger:
        """Return the trigger of a rule of a project; projects that it names take precedence."""
        is_placed = project is None or fields.get("projects")
        placed = fields if is_placed else {**fields, "projects": [project]}
        return cls(fields=placed, authority=authority)


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownMemories:
    """Memories that a session was shown without having asked."""

    agent: str
    session: str
    memories: Mapping[int, bool]
    """By id: whether it needed review then. A memory whose text changes gets a new id."""
    is_fresh: bool = False
    """Whether the conversation has lost what it was shown before."""

    def added_to(self, known: Mapping[int, bool]) -> dict[int, bool]:
        """Add to what was shown before; of too many, the first are dropped."""
        every = {**({} if self.is_fresh else known), **self.memories}
        return dict(list(every.items())[-SHOWN_MAX:])


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryAccess:
    """Memories that were shown to a caller, and when."""

    tenant: str
    ids: tuple[int, ...]
    at: datetime
    shown: ShownMemories | None = None
    """What the caller's session has been shown by this; None if nobody keeps that."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditEntry:
    """One line of the append-only audit of memories."""

    action: str
    memory_id: int
    agent: str
    session: str | None
    reason: str | None
    content: str
    """Never stored: the store keeps an HMAC of it under the tenant's key."""
    at: datetime
    request_id: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditFilter:
    """Criteria for lines of both audits; unset ones match any."""

    agent: str | None = None
    action: str | None = None
    request_id: str | None = None
    memory_id: int | None = None
    """Leaves only lines about this memory."""
    since: datetime | None = None
    until: datetime | None = None
    """Inclusive."""
    is_of_access: bool = False
    """Leaves only refusals and administrative changes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Beginning:
    """The oldest message of a thread that a caller sees."""

    message_id: int
    is_first: bool
    """Whether it is the thread's first message, so that the caller knows the subject."""
    was_addressed: bool
    """Whether the first message is open to the caller, even if it is forgotten or expired."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ThreadSubject:
    """The subject of a thread, which is text of its first message."""

    text: str
    message_id: int


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditLine:
    """A stored line of the audit of memories or of access; unset fields belong to the other."""

    id: int
    at: datetime
    action: str
    agent: str | None
    request_id: str | None
    memory_id: int | None = None
    session: str | None = None
    reason: str | None = None
    code: str | None = None
    """The error code of a refusal."""
    credential: str | None = None
    subject: str | None = None
    """The agent, key or thread that was changed."""
    count: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredReply:
    """The reply to a call with an idempotency key; `digest` identifies its request."""

    agent: str
    key: str
    digest: str
    body: Mapping[str, object]
    """Plain JSON values."""
    memory_ids: tuple[int, ...]
    """Memories that the reply mentions; erasing one of them erases the reply."""
    at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Annotation:
    """A note on a memory, with its own author and trust."""

    id: int = 0
    """Assigned by the repository."""
    memory_id: int
    text: str
    agent: str
    trust: Trust
    authority: Authority = Authority.MODEL
    """Of its author; unknown before this was stored."""
    at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class EntryFilter:
    """Criteria for log entries; unset ones match any."""

    since: datetime | None = None
    until: datetime | None = None
    """Exclusive."""
    is_marked: bool = False
    """Only entries with feedback."""
    ranker: int | None = None
    """Only recalls ranked by this model."""
    is_by_weights: bool = False
    """Only recalls with a query that no model ranked."""
    share: float = 1.0
    """Fraction of the entries, 0..1, sampled by id: every reader gets the same ones."""
    agent: str | None = None
    session: str | None = None
    memory: int | None = None
    """Only recalls that returned this memory."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Heartbeat:
    """A heartbeat or the end of a session: its state as of `heartbeat_at`."""

    tenant: str
    session: Session


@dataclass(frozen=True, slots=True, kw_only=True)
class Passage:
    """A memory with those just before and after it in its thread or session, oldest first."""

    source: int | str
    """The id of the thread, or the session."""
    ids: tuple[int, ...]
    """Memories in scope, including the memory itself."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RankedRule:
    """The ids of the first memories of a ranking, best first, and the total number."""

    ids: tuple[int, ...] = ()
    total: int = 0


class Direction(StrEnum):
    """The direction in which links are followed."""

    ALONG = "along"
    """From the start of a link to its end."""
    AGAINST = "against"


@dataclass(frozen=True, slots=True, kw_only=True)
class GraphReader:
    """The reader of a walk, which visits only memories visible to and trusted by the caller."""

    caller: Caller
    trust_min: float = 0.0


@dataclass(frozen=True, slots=True)
class ReachedMemory:
    """A memory that a walk visited: its distance, the previous memory, and the link type."""

    id: int
    depth: int
    via_id: int
    type: LinkType


@dataclass(frozen=True, slots=True)
class Walk:
    """The memories that a walk visited, nearest first; `is_cut` if it hit its limit."""

    reached: tuple[ReachedMemory, ...]
    is_cut: bool = False

    def path(self, id_: int) -> list[int]:
        """List the memories from a visited one back to the start, both included."""
        via = {one.id: one.via_id for one in self.reached}
        path = [id_]
        while path[-1] in via:
            path.append(via[path[-1]])
        return path


ADMITTING: Final = "admit"
"""The action of audit entries about rejected credentials."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tenant:
    """One tenant, as its owner sees it."""

    name: str
    created_at: datetime
    policy: Policy = NO_POLICY
    suspended_at: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class AccessEntry:
    """One line of the access audit: a denial, or an administrative change."""

    at: datetime
    action: str
    """The denied operation, or the administrative change."""
    code: str | None = None
    """The error code of a denial; None for a change."""
    agent: str | None = None
    """None if the credential identifies no agent."""
    credential: str | None = None
    request_id: str | None = None
    subject: str | None = None
    """The agent, key or thread that was changed."""
    count: int = 1
    """Number of equal events that this line represents, or of memories in an export or backup."""

    @classmethod
    def by(
        cls, caller: Caller, action: str, *, at: datetime, subject: str | None = None
    ) -> AccessEntry:
        """Describe what a caller did."""
        return cls(
            at=at,
            action=action,
            agent=caller.agent,
            credential=caller.admission.credential if caller.admission else None,
            request_id=caller.request_id,
            subject=subject,
        )


class SpaceMismatch(StoreCorruptError):
    """The vectors of the store are in another space, named `known`; nothing was changed."""

    default_code = "space_mismatch"

    def __init__(self, known: str, *, made: str) -> None:
        super().__init__(
            f"The vectors of this store are in the space {known}; the embedder makes {made}.",
            hint="Vectors of two spaces cannot be compared. Open the store with the embedder of "
            "its space; `brain embeddings build` moves it to another one.",
        )
        self.known = known


@dataclass(frozen=True, slots=True, kw_only=True)
class JobFilter:
    """Criteria for jobs; unset ones match any."""

    state: JobState | None = None
    kind: str | None = None
    agent: str | None = None
    """The agent that they run for."""
    session: str | None = None
    """The session that they were enqueued in."""
    key: str | None = None
    since: datetime | None = None
    """They were created then or later."""


Progress = Callable[[float], None]
"""Called with the fraction done, 0..1."""


def ignore_progress(_fraction: float) -> None:
    """Ignore progress."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """The result of one check of a store."""

    check: str
    is_sound: bool
    detail: str
    hint: str = ""
    """The next step, if any; a sound finding with a hint is a warning."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Holdings:
    """The content of a store file, as shown before a restore."""

    memories: int
    """Current ones: active and archived."""
    newest_at: datetime | None
    """When the newest of any state was recorded."""
    schema_version: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Backup:
    """A backup that was written, verified and made durable."""

    path: str
    size_bytes: int
    memories: int
    newest_at: datetime | None
    schema_version: str
    digest: str
    """SHA-256 of the file, as `sha256sum` prints it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Replacement:
    """Preview of a restore: the backup and the store that it replaces."""

    file: str
    store: str
    comes: Holdings
    goes: Holdings | None
    """None if there is no store or it cannot be read."""
    trouble: str | None = None
    """Why the present store cannot be read; it is kept all the same."""
    unseals: bool = False
    """Whether the present store is sealed, and the backup will be readable without a key."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RestoreResult:
    """A restored store; the one that it replaced is kept next to it."""

    store: str
    memories: int
    newest_at: datetime | None
    kept: str | None
    """Path of the replaced store; None if there was none."""
