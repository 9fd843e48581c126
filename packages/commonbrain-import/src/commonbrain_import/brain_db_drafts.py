"""brain-db: the drafts of its rows, which its database and its JSON files share."""

import hashlib
from collections.abc import Collection, Iterator
from dataclasses import replace
from typing import Final

from commonbrain.model.kinds import (
    AtomDetail,
    EventDetail,
    Kind,
    MessageDetail,
    MessagePriority,
    TaskDetail,
    TaskPriority,
    TaskStatus,
)
from commonbrain.model.limits import SOURCE_REF_CHARS_MAX
from commonbrain.model.memory import Draft, ThreadRef
from commonbrain.text.classification import classify
from commonbrain.transfer.importer import (
    OmittedContent,
    SourceReceipt,
    name_or_none,
    shorten_name,
    source_reference,
)
from commonbrain_import.rows import (
    Row,
    choice_in,
    names_in,
    number_in,
    share_in,
    text_in,
    time_in,
    whole_in,
)

_IMPORTANCE_MAX: Final = 3.0
"""The scale of brain-db's importance: 1 is normal, 2 is kept, 3 is critical."""
_DIGEST_CHARS: Final = 16
"""As many as `embeddings_manager.memory_id` takes, so that references agree."""
_PRIORITIES: Final = {"urgent": TaskPriority.HIGH, "critical": TaskPriority.HIGH}
_DEFAULT_SOURCE: Final = "agent"
_NO_AGENTS: Final = frozenset(
    {_DEFAULT_SOURCE, "auto", "collection", "manual", "migrated", "stm", "system", "unknown"}
)
"""Sources that brain-db's programs write, which are no agents."""
_STATUSES: Final = {"completed": TaskStatus.DONE, "cancelled": TaskStatus.DONE}


def _dated(row: Row, where: str, *times: str) -> Draft:
    """Return the draft of a row without a text: its reference, and when it was written."""
    time = time_in(row, *times)
    return Draft(body="", source_ref=where, occurred_at=time, believed_since=time)


def message_drafts(row: Row, thread: Row) -> Iterator[Draft]:
    """Make a message; the state, context and result of a delegated task follow its text."""
    state = text_in(row, "task_status")
    named = (
        ("task", state),
        ("context", text_in(row, "context")),
        ("result", text_in(row, "result")),
    )
    further = [f"[{what}] {text}" for what, text in named if text]
    body = "\n\n".join(filter(None, (text_in(row, "body"), *further)))
    subject = text_in(row, "subject")
    sender = name_or_none(text_in(row, "from_agent", "from"))
    yield replace(
        _dated(row, reference(f"message/{text_in(row, 'id')}"), "created_at", "timestamp"),
        body=body,
        kind=Kind.MESSAGE,
        tags=names_in(thread.get("tags")),
        expires_at=time_in(row, "expires_at"),
        author=sender,
        thread=_thread_ref(text_in(row, "thread_id"), text_in(thread, "subject") or subject),
        detail=MessageDetail(
            sender=sender,
            recipients=recipients_in(row),
            subject=source_reference(subject, "") if subject else None,
            priority=choice_in(row, "priority", default=MessagePriority.INFO),
        ),
    )


def recipients_in(row: Row) -> tuple[str, ...]:
    """Return the recipients that a message names; none if it is for all."""
    receiver = text_in(row, "to_agent", "to")
    return () if receiver == "all" else names_in(receiver)


def unread_by(row: Row, readers: Collection[str]) -> Iterator[SourceReceipt]:
    """Make receipts without a time, of the recipients that are not among the readers."""
    message = reference(f"message/{text_in(row, 'id')}")
    waiting = (one for one in recipients_in(row) if one not in readers)
    return (SourceReceipt(message=message, agent=one) for one in waiting)


def _thread_ref(id_: str, subject: str) -> ThreadRef:
    shown = subject or f"brain-db thread {id_}"
    return ThreadRef(key=thread_key(id_), subject=source_reference(shown, ""))


def thread_key(id_: str) -> str:
    """Return the key of a thread."""
    return reference(f"thread/{id_}")


def receipts(row: Row) -> Iterator[SourceReceipt]:
    """Make the receipt of a reader, or of an acknowledgement with its text, if it has one."""
    yield SourceReceipt(
        message=reference(f"message/{text_in(row, 'message_id')}"),
        agent=shorten_name(text_in(row, "agent_id") or "unknown"),
        read_at=time_in(row, "read_at", "acked_at"),
        acked_at=time_in(row, "acked_at"),
        answer=text_in(row, "ack_body") or None,
    )


def answer_drafts(row: Row, message: Row) -> Iterator[Draft]:
    """Make a message of the text of an acknowledgement."""
    agent = text_in(row, "agent_id")
    thread = text_in(message, "thread_id") or text_in(row, "message_id")
    yield replace(
        _dated(row, reference(f"ack/{text_in(row, 'message_id')}/{agent}"), "acked_at"),
        body=text_in(row, "ack_body"),
        kind=Kind.MESSAGE,
        author=name_or_none(agent),
        thread=_thread_ref(thread, text_in(message, "subject")),
        detail=MessageDetail(sender=name_or_none(agent)),
    )


def memory_drafts(row: Row) -> Iterator[Draft | OmittedContent]:
    """Make an event of an entry of short-term memory."""
    importance = number_in(row, "importance")
    categories = row.get("categories") or row.get("category")
    yield replace(
        _dated(row, memory_ref(row), "created_at", "timestamp"),
        body=text_in(row, "content"),
        kind=Kind.EVENT,
        label="stm",
        confidence=share_in(row, "confidence"),
        tags=names_in(categories),
        access_count=max(whole_in(row, "access_count"), 0),
        last_access_at=time_in(row, "last_accessed"),
        expires_at=time_in(row, "expires_at"),
        author=_author_in(row),
        detail=EventDetail(
            importance=None
            if importance is None
            else min(max(importance / _IMPORTANCE_MAX, 0.0), 1.0)
        ),
    )
    yield from _omitted_source(row)


def _author_in(row: Row) -> str | None:
    """Return the agent that a source names; None if it names a program or a way."""
    source = text_in(row, "source").removeprefix("synapse:")
    return None if source in _NO_AGENTS or ":" in source else name_or_none(source)


def _omitted_source(row: Row) -> Iterator[OmittedContent]:
    """Count a source that names no agent, unless it is what brain-db writes if none is given."""
    if text_in(row, "source") not in {"", _DEFAULT_SOURCE} and _author_in(row) is None:
        yield OmittedContent(what="sources that name no agent")


def memory_ref(row: Row) -> str:
    """Return the reference of an entry: its id, or a digest where `migrate.py` made the id."""
    id_ = text_in(row, "id")
    if id_ and not id_.startswith(("stm_mig_", "emb_")):
        return reference(f"stm/{id_}")
    made = f"{row.get('content') or ''}{text_in(row, 'created_at', 'timestamp')}"
    return reference(f"stm/{_digest(made)}")


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()[:_DIGEST_CHARS]


def atom_drafts(row: Row) -> Iterator[Draft | OmittedContent]:
    """Make an atom, whose text has all its fields in full."""
    fields = {one: text_in(row, one) for one in ("subject", "action", "outcome", "consequences")}
    body = " | ".join(filter(None, fields.values()))
    shortened = {one: text[:SOURCE_REF_CHARS_MAX] or None for one, text in fields.items()}
    yield replace(
        _dated(row, reference(f"atom/{text_in(row, 'id')}"), "created_at"),
        body=body,
        kind=Kind.ATOM,
        confidence=share_in(row, "confidence"),
        occurred_at=time_in(row, "action_timestamp", "created_at"),
        access_count=max(whole_in(row, "access_count"), 0),
        author=_author_in(row),
        detail=AtomDetail(
            **shortened,
            outcome_delay_s=number_in(row, "outcome_delay_seconds"),
            consequence_delay_s=number_in(row, "consequence_delay_seconds"),
        ),
    )
    yield from _omitted_source(row)


def pin_drafts(row: Row) -> Iterator[Draft]:
    """Make a memory of a pin; its words decide its kind."""
    body, label = text_in(row, "content"), text_in(row, "label")
    yield replace(
        _dated(row, reference(f"pin/{_digest(body)}"), "pinned_at", "pinnedAt"),
        body=body,
        kind=classify(body),
        label="pin",
        pinned=True,
        headline=label or None,
    )


def task_drafts(row: Row) -> Iterator[Draft]:
    """Make a task with its description."""
    title = text_in(row, "title")
    body = "\n\n".join(filter(None, (title, text_in(row, "description"))))
    status, priority = text_in(row, "status").lower(), text_in(row, "priority").lower()
    yield replace(
        _dated(row, reference(f"todo/{text_in(row, 'id')}"), "created_at"),
        body=body,
        kind=Kind.TASK,
        headline=title or None,
        tags=names_in(row.get("tags")),
        detail=TaskDetail(
            status=choice_in(row, "status", default=_STATUSES.get(status, TaskStatus.OPEN)),
            priority=choice_in(
                row, "priority", default=_PRIORITIES.get(priority, TaskPriority.MEDIUM)
            ),
            due_at=time_in(row, "due_at"),
            assignee=name_or_none(text_in(row, "assigned_to")),
        ),
    )


def insight_drafts(row: Row) -> Iterator[Draft]:
    """Make a fact of an insight, with its title."""
    title = text_in(row, "title")
    yield replace(
        _dated(row, reference(f"insight/{text_in(row, 'id')}"), "generated_at", "created_at"),
        body="\n\n".join(filter(None, (title, text_in(row, "body")))),
        kind="insight",
        confidence=share_in(row, "confidence"),
        tags=names_in([text_in(row, "type")]),
        expires_at=time_in(row, "expires_at"),
    )


def category_drafts(row: Row) -> Iterator[Draft]:
    """Make a fact of the description of a category and its keywords."""
    named, keywords = text_in(row, "name"), names_in(row.get("keywords"))
    first = f"Category {named}: {text_in(row, 'description')}".rstrip(": ")
    yield replace(
        _dated(row, reference(f"category/{named}"), "created_at"),
        body=f"{first}\nKeywords: {', '.join(keywords)}" if keywords else first,
        kind=Kind.FACT,
        label="category",
        tags=names_in([named]),
    )


def reference(place: str) -> str:
    """Return the reference of a place in brain-db."""
    return source_reference("brain-db", place)
