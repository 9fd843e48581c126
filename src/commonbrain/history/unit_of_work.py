"""One change in progress: transaction, caller and time."""

from __future__ import annotations

from collections.abc import Collection, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from functools import partial

from commonbrain.embeddings.interface import Vectors
from commonbrain.ingestion.batch import WriteContext
from commonbrain.ingestion.embedding import awaits_embedding, vectors_for
from commonbrain.ingestion.preparation import PreparedDraft
from commonbrain.ingestion.result import ItemResult
from commonbrain.invalidation.dependents import AffectedDependents, summarize_affected
from commonbrain.invalidation.propagation import propagate
from commonbrain.model.errors import (
    BusyError,
    DeadlineError,
    UnavailableError,
    check_chars,
)
from commonbrain.model.limits import FORGET_ALONE_MAX, REASON_CHARS_MAX
from commonbrain.model.memory import FINDABLE_STATES, Memory, State
from commonbrain.model.parameters import Parameters
from commonbrain.model.revision import Action
from commonbrain.model.scope import Authority, Caller
from commonbrain.retrieval.get import fetch
from commonbrain.security.authority import check_is_person, check_may_bind_all
from commonbrain.security.guard import UNCOUNTED_STATES
from commonbrain.services import Services
from commonbrain.storage.change_log import record_related_change, record_update
from commonbrain.storage.job_queue import enqueue_embedding
from commonbrain.text.normalisation import normalise_line


@dataclass(frozen=True, slots=True, kw_only=True)
class UnitOfWork(WriteContext):
    """The context of a change; `vectors` are those of memories that may become searchable again."""

    vectors: Mapping[int, Vectors] = field(default_factory=dict[int, Vectors])

    @property
    def parameters(self) -> Parameters:
        """The parameters in force for the caller."""
        return self.services.parameters_for(self.caller)

    @property
    def trust_min(self) -> float:
        """The trust below which nothing is shown without a query."""
        return self.parameters.proactive_trust_min

    def fetch(self, id_: int) -> Memory:
        """Fetch a memory that the caller may see, or raise `NotFoundError`."""
        return fetch(self.tx, self.caller, id_=id_)

    def amend(
        self, before: Memory, after: Memory, *, action: Action, reason: str | None = None
    ) -> None:
        """Update a memory, adding its vectors if it becomes searchable.

        Without vectors, a job embeds it later.

        Raises:
            LimitExceededError: `quota_exceeded`, there is no quota left for a restored memory.
            RejectedError: `scope_denied`, it would block the writers of every project.

        """
        check_may_bind_all(self.caller, before, after=after)
        is_counted = before.state is State.FORGOTTEN and after.state not in UNCOUNTED_STATES
        if is_counted and self.services.guard is not None:
            self.services.guard.reserve(self.caller, self.tx)
        record_update(
            self.tx,
            before,
            after=after,
            change_context=self.change_context(action, reason),
            vectors=self.vectors.get(before.id),
        )
        was_findable, is_findable = (one.state in FINDABLE_STATES for one in (before, after))
        is_pending = before.id not in self.vectors or self.services.store.moved_to is not None
        if is_findable and not was_findable and is_pending:
            enqueue_embedding(self.tx, self.services, caller=self.caller)

    def record(
        self,
        memory: Memory,
        *,
        action: Action,
        reason: str | None = None,
        before: Mapping[str, object] | None = None,
        after: Mapping[str, object] | None = None,
    ) -> None:
        """Record a change of what is related to a memory by its images."""
        record_related_change(
            self.tx,
            memory,
            change_context=self.change_context(action, reason),
            before=before or {},
            after=after or {},
        )

    def embed_later(self, prepared: PreparedDraft, outcome: ItemResult) -> None:
        """Enqueue the embedding of a draft that this transaction stored without vectors."""
        if self.services.store.moved_to or awaits_embedding(prepared, outcome):
            enqueue_embedding(
                self.tx, self.services, caller=self.caller, is_down=not prepared.is_deferred
            )

    def propagate_invalidation(self) -> AffectedDependents | None:
        """Update the dependents of this change; called last in its transaction.

        Raises:
            RejectedError: `person_required`, a model ended too much of what others wrote.

        """
        step = propagate(self.tx, self.change_context(Action.CASCADE, None))
        _check_ended(self)
        return summarize_affected(self.tx, self.caller, step=step, now=self.now)


def set_above(unit: UnitOfWork, memory_ids: Sequence[int], *, names: Collection[str]) -> set[int]:
    """Return the memories of which a higher authority than the caller's last set a field.

    `names` are the fields. What the author gave with the text is not counted.
    """
    last: dict[tuple[int, str], Authority] = {}
    if unit.caller.authority is not Authority.PERSON and names:
        for change in unit.tx.changes.of(memory_ids):
            last |= {
                (change.memory_id, one): change.authority for one in names & change.after.keys()
            }
    covers = unit.caller.authority.covers
    return {id_ for (id_, _), authority in last.items() if not covers(authority)}


def _check_ended(unit: UnitOfWork) -> None:
    """Check that a model ends few memories a day; what its session wrote is not counted.

    A program without sessions, such as the adapter of a framework, is one.

    Raises:
        RejectedError: `person_required`.

    """
    caller = unit.caller
    ended_by = partial(unit.tx.changes.ended_by, caller.agent)
    if caller.authority is Authority.PERSON or not ended_by(since=unit.now):
        return
    ended = unit.tx.memories.get(ended_by(since=unit.now - timedelta(days=1)))
    others = [
        one
        for one in ended.values()
        if one.agent != caller.agent or caller.session not in {None, one.session}
    ]
    if len(others) > FORGET_ALONE_MAX:
        check_is_person(caller, f"Forgetting more than {FORGET_ALONE_MAX} memories within a day")


@contextmanager
def read_unit(services: Services, caller: Caller) -> Generator[UnitOfWork]:
    """Read one snapshot of the caller's tenant."""
    with services.store.snapshot(caller.tenant) as tx:
        yield UnitOfWork(tx=tx, services=services, caller=caller, now=services.clock.now())


@contextmanager
def write_unit(
    services: Services, caller: Caller, *, vectors: Mapping[int, Vectors] | None = None
) -> Generator[UnitOfWork]:
    """Write in one transaction of the caller's tenant, rolled back by an exception.

    Raises:
        UnavailableError: the store stayed locked; nothing is changed.

    """
    with services.store.begin(caller.tenant) as tx:
        now = services.clock.now()
        yield UnitOfWork(tx=tx, services=services, caller=caller, now=now, vectors=vectors or {})


def vectors_of(
    services: Services, caller: Caller, *, memories: Sequence[Memory]
) -> dict[int, Vectors]:
    """Embed memories that are not searchable, before the transaction.

    Empty if the embedder is down.

    Raises:
        BusyError: too many texts of the tenant wait to be embedded.
        DeadlineError: the caller no longer waits.

    """
    hidden = [one for one in memories if one.state not in FINDABLE_STATES and one.text.strip()]
    try:
        return vectors_for(hidden, services.embedder_for(caller))
    except (BusyError, DeadlineError):
        raise
    except UnavailableError:
        return {}


def validate_reason(reason: str, *, services: Services, caller: Caller) -> str:
    """Return a reason on one line, without secrets.

    Raises:
        InvalidInputError: it is empty or too long.
        RejectedError: `secret_detected`.

    """
    stripped = services.clean_text(normalise_line(reason) or "", what="reason", caller=caller)
    hint = "Give the reason in one sentence; it is shown in the audit."
    return check_chars(stripped, REASON_CHARS_MAX, what="reason", hint=hint)
