"""Remember: validate drafts and store them, durable and searchable on return."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, Unpack

from commonbrain.clock import StageTimer
from commonbrain.ingestion.batch import PreparedBatch, WriteOptions
from commonbrain.ingestion.change_detection import DetectedChange, changed_by, detect_changes
from commonbrain.ingestion.commit import build_memory, check_expiry, commit, count_recurrence
from commonbrain.ingestion.deduplication import (
    CandidateMemory,
    Duplicate,
    DuplicateCheck,
    Neighbour,
    Unique,
    check_duplicates,
    find_exact,
    find_neighbours,
    is_recurrence,
)
from commonbrain.ingestion.embedding import EmbedPending, awaits_embedding, embed_drafts
from commonbrain.ingestion.idempotency import (
    make_idempotency_record,
    replay_reply,
    save_reply,
)
from commonbrain.ingestion.pending_acks import check_pending_acks
from commonbrain.ingestion.preparation import (
    DraftFields,
    PreparedDraft,
    check_item_count,
    draft_of,
    listed,
    parse_drafts,
    prepare_drafts,
)
from commonbrain.ingestion.preview import PreviewedDrafts, preview_one
from commonbrain.ingestion.remember_metrics import summarize_remember
from commonbrain.ingestion.result import (
    DependencySuggestion,
    ItemResult,
    ItemStatus,
    RememberResult,
    duplicate,
    exists,
    rejected,
    stored,
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
from commonbrain.ingestion.validation import Rejection, derive_headline
from commonbrain.invalidation.preview import summarize_affected
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
from commonbrain.model.memory import Draft, Memory, Sharing
from commonbrain.model.query import Filter
from commonbrain.model.revision import Action
from commonbrain.model.scope import Caller, OnSecret
from commonbrain.model.tasks import is_report
from commonbrain.services import Services
from commonbrain.storage.change_log import ChangeContext
from commonbrain.storage.interface import QueryScope
from commonbrain.storage.job_queue import enqueue_embedding
from commonbrain.text.repetition import repeated_part

if TYPE_CHECKING:
    from commonbrain.storage.store import Transaction


__all__ = ["DraftFields", "Remember", "check_item_count", "draft_of"]

_CATCH_UP: Final = 16
"""Pending memories to embed after a write, on its caller's time."""


@dataclass(frozen=True, slots=True)
class Remember:
    """The write path of one caller."""

    services: Services
    caller: Caller

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
                `source_ref`, `trust`, `confidence`, `derived_from`, `depends_on`, `occurred_at`,
                `expires_at`, `distinct_because` and more, as `DraftFields` explains them; and the
                columns of the kind, such as `severity` of a rule or `due_at` of a task. Only with
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
        timer = StageTimer(self.services.clock)
        validated = [self._prepare(one, options=options, timer=timer) for one in drafts]
        idempotency = (
            None if idempotency_key is None else make_idempotency_record(idempotency_key, validated)
        )
        ready = [one for one in validated if isinstance(one, PreparedDraft)]
        if not options.checks_similarity:
            ready = [replace(one, rationales=()) for one in ready]
        query_scope = self._query_scope()
        stored_before = self._find_stored(ready, query_scope=query_scope, options=options)
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
        validated, ready, idempotency = batch.validated, batch.ready, batch.idempotency
        options = batch.options
        timer = StageTimer(self.services.clock, {**batch.stages_ms})
        query_scope = self._query_scope()
        refused = {
            n: rejected(one) for n, one in enumerate(validated) if isinstance(one, Rejection)
        }
        if not ready and options.on_commit is None:
            none = RememberResult(items=tuple(refused.values()), stages_ms=timer.stages_ms)
            return self._emit_metrics(none, is_embedding=True)
        with self.services.store.begin(self.caller.tenant) as tx:
            known = replay_reply(tx, idempotency, query_scope=query_scope) if idempotency else None
            if known is not None:
                return known
            if options.is_user_write:
                self._check_pending_acks(tx, ready, query_scope=query_scope, options=options)
            settled = [
                self.store_draft(tx, one, query_scope=query_scope, options=options) for one in ready
            ]
            rest = iter(settled)
            outcomes = tuple(
                refused[n] if n in refused else next(rest) for n in range(len(validated))
            )
            step = propagate(
                tx, ChangeContext(action=Action.CASCADE, caller=self.caller, at=query_scope.now)
            )
            affected = summarize_affected(tx, self.caller, step=step, now=query_scope.now)
            pending = [
                draft
                for draft, one in zip(ready, settled, strict=True)
                if awaits_embedding(draft, one)
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
                save_reply(tx, idempotency, reply=reply, query_scope=query_scope)
        timer.end_stage("commit")
        if step.is_cut:
            continue_propagation(self.services, self.caller)
        self._catch_up(is_embedding=is_embedding, has_pending=bool(pending))
        return self._emit_metrics(
            replace(reply, stages_ms=timer.stages_ms), is_embedding=is_embedding
        )

    def _query_scope(self) -> QueryScope:
        return QueryScope(caller=self.caller, filter=Filter(), now=self.services.clock.now())

    def _prepare(
        self, draft: Draft, *, options: WriteOptions, timer: StageTimer
    ) -> PreparedDraft | Rejection:
        parameters = self.services.parameters_for(self.caller)
        if options.redacts_messages and draft.kind == Kind.MESSAGE:
            parameters = replace(parameters, secrets=OnSecret.REDACT)
        try:
            return prepare_drafts(
                draft,
                self.caller,
                scanner=self.services.secret_scanner,
                parameters=parameters,
                timer=timer,
            )
        except (InvalidInputError, RejectedError) as error:
            if not options.isolates_items:
                raise
            return Rejection.of(error)

    def _find_stored(
        self, ready: Sequence[PreparedDraft], *, query_scope: QueryScope, options: WriteOptions
    ) -> frozenset[int]:
        """Return the places of drafts that are stored word for word, which need no vectors.

        The transaction that stores the batch decides again. Where it finds such a memory gone, it
        stores the draft with its embedding pending.
        """
        if not ready:
            return frozenset()
        with self.services.store.snapshot(self.caller.tenant) as tx:
            exact = [find_exact(tx, one, query_scope=query_scope, options=options) for one in ready]
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
        """Emit the metrics of a reply, and return the reply."""
        telemetry, tenant = self.services.telemetry, self.caller.tenant
        if telemetry.is_on:
            metrics = summarize_remember(reply, tenant=tenant, is_embedding=is_embedding)
            telemetry.remembered(metrics)
        return reply

    def _check_pending_acks(
        self,
        tx: Transaction,
        ready: Sequence[PreparedDraft],
        *,
        query_scope: QueryScope,
        options: WriteOptions,
    ) -> None:
        """Reject the whole batch if action items bind any item that is not a report."""
        projects = {
            one.project
            for one in ready
            if not (options.exempt_reports and is_report(one.admitted.kind, one.admitted.label))
        }
        if projects:
            check_pending_acks(tx, self.caller, projects=projects, now=query_scope.now)

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
        validated = [self._prepare(draft, options=options, timer=timer) for draft in drafts]
        query_scope, before = self._query_scope(), previewed or PreviewedDrafts()
        with self.services.store.snapshot(self.caller.tenant) as tx:
            return [
                preview_one(tx, one, query_scope=query_scope, options=options, previewed=before)
                for one in validated
            ]

    def store_draft(
        self,
        tx: Transaction,
        prepared: PreparedDraft,
        *,
        query_scope: QueryScope,
        options: WriteOptions,
    ) -> ItemResult:
        """Compare one prepared draft with the store, then store it or return why not."""
        try:
            check_expiry(prepared.draft, query_scope.now)
            prepared = resolve_sources(tx, prepared, query_scope=query_scope)
        except (InvalidInputError, NotFoundError, RejectedError) as error:
            if not options.isolates_items:
                raise
            return rejected(Rejection.of(error))
        refusal = check_skill(tx, prepared, query_scope=query_scope, options=options)
        if refusal is not None:
            return rejected(refusal)
        outcome = self._store_new(tx, prepared, query_scope=query_scope, options=options)
        if outcome.status.is_new and options.checks_similarity and options.is_user_write:
            credit_sources(tx, prepared, query_scope=query_scope, services=self.services)
        if not prepared.derived or outcome.id is None:
            return outcome
        blocked = self._pending_ack_refusal(tx, prepared, query_scope=query_scope)
        parts = [
            self._store_derived(
                tx,
                blocked or limit_to_source(part, prepared),
                query_scope=query_scope,
                options=options,
                source=outcome,
            )
            for part in prepared.derived
        ]
        return replace(outcome, derived=tuple(to_derived_result(one) for one in parts))

    def _pending_ack_refusal(
        self, tx: Transaction, prepared: PreparedDraft, *, query_scope: QueryScope
    ) -> Rejection | None:
        """Return why tagged parts of an exempt report are not stored.

        The exemption covers the report itself, not the facts that it tags.
        """
        if not is_report(prepared.admitted.kind, prepared.admitted.label):
            return None
        try:
            check_pending_acks(tx, self.caller, projects=[prepared.project], now=query_scope.now)
        except RejectedError as refusal:
            return Rejection.of(refusal)
        return None

    def _store_new(
        self,
        tx: Transaction,
        prepared: PreparedDraft,
        *,
        query_scope: QueryScope,
        options: WriteOptions,
    ) -> ItemResult:
        known = find_exact(tx, prepared, query_scope=query_scope, options=options)
        if known is not None and known.id not in options.exclude_ids:
            return self._confirm_stored(
                tx, known, prepared=prepared, query_scope=query_scope, options=options
            )
        neighbours, duplicate_check = self._compare(
            tx, prepared, query_scope=query_scope, options=options
        )
        warnings = (*prepared.warnings, *duplicate_check.warnings)
        near: tuple[CandidateMemory, ...]
        match duplicate_check.decision:
            case Unique(similar=near):
                pass
            case Duplicate(of=of, is_refused=True) if not prepared.draft.distinct_because:
                part = repeated_part(prepared.text, known=of.text)
                if part != of.text:
                    of = replace(of, headline=derive_headline(part))
                newer = changed_by(tx, of.id)
                return duplicate(prepared.admitted.kind, of, changed_by=newer)
            case Duplicate(of=of):
                near = (of,)
                kind = prepared.admitted.kind
                warnings = (*warnings, f"Another {kind} may say this already: {of.headline}")
        made = build_memory(
            prepared, self.caller, now=query_scope.now, revision_number=options.revision_number
        )
        memory = options.as_proposal(made)
        memory = commit(tx, memory, prepared=prepared, caller=self.caller, services=self.services)
        link_sources(tx, memory, draft=prepared.draft, caller=self.caller)
        # An author who says why a text is distinct says that the others hold too.
        is_distinct = bool(prepared.draft.distinct_because)
        suggested, changes = self._relate(
            tx,
            memory,
            prepared=prepared,
            query_scope=query_scope,
            options=options,
            near=neighbours,
        )
        if duplicate_check.recurring is not None and not is_distinct:
            count_recurrence(
                tx, duplicate_check.recurring, caller=self.caller, at=query_scope.now, own=memory
            )
        result = stored(
            memory,
            near,
            changes=changes,
            warnings=warnings,
            embedding_pending=prepared.vectors is None,
        )
        is_tied = (
            prepared.draft.depends_on or options.revision_number or not options.checks_similarity
        )
        hint = (
            None if is_tied or suggested else dependency_hint(tx, memory, query_scope=query_scope)
        )
        if not (hint or suggested):
            return result
        return replace(result, hint=result.hint or hint, suggestions=suggested)

    def _compare(
        self,
        tx: Transaction,
        prepared: PreparedDraft,
        *,
        query_scope: QueryScope,
        options: WriteOptions,
    ) -> tuple[Sequence[Neighbour], DuplicateCheck]:
        """Compare a draft with its neighbours before it becomes one itself."""
        if not options.checks_similarity:
            return (), DuplicateCheck(decision=Unique())
        space = self.services.store.space.under(prepared.parameters)
        near = find_neighbours(tx, prepared, query_scope=query_scope, space=space)
        return near, check_duplicates(
            prepared, near, query_scope=query_scope, space=space, exclude_ids=options.exclude_ids
        )

    def _relate(
        self,
        tx: Transaction,
        memory: Memory,
        *,
        prepared: PreparedDraft,
        query_scope: QueryScope,
        options: WriteOptions,
        near: Sequence[Neighbour],
    ) -> tuple[tuple[DependencySuggestion, ...], tuple[DetectedChange, ...]]:
        """Link a new memory to its reasons and to what it changes, or disputes."""
        if not options.checks_similarity:
            return (), ()
        exclude_ids = options.exclude_ids
        suggested = find_dependencies(
            tx,
            memory,
            prepared=prepared,
            query_scope=query_scope,
            space=self.services.store.space.under(prepared.parameters),
            exclude_ids=exclude_ids,
        )
        if prepared.draft.distinct_because:
            return suggested, ()
        changes = detect_changes(
            tx, memory, near=near, query_scope=query_scope, exclude_ids=exclude_ids
        )
        for one in changes:
            put_link(
                tx,
                memory,
                to=one.older.id,
                type_=LinkType.CONFLICTS_WITH if one.is_disputed else LinkType.CHANGES,
                caller=self.caller,
                evidence=LinkEvidence(basis=one.basis, strength=CLAIMED),
            )
        return suggested, changes

    def _store_derived(
        self,
        tx: Transaction,
        part: PreparedDraft | Rejection,
        *,
        query_scope: QueryScope,
        options: WriteOptions,
        source: ItemResult,
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
            draft = replace(draft, occurred_at=draft.occurred_at or query_scope.now)
        # Parts of a quarantined text are quarantined with it, and propose nothing.
        held = source.status is ItemStatus.QUARANTINED
        proposal: Mapping[str, object] | None = {} if held else None
        exclude_ids = options.exclude_ids | {id_}
        inherited = replace(options, exclude_ids=exclude_ids, revision_number=0, proposal=proposal)
        return self._store_new(
            tx, replace(part, draft=draft), query_scope=query_scope, options=inherited
        )

    def _confirm_stored(
        self,
        tx: Transaction,
        known: Memory,
        *,
        prepared: PreparedDraft,
        query_scope: QueryScope,
        options: WriteOptions,
    ) -> ItemResult:
        """Return that a text is stored already; count its recurrence and add its sources."""
        is_captured = prepared.draft.auto_captured and options.proposal is None
        if prepared.draft.derived_from and is_captured:
            add_supporting_sources(
                tx, known, by=prepared.draft.derived_from, query_scope=query_scope
            )
        if not is_recurrence(known, prepared):
            return exists(known, changed_by=changed_by(tx, known.id))
        times = count_recurrence(tx, known, caller=self.caller, at=query_scope.now)
        return exists(known, times=times)
