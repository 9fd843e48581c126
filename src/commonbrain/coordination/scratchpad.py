"""Working notes: what a session keeps at hand, and what it pins for those after it."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime
from typing import Final

from commonbrain.history.unit_of_work import Act
from commonbrain.ingestion.secret_scanning import screened
from commonbrain.model.errors import Invalid, Refused
from commonbrain.model.limits import NAME_CHARS_MAX, NOTE_CHARS_MAX
from commonbrain.model.scope import Caller, Scope, check_may_write
from commonbrain.model.sessions import NOTE_KEPT, NOTES_MAX, NOTES_PINNED_MAX, Note
from commonbrain.model.trust import Trust
from commonbrain.services import House
from commonbrain.storage.interface import Transaction
from commonbrain.text.normalisation import normalise, normalise_line

RESERVED: Final = "checkpoint:"
"""Notes under such keys are the house's own: when an action was last checked."""


def pinned_notes(tx: Transaction, *, project: str | None, now: datetime) -> list[Note]:
    """List the pinned notes of a project and of none, at most 10 of each, by key."""
    return tx.notes.pinned(project, now=now)


def list_notes(act: Act) -> list[Note]:
    """List the notes of the caller's session, then those that others pinned to its project."""
    own = [one for one in act.tx.notes.of(act.caller, now=act.now) if not is_reserved(one)]
    known = {_writer(one) for one in own}
    pinned = pinned_notes(act.tx, project=act.caller.project, now=act.now)
    return [*own, *(one for one in pinned if _writer(one) not in known)]


def put_note(act: Act, note: Note) -> Note | None:
    """Keep a note of the caller's session, or take it away where it says nothing.

    What is pinned to a project has its key there alone: whoever pins it again replaces it, and
    whoever empties it takes it away, for the session that pinned it may be over.

    Raises:
        Refused: `limit_exceeded` names the pinned notes, or `insufficient_role`, or
            `trust_override_denied`: what every boot shows is not for the untrusted to pin.

    """
    check_may_write(act.caller, Scope.TEAM)
    if note.pinned and act.caller.trust_ceiling is Trust.UNTRUSTED_WEB:
        raise Refused(
            "Every boot shows what is pinned, so that an untrusted caller may not pin.",
            code="trust_override_denied",
            hint="Keep the note unpinned.",
        )
    act.tx.notes.keep(act.caller, until=act.now + NOTE_KEPT, now=act.now)
    own = act.tx.notes.of(act.caller, now=act.now)
    pinned = act.tx.notes.pinned(note.project, now=act.now)
    here = [one for one in pinned if one.project == note.project]
    if note.pinned or not note.value:
        for one in here:
            if one.key == note.key:
                act.tx.notes.drop(one)
    if not note.value:
        act.tx.notes.drop(note)
        return None
    _check_room(note, own=own, pinned=here)
    kept = replace(note, expires_at=None if note.pinned else act.now + NOTE_KEPT)
    act.tx.notes.put(kept)
    return kept


def checked_note(house: House, caller: Caller, *, key: str, value: str, pinned: bool) -> Note:
    """Make a note of what was told, as it may be kept; before a transaction opens.

    Raises:
        Invalid: the key is empty, too long or reserved, or the value is too long.
        Refused: `secret_detected`.

    """
    name = screened(normalise_line(key) or "", what="key", house=house)
    if not 0 < len(name) <= NAME_CHARS_MAX or name.startswith(RESERVED):
        raise Invalid(
            f"The key {name[:40]!r} has {len(name)} characters, or is a reserved one.",
            hint=f"Give 1 to {NAME_CHARS_MAX}, not beginning with {RESERVED}",
        )
    text = screened(normalise(value), what="note", house=house)
    if len(text) > NOTE_CHARS_MAX:
        raise Invalid(
            f"The note has {len(text)} characters; {NOTE_CHARS_MAX} are allowed.",
            hint="Remember a long one as a memory, and note its id.",
        )
    return Note(
        key=name,
        value=text,
        agent=caller.agent,
        session=caller.session or "",
        project=caller.project,
        pinned=pinned,
        at=house.clock.now(),
    )


def is_reserved(note: Note) -> bool:
    """Say whether a note is the house's own."""
    return note.key.startswith(RESERVED)


def _writer(note: Note) -> tuple[str, str, str]:
    return note.agent, note.session, note.key


def _check_room(note: Note, *, own: list[Note], pinned: list[Note]) -> None:
    keys = sorted(one.key for one in pinned if one.key != note.key)
    if note.pinned and len(keys) >= NOTES_PINNED_MAX:
        raise Refused(
            f"{len(keys)} notes are pinned here, as many as a boot shows: {', '.join(keys)}.",
            code="limit_exceeded",
            hint="Empty one of them first, by its key and no value.",
        )
    others = [one for one in own if one.key != note.key and not is_reserved(one)]
    if len(others) >= NOTES_MAX:
        raise Refused(
            f"This session has {len(others)} notes; {NOTES_MAX} are allowed.",
            code="limit_exceeded",
            hint="Empty some of them, or remember them as memories.",
        )
