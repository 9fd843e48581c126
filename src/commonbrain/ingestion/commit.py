"""The last stage: write a memory and everything that belongs to it in the caller's transaction."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Final

from commonbrain.ingestion.batch import WriteContext
from commonbrain.ingestion.failures import failure_marks
from commonbrain.ingestion.preparation import PreparedDraft
from commonbrain.model import ids
from commonbrain.model.attachments import with_attachment
from commonbrain.model.citations import citing_topics
from commonbrain.model.errors import InvalidInputError
from commonbrain.model.kinds import (
    ASSISTANT_ROLES,
    Detail,
    EventDetail,
    FactDetail,
    Kind,
    MessageDetail,
    TaskDetail,
)
from commonbrain.model.links import link_image
from commonbrain.model.memory import (
    AUDIENCE,
    AWAITING_STATES,
    GIVEN_TIME,
    IMPORTED,
    SECTION,
    Draft,
    Memory,
    State,
    ThreadRef,
    confidence,
    effective_time,
)
from commonbrain.model.messages import deliveries
from commonbrain.model.revision import Action
from commonbrain.model.scope import Caller, Scope, Trust
from commonbrain.model.support import SUPPORTS
from commonbrain.model.tasks import must_be_acknowledged
from commonbrain.model.timestamps import instant, show_instant
from commonbrain.security.authority import approved, awaits_person
from commonbrain.storage.change_log import record_created, record_related_change, record_update
from commonbrain.storage.interface import IdTaken
from commonbrain.text.preferences import guidance_in, mark_of
from commonbrain.text.salience import recurring, salience
from commonbrain.text.time_expressions.mentions import date_marks, day_marks

_MAY_REST: Final = frozenset({Kind.FACT, Kind.EVENT})
"""Kinds whose memories may start archived: a rule binds and a task waits, however short."""
_COUNT_MAX: Final = 1_000_000
"""Far above what accesses and votes change; an imported source may give any number."""
_DRAWS = 16
"""Ids to try: two million fit into a millisecond, so the first is nearly always free."""


def build_memory(
    prepared: PreparedDraft, caller: Caller, *, now: datetime, revision: int = 0
) -> Memory:
    """Build the row of an accepted draft, without an id; `revision` counts earlier values."""
    draft, admitted = prepared.draft, prepared.admitted
    given_time = instant(draft.occurred_at) if draft.occurred_at else now
    occurred_at = effective_time(given_time, now=now)
    is_future = occurred_at != given_time
    salient = _salience(prepared)
    return Memory(
        id=0,
        kind=admitted.kind,
        label=admitted.label,
        headline=admitted.headline,
        body=admitted.body,
        detail=admitted.detail,
        state=_initial_state(prepared, salient=salient, is_revision=revision > 0),
        superseded_count=revision,
        scope=prepared.scope,
        project=prepared.project,
        agent=prepared.agent,
        session=caller.session,
        trust=prepared.trust,
        authority=prepared.authority,
        confidence=_confidence(prepared),
        salience=salient,
        rating=max(-_COUNT_MAX, min(draft.rating, _COUNT_MAX)),
        # As for `pin`, an untrusted source cannot make its own text last.
        pinned=draft.pinned and prepared.trust is not Trust.UNTRUSTED_WEB,
        tags=prepared.entities.tags,
        people=prepared.entities.people,
        topics=(
            *_topics(prepared),
            *dict.fromkeys((*date_marks(prepared.text, occurred_at), *day_marks(given_time, now))),
        ),
        references=prepared.entities.references,
        source_ref=draft.source_ref,
        source_message_id=draft.source_message_id,
        auto_captured=draft.auto_captured,
        semantic_hash=prepared.semantic_hash,
        recorded_at=now,
        occurred_at=occurred_at,
        expires_at=_expiry(draft, admitted.detail, now=now),
        access_count=min(max(draft.access_count, 0), _COUNT_MAX),
        last_access_at=_past(draft.last_access_at, now=now),
        believed_since=_past(draft.believed_since, now=now),
        payload=with_attachment(
            _payload(prepared, caller)
            | ({GIVEN_TIME: given_time.isoformat()} if is_future else {}),
            draft.attachment,
        ),
    )


def _past(given: datetime | None, *, now: datetime) -> datetime | None:
    """Return a time that an imported source gives, at the latest now."""
    return min(instant(given), now) if given else None


def _confidence(prepared: PreparedDraft) -> float:
    """Return the confidence that the author gives, as far as they may, or that of the rule."""
    draft, kind, parameters = prepared.draft, prepared.admitted.kind, prepared.parameters
    is_sourced, given = draft.source_ref is not None, draft.confidence
    computed = confidence(
        kind, prepared.text, trust=prepared.trust, is_sourced=is_sourced, parameters=parameters
    )
    if given is None:
        return computed
    # An author may be less certain than the rule, never more.
    ceiling = computed if prepared.trust is Trust.UNTRUSTED_WEB else 1.0
    return min(ceiling, given if is_sourced else parameters.given_confidence(kind, given))


def future_warnings(draft: Draft, now: datetime) -> tuple[str, ...]:
    """Return the warning for a draft with a time in the future, if it has one."""
    if draft.occurred_at is None:
        return ()
    given_time = instant(draft.occurred_at)
    if effective_time(given_time, now=now) == given_time:
        return ()
    return (
        f"occurred_at {show_instant(given_time)} is in the future: the memory is found by that day "
        "and ordered by now. If it is a mistake, supersede it; brain doctor lists such memories.",
    )


def _topics(prepared: PreparedDraft) -> Iterator[str]:
    """Yield the topics of a draft, without its dates."""
    yield from prepared.entities.topics
    yield from _marks(prepared)
    yield from failure_marks(prepared.draft.attachment)
    yield from citing_topics(prepared.seen)


def _marks(prepared: PreparedDraft) -> list[str]:
    """List the topics that mark an instruction or preference.

    What an assistant advises and what the web demands is nobody's wish.
    """
    detail = prepared.admitted.detail
    speaker = detail.sender if isinstance(detail, MessageDetail) else None
    is_advice = speaker is not None and speaker.casefold() in ASSISTANT_ROLES
    if is_advice or prepared.trust is Trust.UNTRUSTED_WEB:
        return []
    return sorted(map(mark_of, guidance_in(prepared.text)))


def commit(context: WriteContext, memory: Memory, *, prepared: PreparedDraft) -> Memory:
    """Write row, thread, index, audit and event; return the memory with its id.

    Raises:
        LimitExceededError: `quota_exceeded`, the tenant's quota is used up.

    """
    tx, services = context.tx, context.services
    is_new = not memory.superseded_count or memory.state in AWAITING_STATES
    if is_new and services.guard is not None:
        # A replacement needs no quota, so a full tenant can still correct its memories.
        services.guard.reserve(context.caller, tx)
    last = 0
    if isinstance(memory.detail, MessageDetail):
        if prepared.draft.thread is not None:
            thread_id = open_thread(
                context,
                prepared.draft.thread,
                project=memory.project,
                agent=memory.speaker or memory.agent,
            )
            memory = replace(memory, detail=replace(memory.detail, thread_id=thread_id))
        # Ids must follow the order of messages whatever a process's clock says: readers acknowledge
        # broadcasts up to an id and would miss one that arrived later with a lower id.
        last = tx.threads.last()
    memory = _add(context, memory, last=last)
    if memory.audience:
        # A message is delivered; what was extracted from it is only visible, and mail of a source
        # was read there, unless it says otherwise.
        is_new_mail = memory.kind is Kind.MESSAGE and IMPORTED not in memory.payload
        read_at = None if is_new_mail else memory.recorded_at
        tx.messages.post(deliveries(memory, to=memory.audience, read_at=read_at))
    if memory.state not in AWAITING_STATES:
        tx.index.put(memory, prepared.vectors)
    why = prepared.draft.distinct_because
    record_created(tx, memory, change_context=context.change_context(Action.CREATE, why))
    return memory


_OF_AUTHOR: Final = (
    *("agent", "auto_captured", "confidence", "detail", "expires_at", "headline", "label"),
    *("occurred_at", "payload", "people", "salience", "source_message_id", "source_ref"),
    *("tags", "topics"),
)
"""What an author says of a text; pins and votes are of those who read it."""


def confirm(
    context: WriteContext, known: Memory, *, prepared: PreparedDraft, is_held: bool
) -> Memory:
    """Make a stored text that a person wrote again theirs; return it as it is now.

    It has their authority, and what they say of it instead of what its first author did; one that
    was held back is approved.
    """
    own = build_memory(prepared, context.caller, now=context.now)
    theirs = {name: getattr(own, name) for name in _OF_AUTHOR}
    confirmed = replace(known, authority=prepared.authority, **theirs)
    if is_held:
        confirmed = approved(
            confirmed, context.caller, parameters=prepared.parameters, now=context.now
        )
    record_update(
        context.tx,
        known,
        after=confirmed,
        change_context=context.change_context(Action.APPROVE, "written again"),
        vectors=prepared.vectors,
    )
    _drop_supports(context, confirmed)
    return confirmed


def _drop_supports(context: WriteContext, memory: Memory) -> None:
    """Remove what a lower authority rested a memory on that a higher one wrote again."""
    for link in context.tx.links.touching([memory.id], types=SUPPORTS):
        if link.from_id == memory.id and not link.authority.covers(memory.authority):
            context.tx.links.drop(link.from_id, link.to_id, type_=link.type)
            record_related_change(
                context.tx,
                memory,
                change_context=context.change_context(Action.UNLINK, "written again"),
                before={"link": link_image(link)},
                after={},
            )


def count_recurrence(context: WriteContext, known: Memory, *, own: Memory | None = None) -> int:
    """Count another occurrence of an event; return the number of recurrences.

    If it is stored as a memory of its own, the reason of the change names that.
    """
    detail = known.detail
    if not isinstance(detail, EventDetail):
        return 0
    counted = replace(detail, recurrences=detail.recurrences + 1)
    raised = known.salience
    # A salience set by the author stays.
    if detail.importance is None:
        raised = recurring(raised, recurrences=counted.recurrences)
    again = replace(known, detail=counted, salience=raised)
    reason = f"as {ids.show(ids.MEMORY, own.id)}" if own else None
    change_context = context.change_context(Action.RECUR, reason)
    record_update(context.tx, known, after=again, change_context=change_context)
    return counted.recurrences


def open_thread(
    context: WriteContext, thread: ThreadRef, *, project: str | None, agent: str
) -> int:
    """Return the id of the thread with this key; the agent begins it if necessary."""
    for drawn in _draws(context, context.now):
        with suppress(IdTaken):
            return context.tx.threads.open(
                thread, project, new_id=drawn, now=context.now, agent=agent
            )
    raise _random_source_error()


def _initial_state(prepared: PreparedDraft, *, salient: float, is_revision: bool) -> State:
    """Quarantine what would bind or reach more than its authority may without a person.

    A fact or event that says too little is archived, unless its source pinned or weighed it, or it
    corrects another.
    """
    if prepared.draft.is_candidate:
        return State.CANDIDATE
    kind, detail = prepared.admitted.kind, prepared.admitted.detail
    # A task that was only extracted from a text must not block anyone.
    is_extracted = must_be_acknowledged(detail) and prepared.draft.auto_captured
    authority = prepared.authority
    if is_extracted or awaits_person(kind, detail, scope=prepared.scope, authority=authority):
        return State.QUARANTINED
    is_low = salient < prepared.parameters.salience_min
    is_given = prepared.draft.pinned or prepared.draft.salience is not None
    may_rest = kind in _MAY_REST and not (is_given or is_revision)
    return State.ARCHIVED if is_low and may_rest else State.ACTIVE


def _payload(prepared: PreparedDraft, caller: Caller) -> dict[str, object]:
    """Name the other readers of a private memory, its section, code and origin if imported.

    A message names its recipients itself.
    """
    draft = prepared.draft
    is_shared = draft.audience and prepared.scope is Scope.PRIVATE
    is_message = prepared.admitted.kind is Kind.MESSAGE
    payload = {**prepared.seen}
    if is_shared and not is_message:
        payload[AUDIENCE] = list(draft.audience)
    if draft.section:
        payload[SECTION] = draft.section
    if draft.imported_from is not None:
        author = {"author": draft.author} if draft.author else {}
        source = {"source_ref": draft.original_ref} if draft.original_ref else {}
        payload[IMPORTED] = {
            "format": draft.imported_from,
            "importer": caller.agent,
            **author,
            **source,
        }
    return payload


def _salience(prepared: PreparedDraft) -> float:
    """Return the salience; an imported source or the author of an event may have set it."""
    detail = prepared.admitted.detail
    if prepared.draft.salience is not None:
        return min(max(prepared.draft.salience, 0.0), 1.0)
    if isinstance(detail, EventDetail) and detail.importance is not None:
        return detail.importance
    if prepared.salience is not None:
        return prepared.salience
    return salience(
        prepared.admitted.kind,
        prepared.text,
        due=isinstance(detail, TaskDetail) and detail.due_at is not None,
        entities=prepared.entities.count,
    )


def check_expiry(draft: Draft, now: datetime) -> None:
    """Refuse a memory that would never be recalled, unless it was valid in the past.

    Raises:
        InvalidInputError: it has expired already, and did not happen before.

    """
    if draft.expires_at is None:
        return
    expires_at = instant(draft.expires_at)
    since = instant(draft.occurred_at) if draft.occurred_at else now
    if expires_at <= min(now, since):
        raise InvalidInputError(
            f"It would have expired already, on {show_instant(expires_at)}.",
            hint="Give a later time. If it was valid in the past, also give occurred_at.",
        )


def _expiry(draft: Draft, detail: Detail, *, now: datetime) -> datetime | None:
    """Return the expiry: as given, or by the lifetime of facts."""
    if draft.expires_at is not None:
        return instant(draft.expires_at)
    lifetime_s = detail.ttl_s if isinstance(detail, FactDetail) else None
    return None if lifetime_s is None else now + timedelta(seconds=lifetime_s)


def _add(context: WriteContext, memory: Memory, *, last: int) -> Memory:
    for drawn in _draws(context, memory.recorded_at):
        id_ = ids.after(last, drawn)
        identified = replace(memory, id=id_)
        with suppress(IdTaken):
            context.tx.memories.add(identified)
            return identified
        # If the clock went back, every draw gives the next id.
        last = last if id_ == drawn else id_
    raise _random_source_error()


def _draws(context: WriteContext, at: datetime) -> Iterator[int]:
    source = context.services.random_source
    return (ids.make_id(at, source.bits(ids.RANDOM_BITS)) for _ in range(_DRAWS))


def _random_source_error() -> RuntimeError:
    return RuntimeError(f"No free id in {_DRAWS} draws; the source of chance is broken.")
