"""The library: `class Brain`, one open store as one caller sees it."""

from __future__ import annotations

from dataclasses import replace as replace_fields
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Self, TypedDict, Unpack

from commonbrain.forks import after_fork
from commonbrain.model.limits import (
    AGENDA_DEFAULT,
    AUDIT_PAGE_DEFAULT,
    EMBED_BATCH,
    ITEMS_PER_CALL_MAX,
    LIST_PAGE_DEFAULT,
    PRUNE_AT_ONCE_MAX,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from datetime import datetime
    from pathlib import Path
    from types import TracebackType

    from commonbrain.administration.backup import Repaired
    from commonbrain.administration.embedding_spaces import EmbeddingSpaces
    from commonbrain.administration.status import CallMetrics, Diagnosis, StoreStatus
    from commonbrain.causality.atomize import Atomized
    from commonbrain.causality.trace import CausalTrace
    from commonbrain.consolidation.maintenance import Maintain
    from commonbrain.consolidation.reflection import Reflect
    from commonbrain.coordination.briefing import Briefing
    from commonbrain.coordination.messages import Messages
    from commonbrain.coordination.sessions import Sessions
    from commonbrain.history.audit import AuditPage
    from commonbrain.history.bulk_edit import BulkAction
    from commonbrain.history.review_queue import ReviewCategory, ReviewQueue
    from commonbrain.history.revise import Revise
    from commonbrain.history.selection import BulkChangeResult, SelectorFields
    from commonbrain.ingestion.embedding import EmbedProgress, OnCommit
    from commonbrain.ingestion.preparation import DraftFields
    from commonbrain.ingestion.result import RememberResult
    from commonbrain.jobs.service import Jobs
    from commonbrain.model.kinds import CausalField, Kind
    from commonbrain.model.listing import ListOrder
    from commonbrain.model.memory import Draft, State
    from commonbrain.model.recall_result import Order, RecallResult
    from commonbrain.model.scope import Caller, Scope, Trust
    from commonbrain.model.sessions import ClientInfo
    from commonbrain.retrieval.get import MemoryView, View
    from commonbrain.retrieval.listing import MemoryPage
    from commonbrain.retrieval.log import ListRecalls
    from commonbrain.retrieval.skills import Skills
    from commonbrain.services import Services
    from commonbrain.storage.interface import Backup, Progress
    from commonbrain.transfer.archive import ExportResult
    from commonbrain.transfer.imports import ImportReport
    from commonbrain.transfer.merge import ResumeOptions


class Identity(TypedDict, total=False):
    """The identity of a caller; omitted fields stay as they are."""

    agent: str
    project: str | None
    session: str | None
    contact: ClientInfo
    trust_ceiling: Trust
    request_id: str | None


def identity_of(*, agent: str | None, session: str | None) -> Identity:
    """Return the identity with the names that are given."""
    identity = Identity()
    if agent is not None:
        identity["agent"] = agent
    if session is not None:
        identity["session"] = session
    return identity


class Brain:
    """One open store as one caller sees it; `commonbrain.open()` returns it.

    Methods may be called from several threads. Brains made by `acting_as` share the store; closing
    one of them closes it for all. A capability is imported when it is first used.

    All methods raise `InvalidInputError` for a malformed argument, `RejectedError` if validation,
    a policy or a limit says no, `NotFoundError` for what does not exist or is not visible, and
    `UnavailableError` if the store is locked, full or gone. After an error nothing is changed,
    unless the method says otherwise.
    """

    __slots__ = ("caller", "services")

    def __new__(cls, services: Services, caller: Caller) -> Self:  # noqa: ARG004 as __init__
        """Create a view; that of a server audits what it shows."""
        guard = services.guard
        return object.__new__(cls if guard is None else guard.view_class(cls))

    def __init__(self, services: Services, caller: Caller) -> None:
        """Create a view of open services for a caller; use `commonbrain.open()`."""
        self.services = services
        self.caller = caller

    def acting_as(self, **identity: Unpack[Identity]) -> Self:
        """Return a view of the same store for another agent, project or session.

        Example: `brain.acting_as(agent="codex", project="shop").boot()`.

        Raises:
            InvalidInputError: a name is empty, too long or not printable, or a field is unknown.

        """
        unsupported = sorted(set(identity) - set(Identity.__annotations__))
        if unsupported:
            from commonbrain.model.errors import InvalidInputError  # noqa: PLC0415

            raise InvalidInputError(f"A view cannot choose its {', '.join(unsupported)}.")
        return type(self)(self.services, replace_fields(self.caller, **identity))

    def identified(self) -> Self:
        """Return a view whose lines in the audit have one request id, a new one if it has none."""
        if self.caller.request_id is not None:
            return self
        from commonbrain.model.ids import RANDOM_BITS, make_id  # noqa: PLC0415

        services = self.services
        number = make_id(services.clock.now(), services.random_source.bits(RANDOM_BITS))
        return self.acting_as(request_id=f"{number:016x}")

    # Everyday use

    def remember(
        self,
        text: str | Draft | Sequence[Draft],
        *,
        chunks: bool | None = None,
        idempotency_key: str | None = None,
        **known: Unpack[DraftFields],
    ) -> RememberResult:
        """Store a text, or up to 100 drafts, in one transaction.

        Example: `brain.remember("Releases are cut on Tuesdays", kind="rule", project="shop")`.

        Args:
            text: a statement of at most 16 KiB, a raw text of at most 1 MiB, a draft, or drafts.
            chunks: whether to split the text into several memories. By default, a text of several
                paragraphs or over 300 words is split unless it has a kind or headline.
            idempotency_key: for one day, the same key and content return the first reply.
            known: `kind` (rule, fact, incident, task, event, episode, atom or message; by default
                the words decide), `headline`, `label`, `project`, `scope`, `tags`, `people`,
                `source_ref`, `trust`, `confidence`, `derived_from`, `depends_on`, `occurred_at`,
                `expires_at`, `distinct_because` and more, as `DraftFields` explains them; and the
                columns of the kind, such as `severity` of a rule or `due_at` of a task.

        Returns:
            One outcome per item, in order: stored, exists, duplicate, rejected or quarantined.
            `stored` items are durable and searchable.

        Raises:
            InvalidInputError: an argument is malformed; nothing was stored. In a list of drafts,
                this and the next two refuse only the draft at fault.
            NotFoundError: a source does not exist or is not visible; nothing was stored.
            RejectedError: the caller may not write there or claim that trust. For the whole call:
                it has to acknowledge action items first; nothing was stored.
            UnavailableError: the store is locked, full or read-only; `busy`, too many texts of the
                tenant wait to be embedded; or `deadline`. Nothing was stored.

        """
        from commonbrain.ingestion.service import Remember  # noqa: PLC0415

        return Remember(self.services, self.caller)(
            text, chunks=chunks, idempotency_key=idempotency_key, **known
        )

    def recall(  # noqa: PLR0913 the filters, spelled out for editors
        self,
        query: str = "",
        *,
        max_items: int | None = None,
        max_tokens: int | None = None,
        kinds: Sequence[Kind | str] = (),
        labels: Sequence[str] = (),
        tags: Sequence[str] = (),
        people: Sequence[str] = (),
        project: str | None = None,
        scope: Scope | str | None = None,
        agent: str | None = None,
        session: str | None = None,
        field: CausalField | str | None = None,
        thread: str | None = None,
        states: Sequence[State | str] = (),
        since: datetime | str | None = None,
        until: datetime | str | None = None,
        as_of: datetime | str | None = None,
        trust_min: float | None = None,
        min_confidence: float = 0.0,
        deadline_ms: float | None = None,
        order: Order | str = "relevance",
        cursor: str | None = None,
        bump: bool = True,
        proactive: bool = False,
    ) -> RecallResult:
        """Find the memories that answer a query; without a query, list the newest.

        Example: `brain.recall("why postgres?", project="api", max_items=3)`.

        Args:
            query: plain words, at most 2,000 characters; punctuation has no meaning. A time in it
                ("last week") is a preference, not a filter, unless nothing else is asked for.
            max_items: 1..100; 12 unless set otherwise.
            max_tokens: 64..32,000, the size of the result; 1,400 unless set otherwise.
            kinds: only these kinds.
            labels: only these labels.
            tags: only memories with all of these tags.
            people: only memories that mention, or were said by, one of these people.
            project: only this project and global memories.
            scope: only this scope.
            agent: only memories by this author.
            session: only memories of this session.
            field: only atoms, searched in one field: subject, action, outcome or consequences.
            thread: only messages of this thread.
            states: by default active and archived; `needs_review` is accepted too.
            since: occurred at or after, ISO 8601 or words such as "last monday".
            until: occurred at or before.
            as_of: return what was believed at this time.
            trust_min: 0..1; lower it to include text from the web.
            min_confidence: 0..1.
            deadline_ms: after this time no further retriever runs; `degraded` names those.
            order: relevance, or timeline for items by time, each occurrence of the same words.
            cursor: `next` of the page before, of a recall without a query.
            bump: count this recall as an access to the best items.
            proactive: return only strong matches, for an agent that did not ask.

        Returns:
            Items within the budget. `verdict` distinguishes an empty store from one without a
            relevant memory; `evidence` is the text for an agent.

        Raises:
            InvalidInputError: a kind or state is unknown, or a time cannot be parsed.
            RejectedError: `limit_exceeded`, the query or a number is out of range.
            UnavailableError: the store cannot be read.

        """
        from commonbrain.retrieval.recall import Recall  # noqa: PLC0415

        return Recall(self.services, self.caller)(
            query,
            max_items=max_items,
            max_tokens=max_tokens,
            kinds=kinds,
            labels=labels,
            tags=tags,
            people=people,
            project=project,
            scope=scope,
            agent=agent,
            session=session,
            field=field,
            thread=thread,
            states=states,
            since=since,
            until=until,
            as_of=as_of,
            trust_min=trust_min,
            min_confidence=min_confidence,
            deadline_ms=deadline_ms,
            order=order,
            cursor=cursor,
            bump=bump,
            proactive=proactive,
        )

    def list(  # noqa: PLR0913 the filters, spelled out for editors
        self,
        *,
        kinds: Sequence[Kind | str] = (),
        labels: Sequence[str] = (),
        tags: Sequence[str] = (),
        project: str | None = None,
        agent: str | None = None,
        session: str | None = None,
        scope: Scope | str | None = None,
        states: Sequence[State | str] = (),
        pinned: bool | None = None,
        trust_min: float = 0.0,
        since: datetime | str | None = None,
        until: datetime | str | None = None,
        recorded_since: datetime | str | None = None,
        recorded_until: datetime | str | None = None,
        order: ListOrder | str = "recorded",
        facets: bool = False,
        limit: int = LIST_PAGE_DEFAULT,
        cursor: str | None = None,
    ) -> MemoryPage:
        """List memories for a person, page by page; unlike `recall`, without a budget of tokens.

        Example: `brain.list(project="shop", kinds=["rule"], facets=True)`.

        Args:
            kinds: only these kinds.
            labels: only memories with one of these labels; an empty one means without a label.
            tags: only memories with all of these tags.
            project: only this project; an empty one means memories without a project.
            agent: only memories by this author.
            session: only memories of this session.
            scope: only this scope.
            states: by default active and archived; any state, and `needs_review`, is accepted.
                Memories past their expiry are listed as expired, forgotten ones without their text.
            pinned: only pinned memories, or only others.
            trust_min: 0..1; by default memories of any trust.
            since: occurred at or after, ISO 8601 or words such as "last monday".
            until: occurred at or before.
            recorded_since: recorded at or after.
            recorded_until: recorded at or before.
            order: recorded or occurred, newest first; recorded_oldest or occurred_oldest.
            facets: count all memories that match by kind, project, label, agent, state, tag and
                month. A facet's own filter is not applied to its counts.
            limit: 1 to 200 memories.
            cursor: `next` of the page before.

        Raises:
            InvalidInputError: a kind, state, order or time cannot be parsed, or the cursor belongs
                to a list with other filters.
            RejectedError: `limit_exceeded`, a number is out of range.

        """
        from commonbrain.retrieval.listing import ListMemories, ListQuery  # noqa: PLC0415

        query = ListQuery(
            kinds=kinds,
            labels=labels,
            tags=tags,
            project=project,
            agent=agent,
            session=session,
            scope=scope,
            states=states,
            pinned=pinned,
            trust_min=trust_min,
            since=since,
            until=until,
            recorded_since=recorded_since,
            recorded_until=recorded_until,
            order=order,
            facets=facets,
            limit=limit,
            cursor=cursor,
        )
        return ListMemories(self.services, self.caller)(query)

    def get(
        self,
        id: str = "",  # noqa: A002 the public name is id
        *,
        skill: str = "",
        views: Sequence[View | str] = (),
        bump: bool = True,
    ) -> MemoryView:
        """Return one memory as a whole, in any state, or the current skill with a name.

        Example: `brain.get("mem_38G0FM4BXXFX7", views=["history"])`.

        Args:
            id: the memory's id; omit it for a skill.
            skill: the skill's name; the caller's project takes precedence.
            views: parts to add: history, provenance, links, annotations, policy, dependents.
            bump: count this as an access, which restores strength.

        """
        from commonbrain.retrieval.get import Get  # noqa: PLC0415

        return Get(self.services, self.caller)(id, skill=skill, views=views, bump=bump)

    def get_several(
        self, ids: Sequence[str], *, views: Sequence[View | str] = (), bump: bool = True
    ) -> tuple[MemoryView, ...]:
        """Return up to 20 memories in the given order, each once; all of them or an error."""
        from commonbrain.retrieval.get import Get  # noqa: PLC0415

        return Get(self.services, self.caller).several(ids, views=views, bump=bump)

    def boot(
        self,
        project: str | None = None,
        task: str | None = None,
        *,
        client: str | None = None,
        metadata: Mapping[str, str] = MappingProxyType({}),
    ) -> Briefing:
        """Start a session and return its briefing, in at most 2,000 tokens.

        Without a session of its own, a process has one at a time: booting again ends the last one.

        Example: `print(brain.boot("shop", "Move the orders to Postgres").text)`.

        Args:
            project: the project in which the agent works; by default the caller's.
            task: its task in at most 2,000 characters, by which patterns are chosen.
            client: the program that runs the agent, for display.
            metadata: what others are shown of the session, such as `branch`, `worktree`, `model`.

        """
        from commonbrain.coordination.boot import Boot  # noqa: PLC0415

        boot = Boot(self.services, self.caller)
        return boot(project, task, client=client, metadata=metadata)

    def preview_boot(self, project: str | None = None, task: str | None = None) -> Briefing:
        """Return the briefing that `boot` would give; starts no session and changes nothing.

        Args:
            project: the project in which the agent works; by default the caller's.
            task: its task in at most 2,000 characters, by which patterns are chosen.

        """
        from commonbrain.coordination.boot import Boot  # noqa: PLC0415

        return Boot(self.services, self.caller).preview(project, task)

    # Review and correct

    @property
    def revise(self) -> Revise:
        """Correct memories: supersede, restore, resolve, link, retag, approve and more."""
        from commonbrain.history.revise import Revise  # noqa: PLC0415

        return Revise(self.services, self.caller)

    def review(
        self,
        category: ReviewCategory | str | None = None,
        *,
        project: str | None = None,
        limit: int = AGENDA_DEFAULT,
        cursor: str | None = None,
    ) -> ReviewQueue:
        """List open conflicts, memories that need review, pending ones, and duplicate suspects.

        Args:
            category: conflicts, needs_review, proposals or duplicates; all by default.
            project: only this project's and global memories.
            limit: 1 to 100 of each category.
            cursor: `next` of the page before.

        """
        from commonbrain.history.review_queue import ListReviewQueue  # noqa: PLC0415

        return ListReviewQueue(self.services, self.caller)(
            category, project=project, limit=limit, cursor=cursor
        )

    def bulk_edit(
        self,
        ids: Sequence[str],
        action: BulkAction | str,
        *,
        tags: Sequence[str] = (),
        untag: Sequence[str] = (),
        reason: str = "",
        confirm: int | None = None,
    ) -> BulkChangeResult:
        """Tag, pin, archive or confirm up to 100 memories in one transaction, after a preview.

        Example: `brain.bulk_edit(ids, "retag", tags=["database"], confirm=len(ids))`.

        Args:
            ids: the memories; those that cannot be changed are skipped, with the reason.
            action: retag, pin, unpin, archive, or review: they needed review and still hold.
            tags: for retag: tags to add.
            untag: for retag: tags to remove.
            reason: the reason, which is stored.
            confirm: the count of the preview; without it nothing is changed.

        """
        from commonbrain.history.bulk_edit import BulkEdit  # noqa: PLC0415

        return BulkEdit(self.services, self.caller)(
            ids, action, tags=tags, untag=untag, reason=reason, confirm=confirm
        )

    def forget(
        self,
        id: str | Sequence[str] = (),  # noqa: A002 the public name is id
        *,
        reason: str,
        confirm: int | None = None,
        dry_run: bool = False,
        **matching: Unpack[SelectorFields],
    ) -> BulkChangeResult:
        """Forget memories: recall no longer returns them; `revise.restore` brings them back.

        One memory is forgotten at once. Several are previewed; repeat the call with `confirm`.

        Example: `brain.forget(agent="runaway", since="today", reason="a broken prompt")`.

        Args:
            id: one id, or up to 100.
            reason: the reason, which is stored.
            confirm: the number of memories in the preview.
            dry_run: return what would be forgotten; change nothing.
            matching: criteria instead of ids; see `SelectorFields`.

        """
        from commonbrain.history.forget import Forget  # noqa: PLC0415

        return Forget(self.services, self.caller)(
            id, reason=reason, confirm=confirm, dry_run=dry_run, **matching
        )

    def prune(
        self,
        *,
        days: int = 90,
        kinds: Sequence[Kind | str] = (),
        min_access: int = 0,
        limit: int = PRUNE_AT_ONCE_MAX,
        confirm: int | None = None,
    ) -> BulkChangeResult:
        """Forget memories that were not accessed for a number of days, oldest first.

        Pinned memories, rules and messages stay.

        Args:
            days: at least 30.
            kinds: only these kinds.
            min_access: facts that were read more often stay.
            limit: at most 50.
            confirm: the count of the preview; without it nothing is changed.

        """
        from commonbrain.history.forget import Prune  # noqa: PLC0415

        return Prune(self.services, self.caller)(
            days=days, kinds=kinds, min_access=min_access, limit=limit, confirm=confirm
        )

    def undo(  # noqa: PLR0913 the criteria, spelled out for editors
        self,
        *,
        reason: str,
        agent: str | None = None,
        session: str | None = None,
        since: datetime | str | None = None,
        until: datetime | str | None = None,
        request_id: str | None = None,
        confirm: int | None = None,
    ) -> BulkChangeResult:
        """Revert everything that an agent, a session or a period changed, after a preview.

        Example: `brain.undo(agent="runaway", reason="a broken prompt", confirm=3)`.

        Args:
            reason: the reason, which is stored.
            agent: only changes by this agent.
            session: only changes in this session.
            since: from this time; by default 31 days before `until`.
            until: up to this time; by default now.
            request_id: only changes of this call, as the audit names it.
            confirm: the count of the preview; without it nothing is changed.

        """
        from commonbrain.history.undo import Undo  # noqa: PLC0415

        return Undo(self.services, self.caller)(
            reason=reason,
            agent=agent,
            session=session,
            since=since,
            until=until,
            request_id=request_id,
            confirm=confirm,
        )

    def erase(
        self,
        id: str | Sequence[str] = (),  # noqa: A002 the public name is id
        *,
        reason: str,
        confirm: int | None = None,
        **matching: Unpack[SelectorFields],
    ) -> BulkChangeResult:
        """Remove the text of memories permanently, with all copies, after a preview; admins only.

        Args:
            id: one id, or up to 100.
            reason: the reason, kept in the audit; it must not repeat the text.
            confirm: the count of the preview.
            matching: criteria instead of ids; see `SelectorFields`.

        """
        from commonbrain.administration.erasure import Erase  # noqa: PLC0415

        return Erase(self.services, self.caller)(id, reason=reason, confirm=confirm, **matching)

    # Causes, sessions and messages

    @property
    def trace(self) -> CausalTrace:
        """Follow causes and effects, precursors, dependents and provenance of a memory."""
        from commonbrain.causality.trace import CausalTrace  # noqa: PLC0415

        return CausalTrace(self.services, self.caller)

    def atomize(
        self,
        ids: Sequence[str] | str = (),
        *,
        kinds: Sequence[Kind | str] = (),
        project: str | None = None,
        limit: int = ITEMS_PER_CALL_MAX,
        before: str | None = None,
    ) -> Atomized:
        """Extract causes from stored memories into atoms; repeating it adds nothing.

        Args:
            ids: the memories; by default the newest that the caller may see.
            kinds: only these kinds.
            project: only this project and global memories.
            limit: at most this many, 1 to 100.
            before: continue after the last call; its `next`.

        """
        from commonbrain.causality.atomize import Atomize  # noqa: PLC0415

        return Atomize(self.services, self.caller)(
            ids, kinds=kinds, project=project, limit=limit, before=before
        )

    @property
    def skills(self) -> Skills:
        """List skills, and those that a query would trigger."""
        from commonbrain.retrieval.skills import Skills  # noqa: PLC0415

        return Skills(self.services, self.caller)

    @property
    def session(self) -> Sessions:
        """Use sessions: tasks, notes, checkpoints, leases, handoffs, and other agents."""
        from commonbrain.coordination.sessions import Sessions  # noqa: PLC0415

        return Sessions(self.services, self.caller)

    @property
    def message(self) -> Messages:
        """Send, read and acknowledge messages, and assign tasks."""
        from commonbrain.coordination.messages import Messages  # noqa: PLC0415

        return Messages(self.services, self.caller)

    @property
    def reflect(self) -> Reflect:
        """Preview a reflection, or summarize what is known about a query."""
        from commonbrain.consolidation.reflection import Reflect  # noqa: PLC0415

        return Reflect(self.services, self.caller)

    # Transfer

    def import_(
        self,
        format: str,  # noqa: A002 the public name is format
        source: str | Path,
        *,
        project: str | None = None,
        dry_run: bool = False,
        extract_causes: bool = False,
        on_progress: Callable[[ImportReport], None] = lambda _: None,
    ) -> ImportReport:
        """Import memories or conversations from a file or folder; what is known already stays.

        Example: `brain.import_("markdown", "notes/", project="shop", dry_run=True)`.

        Args:
            format: the name of an importer, such as markdown or claude-code.
            source: a file or folder.
            project: overrides the project that the source suggests.
            dry_run: read and validate everything, store nothing.
            extract_causes: store stated causes as atoms; `atomize` can do this later.
            on_progress: called after every batch of at most 64.

        Raises:
            UnavailableError: the store failed; earlier batches are stored, and repeating the call
                continues.

        """
        from commonbrain.transfer.imports import Import  # noqa: PLC0415

        return Import(self.services, self.caller)(
            format,
            source,
            project=project,
            dry_run=dry_run,
            extract_causes=extract_causes,
            on_progress=on_progress,
        )

    def export(
        self, target: str | Path, *, on_progress: Callable[[float], None] = lambda _: None
    ) -> ExportResult:
        """Write every memory of the tenant to a new file, private ones included; admins only.

        Args:
            target: a file that does not exist yet; protect it like the store.
            on_progress: called with the progress, 0..1.

        """
        from commonbrain.transfer.archive import Export  # noqa: PLC0415

        return Export(self.services, self.caller)(target, on_progress=on_progress)

    def merge(
        self,
        source: str | Path,
        *,
        dry_run: bool = False,
        on_progress: Callable[[ImportReport], None] = lambda _: None,
        resume: ResumeOptions | None = None,
    ) -> ImportReport:
        """Merge a file that `export` wrote; repeating it changes nothing.

        Args:
            source: the file.
            dry_run: return what would be new; change nothing.
            on_progress: called after every batch of at most 64 lines.
            resume: where an interrupted job stopped.

        """
        from commonbrain.transfer.merge import FROM_START, Merge  # noqa: PLC0415

        return Merge(self.services, self.caller)(
            source, dry_run=dry_run, on_progress=on_progress, resume=resume or FROM_START
        )

    def backup(
        self,
        destination: str | Path,
        *,
        replace: bool = False,
        on_progress: Progress | None = None,
    ) -> Backup:
        """Write a consistent, verified copy of the store into a file, while others write.

        Example: `brain.backup("brain-backup.db")`; `commonbrain.restore` reads it.

        Args:
            destination: the file to write.
            replace: replace an existing file.
            on_progress: called with the progress, 0..1.

        """
        from commonbrain.administration.backup import CreateBackup  # noqa: PLC0415
        from commonbrain.storage.interface import ignore_progress  # noqa: PLC0415

        return CreateBackup(self.services, self.caller)(
            destination, replace=replace, on_progress=on_progress or ignore_progress
        )

    # Operate

    def status(self) -> StoreStatus:
        """Count what the store contains."""
        from commonbrain.administration.status import Status  # noqa: PLC0415

        return Status(self.services, self.caller)()

    def doctor(self, *, secrets: bool = False, on_progress: Progress | None = None) -> Diagnosis:
        """Check the store, its derived data and the embedder; changes nothing.

        Args:
            secrets: also list the memories and messages that today's patterns would refuse.
            on_progress: called with the progress of that scan, 0..1.

        """
        from commonbrain.administration.status import Doctor  # noqa: PLC0415
        from commonbrain.storage.interface import ignore_progress  # noqa: PLC0415

        scan = (on_progress or ignore_progress) if secrets else None
        return Doctor(self.services, self.caller)(scan)

    def repair(self, on_progress: Progress | None = None) -> Repaired:
        """Rewrite full text and vectors from the memories, while others read and write."""
        from commonbrain.administration.backup import Repair  # noqa: PLC0415
        from commonbrain.storage.interface import ignore_progress  # noqa: PLC0415

        return Repair(self.services, self.caller)(on_progress or ignore_progress)

    def embed_pending(
        self,
        *,
        batch: int = EMBED_BATCH,
        one_by_one: bool = True,
        on_commit: OnCommit | None = None,
    ) -> EmbedProgress:
        """Embed memories that were stored while the embedder was unavailable, oldest first.

        Args:
            batch: at most this many, 1 to 100.
            one_by_one: try each separately if the batch fails.
            on_commit: called in the transaction that stores the vectors.

        """
        from commonbrain.ingestion.embedding import EmbedPending  # noqa: PLC0415

        return EmbedPending(self.services, self.caller)(
            batch=batch, one_by_one=one_by_one, on_commit=on_commit
        )

    @property
    def metrics(self) -> CallMetrics:
        """Read call figures, failed calls and the health of dependencies."""
        from commonbrain.administration.status import CallMetrics  # noqa: PLC0415

        return CallMetrics(self.services, self.caller)

    @property
    def recalls(self) -> ListRecalls:
        """Read the recall log."""
        from commonbrain.retrieval.log import ListRecalls  # noqa: PLC0415

        return ListRecalls(self.services, self.caller)

    @property
    def maintain(self) -> Maintain:
        """Preview maintenance; the job `maintain` runs it."""
        from commonbrain.consolidation.maintenance import Maintain  # noqa: PLC0415

        return Maintain(self.services, self.caller)

    @property
    def jobs(self) -> Jobs:
        """Run, list and cancel background jobs."""
        from commonbrain.jobs.service import Jobs  # noqa: PLC0415

        return Jobs(self.services, self.caller)

    @property
    def spaces(self) -> EmbeddingSpaces:
        """Manage embedding spaces: build, compare, switch, drop."""
        from commonbrain.administration.embedding_spaces import EmbeddingSpaces  # noqa: PLC0415

        return EmbeddingSpaces(self.services, self.caller)

    def audit(  # noqa: PLR0913 the filters, spelled out for editors
        self,
        *,
        agent: str | None = None,
        action: str | None = None,
        memory: str | None = None,
        request_id: str | None = None,
        since: datetime | str | None = None,
        until: datetime | str | None = None,
        limit: int = AUDIT_PAGE_DEFAULT,
        cursor: str | None = None,
    ) -> AuditPage:
        """List who changed what and when, newest first, with refusals; for admins.

        Example: `brain.audit(agent="codex", since="yesterday")`.

        Args:
            agent: who acted.
            action: create, supersede, forget, recall and so on, or an operation that was refused.
            memory: only lines about this memory.
            request_id: only lines of this call; over HTTP its X-Request-Id.
            since: at this time or later: ISO 8601, or words such as yesterday.
            until: at this time or before.
            limit: 1 to 200 lines.
            cursor: `next` of the page before.

        """
        from commonbrain.history.audit import AuditQuery, ListAudit  # noqa: PLC0415

        query = AuditQuery(
            agent=agent,
            action=action,
            memory=memory,
            request_id=request_id,
            since=since,
            until=until,
            limit=limit,
            cursor=cursor,
        )
        return ListAudit(self.services, self.caller)(query)

    # Lifecycle

    def close(self) -> None:
        """Write queued traces and accesses, and release the store; may be called twice.

        Several threads may call it: one waits for the other.

        In a forked child it does nothing, because the store belongs to the parent.
        """
        from commonbrain.model.errors import UnavailableError  # noqa: PLC0415

        try:
            self.services.store.check_process()
        except UnavailableError:
            return
        with self.services.close_lock:
            self.services.embedding_executor.close()
            self.services.trained.close()
            if self.services.cross_encoding is not None:
                self.services.cross_encoding.close()
            self.services.journal.close()
            if self.services.guard is not None:
                self.services.guard.close()
            self.services.queue.close()
            self.services.store.close()
            self.services.telemetry.close()

    def __enter__(self) -> Self:
        """Return the brain itself."""
        return self

    def __exit__(
        self,
        _kind: type[BaseException] | None,
        _error: BaseException | None,
        _trace: TracebackType | None,
    ) -> None:
        """Close the store."""
        self.close()


_UNCHECKED = frozenset({"caller", "services", "close"})
"""Attributes of a brain that take no lock and import nothing."""


def _get_checked(brain: Brain, name: str) -> Any:  # noqa: ANN401 any attribute
    """Return an attribute of a brain, unless the brain belongs to the parent process."""
    if not name.startswith("__") and name not in _UNCHECKED:
        brain.services.store.check_process()
    return object.__getattribute__(brain, name)


def _check_inherited() -> None:
    """Refuse the brains of the parent before they wait for a lock of one of its threads.

    Such a lock may be Python's own, of a module that a thread was importing.
    """
    setattr(Brain, "__getattribute__", _get_checked)  # noqa: B010 only children pay for the check


after_fork(_check_inherited)
