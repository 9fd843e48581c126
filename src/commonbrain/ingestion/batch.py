"""A batch of drafts: how strictly to check it, what is prepared of it, and its saved reply."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Final

from commonbrain.ingestion.preparation import PreparedDraft
from commonbrain.ingestion.result import OnCommit, RememberResult
from commonbrain.ingestion.validation import Rejection
from commonbrain.model import ids
from commonbrain.model.errors import InvalidInputError, RejectedError
from commonbrain.model.limits import ITEMS_PER_CALL_MAX, NAME_CHARS_MAX, REPLY_RETENTION_S
from commonbrain.model.memory import Memory, State
from commonbrain.model.query import FeedbackEvent, FeedbackMark, Filter
from commonbrain.model.revision import Action
from commonbrain.model.scope import Caller
from commonbrain.services import Services
from commonbrain.storage.change_log import ChangeContext, record_feedback
from commonbrain.storage.interface import QueryScope, StoredReply

if TYPE_CHECKING:
    from commonbrain.storage.store import Transaction


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


DEFAULT_OPTIONS: Final = WriteOptions()


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteContext:
    """A transaction of one caller, its time, and how strictly it checks what is written."""

    tx: Transaction
    services: Services
    caller: Caller
    now: datetime
    options: WriteOptions = DEFAULT_OPTIONS

    def query_scope(self, criteria: Filter) -> QueryScope:
        """Limit a search to what the caller may see now."""
        return QueryScope(caller=self.caller, filter=criteria, now=self.now)

    def credit(self, ids: Sequence[int], *, mark: FeedbackMark) -> None:
        """Record feedback on the latest recall of the session that showed these memories."""
        use = FeedbackEvent.by(self.caller, ids, mark=mark, at=self.now)
        record_feedback(self.tx, self.services, use=use)

    def change_context(self, action: Action, reason: str | None) -> ChangeContext:
        """Return action, agent, time and reason for the records of the change."""
        return ChangeContext(action=action, caller=self.caller, at=self.now, reason=reason)


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


@dataclass(frozen=True, slots=True, kw_only=True)
class IdempotencyRecord:
    """The idempotency key of a call and the digest of its content."""

    key: str
    digest: str


def make_idempotency_record(
    key: str, validated: Sequence[PreparedDraft | Rejection]
) -> IdempotencyRecord:
    """Create the record of a call; the digest is of the redacted text, so it reveals no secret.

    Raises:
        InvalidInputError: the key is empty, too long or not printable.

    """
    if not (0 < len(key) <= NAME_CHARS_MAX and key.isprintable()):
        raise InvalidInputError(
            f"The idempotency key has {len(key)} characters.",
            hint=f"Give 1 to {NAME_CHARS_MAX} printable ones.",
        )
    entries = [
        asdict(item.draft if isinstance(item, PreparedDraft) else item) for item in validated
    ]
    written = json.dumps(entries, sort_keys=True, default=str)
    return IdempotencyRecord(key=key, digest=hashlib.sha256(written.encode()).hexdigest())


def replay_reply(context: WriteContext, idempotency: IdempotencyRecord) -> RememberResult | None:
    """Return the saved reply to this call; None if it was not made before.

    Raises:
        RejectedError: `idempotency_conflict`, the key was used with other content.

    """
    saved = context.tx.records.reply(context.caller.agent, idempotency.key)
    if saved is None or saved.at < context.now - timedelta(seconds=REPLY_RETENTION_S):
        return None
    if saved.digest != idempotency.digest:
        raise RejectedError(
            "This idempotency key was used for another text.",
            code="idempotency_conflict",
            hint="Give every new call a key of its own; repeat one only with the same content.",
        )
    # Few calls are sent twice, and the import takes longer than most of them.
    from pydantic import TypeAdapter  # noqa: PLC0415

    return TypeAdapter(RememberResult).validate_python(saved.body)


def save_reply(
    context: WriteContext, idempotency: IdempotencyRecord, *, reply: RememberResult
) -> None:
    """Save a reply, and delete expired ones."""
    # Erasing a memory deletes every reply that quotes it.
    quoted: list[str | None] = []
    for item in reply.items:
        related = (*item.derived, *item.similar, *item.conflicts, *item.changes, *item.suggestions)
        quoted += [item.id, *(memory.id for memory in related)]
    records = context.tx.records
    records.drop_replies(before=context.now - timedelta(seconds=REPLY_RETENTION_S))
    records.save_reply(
        StoredReply(
            agent=context.caller.agent,
            key=idempotency.key,
            digest=idempotency.digest,
            body=asdict(reply),
            memory_ids=tuple(ids.parse(ids.MEMORY, id_) for id_ in quoted if id_),
            at=context.now,
        )
    )


def check_item_count(count: int) -> None:
    """Check the number of items of one call.

    Raises:
        RejectedError: `limit_exceeded`.

    """
    if count > ITEMS_PER_CALL_MAX:
        raise RejectedError(
            f"{count} items were given; {ITEMS_PER_CALL_MAX} a call are allowed.",
            code="limit_exceeded",
            hint="Send them in several calls, or use import.",
        )
