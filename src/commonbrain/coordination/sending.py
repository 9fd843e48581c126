"""Sending: a message through every stage of the write path, into its thread and to its readers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Final, TypedDict

from commonbrain.history.unit_of_work import Act
from commonbrain.ingestion.commit import open_thread
from commonbrain.ingestion.preparation import Prepared, embed, prepare
from commonbrain.ingestion.result import Part
from commonbrain.ingestion.secret_scanning import screened
from commonbrain.ingestion.service import Course, Remember
from commonbrain.ingestion.validation import Rejected, derive_headline
from commonbrain.model import ids
from commonbrain.model.errors import Invalid, NotFound, Refused, one_of
from commonbrain.model.kinds import Kind, MessageDetail, MessagePriority
from commonbrain.model.limits import NAME_CHARS_MAX, RECIPIENTS_MAX, SUBJECT_CHARS_MAX
from commonbrain.model.memory import Draft, Memory, ThreadRef
from commonbrain.model.messages import Reader, Receipt
from commonbrain.model.query import Filter
from commonbrain.model.scope import EVERYBODY, NOBODYS_NAMES, Caller, Scope
from commonbrain.model.timestamps import instant
from commonbrain.services import House
from commonbrain.storage.interface import Transaction
from commonbrain.storage.job_queue import await_vectors
from commonbrain.text.normalisation import normalise_line

_ALONE: Final = Filter(trust_min=0.0)


class Envelope(TypedDict, total=False):
    """What may stand on a message beside whom it is for and what it says."""

    subject: str | None
    priority: MessagePriority | str
    thread: str | None
    """An id, to go on with a conversation; without one a message begins its own."""
    project: str | None
    """Instead of the sender's; a broadcast reaches who works in it."""
    expires_at: datetime | str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Sent:
    """A message that is stored and delivered."""

    id: str
    thread: str
    to: tuple[str, ...]
    """Names, or `*` for everybody."""
    derived: tuple[Part, ...] = ()
    """What became of what its text marks to be remembered."""
    warnings: tuple[str, ...] = ()
    embedding_pending: bool = False
    task: str | None = None
    """The task that it delegates."""


def addressed(to: Sequence[str] | str, caller: Caller, *, house: House) -> tuple[str, ...]:
    """Read whom a message is for: names, each once and without the sender's; none is everybody.

    Raises:
        Invalid: a name is none, there are too many, or nobody is left.

    """
    given = (to,) if isinstance(to, str) else to
    if len(given) > RECIPIENTS_MAX:
        raise Invalid(
            f"{len(given)} recipients; {RECIPIENTS_MAX} are allowed.", hint="Send it to all."
        )
    names = [screened(_name(one), what="recipient", house=house) for one in given]
    if NOBODYS_NAMES.intersection(names):
        return ()
    others = tuple(dict.fromkeys(name for name in names if name != caller.agent))
    if not others:
        raise Invalid(
            "The message is for nobody but its sender." if names else "The message is for nobody.",
            hint="Name other agents, or all.",
        )
    return others


def draft_of(
    body: str,
    *,
    to: tuple[str, ...],
    told: Envelope,
    caller: Caller,
    parent: Memory | None = None,
) -> Draft:
    """Put a message together; no recipients make it a broadcast that the team sees.

    Raises:
        Invalid: the priority, the time or the subject is none.

    """
    subject = normalise_line(told.get("subject"))
    if subject is not None and len(subject) > SUBJECT_CHARS_MAX:
        raise Invalid(
            f"The subject has {len(subject)} characters; {SUBJECT_CHARS_MAX} are allowed."
        )
    expires_at = told.get("expires_at")
    detail = MessageDetail(
        sender=caller.agent,
        recipients=to,
        subject=subject,
        priority=one_of(MessagePriority, told.get("priority") or MessagePriority.INFO),
        parent_id=None if parent is None else parent.id,
    )
    return Draft(
        body=body,
        kind=Kind.MESSAGE,
        headline=None if subject is None else derive_headline(subject),
        project=told.get("project"),
        scope=Scope.PRIVATE if to else Scope.TEAM,
        expires_at=instant(expires_at) if expires_at else None,
        detail=detail,
    )


def thread_of(told: Envelope) -> int | None:
    """Read which conversation a message goes on with; None begins one.

    Raises:
        Invalid: it is no id of a thread.

    """
    thread = told.get("thread")
    return ids.parse(ids.THREAD, thread) if thread else None


def prepared(draft: Draft, caller: Caller, *, house: House) -> Prepared:
    """Take a draft through the gate.

    Raises:
        Refused: it holds a secret, is too long, or says nothing of its own.

    """
    ready = prepare(draft, caller, house=house)
    if isinstance(ready, Rejected):
        raise Refused(ready.reason, code=ready.code, hint=ready.hint)
    return ready


def embedded(ready: Sequence[Prepared], house: House) -> list[Prepared]:
    """Give what is ready its vectors; while the embedder is down it is found by its words."""
    done = embed(ready, house.embedder)
    if any(one.vectors is None for one in done):
        house.is_behind.set()
    return done


def deliver(act: Act, ready: Prepared, *, thread: int | None) -> Sent:
    """Store a message in its thread and put it into the mailboxes, all in one transaction.

    Raises:
        Invalid: there is no such thread, or the caller may see nothing of it.

    """
    detail = ready.admitted.detail
    if not isinstance(detail, MessageDetail):
        raise TypeError("Only a message is delivered.")
    within = _begin(act, ready) if thread is None else thread
    told = replace(detail, thread_id=within)
    ready = replace(ready, admitted=replace(ready.admitted, detail=told))
    writer = Remember(act.house, act.caller)
    outcome = writer.settle(act.tx, ready, look=act.look(_ALONE), course=Course())
    id_ = outcome.id or ""
    if not told.recipients:
        everybody = Receipt(
            message_id=ids.parse(ids.MEMORY, id_),
            agent=EVERYBODY,
            sender=act.caller.agent,
            project=ready.project,
            is_urgent=told.priority is MessagePriority.URGENT,
        )
        act.tx.mail.post([everybody])
    act.tx.mail.open(reader_of(act))
    if act.house.store.moved_to or outcome.embedding_pending:
        await_vectors(act.tx, act.house, caller=act.caller)
    return Sent(
        id=id_,
        thread=ids.show(ids.THREAD, within),
        to=told.recipients or (EVERYBODY,),
        derived=outcome.derived,
        warnings=outcome.warnings,
        embedding_pending=outcome.embedding_pending,
    )


def reader_of(act: Act) -> Reader:
    """Give the caller as a reader of mail."""
    return Reader(agent=act.caller.agent, project=act.caller.project, now=act.now)


def check_thread(tx: Transaction, caller: Caller, *, thread_id: int, now: datetime) -> None:
    """Let a caller into a thread of which it sees something.

    Raises:
        NotFound: there is none, or the caller sees nothing of it; the two look the same.

    """
    if not tx.threads.messages(thread_id, caller, now=now, below=ids.LAST, limit=1):
        raise NotFound(
            f"No thread {ids.show(ids.THREAD, thread_id)}.",
            hint="Ask for the threads there are.",
        )


def _begin(act: Act, ready: Prepared) -> int:
    """Begin a thread that is called as its first message is."""
    detail = ready.admitted.detail
    subject = detail.subject if isinstance(detail, MessageDetail) else None
    drawn = ids.make_id(act.now, act.house.chance.bits(ids.RANDOM_BITS))
    begun = ThreadRef(key=ids.show(ids.THREAD, drawn), subject=subject or ready.admitted.headline)
    return open_thread(act.tx, begun, project=ready.project, now=act.now, chance=act.house.chance)


def _name(given: str) -> str:
    """Read the name of an agent.

    Raises:
        Invalid: it is empty or too long.

    """
    name = normalise_line(given) or ""
    if not 0 < len(name) <= NAME_CHARS_MAX:
        raise Invalid(
            f"The recipient {name[:40]!r} has {len(name)} characters.",
            hint=f"Give 1 to {NAME_CHARS_MAX}.",
        )
    return name
