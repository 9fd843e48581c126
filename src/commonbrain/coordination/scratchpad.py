"""The scratchpad: working notes of a session, and notes pinned for later sessions."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from commonbrain.history.unit_of_work import UnitOfWork
from commonbrain.ingestion.validation import scan_text
from commonbrain.model.errors import InvalidInputError, RejectedError
from commonbrain.model.limits import NAME_CHARS_MAX, NOTE_CHARS_MAX
from commonbrain.model.scope import Caller, Scope, Trust, check_may_write
from commonbrain.model.sessions import NOTE_RETENTION, NOTES_MAX, NOTES_PINNED_MAX, Note
from commonbrain.services import Services
from commonbrain.text.normalisation import normalise, normalise_line

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
            `trust_override_denied`, because untrusted callers may not pin.

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
    if note.pinned or not note.value:
        for one in here:
            if one.key == note.key:
                unit.tx.scratchpad.drop(one)
    if not note.value:
        unit.tx.scratchpad.drop(note)
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
    name = scan_text(normalise_line(key) or "", what="key", services=services)
    if not 0 < len(name) <= NAME_CHARS_MAX or name.startswith(RESERVED_PREFIX):
        raise InvalidInputError(
            f"The key {name[:40]!r} has {len(name)} characters, or is reserved.",
            hint=f"Give 1 to {NAME_CHARS_MAX}, not beginning with {RESERVED_PREFIX}",
        )
    text = scan_text(normalise(value), what="note", services=services)
    if len(text) > NOTE_CHARS_MAX:
        raise InvalidInputError(
            f"The note has {len(text)} characters; {NOTE_CHARS_MAX} are allowed.",
            hint="Remember a long text as a memory, and note its id.",
        )
    return Note(
        key=name,
        value=text,
        agent=caller.agent,
        session=caller.session or "",
        project=caller.project,
        pinned=pinned,
        at=services.clock.now(),
    )


def is_reserved(note: Note) -> bool:
    """Return whether a note is internal."""
    return note.key.startswith(RESERVED_PREFIX)


def _writer(note: Note) -> tuple[str, str, str]:
    return note.agent, note.session, note.key


def _check_note_quota(note: Note, *, own: list[Note], pinned: list[Note]) -> None:
    keys = sorted(one.key for one in pinned if one.key != note.key)
    if note.pinned and len(keys) >= NOTES_PINNED_MAX:
        raise RejectedError(
            f"{len(keys)} notes are pinned here, the most that a boot shows: {', '.join(keys)}.",
            code="limit_exceeded",
            hint="Delete one first: note its key with an empty value.",
        )
    others = [one for one in own if one.key != note.key and not is_reserved(one)]
    if len(others) >= NOTES_MAX:
        raise RejectedError(
            f"This session has {len(others)} notes; {NOTES_MAX} are allowed.",
            code="limit_exceeded",
            hint="Delete some, or remember them as memories.",
        )
