"""Messages of sessions in order, as agent frameworks store them, in memories of a brain.

Each session is a thread, each message a memory of it: its body is the text by which it is found,
its attachment the exact message. Its tags are the path of its session and each path above it.
Sessions belong to the project of the brain. A message that people correct stays in its place; where
its text is one of its strings, the corrected text becomes that string.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from threading import Lock
from typing import Any

from commonbrain.client import Brain
from commonbrain.ingestion.batch import WriteOptions
from commonbrain.ingestion.result import ItemResult, ItemStatus
from commonbrain.ingestion.service import Remember
from commonbrain.ingestion.validation import check_address
from commonbrain.model.errors import InvalidInputError, NotFoundError
from commonbrain.model.kinds import Kind, MessageDetail
from commonbrain.model.limits import (
    IDS_PER_GET_MAX,
    ITEMS_PER_CALL_MAX,
    QUERY_CHARS_MAX,
    RECALL_TOKENS_MAX,
    SOURCE_REF_CHARS_MAX,
    SUBJECT_CHARS_MAX,
)
from commonbrain.model.memory import Draft, ThreadRef
from commonbrain.model.recall_result import ResultStatus
from commonbrain.model.scope import Scope
from commonbrain.retrieval.get import MemoryView, View
from commonbrain_adapters.keyed_values import (
    attached,
    attached_value,
    batches,
    check_stored,
    findable,
    forget,
    list_ids,
    place_of,
    quoted,
    short_name,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class LoggedMessage:
    """A message as its framework writes it as JSON."""

    value: Mapping[str, Any]
    text: str
    """What it says, by which it is recalled."""
    sender: str
    """The role or name of its author."""
    instead: str = "a message without text"
    """Shown if the text is empty or only repeats what a recall answered."""
    key: str | None = None
    """Identifies it in its session for `append_missing`."""
    occurred_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class MessageLog:
    """The messages of one session of a framework; `name` separates those of several."""

    brain: Brain
    name: str
    path: tuple[str, ...]
    """The session, after what it belongs to, such as an app and a user."""
    scope: Scope = Scope.TEAM
    _lock: Lock = field(default_factory=Lock)

    def append(self, messages: Sequence[LoggedMessage]) -> None:
        """Store messages at the end: all of them, or none if one is refused.

        Raises:
            InvalidInputError: a message is not JSON.
            RejectedError: a message holds a secret or is too large.

        """
        stored: list[str] = []
        with self._lock:
            for some in batches(messages, ITEMS_PER_CALL_MAX):
                outcomes = self.brain.remember([self._draft(one) for one in some]).items
                stored += (
                    outcome.id for outcome in outcomes if outcome.id and outcome.status.is_new
                )
                refused = next(filter(_is_refused, outcomes), None)
                if refused is not None:
                    self._forget(stored, reason="another message of the same call was refused")
                    check_stored(refused)

    def append_missing(self, messages: Sequence[LoggedMessage]) -> None:
        """Store the messages that were never stored, by their keys and texts.

        A message that was corrected or forgotten does not come back.

        Raises:
            InvalidInputError: a message is not JSON.
            RejectedError: a message holds a secret or is too large; the others are stored.

        """
        remember = Remember(self.brain.services, self.brain.caller)
        options = WriteOptions(isolates_items=True, includes_past=True)
        refused: list[ItemResult] = []
        with self._lock:
            for some in batches(messages, ITEMS_PER_CALL_MAX):
                outcomes = remember.write([self._draft(one) for one in some], options).items
                refused += filter(_is_refused, outcomes)
        for one in refused:
            check_stored(one)

    def read(self, limit: int | None = None) -> list[dict[str, Any]]:
        """Return all messages, or the latest, in order."""
        return [attached_value(view) for view in self._latest(limit)]

    def search(self, query: str, *, max_items: int) -> list[tuple[str, dict[str, Any]]]:
        """Return the messages of the path and below it that answer a query, best first.

        Each comes after the id of its memory. Without an answer there are none.
        """
        answer = self.brain.recall(
            query[:QUERY_CHARS_MAX],
            tags=(self.tag,),
            project=self.brain.caller.project,
            max_items=max_items,
            max_tokens=RECALL_TOKENS_MAX,
        )
        if answer.verdict is not ResultStatus.FOUND:
            return []
        views = self._views(item.id for item in answer.items)
        return [(view.id, attached_value(view)) for view in views if self._is_below(view)]

    def pop(self) -> dict[str, Any] | None:
        """Forget the last message and return it; None if there is none."""
        with self._lock:
            for last in self._latest(1):
                self._forget([last.id], reason=f"removed by {self.name}")
                return attached_value(last)
        return None

    def forget(self, id_: str) -> None:
        """Forget a message of the path or below it, if there is one with this id.

        Raises:
            RejectedError: the caller may not forget it.

        """
        try:
            view = self.brain.get(id_, bump=False)
            view = self.brain.get(view.current_id, bump=False)
        except (InvalidInputError, NotFoundError):
            return
        if self._is_below(view):
            self._forget([view.id], reason=f"removed by {self.name}")

    def clear(self) -> None:
        """Forget all messages.

        Raises:
            RejectedError: the caller may not forget one of them.

        """
        with self._lock:
            every = [view.id for view in self._own_newest_first()]
            self._forget(every, reason=f"cleared by {self.name}")

    @property
    def tag(self) -> str:
        """The tag of the messages of the path and below it, by which recall and list can filter."""
        return self._tag(self.path)

    def _tag(self, path: tuple[str, ...]) -> str:
        return short_name(f"{self.name}:{'/'.join(map(quoted, path))}", of=self.name)

    def _draft(self, message: LoggedMessage) -> Draft:
        check_address((*self.path, message.key or ""), self.brain.services.secret_scanner)
        body = findable(message.text)
        above = [self._tag(self.path[:depth]) for depth in range(1, len(self.path))]
        return Draft(
            # Messages accept any text, do not decay and are compared with nothing.
            kind=Kind.MESSAGE,
            body=body or message.instead,
            project=self.brain.caller.project,
            scope=self.scope,
            tags=(self.name, *above, self.tag),
            source_ref=None if message.key is None else self._source_ref(message.key),
            occurred_at=message.occurred_at,
            thread=self._thread(has_text=bool(body)),
            detail=MessageDetail(sender=message.sender),
            extract_causes=False,
            attachment={
                "store": self.name,
                "path": list(self.path),
                "value": message.value,
                "text_at": place_of(message.text, message.value),
            },
        )

    def _source_ref(self, key: str) -> str:
        name = f"{self.name}:{'/'.join(map(quoted, self.path))}#{quoted(key)}"
        return short_name(name, of=self.name, most=SOURCE_REF_CHARS_MAX)

    def _thread(self, *, has_text: bool) -> ThreadRef:
        """Return the thread of what was said, or the one of calls and images.

        Recall shows neighbours in a thread as context, which calls of tools are not. They need a
        thread all the same: only messages in threads are ordered strictly.
        """
        # Two projects may have sessions of the same name.
        key = f"{self.tag} in {self.brain.caller.project or 'no project'}"
        return ThreadRef(
            key=key if has_text else f"{key}, without text",
            subject=self.path[-1][:SUBJECT_CHARS_MAX] or self.name,
        )

    def _latest(self, limit: int | None) -> list[MemoryView]:
        numbered: list[tuple[str, MemoryView]] = []
        unmoved = 0
        for view in self._own_newest_first():
            first = self._first_id(view)
            numbered.append((first, view))
            # A corrected message is listed by the time of its correction, not at its own place.
            unmoved += first == view.id
            if limit is not None and unmoved >= limit:
                break
        views = [view for _, view in sorted(numbered, key=lambda one: one[0])]
        return views if limit is None else views[len(views) - min(limit, len(views)) :]

    def _own_newest_first(self) -> Iterator[MemoryView]:
        return (
            one
            for one in self._views(list_ids(self.brain, self.tag))
            if attached(one, store=self.name).get("path") == list(self.path)
        )

    def _views(self, ids: Iterable[str]) -> Iterator[MemoryView]:
        for some in batches(ids, IDS_PER_GET_MAX):
            yield from self.brain.get_several(some, bump=False)

    def _is_below(self, view: MemoryView) -> bool:
        """Return whether it is a message of the path or below it; tags do not tell case apart."""
        path = attached(view, store=self.name).get("path")
        is_own = path is not None and tuple(path[: len(self.path)]) == self.path
        return is_own and view.project == self.brain.caller.project

    def _first_id(self, view: MemoryView) -> str:
        """Return the id under which a message was first stored; ids sort by time."""
        if not view.superseded_count:
            return view.id
        changes = self.brain.get(view.id, views=[View.HISTORY], bump=False).history or ()
        return min((view.id, *(change.id for change in changes)))

    def _forget(self, ids: Sequence[str], *, reason: str) -> None:
        for some in batches(ids, ITEMS_PER_CALL_MAX):
            forget(self.brain, some, reason=reason)


def _is_refused(outcome: ItemResult) -> bool:
    return outcome.status not in {ItemStatus.STORED, ItemStatus.EXISTS}
