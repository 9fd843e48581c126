"""Conversations of JSON values, as agent frameworks store them, in messages of a brain.

The body of a message is the text by which the value is found, its attachment the exact value. Its
tag is the conversation, so that reading one reads an index. Values belong to the project of the
brain. Where somebody corrects the text of a message, the value has the corrected text.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from hashlib import sha256
from itertools import islice
from threading import Lock
from typing import Any, Final, TypeVar, cast
from urllib.parse import quote

from commonbrain.client import Brain
from commonbrain.history.selection import Phase
from commonbrain.ingestion.result import ItemResult, ItemStatus
from commonbrain.model.errors import InvalidInputError, RejectedError
from commonbrain.model.kinds import Kind, MessageDetail
from commonbrain.model.limits import (
    HEADLINE_CHARS_MAX,
    IDS_PER_GET_MAX,
    ITEMS_PER_CALL_MAX,
    LIST_PAGE_MAX,
    NAME_CHARS_MAX,
    TEXT_BYTES_MAX,
)
from commonbrain.model.memory import Draft, ThreadRef
from commonbrain.model.scope import Scope
from commonbrain.retrieval.get import MemoryView, View
from commonbrain.text.normalisation import normalise, without_injected_context

T = TypeVar("T")

_DIGEST_CHARS: Final = 40
"""Characters of a hash in the name of a long conversation: 160 bits."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NewValue:
    """A value to append, the text by which it is found, and who said it."""

    value: Mapping[str, Any]
    text: str
    """An empty one, or one that only repeats what a recall answered, becomes `instead`."""
    instead: str
    speaker: str | None = None
    occurred_at: datetime | None = None
    source_ref: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredValue:
    """A value of a conversation, with the id of its message."""

    id: str
    place: str
    """The id of the message as first stored, by which values are ordered."""
    value: dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Conversation:
    """One conversation of a framework; `framework` separates those of several."""

    brain: Brain
    framework: str
    key: str
    scope: Scope = Scope.TEAM
    _lock: Lock = field(default_factory=Lock)

    def __post_init__(self) -> None:
        """Reject a key that names no conversation."""
        if not self.key.strip():
            raise InvalidInputError("The conversation has no name.", hint="Give its id.")

    def append(self, values: Sequence[NewValue]) -> None:
        """Append values in order: all of them, or none if one is refused.

        Raises:
            RejectedError: a value holds a secret, is too large, or the caller may not write.
            InvalidInputError: a value is not JSON.

        """
        stored: list[str] = []
        with self._lock:
            for some in _batches(values, ITEMS_PER_CALL_MAX):
                outcomes = self.brain.remember([self._draft(one) for one in some]).items
                stored += (one.id for one in outcomes if one.id and one.status.is_new)
                refused = next((one for one in outcomes if not _is_stored(one)), None)
                if refused is not None:
                    self._forget(stored, reason=f"{self.framework} stores all or nothing")
                    raise RejectedError(
                        refused.reason or f"The value is {refused.status}.",
                        code=refused.code or str(refused.status),
                        hint=refused.hint or "",
                    )

    def latest(self, limit: int | None = None) -> list[StoredValue]:
        """Return the latest values, or all, in the order in which they were appended."""
        values: list[StoredValue] = []
        unmoved = 0
        for one in self._newest_first():
            # A corrected message is listed by the time of its correction, not at its own place.
            unmoved += one.id == one.place
            values.append(one)
            if limit is not None and unmoved >= limit:
                break
        values.sort(key=lambda one: one.place)
        return values if limit is None else values[len(values) - min(limit, len(values)) :]

    def pop(self) -> dict[str, Any] | None:
        """Forget the last value and return it; None if there is none."""
        with self._lock:
            for last in self.latest(1):
                self._forget([last.id], reason=f"removed by {self.framework}")
                return last.value
        return None

    def clear(self) -> None:
        """Forget all values."""
        with self._lock:
            every = [one.id for one in self._newest_first()]
            self._forget(every, reason=f"cleared by {self.framework}")

    @property
    def tag(self) -> str:
        """The tag of its messages."""
        name = f"{self.framework}:{quote(self.key, safe='', errors='surrogatepass')}"
        if len(name) <= NAME_CHARS_MAX:
            return name
        return f"{self.framework}:{sha256(name.encode()).hexdigest()[:_DIGEST_CHARS]}"

    def _draft(self, new: NewValue) -> Draft:
        body = findable(new.text)
        return Draft(
            # Messages accept any text, do not decay, and are compared with nothing.
            kind=Kind.MESSAGE,
            body=body or new.instead,
            scope=self.scope,
            tags=(self.tag,),
            occurred_at=new.occurred_at,
            source_ref=new.source_ref,
            thread=self._thread(has_text=bool(body)),
            detail=MessageDetail(sender=new.speaker),
            extract_causes=False,
            attachment={
                "framework": self.framework,
                "conversation": self.key,
                "value": new.value,
                "text": new.text,
            },
        )

    def _thread(self, *, has_text: bool) -> ThreadRef:
        """Return the thread of what was said, or the one of calls and images.

        Recall shows neighbours in a thread as context, which calls of tools are not. They need a
        thread all the same: only messages in threads are ordered strictly.
        """
        # Two projects may use the same key for conversations of their own.
        key = f"{self.tag} in {self.brain.caller.project or 'no project'}"
        subject = f"{self.framework}, {self.key}"[:HEADLINE_CHARS_MAX]
        return ThreadRef(key=key if has_text else f"{key}, without text", subject=subject)

    def _newest_first(self) -> Iterator[StoredValue]:
        for some in _batches(self._ids(), IDS_PER_GET_MAX):
            for view in self.brain.get_several(some, bump=False):
                yield from self._stored(view)

    def _ids(self) -> Iterator[str]:
        cursor = None
        while True:
            page = self.brain.list(
                kinds=[Kind.MESSAGE],
                tags=[self.tag],
                project=self.brain.caller.project or "",
                limit=LIST_PAGE_MAX,
                cursor=cursor,
            )
            yield from (one.id for one in page.memories)
            cursor = page.next
            if cursor is None:
                return

    def _stored(self, view: MemoryView) -> Iterator[StoredValue]:
        """Yield the value of a message, if it belongs to this conversation."""
        given = cast("Mapping[str, Any]", view.attachment or {})
        if (given.get("framework"), given.get("conversation")) != (self.framework, self.key):
            return
        value, place = given["value"], view.id
        if view.superseded_count:
            first = self.brain.get(view.id, views=[View.HISTORY], bump=False).history or ()
            place = min((one.id for one in first), default=view.id)
            value = _with_text(value, given["text"], new=view.body or "")
        yield StoredValue(id=view.id, place=place, value=value)

    def _forget(self, ids: Sequence[str], *, reason: str) -> None:
        for some in _batches(ids, ITEMS_PER_CALL_MAX):
            done = self.brain.forget(some, reason=reason, confirm=len(some))
            if done.status is Phase.PREVIEW:
                # Others forgot some of them meanwhile.
                done = self.brain.forget(some, reason=reason, confirm=done.count)
            if done.status not in {Phase.DONE, Phase.UNCHANGED}:
                raise RejectedError(
                    f"{self.brain.caller.agent} may not forget these messages.",
                    hint=done.hint or "Ask their author.",
                )


def findable(text: str) -> str:
    """Return what a memory can hold of a text; empty if it only repeats what a recall answered."""
    own = normalise(without_injected_context(normalise(text)))
    return own.encode()[:TEXT_BYTES_MAX].decode("utf-8", "ignore").strip()


def _is_stored(outcome: ItemResult) -> bool:
    return outcome.status in {ItemStatus.STORED, ItemStatus.EXISTS}


def _batches(given: Iterable[T], size: int) -> Iterator[list[T]]:
    rest = iter(given)
    while some := list(islice(rest, size)):
        yield some


def _with_text(value: Any, old: str, *, new: str) -> Any:  # noqa: ANN401 any JSON
    """Replace the texts in a value that are `old`."""
    match value:
        case str():
            return new if value == old else value
        case list():
            return [_with_text(one, old, new=new) for one in cast("list[Any]", value)]
        case dict():
            members = cast("dict[str, Any]", value).items()
            return {name: _with_text(one, old, new=new) for name, one in members}
        case _:
            return value
