"""Messages: what agents say to each other, kept as memories that recall finds."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import datetime
from typing import Unpack

from commonbrain.coordination.assignments import DelegationPage, delegation_of, hand_over, task_of
from commonbrain.coordination.inbox import (
    Letter,
    Page,
    ThreadPage,
    counted,
    letters,
    line_of,
    page_of,
)
from commonbrain.coordination.sending import (
    Envelope,
    Sent,
    addressed,
    check_thread,
    deliver,
    draft_of,
    embedded,
    prepared,
    thread_of,
)
from commonbrain.history.unit_of_work import Act
from commonbrain.ingestion.preparation import Prepared
from commonbrain.ingestion.secret_scanning import screened
from commonbrain.model import ids, limits
from commonbrain.model.errors import Invalid, Refused
from commonbrain.model.kinds import Kind, MessageDetail, MessagePriority
from commonbrain.model.memory import Memory
from commonbrain.model.messages import UNREAD_COUNTED_MAX, Reader
from commonbrain.model.scope import Caller, Scope, is_visible
from commonbrain.model.timestamps import instant
from commonbrain.retrieval.get import fetch
from commonbrain.services import House
from commonbrain.storage.interface import Transaction
from commonbrain.storage.records import Access
from commonbrain.text.injected_context import without_own_evidence
from commonbrain.text.normalisation import normalise


@dataclass(frozen=True, slots=True)
class Messages:
    """Messages for one caller.

    All methods raise `Invalid` for what is no id or cursor, `NotFound` for what the caller may not
    see, `Refused` for what the gate keeps out or is out of bounds, and `Unavailable` when the
    store stayed locked; after an error everything is as it was.
    """

    house: House
    caller: Caller

    def send(self, to: Sequence[str] | str, body: str, **told: Unpack[Envelope]) -> Sent:
        """Send a message to one agent, to several, or to `all`.

        To names it is private to them and the sender. To all it is seen by the team, and waits in
        the inboxes of who works in its project, or in any when it has none.
        """
        return self._send(addressed(to, self.caller, house=self.house), body, told=told)

    def reply(
        self,
        id: str,  # noqa: A002 the public name is id
        body: str,
        *,
        to: Sequence[str] | str | None = None,
        **told: Unpack[Envelope],
    ) -> Sent:
        """Answer a message in its thread: to its sender and its other recipients, unless told."""
        with self._snapshot() as tx:
            parent = self._message(tx, id)
        names = (
            addressed(to, self.caller, house=self.house) if to else _answered(parent, self.caller)
        )
        detail = parent.detail
        thread = detail.thread_id if isinstance(detail, MessageDetail) else None
        within = Envelope(project=parent.project)
        if thread is not None:
            within["thread"] = ids.show(ids.THREAD, thread)
        within.update(told)
        return self._send(names, body, told=within, parent=parent)

    def delegate(
        self,
        to: str,
        body: str,
        *,
        due_at: datetime | str | None = None,
        **told: Unpack[Envelope],
    ) -> Sent:
        """Send a task to one agent: its status, set by `revise`, is seen by both in `delegated`."""
        names = addressed(to, self.caller, house=self.house)
        if len(names) != 1:
            raise Invalid("A task is delegated to one agent.", hint="Delegate to each of them.")
        asked = Envelope(priority=MessagePriority.ACTION)
        asked.update(told)
        draft = draft_of(body, to=names, told=asked, caller=self.caller)
        due = instant(due_at) if due_at else None
        ready = [
            prepared(one, self.caller, house=self.house)
            for one in (draft, task_of(draft, due_at=due))
        ]
        message, task = embedded(ready, self.house)
        with self.house.store.begin(self.caller.tenant) as tx:
            return hand_over(self._act(tx), message, task=task, thread=thread_of(told))

    def inbox(
        self,
        *,
        all: bool = False,  # noqa: A002 the public name is all
        limit: int = limits.MESSAGES_PAGE_DEFAULT,
        cursor: str | None = None,
    ) -> Page:
        """List what waits to be read, urgent first, then newest first; `all` adds what was read."""
        _check_limit(limit)
        with self._snapshot() as tx:
            reader = self._reader()
            leaf = page_of(tx, reader, cursor=cursor, limit=limit, with_read=all)
            found = tx.memories.get([*leaf.unread, *leaf.read])
            listed = [found[id_] for id_ in (*leaf.unread, *leaf.read) if id_ in found]
            unread = tx.mail.count_unread(reader, limit=UNREAD_COUNTED_MAX + 1)
            return Page(
                messages=letters(tx, self.caller, messages=listed, reader=reader, whole=False),
                unread=counted(unread),
                cursor=leaf.cursor,
            )

    def read(self, id: str | Sequence[str]) -> Page:  # noqa: A002 the public name is id
        """Give messages in full, in the order asked for, and mark them as read."""
        wanted = [id] if isinstance(id, str) else list(dict.fromkeys(id))
        if not 0 < len(wanted) <= limits.IDS_PER_GET_MAX:
            raise Refused(
                f"{len(wanted)} ids; 1 to {limits.IDS_PER_GET_MAX} are allowed.",
                code="limit_exceeded",
                hint="Read them in several calls.",
            )
        with self.house.store.begin(self.caller.tenant) as tx:
            found = [self._message(tx, one) for one in wanted]
            reader = self._reader()
            shown = letters(tx, self.caller, messages=found, reader=reader, whole=True)
            tx.mail.take(reader)
            tx.mail.mark(reader, [one.id for one in found])
        known = tuple(one.id for one in found)
        access = Access(tenant=self.caller.tenant, ids=known, at=self.house.clock.now())
        self.house.journal.touch(access)
        return Page(messages=shown)

    def ack(self, id: str, body: str | None = None) -> Letter:  # noqa: A002 the public name is id
        """Acknowledge a message, with a word to its sender if there is one; it counts as read."""
        answer = self._answer(body)
        with self.house.store.begin(self.caller.tenant) as tx:
            message = self._message(tx, id)
            reader = self._reader()
            tx.mail.take(reader)
            tx.mail.mark(reader, [message.id])
            if not tx.mail.acknowledge(reader, message.id, answer=answer):
                raise Refused(
                    f"{id} was not sent to {self.caller.agent}.",
                    code="not_addressed",
                    hint="Acknowledge what stands in the inbox; reply to anything you see.",
                )
            [shown] = letters(tx, self.caller, messages=[message], reader=reader, whole=False)
            return shown

    def history(
        self,
        *,
        thread: str | None = None,
        agent: str | None = None,
        limit: int = limits.MESSAGES_PAGE_DEFAULT,
        cursor: str | None = None,
    ) -> Page:
        """Give what was said in a thread, or between the caller and an agent, in its order.

        The latest page comes first, itself oldest first; the cursor leads to what was said before.
        """
        _check_limit(limit)
        below = ids.parse(ids.MEMORY, cursor) if cursor else ids.LAST
        if (thread is None) == (agent is None):
            raise Invalid("Give the thread or the agent.", hint="One of them, not both.")
        with self._snapshot() as tx:
            reader = self._reader()
            found = (
                self._of_thread(tx, thread, below=below, limit=limit + 1)
                if thread is not None
                else tx.mail.between(reader, agent or "", below=below, limit=limit + 1)
            )
            shown = found[:limit]
            known = tx.memories.get(shown)
            said = [known[id_] for id_ in reversed(shown) if id_ in known]
            return Page(
                messages=letters(tx, self.caller, messages=said, reader=reader, whole=True),
                cursor=_next(shown, found),
            )

    def threads(
        self, *, limit: int = limits.MESSAGES_PAGE_DEFAULT, cursor: str | None = None
    ) -> ThreadPage:
        """List the threads of which the caller sees something, the latest first."""
        _check_limit(limit)
        below = ids.parse(ids.MEMORY, cursor) if cursor else ids.LAST
        with self._snapshot() as tx:
            reader = self._reader()
            found = tx.threads.recent(self.caller, now=reader.now, below=below, limit=limit + 1)
            lines = tuple(
                line_of(tx, self.caller, thread=thread, reader=reader)
                for thread, _ in found[:limit]
            )
        last = [last for _, last in found]
        return ThreadPage(threads=lines, cursor=_next(last[:limit], last))

    def delegated(
        self, *, limit: int = limits.MESSAGES_PAGE_DEFAULT, cursor: str | None = None
    ) -> DelegationPage:
        """List the tasks that the caller delegated or was delegated, newest first."""
        _check_limit(limit)
        below = ids.parse(ids.MEMORY, cursor) if cursor else ids.LAST
        with self._snapshot() as tx:
            now = self.house.clock.now()
            found = tx.mail.delegated(self.caller.agent, below=below, limit=limit + 1)
            known = tx.memories.get(found[:limit])
            tasks = [known[id_] for id_ in found[:limit] if id_ in known]
            shown = [
                delegation_of(tx, one, now=now) for one in tasks if is_visible(self.caller, one)
            ]
        return DelegationPage(
            delegated=tuple(one for one in shown if one is not None),
            cursor=_next(found[:limit], found),
        )

    def _send(
        self, to: tuple[str, ...], body: str, *, told: Envelope, parent: Memory | None = None
    ) -> Sent:
        draft = draft_of(body, to=to, told=told, caller=self.caller, parent=parent)
        [ready] = embedded([prepared(draft, self.caller, house=self.house)], self.house)
        if any(isinstance(part, Prepared) for part in ready.derived):
            # What the text marks is compared with what is known: not while others wait to write.
            with self._snapshot() as tx:
                tx.index.follow()
        with self.house.store.begin(self.caller.tenant) as tx:
            return deliver(self._act(tx), ready, thread=thread_of(told))

    def _message(self, tx: Transaction, id: str) -> Memory:  # noqa: A002 the public name is id
        """Fetch a message that the caller may see.

        Raises:
            NotFound: there is none.
            Invalid: it is another kind of memory.

        """
        memory = fetch(tx, self.caller, id_=ids.parse(ids.MEMORY, id))
        if memory.kind is not Kind.MESSAGE:
            raise Invalid(f"{id[:40]} is a {memory.kind}, no message.", hint="Fetch it with get.")
        return memory

    def _of_thread(self, tx: Transaction, thread: str, *, below: int, limit: int) -> list[int]:
        thread_id, now = ids.parse(ids.THREAD, thread), self.house.clock.now()
        check_thread(tx, self.caller, thread_id=thread_id, now=now)
        return tx.threads.messages(thread_id, self.caller, now=now, below=below, limit=limit)

    def _answer(self, body: str | None) -> str | None:
        """Read the words of an acknowledgement.

        Raises:
            Invalid: they are too long.
            Refused: `secret_detected`.

        """
        if not body:
            return None
        said = normalise(without_own_evidence(normalise(body)))
        if len(said) > limits.NOTE_CHARS_MAX:
            raise Invalid(
                f"The answer has {len(said):,} characters; {limits.NOTE_CHARS_MAX:,} are allowed.",
                hint="Reply with a message.",
            )
        return screened(said, what="answer", house=self.house) or None

    def _reader(self) -> Reader:
        return Reader(
            agent=self.caller.agent, project=self.caller.project, now=self.house.clock.now()
        )

    def _act(self, tx: Transaction) -> Act:
        return Act(tx=tx, house=self.house, caller=self.caller, now=self.house.clock.now())

    def _snapshot(self) -> AbstractContextManager[Transaction]:
        return self.house.store.snapshot(self.caller.tenant)


def _answered(parent: Memory, caller: Caller) -> tuple[str, ...]:
    """Say whom an answer is for; to a broadcast everybody, and to what one said, who was told.

    Raises:
        Invalid: nobody else has the message; no recipients would mean everybody.

    """
    detail = parent.detail
    recipients = detail.recipients if isinstance(detail, MessageDetail) else ()
    if parent.scope is not Scope.PRIVATE and not recipients:
        return ()
    named = dict.fromkeys((parent.agent, *recipients))
    others = tuple(name for name in named if name != caller.agent)
    if not others:
        raise Invalid("Nobody else has this message.", hint="Name whom the answer is for.")
    return others


def _check_limit(limit: int) -> None:
    if not 1 <= limit <= limits.MESSAGES_PAGE_MAX:
        raise Refused(
            f"limit is {limit}; 1 to {limits.MESSAGES_PAGE_MAX} is allowed.",
            code="limit_exceeded",
            hint="Ask page by page: each reply gives the cursor of the next.",
        )


def _next(shown: Sequence[int], found: Sequence[int]) -> str | None:
    return ids.show(ids.MEMORY, shown[-1]) if len(found) > len(shown) else None
