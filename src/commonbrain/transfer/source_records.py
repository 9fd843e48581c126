"""Notes, receipts and the status of threads of a source, each applied once.

Importing the source again does not bring back a note that was removed, nor close a thread that was
opened since.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final, cast

from commonbrain.ingestion.batch import WriteContext
from commonbrain.model import ids
from commonbrain.model.errors import InvalidInputError, RejectedError
from commonbrain.model.kinds import Kind
from commonbrain.model.limits import NAME_CHARS_MAX, NOTE_CHARS_MAX, TAGS_MAX
from commonbrain.model.memory import IMPORTED, Memory
from commonbrain.model.messages import Thread, ThreadStatus, deliveries
from commonbrain.model.revision import Action
from commonbrain.model.scope import OnSecret, lowest
from commonbrain.model.timestamps import instant
from commonbrain.security.authority import agent_named, intrinsic_trust
from commonbrain.storage.change_log import annotation_image, record_related_change
from commonbrain.storage.interface import AccessEntry, Annotation
from commonbrain.text.normalisation import normalise
from commonbrain.transfer.importer import SourceAnnotation, SourceReceipt, SourceThread

if TYPE_CHECKING:
    from commonbrain.storage.store import Transaction

ANNOTATIONS: Final = "annotations"
RECEIPTS: Final = "receipts"
THREADS: Final = "thread status"
UNSTORED: Final = "notes, receipts and threads of what is not in the store"
EMPTY: Final = "annotations without a text that may be stored"
OF_OTHER_IMPORTS: Final = "receipts and threads of messages that this caller did not import"
OF_OTHERS: Final = "receipts of others: only an admin imports them"
_MESSAGES_READ_MAX: Final = 200
"""Messages of a thread that are read to see whether all are imported."""


def imported_from(memory: Memory) -> Mapping[str, str]:
    """Return format, importer and author of an imported memory; empty for any other."""
    return cast("Mapping[str, str]", memory.payload.get(IMPORTED, {}))


def is_importer(context: WriteContext, memory: Memory) -> bool:
    """Return whether the caller imported a memory, for itself or for its author."""
    return imported_from(memory).get("importer") == context.caller.agent


def source_time(context: WriteContext, given: datetime | None) -> datetime:
    """Return when something happened as a source says, at the latest now."""
    return context.now if given is None else min(instant(given), context.now)


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceText:
    """A text of a source as it is stored: empty if it cannot be."""

    text: str = ""
    losses: tuple[str, ...] = ()
    """What the report says that it lacks."""


def read_source_text(
    context: WriteContext, given: str, *, what: str, chars_max: int, prefix: str = ""
) -> SourceText:
    """Read a text of a source without secrets, after a prefix, up to a number of characters."""
    plain = normalise(given).strip()
    try:
        clean = context.services.secret_scanner.clean(
            plain, what=what, on_secret=OnSecret.REDACT
        ).strip()
    except (InvalidInputError, RejectedError):
        clean = ""
    if not clean:
        return SourceText()
    lost = {
        f"secrets and private parts in {what}s, redacted": clean != plain,
        f"{what}s cut to {chars_max:,} characters": len(prefix + clean) > chars_max,
    }
    losses = tuple(name for name, is_lost in lost.items() if is_lost)
    return SourceText(text=(prefix + clean)[:chars_max], losses=losses)


def may_import(context: WriteContext, record: SourceAnnotation | SourceReceipt) -> tuple[str, ...]:
    """Return under what names a record is counted, if its memory is in the store."""
    if isinstance(record, SourceAnnotation):
        note = _note(context, record)
        return (ANNOTATIONS, *note.losses) if note.text else (EMPTY,)
    if agent_named(record.agent, context.caller) != record.agent:
        return (OF_OTHERS,)
    return RECEIPTS, *_answer(context, record).losses


def annotate(
    context: WriteContext, memory: Memory, *, given: SourceAnnotation, writes: bool
) -> str | None:
    """Add a note to a memory; None if that was done before."""
    tx, caller = context.tx, context.caller
    agent, text = agent_named(given.author, caller), _note(context, given).text
    noted = {(one.agent, one.text) for one in tx.annotations.of([memory.id]).get(memory.id, ())}
    for change in tx.changes.of([memory.id]):
        image = cast("Mapping[str, Any]", change.after.get("annotation") or {})
        noted.add((image.get("agent", ""), image.get("text", "")))
    # Another importer of the same source stored it as its own, and named the author in the text.
    named = _note(context, given, is_named=given.author is not None).text
    if (agent, text) in noted or any(one == named for _, one in noted):
        return None
    if not writes:
        return ANNOTATIONS
    made = Annotation(
        memory_id=memory.id,
        text=text,
        agent=agent,
        trust=min(memory.trust, intrinsic_trust(caller), key=lambda trust: trust.weight),
        authority=lowest([memory.authority, caller.authority]),
        at=source_time(context, given.at),
    )
    image = annotation_image(replace(made, id=tx.annotations.add(made)))
    change_context = context.change_context(Action.ANNOTATE, None)
    record_related_change(
        tx, memory, change_context=change_context, before={}, after={"annotation": image}
    )
    return ANNOTATIONS


def _note(context: WriteContext, given: SourceAnnotation, *, is_named: bool = False) -> SourceText:
    """Return the text of a note; it names an author as whom the caller cannot act."""
    is_others = given.author not in {None, agent_named(given.author, context.caller)}
    prefix = f"{given.author}: " if is_named or is_others else ""
    return read_source_text(
        context, given.text, what="annotation", chars_max=NOTE_CHARS_MAX, prefix=prefix
    )


def _answer(context: WriteContext, given: SourceReceipt) -> SourceText:
    answer = given.answer or ""
    return read_source_text(context, answer, what="answer", chars_max=NOTE_CHARS_MAX)


def put_receipt(
    context: WriteContext, memory: Memory, *, given: SourceReceipt, writes: bool
) -> str | None:
    """Store who read and answered an imported message; None if that was done before."""
    if memory.kind is not Kind.MESSAGE or not is_importer(context, memory):
        return OF_OTHER_IMPORTS
    # As an import delivers it, see `commit`; any other is from the source, or was read here since.
    [delivered] = deliveries(memory, to=[given.agent], read_at=memory.recorded_at)
    there = context.tx.messages.of([memory.id]).get(memory.id, ())
    if any(one.agent == given.agent and one != delivered for one in there):
        return None
    acked_at = given.acked_at and source_time(context, given.acked_at)
    read_at = source_time(context, given.read_at) if given.read_at else acked_at
    answer = _answer(context, given).text or None
    answered = replace(delivered, read_at=read_at, acked_at=acked_at, answer=answer)
    if answered in there:
        return None
    if writes:
        context.tx.messages.put(answered)
    return RECEIPTS


def set_thread(context: WriteContext, given: SourceThread, *, writes: bool) -> str | None:
    """Set status and tags of an imported thread; None if that was done before."""
    tx = context.tx
    thread = tx.threads.with_key(given.key)
    tags = _tags(context, given)
    if thread is None and not writes:
        # A new thread is open and has no tags.
        return THREADS if given.is_closed or tags else None
    if thread is None:
        return UNSTORED
    changed = replace(
        thread,
        status=ThreadStatus.CLOSED if given.is_closed else thread.status,
        tags=tuple(dict.fromkeys((*thread.tags, *tags)))[:TAGS_MAX],
    )
    subject = ids.show(ids.THREAD, thread.id)
    if changed == thread or tx.credentials.is_noted(subject):
        return None
    if not _is_imported(context, tx, thread=thread):
        return OF_OTHER_IMPORTS
    if not writes:
        return THREADS
    tx.threads.set_status(thread.id, changed.status, tags=changed.tags)
    entry = AccessEntry.by(context.caller, "thread_status", at=context.now, subject=subject)
    tx.credentials.note(entry)
    return THREADS


def tags_beyond(context: WriteContext, given: SourceThread) -> Counter[str]:
    """Count the tags of a thread that exceed the limit."""
    beyond = max(len(_tags(context, given)) - TAGS_MAX, 0)
    return Counter({f"tags beyond the {TAGS_MAX} that a thread has": beyond})


def _tags(context: WriteContext, given: SourceThread) -> dict[str, None]:
    read = (
        read_source_text(context, one, what="tag", chars_max=NAME_CHARS_MAX).text
        for one in given.tags
    )
    return dict.fromkeys(filter(None, read))


def _is_imported(context: WriteContext, tx: Transaction, *, thread: Thread) -> bool:
    """Return whether the caller imported the messages of a thread: it closes no other."""
    messages = tx.threads.messages(
        thread.id, context.caller, now=context.now, below=ids.LAST, limit=_MESSAGES_READ_MAX
    )
    return all(is_importer(context, one) for one in tx.memories.get(messages).values())
