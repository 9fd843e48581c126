"""A batch of drafts: how strictly to check it, and what is prepared before it is stored."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from commonbrain.ingestion.idempotency import IdempotencyRecord
from commonbrain.ingestion.preparation import PreparedDraft
from commonbrain.ingestion.result import OnCommit
from commonbrain.ingestion.validation import Rejection
from commonbrain.model.memory import Memory, State


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteOptions:
    """How strictly to check one batch.

    Imports compare exact texts only, revisions skip their chain.
    """

    checks_similarity: bool = True
    redacts_messages: bool = False
    """Whether secrets in messages are redacted even if other texts with one are refused.

    Nobody can rephrase what was said in an imported conversation.
    """
    includes_past: bool = False
    """Whether a text of the same source counts as stored in any state.

    An import that is repeated must not bring back what was corrected or forgotten since.
    """
    exclude_ids: frozenset[int] = frozenset()
    revision_number: int = 0
    exempt_reports: bool = True
    """Whether action items allow messages, incidents and handoffs."""
    is_user_write: bool = True
    """Whether a user made the write: action items apply to it, and its sources count as used."""
    on_commit: OnCommit | None = None
    """Called in the transaction that stores the batch."""
    isolates_items: bool = False
    """Whether an error of one item is its result and leaves the others alone."""
    proposal: Mapping[str, object] | None = None
    """The payload if the author may only propose the text; it is stored as a proposal."""

    def as_proposal(self, memory: Memory) -> Memory:
        """Return the memory in the state of a proposal."""
        if self.proposal is None:
            return memory
        payload = {**memory.payload, **self.proposal}
        return replace(memory, state=State.QUARANTINED, payload=payload)


@dataclass(frozen=True, slots=True, kw_only=True)
class PreparedBatch:
    """Drafts of one call that are ready to be stored."""

    options: WriteOptions
    validated: Sequence[PreparedDraft | Rejection]
    """Each draft in order, as validated."""
    ready: Sequence[PreparedDraft]
    """Those that were not refused, embedded."""
    idempotency: IdempotencyRecord | None
    stages_ms: Mapping[str, float]
