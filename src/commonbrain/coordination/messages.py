"""Messages between agents, stored as memories that recall can find."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from datetime import datetime
from typing import TYPE_CHECKING, Unpack

from commonbrain.coordination import sending
from commonbrain.coordination.inbox import (
    MessagePage,
    MessageView,
    ThreadPage,
    ThreadSummary,
    count_by_thread,
    inbox_rows,
    known_beginning,
    newest_unread,
    summarize_thread,
    to_message_views,
)
from commonbrain.history.metadata import plain_names
from commonbrain.history.unit_of_work import write_unit
from commonbrain.ingestion.preparation import PreparedDraft
from commonbrain.model import ids, limits
from commonbrain.model.errors import InvalidInputError, RejectedError, parse_choice
from commonbrain.model.kinds import Kind, MessageDetail, MessagePriority
from commonbrain.model.memory import Memory
from commonbrain.model.messages import Reader, Thread, ThreadStatus
from commonbrain.model.paging import Key, Listing, Page, RowT
from commonbrain.model.scope import Caller, Scope, check_may_write, is_visible
from commonbrain.model.timestamps import instant
from commonbrain.retrieval.get import fetch
from commonbrain.services import Capability
from commonbrain.storage.interface import AccessEntry, Beginning, MemoryAccess
from commonbrain.text.normalisation import normalise, without_injected_context

if TYPE_CHECKING:
    from commonbrain.storage.store import Transaction


class Messages(Capability):
    """Messages for one caller.

    All methods raise `InvalidInputError` for a malformed id or cursor, `NotFoundError` for what the
    caller may not see, `RejectedError` for what validation rejects, and `UnavailableError` if the
    store stayed locked, or, as `busy` and `deadline`, if the texts of the tenant could not be
    embedded in time. After an error nothing is changed.
    """

    def send(
        self, to: Sequence[str] | str, body: str, **options: Unpack[sending.MessageOptions]
    ) -> sending.SendResult:
        """Send a message to one agent, to several, or to `all`.

        A message to named agents is private to them and the sender. One to all is visible to the
        team and appears in the inboxes of agents that work in its project, or in any if it has
        none.
        """
        return self._send(
            sending.parse_recipients(to, self.caller, services=self.services), body, options=options
        )

    def reply(
        self,
        id: str,  # noqa: A002 the public name is id
        body: str,
        *,
        to: Sequence[str] | str | None = None,
        **options: Unpack[sending.MessageOptions],
    ) -> sending.SendResult:
        """Reply in a message's thread.

        To its sender and other recipients, unless told otherwise.
        """
        with self._snapshot() as tx:
            parent = self._message(tx, id)
        names = (
            sending.parse_recipients(to, self.caller, services=self.services)
            if to
            else _reply_recipients(parent, self.caller)
        )
        detail = parent.detail
        thread = detail.thread_id if isinstance(detail, MessageDetail) else None
        within = sending.MessageOptions(project=parent.project)
        if thread is not None:
            within["thread"] = ids.show(ids.THREAD, thread)
        within.update(options)
        return self._send(names, body, options=within, parent=parent)

    def delegate(
        self,
        to: str,
        body: str,
        *,
        due_at: datetime | str | None = None,
        **options: Unpack[sending.MessageOptions],
    ) -> sending.SendResult:
        """Assign a task to one agent; both see its status, set by `revise`, in `delegated`."""
        names = sending.parse_recipients(to, self.caller, services=self.services)
        if len(names) != 1:
            raise InvalidInputError(
                "A task can be delegated to one agent only.",
                hint="Delegate to each agent separately.",
            )
        defaults = sending.MessageOptions(priority=MessagePriority.ACTION)
        defaults.update(options)
        draft = sending.draft_of(
            body, to=names, options=defaults, caller=self.caller, services=self.services
        )
        due = instant(due_at) if due_at else None
        ready = [
            sending.prepare_message(one, self.caller, services=self.services)
            for one in (draft, sending.task_of(draft, due_at=due))
        ]
        message, task = sending.embed_messages(ready, self.caller, services=self.services)
        with write_unit(self.services, self.caller) as unit:
            sent = sending.send_with_task(
                unit, message, task=task, thread=sending.thread_of(options)
            )
        return self._sent(sent)

    def inbox(
        self,
        *,
        all: bool = False,  # noqa: A002 the public name is all
        limit: int = limits.MESSAGES_PAGE_DEFAULT,
        cursor: str | None = None,
    ) -> MessagePage:
        """List unread messages, urgent ones first, then newest first.

        `all` adds those already read.
        """
        listing = _listing("inbox", limit=limit, cursor=cursor, all=all)
        after = listing.after(int, int)
        with self._snapshot() as tx:
            reader = self._reader()

            def rows(most: int) -> list[tuple[int, int]]:
                return inbox_rows(tx, reader, after=after, limit=most, with_read=all)

            unread = tx.messages.count_unread(reader, limit=limit + limits.MORE_COUNTED_MAX)
            page = listing.page(
                rows(limit + 1),
                key=lambda row: row,
                count=lambda most: len(rows(most)) if after or all else unread,
            )
            memories = tx.memories.get([id_ for _, id_ in page.rows])
            listed = [memories[id_] for _, id_ in page.rows if id_ in memories]
            return MessagePage(
                messages=to_message_views(
                    tx, self.caller, messages=listed, reader=reader, whole=False
                ),
                unread=count_by_thread(unread),
                next=page.next,
                more=page.more,
            )

    def newest_unread(self) -> int:
        """Return the number of the newest unread message, which grows by arrivals; 0 for none."""
        with self._snapshot() as tx:
            return newest_unread(tx, self._reader())

    def read(self, id: str | Sequence[str]) -> MessagePage:  # noqa: A002 the public name is id
        """Return messages in full, in the requested order, and mark them as read."""
        message_ids = [id] if isinstance(id, str) else list(dict.fromkeys(id))
        if not 0 < len(message_ids) <= limits.IDS_PER_GET_MAX:
            raise RejectedError(
                f"{len(message_ids)} ids; 1 to {limits.IDS_PER_GET_MAX} are allowed.",
                code="limit_exceeded",
                hint="Read them in several calls.",
            )
        with self.services.store.begin(self.caller.tenant) as tx:
            messages = [self._message(tx, one) for one in message_ids]
            reader = self._reader()
            shown = to_message_views(tx, self.caller, messages=messages, reader=reader, whole=True)
            tx.messages.take(reader)
            tx.messages.mark(reader, [one.id for one in messages])
        known = tuple(one.id for one in messages)
        access = MemoryAccess(tenant=self.caller.tenant, ids=known, at=self.services.clock.now())
        self.services.journal.touch(access)
        return MessagePage(messages=shown)

    def ack(self, id: str, body: str | None = None) -> MessageView:  # noqa: A002 the public name is id
        """Acknowledge a message, with an optional note to its sender; this marks it as read."""
        answer = self._answer(body)
        with self.services.store.begin(self.caller.tenant) as tx:
            message = self._message(tx, id)
            reader = self._reader()
            tx.messages.take(reader)
            tx.messages.mark(reader, [message.id])
            if not tx.messages.acknowledge(reader, message.id, answer=answer):
                raise RejectedError(
                    f"{id} was not sent to {self.caller.agent}.",
                    code="not_addressed",
                    hint="Acknowledge messages in your inbox; any message can be replied to.",
                )
            [shown] = to_message_views(
                tx, self.caller, messages=[message], reader=reader, whole=False
            )
            return shown

    def history(
        self,
        *,
        thread: str | None = None,
        agent: str | None = None,
        limit: int = limits.MESSAGES_PAGE_DEFAULT,
        cursor: str | None = None,
    ) -> MessagePage:
        """Return the messages of a thread, or with an agent, in order.

        The latest page comes first, oldest message first; the cursor leads to earlier messages.
        """
        if (thread is None) == (agent is None):
            raise InvalidInputError("Give the thread or the agent.", hint="One of them, not both.")
        listing = _listing("history", limit=limit, cursor=cursor, thread=thread, agent=agent)
        below = _below(listing)
        with self._snapshot() as tx:
            reader = self._reader()

            def rows(most: int) -> list[int]:
                if thread is None:
                    return tx.messages.between(reader, agent or "", below=below, limit=most)
                thread_id, now = ids.parse(ids.THREAD, thread), reader.now
                known_beginning(tx, self.caller, thread_id=thread_id, now=now)
                return tx.threads.messages(thread_id, self.caller, now=now, below=below, limit=most)

            page = _page(listing, rows, key=lambda id_: (id_,))
            known = tx.memories.get(page.rows)
            content = [known[id_] for id_ in reversed(page.rows) if id_ in known]
            return MessagePage(
                messages=to_message_views(
                    tx, self.caller, messages=content, reader=reader, whole=True
                ),
                next=page.next,
                more=page.more,
            )

    def threads(
        self,
        *,
        status: ThreadStatus | str | None = None,
        limit: int = limits.MESSAGES_PAGE_DEFAULT,
        cursor: str | None = None,
    ) -> ThreadPage:
        """List the threads with messages that the caller may see, latest first.

        `status` limits the list to open or closed ones.
        """
        named = None if status is None else parse_choice(ThreadStatus, status)
        listing = _listing("threads", limit=limit, cursor=cursor, status=status)
        below = _below(listing)
        with self._snapshot() as tx:
            reader = self._reader()

            def rows(most: int) -> list[tuple[int, int]]:
                return tx.threads.recent(
                    self.caller, now=reader.now, below=below, limit=most, status=named
                )

            page = _page(listing, rows, key=lambda row: row[1:])
            known = tx.threads.get([id_ for id_, _ in page.rows])
            lines = tuple(
                summarize_thread(tx, self.caller, thread=known[id_], reader=reader)
                for id_, _ in page.rows
            )
        return ThreadPage(threads=lines, next=page.next, more=page.more)

    def thread(
        self,
        id: str,  # noqa: A002 the public name is id
        *,
        status: ThreadStatus | str | None = None,
        tags: Sequence[str] | None = None,
    ) -> ThreadSummary:
        """Return a thread; `status` closes or opens it, `tags` replaces its tags.

        A closed thread is resolved; the next message opens it again. A change takes the role of a
        writer and the thread's first message, and is in the audit. What a person sent to all, a
        model does not close.

        Raises:
            RejectedError: `insufficient_role`; `not_addressed`, the caller joined it later; or
                `trust_override_denied`, a person began it and did not name the caller.

        """
        named = None if status is None else parse_choice(ThreadStatus, status)
        plain = None if tags is None else self._tags(tags)
        thread_id, now = ids.parse(ids.THREAD, id), self.services.clock.now()
        is_change = named is not None or plain is not None
        begin = self.services.store.begin if is_change else self.services.store.snapshot
        with begin(self.caller.tenant) as tx:
            beginning = known_beginning(tx, self.caller, thread_id=thread_id, now=now)
            thread = tx.threads.get([thread_id])[thread_id]
            if is_change:
                self._check_may_change(tx, id, beginning=beginning)
                changed = replace(thread, status=named or thread.status)
                changed = changed if plain is None else replace(changed, tags=tuple(plain))
                self._change_thread(tx, thread, changed=changed, now=now)
                thread = changed
            return summarize_thread(tx, self.caller, thread=thread, reader=self._reader())

    def _check_may_change(self, tx: Transaction, id: str, *, beginning: Beginning) -> None:  # noqa: A002
        check_may_write(self.caller, Scope.TEAM)
        if not beginning.was_addressed:
            raise RejectedError(
                f"The first message of {id[:40]} was not sent to {self.caller.agent}.",
                code="not_addressed",
                hint="Its author and first recipients can close it and set its tags.",
            )
        first = tx.memories.get([beginning.message_id])[beginning.message_id]
        is_named = isinstance(first.detail, MessageDetail) and self.caller.agent in (
            first.detail.recipients
        )
        if not is_named and not self.caller.authority.covers(first.authority):
            raise RejectedError(
                f"A {first.authority} began {id[:40]} and did not send it to {self.caller.agent} "
                f"by name; you act as a {self.caller.authority}.",
                code="trust_override_denied",
                hint="Reply in it, or ask the user to close it.",
            )

    def _change_thread(
        self, tx: Transaction, thread: Thread, *, changed: Thread, now: datetime
    ) -> None:
        """Store the status and tags of a thread, with a line of the audit for each that differs."""
        actions = {"thread_status": changed.status != thread.status}
        actions["thread_tags"] = changed.tags != thread.tags
        if any(actions.values()):
            tx.threads.set_status(thread.id, changed.status, tags=changed.tags)
        for action in (name for name, is_done in actions.items() if is_done):
            subject = ids.show(ids.THREAD, thread.id)
            tx.credentials.note(AccessEntry.by(self.caller, action, at=now, subject=subject))

    def _tags(self, given: Sequence[str]) -> list[str]:
        names = plain_names(
            [self.services.clean_text(one, what="tag", caller=self.caller) for one in given],
            what="tag",
        )
        if len(names) > limits.TAGS_MAX:
            raise RejectedError(
                f"{len(names)} tags; {limits.TAGS_MAX} are allowed.",
                code="limit_exceeded",
                hint="Give fewer.",
            )
        return names

    def delegated(
        self, *, limit: int = limits.MESSAGES_PAGE_DEFAULT, cursor: str | None = None
    ) -> sending.AssignedTaskPage:
        """List tasks that the caller assigned or was assigned, newest first."""
        listing = _listing("delegated", limit=limit, cursor=cursor)
        below = _below(listing)
        with self._snapshot() as tx:
            now, agent = self.services.clock.now(), self.caller.agent
            page = _page(
                listing,
                lambda most: tx.messages.delegated(agent, below=below, limit=most),
                key=lambda id_: (id_,),
            )
            known = tx.memories.get(page.rows)
            tasks = [known[id_] for id_ in page.rows if id_ in known]
            shown = [
                sending.assignment_of(tx, one, now=now)
                for one in tasks
                if is_visible(self.caller, one)
            ]
        return sending.AssignedTaskPage(
            delegated=tuple(one for one in shown if one is not None),
            next=page.next,
            more=page.more,
        )

    def _send(
        self,
        to: tuple[str, ...],
        body: str,
        *,
        options: sending.MessageOptions,
        parent: Memory | None = None,
    ) -> sending.SendResult:
        draft = sending.draft_of(
            body, to=to, options=options, caller=self.caller, services=self.services, parent=parent
        )
        [ready] = sending.embed_messages(
            [sending.prepare_message(draft, self.caller, services=self.services)],
            self.caller,
            services=self.services,
        )
        if any(isinstance(part, PreparedDraft) for part in ready.derived):
            # Tagged parts are compared with known memories outside the write transaction.
            with self._snapshot() as tx:
                tx.index.follow()
        with write_unit(self.services, self.caller) as unit:
            sent = sending.deliver_message(unit, ready, thread=sending.thread_of(options))
        return self._sent(sent)

    def _sent(self, sent: sending.SendResult) -> sending.SendResult:
        """Have a long message embedded now that it is stored, and return the result."""
        if sent.embedding_pending:
            self.services.start_embedding(self.caller)
        return sent

    def _message(self, tx: Transaction, id: str) -> Memory:  # noqa: A002 the public name is id
        """Fetch a message that the caller may see.

        Raises:
            NotFoundError: there is no such memory.
            InvalidInputError: it is another kind of memory.

        """
        memory = fetch(tx, self.caller, id_=ids.parse(ids.MEMORY, id))
        if memory.kind is not Kind.MESSAGE:
            raise InvalidInputError(
                f"{id[:40]} is a {memory.kind}, not a message.", hint="Fetch it with get."
            )
        return memory

    def _answer(self, body: str | None) -> str | None:
        """Return the note of an acknowledgement, checked and without secrets.

        Raises:
            InvalidInputError: it is too long.
            RejectedError: `secret_detected`.

        """
        if not body:
            return None
        content = normalise(without_injected_context(normalise(body)))
        if len(content) > limits.NOTE_CHARS_MAX:
            raise InvalidInputError(
                f"The answer has {len(content):,} characters of at most {limits.NOTE_CHARS_MAX:,}.",
                hint="Reply with a message.",
            )
        return self.services.clean_text(content, what="answer", caller=self.caller) or None

    def _reader(self) -> Reader:
        return Reader(
            agent=self.caller.agent, project=self.caller.project, now=self.services.clock.now()
        )

    def _snapshot(self) -> AbstractContextManager[Transaction]:
        return self.services.store.snapshot(self.caller.tenant)


def _reply_recipients(parent: Memory, caller: Caller) -> tuple[str, ...]:
    """Return the recipients of a reply; a reply to a broadcast goes to everyone.

    Raises:
        InvalidInputError: no other agent has the message; no recipients would mean everyone.

    """
    detail = parent.detail
    recipients = detail.recipients if isinstance(detail, MessageDetail) else ()
    if parent.scope is not Scope.PRIVATE and not recipients:
        return ()
    named = dict.fromkeys((parent.agent, *recipients))
    others = tuple(name for name in named if name != caller.agent)
    if not others:
        raise InvalidInputError(
            "No other agent has this message.", hint="Name a recipient in `to`."
        )
    return others


def _listing(name: str, *, limit: int, cursor: str | None, **filters: object) -> Listing:
    listing = Listing(name=name, limit=limit, cursor=cursor, filters=filters)
    return listing.checked(limits.MESSAGES_PAGE_MAX)


def _below(listing: Listing) -> int:
    """Return the id below which a page of messages begins."""
    after = listing.after(int)
    return ids.LAST if after is None else int(after[0])


def _page(
    listing: Listing, rows: Callable[[int], list[RowT]], *, key: Callable[[RowT], Key]
) -> Page[RowT]:
    """Make a page of ids, newest first; ids are few bytes, so they are counted by reading them."""
    return listing.page(rows(listing.limit + 1), key=key, count=lambda most: len(rows(most)))
