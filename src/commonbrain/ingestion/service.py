"""Remember: a text in, through the gate, durable and searchable when the caller has the reply."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, Unpack

from commonbrain.ingestion.commit import build_memory, commit
from commonbrain.ingestion.deduplication import (
    EVENT_KINDS,
    CandidateMemory,
    Duplicate,
    DuplicateCheck,
    Unique,
    check_duplicates,
    find_exact,
    is_recurrence,
)
from commonbrain.ingestion.dependencies import find_dependencies
from commonbrain.ingestion.drafts import DraftBatch, DraftFields, draft_of, listed, parse_drafts
from commonbrain.ingestion.embedding import EmbedPending
from commonbrain.ingestion.idempotency import make_idempotency_record, replay_reply, save_reply
from commonbrain.ingestion.pending_acks import check_pending_acks
from commonbrain.ingestion.preparation import (
    PreparedDraft,
    StageTimer,
    embed_drafts,
    prepare_drafts,
)
from commonbrain.ingestion.result import (
    ItemResult,
    ItemStatus,
    OnCommit,
    RememberResult,
    duplicate,
    exists,
    rejected,
    stored,
    to_derived_result,
)
from commonbrain.ingestion.salience import with_salience
from commonbrain.ingestion.sources import (
    add_supporting_sources,
    check_skill,
    credit_sources,
    dependency_hint,
    limit_to_source,
    link_sources,
    put_link,
    resolve_sources,
)
from commonbrain.ingestion.validation import Rejection
from commonbrain.invalidation.preview import summarize_affected
from commonbrain.invalidation.propagation import continue_propagation, propagate
from commonbrain.model import ids
from commonbrain.model.errors import RejectedError, UnavailableError
from commonbrain.model.kinds import EventDetail, Kind
from commonbrain.model.limits import ITEMS_PER_CALL_MAX
from commonbrain.model.links import LinkType
from commonbrain.model.memory import AWAITING_STATES, Draft, Memory, State
from commonbrain.model.query import Filter
from commonbrain.model.revision import Action
from commonbrain.model.scope import Caller
from commonbrain.model.scoring import recurring
from commonbrain.model.tasks import is_report
from commonbrain.observability.interface import RememberMetrics
from commonbrain.services import Services
from commonbrain.storage.change_log import ChangeContext, record_update
from commonbrain.storage.interface import QueryScope
from commonbrain.storage.job_queue import enqueue_embedding

if TYPE_CHECKING:
    from commonbrain.storage.store import Transaction


def summarize_remember(
    reply: RememberResult, *, tenant: str, is_embedding: bool
) -> RememberMetrics:
    """Sum up one run from its reply: what became a memory by kind, what did not by code."""
    results = [*reply.items, *(part for item in reply.items for part in item.derived)]
    stored = Counter(
        str(one.kind) for one in results if one.status is ItemStatus.STORED and one.kind
    )
    not_stored = (ItemStatus.DUPLICATE, ItemStatus.REJECTED, ItemStatus.QUARANTINED)
    refused = Counter(one.code or str(one.status) for one in results if one.status in not_stored)
    return RememberMetrics(
        tenant=tenant,
        stages_ms=reply.stages_ms or {},
        stored=stored,
        refused=refused,
        is_embedding=is_embedding,
    )


__all__ = ["DraftFields", "Remember", "WriteOptions", "draft_of"]

_NEVER_DEDUPLICATED: Final = frozenset({Kind.MESSAGE, Kind.ATOM})
_CATCH_UP: Final = 16
"""Memories embedded behind one that was remembered, on its caller's time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteOptions:
    """How strictly one batch is judged: importers compare letters only, revisions skip a chain."""

    checks_similarity: bool = True
    exclude_ids: frozenset[int] = frozenset()
    revision_number: int = 0
    exempt_reports: bool = True
    """Whether action items let messages, incidents and handoffs through."""
    is_user_write: bool = True
    """Whether somebody does it, whom action items bind, and who shows what was of use."""
    on_commit: OnCommit | None = None
    """What is to be done in the transaction that stores it."""
    proposal: Mapping[str, object] | None = None
    """The payload of a text that its author may only propose: it is stored, and held back."""

    def as_proposal(self, memory: Memory) -> Memory:
        """Hold back a memory that is only proposed."""
        if self.proposal is None:
            return memory
        payload = {**memory.payload, **self.proposal}
        return replace(memory, state=State.QUARANTINED, payload=payload)


@dataclass(frozen=True, slots=True)
class Remember:
    """The write path for one caller."""

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
        """Offer one text with what is known of it, or up to 100 drafts, to the memory.

        Args:
            text: a statement of at most 16 KiB, a raw text of at most 1 MiB, a draft, or drafts;
                all of one call is stored in one transaction.
            chunks: whether to cut the text into passages, each a memory; left out, a text of
                several paragraphs or over 300 words is cut, unless its kind or headline is given.
            idempotency_key: the same key with the same content gives the first reply again, for
                a day.
            known: anything a `Draft` or the detail of its kind holds, for a plain text only.

        Returns:
            One outcome per item in order; `stored` ones survive the death of this process.

        Raises:
            InvalidInputError: an argument is malformed; nothing was stored.
            NotFoundError: a memory it is derived from is none, or not to be seen; nothing was
                stored.
            RejectedError: the caller may not write there or claim that, gave over 100 items, used
                the key for something else, or has to answer action items first; nothing was stored.
            UnavailableError: the store stayed locked, is full or read-only; nothing was stored.

        """
        if isinstance(text, str):
            batch = parse_drafts(text, is_chunked=chunks, **known)
        else:
            batch = DraftBatch(drafts=listed(text))
            if len(batch.drafts) > ITEMS_PER_CALL_MAX:
                raise RejectedError(
                    f"{len(batch.drafts)} items were given; {ITEMS_PER_CALL_MAX} a call are "
                    "allowed.",
                    code="limit_exceeded",
                    hint="Send them in several calls, or use import.",
                )
        reply = self.write(batch.drafts, WriteOptions(), idempotency_key=idempotency_key)
        return replace(reply, skipped=batch.skipped)

    def write(
        self, drafts: Sequence[Draft], options: WriteOptions, *, idempotency_key: str | None = None
    ) -> RememberResult:
        """Take drafts through every stage; vectors are made before the transaction opens."""
        timer = StageTimer(self.services.clock)
        validated = [
            prepare_drafts(one, self.caller, services=self.services, timer=timer) for one in drafts
        ]
        idempotency = (
            None if idempotency_key is None else make_idempotency_record(idempotency_key, validated)
        )
        ready = [one for one in validated if isinstance(one, PreparedDraft)]
        if not options.checks_similarity:
            ready = [replace(one, premises=()) for one in ready]
        ready = with_salience(
            embed_drafts(ready, self.services.embedder), self.caller, services=self.services
        )
        timer.end_stage("embed")
        query_scope = QueryScope(caller=self.caller, filter=Filter(), now=self.services.clock.now())
        refused = {
            n: rejected(one) for n, one in enumerate(validated) if isinstance(one, Rejection)
        }
        if not ready and options.on_commit is None:
            none = RememberResult(items=tuple(refused.values()), stages_ms=timer.stages_ms)
            return self._emit_metrics(none, is_embedding=True)
        if options.checks_similarity:
            # A process that has just started reads every vector: not while others wait to write.
            with self.services.store.snapshot(self.caller.tenant) as tx:
                tx.index.follow()
        with self.services.store.begin(self.caller.tenant) as tx:
            known = replay_reply(tx, idempotency, query_scope=query_scope) if idempotency else None
            if known is not None:
                return known
            if options.is_user_write:
                self._check_pending_acks(tx, ready, query_scope=query_scope, options=options)
            settled = iter(
                [
                    self.store_draft(tx, one, query_scope=query_scope, options=options)
                    for one in ready
                ]
            )
            outcomes = tuple(
                refused[n] if n in refused else next(settled) for n in range(len(validated))
            )
            step = propagate(
                tx, ChangeContext(action=Action.CASCADE, caller=self.caller, at=query_scope.now)
            )
            affected = summarize_affected(tx, self.caller, step=step, now=query_scope.now)
            if self.services.store.moved_to or any(one.embedding_pending for one in outcomes):
                enqueue_embedding(tx, self.services, caller=self.caller)
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
        is_embedding = all(one.vectors is not None for one in ready)
        self._catch_up(is_embedding=is_embedding)
        return self._emit_metrics(
            replace(reply, stages_ms=timer.stages_ms), is_embedding=is_embedding
        )

    def _emit_metrics(self, reply: RememberResult, *, is_embedding: bool) -> RememberResult:
        """Tell who listens, and give the reply on."""
        telemetry, tenant = self.services.telemetry, self.caller.tenant
        if telemetry.is_on:
            telemetry.remembered(
                summarize_remember(reply, tenant=tenant, is_embedding=is_embedding)
            )
        return reply

    def _check_pending_acks(
        self,
        tx: Transaction,
        ready: Sequence[PreparedDraft],
        *,
        query_scope: QueryScope,
        options: WriteOptions,
    ) -> None:
        """Refuse the whole batch where action items bind any of it that is no report."""
        bound = [
            one
            for one in ready
            if not (options.exempt_reports and is_report(one.admitted.kind, one.admitted.label))
        ]
        if bound:
            projects = {one.project for one in bound}
            check_pending_acks(tx, self.caller, projects=projects, now=query_scope.now)

    def _catch_up(self, *, is_embedding: bool) -> None:
        """Embed some of what was stored without vectors, once the embedder answers again.

        The caller's own texts are durable by now, so that nothing that fails here concerns them.
        What brings nothing is not tried again before the embedder has been down once more.
        """
        unembedded = self.services.has_unembedded
        if not is_embedding:
            unembedded.set()
        elif unembedded.is_set():
            unembedded.clear()
            with suppress(UnavailableError):
                embed = EmbedPending(self.services, self.caller)
                caught_up = embed(batch=_CATCH_UP, one_by_one=False)
                if caught_up.count and caught_up.left:
                    unembedded.set()

    def preview_drafts(self, drafts: Sequence[Draft]) -> list[ItemResult]:
        """Say what would become of drafts, as far as it can be told letter by letter."""
        validated = [prepare_drafts(draft, self.caller, services=self.services) for draft in drafts]
        query_scope = QueryScope(caller=self.caller, filter=Filter(), now=self.services.clock.now())
        with self.services.store.snapshot(self.caller.tenant) as tx:
            return [self._preview_one(tx, one, query_scope=query_scope) for one in validated]

    def _preview_one(
        self, tx: Transaction, one: PreparedDraft | Rejection, *, query_scope: QueryScope
    ) -> ItemResult:
        if isinstance(one, Rejection):
            return rejected(one)
        known = find_exact(tx, one, query_scope=query_scope)
        return exists(known) if known else ItemResult(status=ItemStatus.STORED)

    def store_draft(
        self,
        tx: Transaction,
        prepared: PreparedDraft,
        *,
        query_scope: QueryScope,
        options: WriteOptions,
    ) -> ItemResult:
        """Decide on one prepared draft against what is stored, and store it or say why not."""
        prepared = resolve_sources(tx, prepared, query_scope=query_scope)
        refusal = check_skill(tx, prepared, caller=self.caller, exclude_ids=options.exclude_ids)
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
        """Say why nothing is made of what a report marks, where action items let it through.

        A fact that a message marks is a fact: the exemption is of what reports, not of the rest.
        """
        if not is_report(prepared.admitted.kind, prepared.admitted.label):
            return None
        try:
            check_pending_acks(tx, self.caller, projects=[prepared.project], now=query_scope.now)
        except RejectedError as refusal:
            return Rejection(code=refusal.code, reason=refusal.message, hint=refusal.hint or "")
        return None

    def _store_new(
        self,
        tx: Transaction,
        prepared: PreparedDraft,
        *,
        query_scope: QueryScope,
        options: WriteOptions,
    ) -> ItemResult:
        known = find_exact(tx, prepared, query_scope=query_scope)
        if known is not None and known.id not in options.exclude_ids:
            is_found = prepared.draft.auto_captured and options.proposal is None
            if prepared.draft.derived_from and is_found:
                add_supporting_sources(
                    tx, known, by=prepared.draft.derived_from, query_scope=query_scope
                )
            if not is_recurrence(known, prepared):
                return exists(known)
            return exists(known, times=self._count_recurrence(tx, known, query_scope=query_scope))
        duplicate_check = self._classify_duplicate(
            tx, prepared, query_scope=query_scope, options=options
        )
        warnings = prepared.warnings
        near: tuple[CandidateMemory, ...]
        match duplicate_check.decision:
            case Unique(similar=near):
                pass
            case Duplicate(of=of, is_refused=True) if not prepared.draft.distinct_because:
                return duplicate(prepared.admitted.kind, of)
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
        space = self.services.store.space
        suggested = (
            find_dependencies(
                tx,
                memory,
                prepared=prepared,
                query_scope=query_scope,
                space=space,
                exclude_ids=options.exclude_ids,
            )
            if options.checks_similarity
            else ()
        )
        self._mark_conflicts(tx, memory, duplicate_check=duplicate_check)
        if duplicate_check.recurring is not None:
            self._count_recurrence(tx, duplicate_check.recurring, query_scope=query_scope)
        result = stored(
            memory,
            near,
            conflicts=[one.neighbour for one in duplicate_check.conflicts],
            warnings=warnings,
            embedding_pending=prepared.vectors is None,
        )
        is_tied = (
            prepared.draft.depends_on or options.revision_number or not options.checks_similarity
        )
        hint = (
            None if is_tied or suggested else dependency_hint(tx, memory, query_scope=query_scope)
        )
        return replace(result, hint=result.hint or hint, suggestions=suggested)

    def _store_derived(
        self,
        tx: Transaction,
        part: PreparedDraft | Rejection,
        *,
        query_scope: QueryScope,
        options: WriteOptions,
        source: ItemResult,
    ) -> ItemResult:
        """Settle what a text marks, with the text as its source."""
        if isinstance(part, Rejection) or source.id is None:
            return rejected(part) if isinstance(part, Rejection) else source
        id_ = ids.parse(ids.MEMORY, source.id)
        draft = replace(part.draft, derived_from=(id_,))
        if source.kind is Kind.MESSAGE:
            draft = replace(draft, source_message_id=id_)
        if source.kind in EVENT_KINDS and source.status is ItemStatus.STORED:
            # What happened again has its causes again, word for word or not.
            draft = replace(draft, occurred_at=draft.occurred_at or query_scope.now)
        # What a text holds that is held back is held back with it, and proposes nothing itself.
        is_held = source.status is ItemStatus.QUARANTINED
        exclude_ids = options.exclude_ids | {id_}
        part_options = replace(
            options, exclude_ids=exclude_ids, revision_number=0, proposal={} if is_held else None
        )
        return self._store_new(
            tx, replace(part, draft=draft), query_scope=query_scope, options=part_options
        )

    def _count_recurrence(self, tx: Transaction, known: Memory, *, query_scope: QueryScope) -> int:
        """Count one more occurrence of an event; give how often it came again."""
        detail = known.detail
        if not isinstance(detail, EventDetail):
            return 0
        counted = replace(detail, recurrences=detail.recurrences + 1)
        salience = known.salience
        # What its author said of its importance stands.
        if detail.importance is None:
            salience = recurring(salience, recurrences=counted.recurrences)
        again = replace(known, detail=counted, salience=salience)
        change_context = ChangeContext(action=Action.RECUR, caller=self.caller, at=query_scope.now)
        record_update(tx, known, after=again, change_context=change_context)
        return detail.recurrences + 1

    def _mark_conflicts(
        self, tx: Transaction, memory: Memory, *, duplicate_check: DuplicateCheck
    ) -> None:
        """Link a new memory to what it contradicts, where it is trusted enough to say so."""
        if memory.state in AWAITING_STATES:
            return
        for one in duplicate_check.conflicts:
            if one.neighbour.id in duplicate_check.contested:
                put_link(
                    tx,
                    memory,
                    to=one.neighbour.id,
                    type_=LinkType.CONFLICTS_WITH,
                    caller=self.caller,
                    basis=one.conflict.basis,
                )

    def _classify_duplicate(
        self,
        tx: Transaction,
        prepared: PreparedDraft,
        *,
        query_scope: QueryScope,
        options: WriteOptions,
    ) -> DuplicateCheck:
        # What was said is kept however like something else it is, so nothing like it is looked for.
        # Of causes neither: told in other words they were observed once more.
        if not options.checks_similarity or prepared.admitted.kind in _NEVER_DEDUPLICATED:
            return DuplicateCheck(decision=Unique())
        space = self.services.store.space
        return check_duplicates(
            tx, prepared, query_scope=query_scope, space=space, exclude_ids=options.exclude_ids
        )
