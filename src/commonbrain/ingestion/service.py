"""Remember: validate drafts and store them, durable and searchable on return."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Final, Unpack

from commonbrain.clock import StageTimer
from commonbrain.ingestion.batch import (
    PreparedBatch,
    WriteContext,
    WriteOptions,
    check_item_count,
    make_idempotency_record,
    replay_reply,
    save_reply,
)
from commonbrain.ingestion.change_detection import DetectedChange, changed_by, detect_changes
from commonbrain.ingestion.citations import CitingAuthor
from commonbrain.ingestion.commit import (
    build_memory,
    check_expiry,
    commit,
    confirm,
    count_recurrence,
    future_warnings,
)
from commonbrain.ingestion.deduplication import (
    CandidateMemory,
    Duplicate,
    DuplicateCheck,
    Neighbour,
    PreviewedDrafts,
    Unique,
    check_duplicates,
    duplicate,
    find_exact,
    find_neighbours,
    is_approved_by,
    is_recurrence,
)
from commonbrain.ingestion.embedding import EmbedPending, awaits_embedding, embed_drafts
from commonbrain.ingestion.pending_acks import check_open_items, check_pending_acks
from commonbrain.ingestion.preparation import (
    DraftFields,
    PreparedDraft,
    draft_of,
    listed,
    parse_drafts,
    prepare_drafts,
)
from commonbrain.ingestion.result import (
    ChangedMemory,
    DependencySuggestion,
    ItemResult,
    ItemStatus,
    RememberResult,
    exists,
    rejected,
    to_derived_result,
)
from commonbrain.ingestion.sources import (
    LinkEvidence,
    add_supporting_sources,
    check_skill,
    credit_sources,
    dependency_hint,
    find_dependencies,
    limit_to_source,
    link_sources,
    put_link,
    resolve_sources,
)
from commonbrain.ingestion.validation import Rejection, check_address, derive_headline
from commonbrain.invalidation.dependents import summarize_affected
from commonbrain.invalidation.propagation import continue_propagation, propagate
from commonbrain.model import ids
from commonbrain.model.errors import (
    InvalidInputError,
    NotFoundError,
    RejectedError,
    UnavailableError,
)
from commonbrain.model.kinds import KINDS, Kind
from commonbrain.model.links import CLAIMED, LinkType
from commonbrain.model.memory import AWAITING_STATES, Draft, Memory, Sharing, State
from commonbrain.model.revision import Action
from commonbrain.model.scope import Authority, OnSecret
from commonbrain.model.tasks import is_report
from commonbrain.observability.interface import RememberMetrics
from commonbrain.services import Capability
from commonbrain.storage.job_queue import enqueue_embedding
from commonbrain.text.repetition import repeated_part

if TYPE_CHECKING:
    from commonbrain.storage.store import Transaction

__all__ = ["DraftFields", "Remember", "check_item_count", "draft_of", "store_draft"]

_CATCH_UP: Final = 16
"""Pending memories to embed after a write, on its caller's time."""


class Remember(Capability):
    """The write path of one caller."""

    def __call__(
        self,
        text: str | Draft | Sequence[Draft],
        *,
        chunks: bool | None = None,
        idempotency_key: str | None = None,
        **known: Unpack[DraftFields],
    ) -> RememberResult:
        """Store one text with its attributes, or up to 100 drafts.

        Args:
            text: a statement of at most 16 KiB, a raw text of at most 1 MiB, a draft, or drafts.
                All items of one call are stored in one transaction.
            chunks: whether to split the text into chunks, each a memory. By default a text with
                several paragraphs or over 300 words is split, unless kind or headline is given.
            idempotency_key: the same key with the same content returns the first reply again, for
                one day.
            known: `kind` (rule, fact, incident, task, event, episode, atom or message; by default
                the words decide), `headline`, `label`, `project`, `scope`, `tags`, `people`,
                `source_ref`, `cites`, `trust`, `confidence`, `derived_from`, `depends_on`,
                `occurred_at`, `expires_at`, `distinct_because` and more, as `DraftFields` explains
                them; and the columns of the kind, such as `severity` of a rule. Only with
                a plain text.

        Returns:
            One outcome per item, in order; `stored` items are durable.

        Raises:
            InvalidInputError: an argument is malformed; nothing was stored. In a list of drafts,
                this and the next two refuse only the draft at fault.
            NotFoundError: a source does not exist or is not visible; nothing was stored.
            RejectedError: the caller may not write there or claim that trust. For the whole call:
                over 100 items, a key reused for other content, or action items to acknowledge
                first; nothing was stored.
            UnavailableError: the store is locked, full or read-only; `busy`, too many texts of the
                tenant wait to be embedded; or `deadline`. Nothing was stored.

        """
        options = WriteOptions(isolates_items=not isinstance(text, str | Draft))
        if isinstance(text, str):
            drafts = parse_drafts(text, is_chunked=chunks, **known)
        else:
            drafts = listed(text)
            check_item_count(len(drafts))
        return self.write(drafts, options, idempotency_key=idempotency_key)

    def write(
        self, drafts: Sequence[Draft], options: WriteOptions, *, idempotency_key: str | None = None
    ) -> RememberResult:
        """Run drafts through every stage; embedding happens before the transaction."""
        return self.store(self.prepare(drafts, options, idempotency_key=idempotency_key))

    def prepare(
        self, drafts: Sequence[Draft], options: WriteOptions, *, idempotency_key: str | None = None
    ) -> PreparedBatch:
        """Validate drafts, look up duplicates, embed and score them, which takes no lock.

        `store` looks for duplicates again, since others may have written meanwhile.
        """
        check_address((idempotency_key or "",), self.services.secret_scanner)
        timer = StageTimer(self.services.clock)
        validated = self._prepare_each(drafts, options=options, timer=timer)
        idempotency = (
            None if idempotency_key is None else make_idempotency_record(idempotency_key, validated)
        )
        ready = [one for one in validated if isinstance(one, PreparedDraft)]
        if not options.checks_similarity:
            ready = [replace(one, rationales=()) for one in ready]
        stored_before = self._find_stored(ready, options=options)
        ready = self.services.trained.rate(
            embed_drafts(ready, self.caller, services=self.services, skipped=stored_before),
            self.caller,
        )
        timer.end_stage("embed")
        return PreparedBatch(
            options=options,
            validated=validated,
            ready=ready,
            idempotency=idempotency,
            stages_ms=timer.stages_ms,
        )

    def store(self, batch: PreparedBatch) -> RememberResult:
        """Store a prepared batch in one transaction, which decides about every draft."""
        ready, idempotency, options = batch.ready, batch.idempotency, batch.options
        timer = StageTimer(self.services.clock, {**batch.stages_ms})
        if not ready and options.on_commit is None:
            refused = tuple(rejected(one) for one in batch.validated if isinstance(one, Rejection))
            none = RememberResult(items=refused, stages_ms=timer.stages_ms)
            return self._emit_metrics(none, is_embedding=True)
        with self.services.store.begin(self.caller.tenant) as tx:
            context = self._context(tx, options)
            known = replay_reply(context, idempotency) if idempotency else None
            if known is not None:
                return known
            if options.is_user_write:
                self._check_pending_acks(context, ready)
            results = [store_draft(context, draft) for draft in ready]
            rest = iter(results)
            outcomes = tuple(
                rejected(item) if isinstance(item, Rejection) else next(rest)
                for item in batch.validated
            )
            step = propagate(tx, context.change_context(Action.CASCADE, None))
            affected = summarize_affected(tx, self.caller, step=step, now=context.now)
            pending = [
                draft
                for draft, result in zip(ready, results, strict=True)
                if awaits_embedding(draft, result)
            ]
            is_embedding = all(draft.is_deferred for draft in pending)
            if self.services.store.moved_to or pending:
                enqueue_embedding(tx, self.services, caller=self.caller, is_down=not is_embedding)
            timer.end_stage("decide")
            stages = dict(timer.stages_ms)
            reply = RememberResult(items=outcomes, affected=affected, stages_ms=stages)
            if options.on_commit is not None:
                options.on_commit(tx, outcomes)
            if idempotency is not None:
                save_reply(context, idempotency, reply=reply)
        timer.end_stage("commit")
        if step.is_cut:
            continue_propagation(self.services, self.caller)
        self._catch_up(is_embedding=is_embedding, has_pending=bool(pending))
        return self._emit_metrics(
            replace(reply, stages_ms=timer.stages_ms), is_embedding=is_embedding
        )

    def _context(self, tx: Transaction, options: WriteOptions) -> WriteContext:
        return WriteContext(
            tx=tx,
            services=self.services,
            caller=self.caller,
            now=self.services.clock.now(),
            options=options,
        )

    def _prepare_each(
        self, drafts: Sequence[Draft], *, options: WriteOptions, timer: StageTimer
    ) -> list[PreparedDraft | Rejection]:
        author = CitingAuthor(self.caller, self.services.secret_scanner)
        return [self._prepare(one, options=options, author=author, timer=timer) for one in drafts]

    def _prepare(
        self, draft: Draft, *, options: WriteOptions, author: CitingAuthor, timer: StageTimer
    ) -> PreparedDraft | Rejection:
        parameters = self.services.parameters_for(self.caller)
        if options.redacts_messages and draft.kind == Kind.MESSAGE:
            parameters = replace(parameters, secrets=OnSecret.REDACT)
        try:
            prepared = prepare_drafts(
                draft,
                self.caller,
                scanner=self.services.secret_scanner,
                parameters=parameters,
                timer=timer,
            )
            return author.cite_code(prepared)
        except (InvalidInputError, RejectedError) as error:
            if not options.isolates_items:
                raise
            return Rejection.of(error)

    def _find_stored(
        self, ready: Sequence[PreparedDraft], *, options: WriteOptions
    ) -> frozenset[int]:
        """Return the places of drafts that are stored word for word, which need no vectors.

        The transaction that stores the batch decides again. Where it finds such a memory gone, it
        stores the draft with its embedding pending.
        """
        if not ready:
            return frozenset()
        with self.services.store.snapshot(self.caller.tenant) as tx:
            context = self._context(tx, options)
            exact = [find_exact(context, draft) for draft in ready]
            if options.checks_similarity and None in exact:
                # A new process reads all vectors first, outside the write transaction.
                tx.index.follow()
        return frozenset(
            place
            for place, known in enumerate(exact)
            if known is not None
            and known.id not in options.exclude_ids
            and not ready[place].derived
        )

    def _emit_metrics(self, reply: RememberResult, *, is_embedding: bool) -> RememberResult:
        """Emit memories by kind and rejections by code of a reply, and return the reply."""
        if not self.services.telemetry.is_on:
            return reply
        results = [*reply.items, *(part for item in reply.items for part in item.derived)]
        stored = (one for one in results if one.status is ItemStatus.STORED and one.kind)
        not_stored = (ItemStatus.DUPLICATE, ItemStatus.REJECTED, ItemStatus.QUARANTINED)
        refused = (one.code or str(one.status) for one in results if one.status in not_stored)
        metrics = RememberMetrics(
            tenant=self.caller.tenant,
            stages_ms=reply.stages_ms or {},
            stored=Counter(str(one.kind) for one in stored),
            refused=Counter(refused),
            is_embedding=is_embedding,
        )
        self.services.telemetry.remembered(metrics)
        return reply

    def _check_pending_acks(self, context: WriteContext, ready: Sequence[PreparedDraft]) -> None:
        """Reject the whole batch if action items bind any item that is not a report."""
        projects = {
            draft.project
            for draft in ready
            if not (
                context.options.exempt_reports
                and is_report(draft.admitted.kind, draft.admitted.label)
            )
        }
        if projects:
            check_pending_acks(context, projects)

    def _catch_up(self, *, is_embedding: bool, has_pending: bool) -> None:
        """Embed some pending memories once the embedder answers again.

        The caller's own memories are durable by now, so a failure here does not concern them. After
        a failure nothing is tried until the embedder has failed and recovered once more. A shared
        server embeds them in the background.
        """
        unembedded, tenant = self.services.unembedded, self.caller.tenant
        if not is_embedding:
            unembedded[tenant] = True
        elif self.services.embed_later is not None:
            if unembedded.pop(tenant, False) or has_pending:
                self.services.embed_later(self.caller)
        elif unembedded.pop(tenant, False):
            with suppress(UnavailableError):
                embed = EmbedPending(self.services, self.caller)
                caught_up = embed(batch=_CATCH_UP, one_by_one=False)
                if caught_up.count and caught_up.left:
                    unembedded[tenant] = True

    def preview_drafts(
        self,
        drafts: Sequence[Draft],
        options: WriteOptions,
        *,
        previewed: PreviewedDrafts | None = None,
    ) -> list[ItemResult]:
        """Return the outcomes that drafts would have after those that were previewed before."""
        timer = StageTimer(self.services.clock)
        validated = self._prepare_each(drafts, options=options, timer=timer)
        before = previewed or PreviewedDrafts()
        with self.services.store.snapshot(self.caller.tenant) as tx:
            context = self._context(tx, options)
            return [_preview(context, item, previewed=before) for item in validated]


def _preview(
    context: WriteContext, item: PreparedDraft | Rejection, *, previewed: PreviewedDrafts
) -> ItemResult:
    """Return the outcome of a draft, as far as exact comparison can tell."""
    if isinstance(item, Rejection):
        return rejected(item)
    known = find_exact(context, item)
    return previewed.preview(item, now=context.now) if known is None else exists(known)


def store_draft(context: WriteContext, prepared: PreparedDraft) -> ItemResult:
    """Compare one prepared draft with the store, then store it or return why not."""
    try:
        check_expiry(prepared.draft, context.now)
        prepared = resolve_sources(context, prepared)
    except (InvalidInputError, NotFoundError, RejectedError) as error:
        if not context.options.isolates_items:
            raise
        return rejected(Rejection.of(error))
    exact = find_exact(context, prepared)
    refusal = check_skill(context, prepared, exact=exact) or check_open_items(
        context, prepared, exact=exact
    )
    if refusal is not None:
        return rejected(refusal)
    outcome = _store_new(context, prepared, exact=exact)
    options = context.options
    if outcome.status.is_new and options.checks_similarity and options.is_user_write:
        credit_sources(context, prepared)
    if not prepared.derived or outcome.id is None:
        return outcome
    blocked = _pending_ack_refusal(context, prepared)
    parts = [
        _store_derived(context, blocked or limit_to_source(part, prepared), source=outcome)
        for part in prepared.derived
    ]
    return replace(outcome, derived=tuple(to_derived_result(part) for part in parts))


def _pending_ack_refusal(context: WriteContext, prepared: PreparedDraft) -> Rejection | None:
    """Return why tagged parts of an exempt report are not stored.

    The exemption covers the report itself, not the facts that it tags.
    """
    if not is_report(prepared.admitted.kind, prepared.admitted.label):
        return None
    try:
        check_pending_acks(context, [prepared.project])
    except RejectedError as refusal:
        return Rejection.of(refusal)
    return None


def _store_new(
    context: WriteContext, prepared: PreparedDraft, *, exact: Memory | None
) -> ItemResult:
    options = context.options
    if exact is not None and exact.id not in options.exclude_ids:
        return _confirm_stored(context, exact, prepared=prepared)
    neighbours, duplicate_check = _compare(context, prepared)
    warnings = (
        *prepared.warnings,
        *duplicate_check.warnings,
        *future_warnings(prepared.draft, context.now),
    )
    near: tuple[CandidateMemory, ...]
    match duplicate_check.decision:
        case Unique(similar=near):
            pass
        case Duplicate(of=of, is_refused=True) if not prepared.draft.distinct_because:
            part = repeated_part(prepared.text, known=of.text)
            if part != of.text:
                of = replace(of, headline=derive_headline(part))
            newer = changed_by(context.tx, of.id)
            return duplicate(prepared.admitted.kind, of, changed_by=newer)
        case Duplicate(of=of):
            near = (of,)
            kind = prepared.admitted.kind
            warnings = (*warnings, f"Another {kind} may say this already: {of.headline}")
    revision = options.revision_number
    made = build_memory(prepared, context.caller, now=context.now, revision=revision)
    memory = commit(context, options.as_proposal(made), prepared=prepared)
    link_sources(context, memory, draft=prepared.draft)
    suggested, changes = _relate(context, memory, prepared=prepared, near=neighbours)
    # An author who says why a text is distinct says that the others hold too.
    if duplicate_check.recurring is not None and not prepared.draft.distinct_because:
        count_recurrence(context, duplicate_check.recurring, own=memory)
    result = _stored(
        memory,
        near,
        changes=changes,
        warnings=warnings,
        embedding_pending=prepared.vectors is None,
    )
    is_tied = prepared.draft.depends_on or options.revision_number or not options.checks_similarity
    hint = None if is_tied or suggested else dependency_hint(context, memory)
    named = {one.id for one in suggested}
    similar = tuple(one for one in result.similar if one.id not in named)
    return replace(result, hint=result.hint or hint, suggestions=suggested, similar=similar)


_HELD_REASONS: Final = {
    State.QUARANTINED: "A BLOCKER of a model waits for a person, and so does what would bind or "
    "reach everybody but was captured or comes from the web: it is stored, not recalled.",
    State.CANDIDATE: "It is a proposal: it is not recalled until it is approved.",
}


def _stored(
    memory: Memory,
    near: Sequence[CandidateMemory],
    *,
    changes: Sequence[DetectedChange],
    warnings: tuple[str, ...],
    embedding_pending: bool,
) -> ItemResult:
    """Return the outcome of a stored memory."""
    is_held = memory.state in AWAITING_STATES
    return ItemResult(
        status=ItemStatus.QUARANTINED if is_held else ItemStatus.STORED,
        id=ids.show(ids.MEMORY, memory.id),
        kind=memory.kind,
        headline=memory.headline,
        reason=_HELD_REASONS.get(memory.state),
        hint="Ask the user to decide: brain review, or the page, lists it." if is_held else None,
        similar=tuple(candidate.shown() for candidate in near),
        conflicts=tuple(change.shown() for change in changes if change.is_disputed),
        changes=tuple(_changed(memory, change) for change in changes if not change.is_disputed),
        warnings=warnings,
        embedding_pending=embedding_pending,
    )


def _changed(memory: Memory, change: DetectedChange) -> ChangedMemory:
    new, old = (ids.show(ids.MEMORY, end.id) for end in (memory, change.older))
    return ChangedMemory(
        id=old,
        headline=change.older.headline,
        how=change.basis,
        confirm=f"revise resolve {new} --other {old} --reason WHY",
        deny=f"revise keep_both {new} --other {old} --reason WHY",
    )


def _compare(
    context: WriteContext, prepared: PreparedDraft
) -> tuple[Sequence[Neighbour], DuplicateCheck]:
    """Compare a draft with its neighbours before it becomes one itself."""
    if not context.options.checks_similarity:
        return (), DuplicateCheck(decision=Unique())
    space = context.services.store.space.under(prepared.parameters)
    near = find_neighbours(context, prepared, space=space)
    return near, check_duplicates(context, prepared, near=near, space=space)


def _relate(
    context: WriteContext, memory: Memory, *, prepared: PreparedDraft, near: Sequence[Neighbour]
) -> tuple[tuple[DependencySuggestion, ...], tuple[DetectedChange, ...]]:
    """Link a new memory to its reasons and to what it changes, or disputes."""
    if not context.options.checks_similarity:
        return (), ()
    space = context.services.store.space.under(prepared.parameters)
    suggested = find_dependencies(context, memory, prepared=prepared, space=space)
    if prepared.draft.distinct_because:
        # An author says that others hold too, but not of what a higher authority said.
        near = [one for one in near if not memory.authority.covers(one.memory.authority)]
    changes = detect_changes(context, memory, near=near)
    for change in changes:
        put_link(
            context,
            memory,
            to=change.older.id,
            type_=LinkType.CONFLICTS_WITH if change.is_disputed else LinkType.CHANGES,
            evidence=LinkEvidence(basis=change.basis, strength=CLAIMED),
        )
    return suggested, changes


def _store_derived(
    context: WriteContext, part: PreparedDraft | Rejection, *, source: ItemResult
) -> ItemResult:
    """Store the tagged parts of a text, with the text as their source."""
    if isinstance(part, Rejection) or source.id is None:
        return rejected(part) if isinstance(part, Rejection) else source
    id_ = ids.parse(ids.MEMORY, source.id)
    draft = replace(part.draft, derived_from=(id_,))
    if source.kind is Kind.MESSAGE:
        draft = replace(draft, source_message_id=id_)
        if draft.sharing is not Sharing.NONE and draft.source_ref:
            # Readers of a shared decision see where it comes from, but not the message.
            draft = replace(draft, source_ref=f"{source.id}, {draft.source_ref}")
    is_stored = source.status is ItemStatus.STORED
    if is_stored and source.kind and KINDS[source.kind].is_occurrence:
        # A recurrence has its causes again, even in the same words.
        draft = replace(draft, occurred_at=draft.occurred_at or context.now)
    # Parts of a quarantined text are quarantined with it, and propose nothing.
    held = source.status is ItemStatus.QUARANTINED
    proposal: Mapping[str, object] | None = {} if held else None
    exclude_ids = context.options.exclude_ids | {id_}
    options = replace(
        context.options, exclude_ids=exclude_ids, revision_number=0, proposal=proposal
    )
    context, part = replace(context, options=options), replace(part, draft=draft)
    return _store_new(context, part, exact=find_exact(context, part))


def _confirm_stored(context: WriteContext, known: Memory, *, prepared: PreparedDraft) -> ItemResult:
    """Return that a text is stored already; count its recurrence and add its sources.

    If a person writes it, in the very words, it is theirs from now on.
    """
    is_captured = prepared.draft.auto_captured and context.options.proposal is None
    if prepared.draft.derived_from and is_captured:
        add_supporting_sources(context, known, by=prepared.draft.derived_from)
    is_held = is_approved_by(prepared, known)
    if is_held or prepared.authority is Authority.PERSON is not known.authority:
        known = confirm(context, known, prepared=prepared, is_held=is_held)
    if is_held:
        return replace(
            _stored(known, (), changes=(), warnings=(), embedding_pending=prepared.vectors is None),
            reason="It waited for a person, and is approved by your words.",
        )
    if not is_recurrence(known, prepared):
        return exists(known, changed_by=changed_by(context.tx, known.id))
    return exists(known, times=count_recurrence(context, known))
