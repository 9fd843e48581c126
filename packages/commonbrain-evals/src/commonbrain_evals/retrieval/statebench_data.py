"""StateBench: timelines of turns and state writes, and what may be said at their end.

Liotta, 2025, https://github.com/Parslee-ai/statebench (MIT). A file holds one timeline a line.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import chain
from pathlib import Path
from typing import Final

from commonbrain_evals.retrieval.data_files import UtcTime, read_json_lines, require_file

EXPECTS: Final = "JSON lines, each with id, track, actors, initial_state and events."
_SYSTEM: Final = "system"
_ASSISTANT: Final = "assistant"
_USER: Final = "user"
_RESTRICTED: Final = re.compile(r"\[RESTRICTED: .*? restricted to ([^\]]+)\]\s*")
"""Marks a fact that only one group may see."""
_VERSION: Final = re.compile(r"_(?:v\d+|corrected)\Z")
_NUMBERED: Final = re.compile(r"_\d+\Z")
_WORD: Final = re.compile(r"\w+")


@dataclass(frozen=True, slots=True, kw_only=True)
class StateNote:
    """One text that is remembered."""

    at: datetime
    text: str
    writer: str
    restricted_to: str | None = None
    """The group that alone may see it, where the data says so."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StateQuestion:
    """One question, and the phrases that its answer must and must not contain."""

    id: str
    at: datetime
    text: str
    must: tuple[str, ...]
    must_not: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Timeline:
    """What is said and written in one session, then asked."""

    id: str
    track: str
    user: str
    """Who asks, and says what the assistant does not."""
    events: tuple[StateNote | StateQuestion, ...]
    """In the order of time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _SourceRecord:
    type: str


@dataclass(frozen=True, slots=True, kw_only=True)
class _Write:
    key: str
    value: str | list[str]
    source: _SourceRecord | None = None
    ts: UtcTime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Requirement:
    phrase: str


@dataclass(frozen=True, slots=True, kw_only=True)
class _Truth:
    must_mention: tuple[str | _Requirement, ...]
    must_not_mention: tuple[str | _Requirement, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Event:
    """A turn has speaker and text, a write writes, a query prompt and ground_truth."""

    ts: UtcTime
    speaker: str | None = None
    text: str | None = None
    writes: tuple[_Write, ...] = ()
    prompt: str | None = None
    ground_truth: _Truth | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Identity:
    user_name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class _Environment:
    now: UtcTime


@dataclass(frozen=True, slots=True, kw_only=True)
class _State:
    identity_role: _Identity
    environment: _Environment
    persistent_facts: tuple[_Write, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class _Row:
    id: str
    track: str
    initial_state: _State
    events: tuple[_Event, ...]


def read_timelines(path: Path) -> Sequence[Timeline]:
    """Read all timelines of a file.

    Raises:
        InvalidInputError: there is no such file, or a line is malformed.

    """
    [file] = require_file(path, expects=EXPECTS)
    return [_timeline(row) for row in read_json_lines(_Row, file)]


def _timeline(row: _Row) -> Timeline:
    state = row.initial_state
    user = state.identity_role.user_name
    initial = (
        _note(fact, fact.ts or state.environment.now, user=user) for fact in state.persistent_facts
    )
    given = chain(initial, *(_events(row.id, event, user=user) for event in row.events))
    # The sort is stable: what has the same time stays in the order of the file.
    events = tuple(sorted(given, key=lambda one: one.at))
    return Timeline(id=row.id, track=row.track, user=user, events=events)


def _events(timeline_id: str, event: _Event, *, user: str) -> Iterator[StateNote | StateQuestion]:
    at = event.ts
    if event.text is not None:
        writer = user if event.speaker == _USER else _ASSISTANT
        yield StateNote(at=at, text=event.text, writer=writer)
    yield from (_note(write, at, user=user) for write in event.writes)
    if event.prompt is not None and event.ground_truth is not None:
        yield StateQuestion(
            id=f"{timeline_id}/{at:%Y%m%dT%H%M%S}",
            at=at,
            text=event.prompt,
            must=tuple(map(_phrase, event.ground_truth.must_mention)),
            must_not=tuple(map(_phrase, event.ground_truth.must_not_mention)),
        )


def _note(write: _Write, at: datetime, *, user: str) -> StateNote:
    value = write.value if isinstance(write.value, str) else ", ".join(write.value)
    restricted = _RESTRICTED.match(value)
    is_of_user = write.source is not None and write.source.type == _USER
    return StateNote(
        at=at,
        text=_RESTRICTED.sub("", note_text(write.key, value)),
        writer=restricted[1] if restricted else user if is_of_user else _SYSTEM,
        restricted_to=restricted[1] if restricted else None,
    )


def note_text(key: str, value: str) -> str:
    """Write a state as a person would: "launch date: Monday", or the value where it says enough.

    A numbered key says nothing, nor does one whose words stand in the value; version suffixes are
    left out, because they would announce the change that is to be recognised.
    """
    name = _VERSION.sub("", key)
    words = name.replace("_", " ")
    known = set(_WORD.findall(value.casefold()))
    if _NUMBERED.search(name) or known & set(words.casefold().split()):
        return value
    return f"{words}: {value}"


def _phrase(requirement: str | _Requirement) -> str:
    return requirement if isinstance(requirement, str) else requirement.phrase
