"""Messages of sessions in order, as agent frameworks store them, in memories of a brain.

Each session is a thread, each message a memory of it: its body is what was said, its attachment the
exact message. Sessions belong to the project of the brain. A message that people correct stays in
its place; where its text is one of its strings, the corrected text becomes that string.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any, Final, cast

from commonbrain.adapters.keyed_values import (
    OWN_EVIDENCE,
    check_stored,
    forget,
    place_of,
    quoted,
    set_text,
    short_name,
    shortened,
)
from commonbrain.client import Brain
from commonbrain.model.kinds import Kind, MessageDetail
from commonbrain.model.limits import (
    IDS_PER_GET_MAX,
    ITEMS_PER_CALL_MAX,
    LIST_PAGE_MAX,
    SUBJECT_CHARS_MAX,
)
from commonbrain.model.memory import Draft, ThreadRef
from commonbrain.retrieval.get import MemoryView, View

_NO_TEXT: Final = "a message without text"


@dataclass(frozen=True, slots=True, kw_only=True)
class LoggedMessage:
    """A message as its framework writes it as JSON."""

    value: Mapping[str, Any]
    text: str
    """What it says, by which it is recalled."""
    sender: str
    """The role or name of its author."""


@dataclass(frozen=True, slots=True)
class MessageLog:
    """The messages of one session of a framework; `name` separates those of several."""

    brain: Brain
    name: str
    session: str

    def append(self, messages: Sequence[LoggedMessage]) -> None:
        """Store messages at the end, up to 100 in one transaction.

        Raises:
            InvalidInputError: a message is not JSON.
            RejectedError: a message holds a secret or is too large; none of its hundred is stored.

        """
        rest = iter(messages)
        while some := list(islice(rest, ITEMS_PER_CALL_MAX)):
            self._append([self._draft(one) for one in some])

    def read(self) -> list[dict[str, Any]]:
        """Return the messages in order."""
        numbered = [
            (self._first_id(view), self._value(view))
            for view in self._views(self._ids())
            if self._is_own(view)
        ]
        return [value for _, value in sorted(numbered, key=lambda one: one[0])]

    def clear(self) -> None:
        """Forget all messages.

        Raises:
            RejectedError: the caller may not forget one of them.

        """
        own = [view.id for view in self._views(self._ids()) if self._is_own(view)]
        for start in range(0, len(own), ITEMS_PER_CALL_MAX):
            some = own[start : start + ITEMS_PER_CALL_MAX]
            forget(self.brain, some, reason=f"cleared by {self.name}")

    @property
    def tag(self) -> str:
        """The tag of its messages, by which recall and list can filter."""
        return short_name(f"{self.name}:{quoted(self.session)}", of=self.name)

    def _append(self, drafts: Sequence[Draft]) -> None:
        outcomes = list(self.brain.remember(drafts).items)
        if any(one.code == OWN_EVIDENCE for one in outcomes):
            # What a recall answered is no text of a memory; the message itself is attached.
            self._take_back([one.id for one in outcomes if one.status.is_new])
            drafts = [
                replace(draft, body=_NO_TEXT) if one.code == OWN_EVIDENCE else draft
                for draft, one in zip(drafts, outcomes, strict=True)
            ]
            outcomes = list(self.brain.remember(drafts).items)
        if any(one.status.is_refused for one in outcomes):
            self._take_back([one.id for one in outcomes if one.status.is_new])
        for one in outcomes:
            check_stored(one)

    def _take_back(self, ids: Sequence[str | None]) -> None:
        known = [id_ for id_ in ids if id_ is not None]
        if known:
            forget(self.brain, known, reason="another message of the same call was refused")

    def _draft(self, message: LoggedMessage) -> Draft:
        return Draft(
            kind=Kind.MESSAGE,
            body=shortened(message.text) or _NO_TEXT,
            project=self.brain.caller.project,
            tags=(self.name, self.tag),
            thread=ThreadRef(key=self.tag, subject=self.session[:SUBJECT_CHARS_MAX] or self.name),
            detail=MessageDetail(sender=message.sender),
            extract_causes=False,
            attachment={
                "store": self.name,
                "session": self.session,
                "value": message.value,
                "text_at": place_of(message.text, message.value),
            },
        )

    def _ids(self) -> Iterator[str]:
        cursor = None
        while True:
            page = self.brain.list(
                tags=[self.tag],
                project=self.brain.caller.project or "",
                order="recorded_oldest",
                limit=LIST_PAGE_MAX,
                cursor=cursor,
            )
            yield from (one.id for one in page.memories)
            cursor = page.next
            if cursor is None:
                return

    def _views(self, ids: Iterator[str]) -> Iterator[MemoryView]:
        while some := list(islice(ids, IDS_PER_GET_MAX)):
            yield from self.brain.get_several(some, bump=False)

    def _is_own(self, view: MemoryView) -> bool:
        attached = view.attachment or {}
        return (attached.get("store"), attached.get("session")) == (self.name, self.session)

    def _first_id(self, view: MemoryView) -> str:
        """Return the id under which a message was first stored; ids sort by time."""
        if not view.superseded_count:
            return view.id
        changes = self.brain.get(view.id, views=[View.HISTORY], bump=False).history or ()
        return min((view.id, *(one.id for one in changes)))

    def _value(self, view: MemoryView) -> dict[str, Any]:
        attached = cast("Mapping[str, Any]", view.attachment)
        value = deepcopy(attached["value"])
        if view.superseded_count and attached["text_at"] is not None:
            set_text(value, attached["text_at"], text=view.body or "")
        return value
