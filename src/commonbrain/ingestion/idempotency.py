"""Idempotency: replies saved under a key, so that a call sent twice is executed once."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from commonbrain.ingestion.preparation import PreparedDraft
from commonbrain.ingestion.result import ItemResult, RememberResult
from commonbrain.ingestion.validation import Rejection
from commonbrain.model import ids
from commonbrain.model.errors import InvalidInputError, RejectedError
from commonbrain.model.limits import NAME_CHARS_MAX, REPLY_RETENTION_S
from commonbrain.storage.interface import QueryScope, StoredReply

if TYPE_CHECKING:
    from commonbrain.storage.store import Transaction


@dataclass(frozen=True, slots=True, kw_only=True)
class IdempotencyRecord:
    """The idempotency key of a call and the digest of its content."""

    key: str
    digest: str


def make_idempotency_record(
    key: str, gated: Sequence[PreparedDraft | Rejection]
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
    entries = [asdict(one.draft if isinstance(one, PreparedDraft) else one) for one in gated]
    written = json.dumps(entries, sort_keys=True, default=str)
    return IdempotencyRecord(key=key, digest=hashlib.sha256(written.encode()).hexdigest())


def replay_reply(
    tx: Transaction, idempotency: IdempotencyRecord, *, query_scope: QueryScope
) -> RememberResult | None:
    """Return the saved reply to this call; None if it was not made before.

    Raises:
        RejectedError: `idempotency_conflict`, the key was used with other content.

    """
    known = tx.records.reply(query_scope.caller.agent, idempotency.key)
    if known is None or known.at < query_scope.now - timedelta(seconds=REPLY_RETENTION_S):
        return None
    if known.digest != idempotency.digest:
        raise RejectedError(
            "This idempotency key was used for another text.",
            code="idempotency_conflict",
            hint="Give every new call a key of its own; repeat one only with the same content.",
        )
    return _read(known.body)


def save_reply(
    tx: Transaction,
    idempotency: IdempotencyRecord,
    *,
    reply: RememberResult,
    query_scope: QueryScope,
) -> None:
    """Save a reply, and delete expired ones."""
    tx.records.drop_replies(before=query_scope.now - timedelta(seconds=REPLY_RETENTION_S))
    named = [id_ for one in reply.items for id_ in _named(one)]
    tx.records.save_reply(
        StoredReply(
            agent=query_scope.caller.agent,
            key=idempotency.key,
            digest=idempotency.digest,
            body=asdict(reply),
            memory_ids=tuple(ids.parse(ids.MEMORY, id_) for id_ in named if id_),
            at=query_scope.now,
        )
    )


def _named(one: ItemResult) -> list[str | None]:
    """Return the ids of all memories quoted in a reply: erasing one of them deletes the reply."""
    related = (*one.derived, *one.similar, *one.conflicts, *one.changes, *one.suggestions)
    return [one.id, *(entries.id for entries in related)]


def _read(body: Mapping[str, Any]) -> RememberResult:
    # Few calls are sent twice, and the import takes longer than most of them.
    from pydantic import TypeAdapter  # noqa: PLC0415

    return TypeAdapter(RememberResult).validate_python(body)
