"""What a session leaves: its scratchpad of notes, and its handoff to the next session."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import TYPE_CHECKING, Final

from commonbrain.coordination.session_registry import own_session
from commonbrain.history.supersede import InheritOptions, supersede_with
from commonbrain.history.unit_of_work import UnitOfWork, read_unit
from commonbrain.ingestion.batch import WriteOptions
from commonbrain.ingestion.embedding import embed_drafts
from commonbrain.ingestion.preparation import PreparedDraft, prepare_drafts
from commonbrain.ingestion.result import ItemResult, exists, rejected
from commonbrain.ingestion.service import store_draft
from commonbrain.model import limits
from commonbrain.model.errors import InvalidInputError, RejectedError
from commonbrain.model.escaping import inert
from commonbrain.model.kinds import EpisodeDetail, Kind
from commonbrain.model.memory import Draft, Memory
from commonbrain.model.notes import NOTE_RETENTION, NOTES_MAX, NOTES_PINNED_MAX, Note
from commonbrain.model.query import Filter
from commonbrain.model.scope import Authority, Caller, Scope, Trust, check_may_write
from commonbrain.services import Services
from commonbrain.storage.interface import QueryScope
from commonbrain.text.headlines import derive_headline
from commonbrain.text.normalisation import normalise, normalise_line, without_injected_context

if TYPE_CHECKING:
    from commonbrain.storage.store import Transaction


LABEL: Final = "handoff"
"""Label of an episode that is a handoff."""
_NEXT_STEPS: Final = "Next steps:"
_BLOCKERS: Final = "Blockers:"
_CONTEXT: Final = "Context:"


@dataclass(frozen=True, slots=True, kw_only=True)
class Handoff:
    """What was done, the next steps, the blockers, and the context needed for them."""

    summary: str
    next_steps: Sequence[str] = ()
    blockers: Sequence[str] = ()
    context: str = ""
    own_lines: frozenset[str] | None = None
    """The lines that are not quoted in the text of which it is a part."""
    is_automatic: bool = False
    """Whether it was captured automatically; one written by the agent replaces it."""


def text_of(handoff: Handoff) -> str:
    """Render a handoff as stored text: its parts in order, without empty ones.

    Injected context is removed from each part.

    Raises:
        InvalidInputError: the summary is missing.
        RejectedError: `limit_exceeded`, it has more than 2,000 characters in all.

    """
    parts = (handoff.summary, *handoff.next_steps, *handoff.blockers, handoff.context)
    given = sum(map(len, parts))
    if given > limits.TEXT_BYTES_MAX:
        # Reject before reading: the work must be bounded by what is allowed.
        raise _too_long(given)
    summary = _prose(handoff.summary)
    if not summary:
        raise InvalidInputError(
            "A handoff needs a summary.", hint="Describe in a few sentences what was done."
        )
    text = "\n\n".join((summary, *_rest(handoff)))
    if len(text) > limits.HANDOFF_CHARS_MAX:
        raise _too_long(len(text))
    return text


def _rest(handoff: Handoff) -> Iterator[str]:
    for heading, items in ((_NEXT_STEPS, handoff.next_steps), (_BLOCKERS, handoff.blockers)):
        lines = [line for item in items if (line := normalise_line(without_injected_context(item)))]
        if lines:
            yield "\n".join((heading, *(f"- {line}" for line in lines)))
    context = _prose(handoff.context)
    if context:
        yield f"{_CONTEXT}\n{context}"


def _prose(text: str) -> str:
    return normalise(without_injected_context(normalise(text)))


def _too_long(chars: int) -> RejectedError:
    return RejectedError(
        f"The handoff has {chars:,} characters, {chars - limits.HANDOFF_CHARS_MAX:,} more than the "
        f"{limits.HANDOFF_CHARS_MAX:,} allowed.",
        code="limit_exceeded",
        hint="Shorten it: remember long parts as memories and name their ids.",
    )


_LATER: Final = "Replaced by a later handoff of the session."
_OWN: Final = "Replaced by a handoff that the agent wrote."


@dataclass(frozen=True, slots=True)
class PendingHandoff:
    """A validated handoff, prepared before the transaction."""

    ready: PreparedDraft | ItemResult
    is_automatic: bool = False

    def store(self, unit: UnitOfWork) -> ItemResult:
        """Store it in place of the session's earlier one, or return why it was rejected."""
        if isinstance(self.ready, ItemResult):
            return self.ready
        own = Filter(
            kinds=(Kind.EPISODE,),
            labels=(LABEL,),
            agent=unit.caller.agent,
            session=unit.caller.session,
            trust_min=0,
        )
        known = unit.tx.memories.newest(unit.query_scope(own), limit=1)
        before = unit.tx.memories.get([hit.id for hit in known])
        for id_, old in before.items():
            if self.is_automatic and not old.auto_captured:
                return replace(exists(old), code=None, reason=_OWN, hint=None)
            if old.text != self.ready.text:
                return supersede_with(
                    unit, self.ready, old_id=id_, reason=_LATER, inherit_options=InheritOptions()
                )
        # A handoff repeats what was done, so similar memories are not searched.
        exact = replace(unit, options=WriteOptions(checks_similarity=False))
        outcome = store_draft(exact, self.ready)
        unit.embed_later(self.ready, outcome)
        return outcome


def prepare_handoff(services: Services, caller: Caller, *, handoff: Handoff) -> PendingHandoff:
    """Validate a handoff; its period is that of the session so far.

    Raises:
        InvalidInputError: the summary is missing.
        RejectedError: it is too long, or the caller may not write.

    """
    text = text_of(handoff)
    with read_unit(services, caller) as unit:
        session = own_session(unit)
    began = min(session.started_at, unit.now)
    draft = Draft(
        body=text,
        headline=derive_headline(_prose(handoff.summary)),
        kind=Kind.EPISODE,
        label=LABEL,
        project=caller.project or session.project,
        source_ref=f"session:{session.key}",
        auto_captured=handoff.is_automatic,
        own_lines=handoff.own_lines,
        detail=EpisodeDetail(started_at=began, ended_at=unit.now),
    )
    prepared = prepare_drafts(
        draft, caller, scanner=services.secret_scanner, parameters=services.parameters_for(caller)
    )
    if not isinstance(prepared, PreparedDraft):
        return PendingHandoff(rejected(prepared))
    [ready] = embed_drafts([prepared], caller, services=services)
    return PendingHandoff(ready, is_automatic=handoff.is_automatic)


_HANDOFFS_READ: Final = 10


def last_handoffs(
    tx: Transaction, caller: Caller, *, project: str | None, now: datetime
) -> list[Memory]:
    """Return the newest handoffs of a project, or of all, by any author that the caller may read.

    That of a person is among them, if there is one. A handoff without a project counts for each.
    """
    criteria = Filter(kinds=(Kind.EPISODE,), labels=(LABEL,), project=project)
    query_scope = QueryScope(caller=caller, filter=criteria, now=now)
    newest = tx.briefing.latest(query_scope, limit=_HANDOFFS_READ)
    if len(newest) == _HANDOFFS_READ:
        persons = replace(query_scope, filter=replace(criteria, authority=Authority.PERSON))
        newest = list(dict.fromkeys([*newest, *tx.briefing.latest(persons, limit=1)]))
    known = tx.memories.get(newest)
    return [known[id_] for id_ in newest]


RESERVED_PREFIX: Final = "checkpoint:"
"""Keys with this prefix are internal: when an action was last checked."""


def list_notes(unit: UnitOfWork) -> list[Note]:
    """List the notes of the caller's session, then those that others pinned to its project."""
    own = [one for one in unit.tx.scratchpad.of(unit.caller, now=unit.now) if not is_reserved(one)]
    known = {_writer(one) for one in own}
    pinned = unit.tx.scratchpad.pinned(unit.caller.project, now=unit.now)
    return [*own, *(one for one in pinned if _writer(one) not in known)]


def put_note(unit: UnitOfWork, note: Note) -> Note | None:
    """Store a note of the caller's session, or delete it if it is empty.

    The key of a pinned note is unique in its project: pinning it again replaces it, and an empty
    value deletes it, because the session that pinned it may have ended.

    Raises:
        RejectedError: `limit_exceeded` names the pinned notes; `insufficient_role`; or
            `trust_override_denied`, because untrusted callers may not pin, and a person's note is
            not a model's to replace.

    """
    check_may_write(unit.caller, Scope.TEAM)
    if note.pinned and unit.caller.trust_ceiling is Trust.UNTRUSTED_WEB:
        raise RejectedError(
            "Untrusted callers may not pin notes, because every boot shows them.",
            code="trust_override_denied",
            hint="Store the note without pinning it.",
        )
    unit.tx.scratchpad.extend(unit.caller, until=unit.now + NOTE_RETENTION, now=unit.now)
    own = unit.tx.scratchpad.of(unit.caller, now=unit.now)
    pinned = unit.tx.scratchpad.pinned(note.project, now=unit.now)
    here = [one for one in pinned if one.project == note.project]
    shared = here if note.pinned or not note.value else ()
    replaced = [one for one in (*own, *shared) if _folded(one.key) == _folded(note.key)]
    _check_note_authority(note, replaced=replaced)
    for one in replaced:
        unit.tx.scratchpad.drop(one)
    if not note.value:
        return None
    _check_note_quota(note, own=own, pinned=here)
    stored = replace(note, expires_at=None if note.pinned else unit.now + NOTE_RETENTION)
    unit.tx.scratchpad.put(stored)
    return stored


def checked_note(services: Services, caller: Caller, *, key: str, value: str, pinned: bool) -> Note:
    """Validate a note before the transaction.

    Raises:
        InvalidInputError: the key is empty, too long or reserved, or the value is too long.
        RejectedError: `secret_detected`.

    """
    name = services.clean_text(normalise_line(key) or "", what="key", caller=caller)
    if not 0 < len(name) <= limits.NAME_CHARS_MAX or _folded(name).startswith(RESERVED_PREFIX):
        raise InvalidInputError(
            f"The key {name[:40]!r} has {len(name)} characters, or is reserved.",
            hint=f"Give 1 to {limits.NAME_CHARS_MAX}, not beginning with {RESERVED_PREFIX}",
        )
    text = services.clean_text(normalise(value), what="note", caller=caller)
    if len(text) > limits.NOTE_CHARS_MAX:
        raise InvalidInputError(
            f"The note has {len(text)} characters; {limits.NOTE_CHARS_MAX} are allowed.",
            hint="Remember a long text as a memory, and note its id.",
        )
    return Note(
        key=name,
        value=text,
        agent=caller.agent,
        session=caller.session or "",
        project=caller.project,
        pinned=pinned,
        authority=caller.authority,
        at=services.clock.now(),
    )


def is_reserved(note: Note) -> bool:
    """Return whether a note is internal."""
    return note.key.startswith(RESERVED_PREFIX)


def _folded(key: str) -> str:
    """Return what all keys have in common that look like this one."""
    return " ".join(unicodedata.normalize("NFKC", inert(key)).casefold().split())


def _writer(note: Note) -> tuple[str, str, str]:
    return note.agent, note.session, note.key


def _check_note_authority(note: Note, *, replaced: list[Note]) -> None:
    held = next((one for one in replaced if not note.authority.covers(one.authority)), None)
    if held is not None:
        raise RejectedError(
            f"The pinned note {note.key} was written by a {held.authority}; you act as a "
            f"{note.authority}.",
            code="trust_override_denied",
            hint="Choose another key, or ask the user to change it.",
        )


def _check_note_quota(note: Note, *, own: list[Note], pinned: list[Note]) -> None:
    # Notes of a lower authority take no place of a higher one.
    counted = [one for one in pinned if one.authority.covers(note.authority)]
    keys = sorted(one.key for one in counted if _folded(one.key) != _folded(note.key))
    if note.pinned and len(keys) >= NOTES_PINNED_MAX:
        raise RejectedError(
            f"{len(keys)} notes are pinned here, the most that a boot shows: {', '.join(keys)}.",
            code="limit_exceeded",
            hint="Delete one first: note its key with an empty value.",
        )
    others = [one for one in own if _folded(one.key) != _folded(note.key) and not is_reserved(one)]
    if len(others) >= NOTES_MAX:
        raise RejectedError(
            f"This session has {len(others)} notes; {NOTES_MAX} are allowed.",
            code="limit_exceeded",
            hint="Delete some, or remember them as memories.",
        )
