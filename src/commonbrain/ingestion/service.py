"""Remember: a text in, through the gate, durable and searchable when the caller has the reply."""

from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Final, Unpack

from commonbrain.ingestion.commit import commit, to_memory
from commonbrain.ingestion.deduplication import (
    HAPPENINGS,
    Duplicate,
    Judged,
    Neighbour,
    Novel,
    find_exact,
    happened_again,
    judge_neighbours,
)
from commonbrain.ingestion.dependencies import find_premises
from commonbrain.ingestion.drafts import DraftFields, Offer, draft_of, drafts_of, listed
from commonbrain.ingestion.embedding import EmbedPending
from commonbrain.ingestion.idempotency import keep, make_ticket, replay
from commonbrain.ingestion.pending_acks import check_duties
from commonbrain.ingestion.preparation import Prepared, Stopwatch, embed, prepare
from commonbrain.ingestion.result import (
    Beside,
    Outcome,
    Remembered,
    Status,
    duplicate,
    exists,
    part_of,
    rejected,
    stored,
)
from commonbrain.ingestion.salience import scored
from commonbrain.ingestion.sources import (
    check_skill,
    credit_sources,
    link_sources,
    no_more_than,
    premise_hint,
    put_link,
    settle_sources,
    tell_again,
)
from commonbrain.ingestion.validation import Rejected
from commonbrain.invalidation.preview import tell_unseated
from commonbrain.invalidation.propagation import follow_up, spread
from commonbrain.model import ids
from commonbrain.model.errors import Refused, Unavailable
from commonbrain.model.kinds import EventDetail, Kind
from commonbrain.model.limits import ITEMS_PER_CALL_MAX
from commonbrain.model.links import LinkType
from commonbrain.model.memory import AWAITING_STATES, Draft, Memory, State
from commonbrain.model.query import Filter
from commonbrain.model.revision import Action
from commonbrain.model.scope import Caller
from commonbrain.model.scoring import recurring
from commonbrain.model.tasks import is_report
from commonbrain.observability.interface import Remembering
from commonbrain.services import House
from commonbrain.storage.change_log import Deed, amend
from commonbrain.storage.interface import Look, Transaction
from commonbrain.storage.job_queue import await_vectors


def remembering(reply: Remembered, *, tenant: str, is_embedding: bool) -> Remembering:
    """Sum up one run from its reply: what became a memory by kind, what did not by code."""
    told = [*reply.items, *(part for item in reply.items for part in item.derived)]
    stored = Counter(str(one.kind) for one in told if one.status is Status.STORED and one.kind)
    kept_out = (Status.DUPLICATE, Status.REJECTED, Status.QUARANTINED)
    refused = Counter(one.code or str(one.status) for one in told if one.status in kept_out)
    return Remembering(
        tenant=tenant,
        stages_ms=reply.stages_ms or {},
        stored=stored,
        refused=refused,
        is_embedding=is_embedding,
    )


__all__ = ["Course", "DraftFields", "Remember", "draft_of"]

_KEPT_HOWEVER_ALIKE: Final = frozenset({Kind.MESSAGE, Kind.ATOM})
_CATCH_UP: Final = 16
"""Memories embedded behind one that was remembered, on its caller's time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Course:
    """How strictly one batch is judged: importers compare letters only, revisions skip a chain."""

    compares_meaning: bool = True
    besides: frozenset[int] = frozenset()
    revises: int = 0
    spares_reports: bool = True
    """Whether action items let messages, incidents and handoffs through."""
    is_deed: bool = True
    """Whether somebody does it, whom action items bind, and who shows what was of use."""
    beside: Beside | None = None
    """What is to be done in the transaction that stores it."""
    proposal: Mapping[str, object] | None = None
    """The payload of a text that its author may only propose: it is stored, and held back."""

    def held(self, memory: Memory) -> Memory:
        """Hold back a memory that is only proposed."""
        if self.proposal is None:
            return memory
        payload = {**memory.payload, **self.proposal}
        return replace(memory, state=State.QUARANTINED, payload=payload)


@dataclass(frozen=True, slots=True)
class Remember:
    """The write path for one caller."""

    house: House
    caller: Caller

    def __call__(
        self,
        text: str | Draft | Sequence[Draft],
        *,
        chunks: bool | None = None,
        idempotency_key: str | None = None,
        **known: Unpack[DraftFields],
    ) -> Remembered:
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
            Invalid: an argument is malformed; nothing was stored.
            NotFound: a memory it is derived from is none, or not to be seen; nothing was stored.
            Refused: the caller may not write there or claim that, gave over 100 items, used the
                key for something else, or has to answer action items first; nothing was stored.
            Unavailable: the store stayed locked, is full or read-only; nothing was stored.

        """
        if isinstance(text, str):
            offer = drafts_of(text, cuts=chunks, **known)
        else:
            offer = Offer(drafts=listed(text))
            if len(offer.drafts) > ITEMS_PER_CALL_MAX:
                raise Refused(
                    f"{len(offer.drafts)} items were given; {ITEMS_PER_CALL_MAX} a call are "
                    "allowed.",
                    code="limit_exceeded",
                    hint="Send them in several calls, or use import.",
                )
        reply = self.write(offer.drafts, Course(), idempotency_key=idempotency_key)
        return replace(reply, skipped=offer.skipped)

    def write(
        self, drafts: Sequence[Draft], course: Course, *, idempotency_key: str | None = None
    ) -> Remembered:
        """Take drafts through every stage; vectors are made before the transaction opens."""
        watch = Stopwatch(self.house.clock)
        gated = [prepare(one, self.caller, house=self.house, watch=watch) for one in drafts]
        ticket = None if idempotency_key is None else make_ticket(idempotency_key, gated)
        ready = [one for one in gated if isinstance(one, Prepared)]
        if not course.compares_meaning:
            ready = [replace(one, premises=()) for one in ready]
        ready = scored(embed(ready, self.house.embedder), self.caller, house=self.house)
        watch.lap("embed")
        look = Look(caller=self.caller, filter=Filter(), now=self.house.clock.now())
        refused = {n: rejected(one) for n, one in enumerate(gated) if isinstance(one, Rejected)}
        if not ready and course.beside is None:
            none = Remembered(items=tuple(refused.values()), stages_ms=watch.stages_ms)
            return self._told(none, is_embedding=True)
        if course.compares_meaning:
            # A process that has just started reads every vector: not while others wait to write.
            with self.house.store.snapshot(self.caller.tenant) as tx:
                tx.index.follow()
        with self.house.store.begin(self.caller.tenant) as tx:
            known = replay(tx, ticket, look=look) if ticket else None
            if known is not None:
                return known
            if course.is_deed:
                self._check_duties(tx, ready, look=look, course=course)
            settled = iter([self.settle(tx, one, look=look, course=course) for one in ready])
            outcomes = tuple(
                refused[n] if n in refused else next(settled) for n in range(len(gated))
            )
            step = spread(tx, Deed(action=Action.CASCADE, caller=self.caller, at=look.now))
            unseated = tell_unseated(tx, self.caller, step=step, now=look.now)
            if self.house.store.moved_to or any(one.embedding_pending for one in outcomes):
                await_vectors(tx, self.house, caller=self.caller)
            watch.lap("decide")
            stages = dict(watch.stages_ms)
            reply = Remembered(items=outcomes, unseated=unseated, stages_ms=stages)
            if course.beside is not None:
                course.beside(tx, outcomes)
            if ticket is not None:
                keep(tx, ticket, reply=reply, look=look)
        watch.lap("commit")
        if step.is_cut:
            follow_up(self.house, self.caller)
        is_embedding = all(one.vectors is not None for one in ready)
        self._catch_up(is_embedding=is_embedding)
        return self._told(replace(reply, stages_ms=watch.stages_ms), is_embedding=is_embedding)

    def _told(self, reply: Remembered, *, is_embedding: bool) -> Remembered:
        """Tell who listens, and give the reply on."""
        telemetry, tenant = self.house.telemetry, self.caller.tenant
        if telemetry.is_on:
            telemetry.remembered(remembering(reply, tenant=tenant, is_embedding=is_embedding))
        return reply

    def _check_duties(
        self, tx: Transaction, ready: Sequence[Prepared], *, look: Look, course: Course
    ) -> None:
        """Refuse the whole batch where action items bind any of it that is no report."""
        bound = [
            one
            for one in ready
            if not (course.spares_reports and is_report(one.admitted.kind, one.admitted.label))
        ]
        if bound:
            projects = {one.project for one in bound}
            check_duties(tx, self.caller, projects=projects, now=look.now)

    def _catch_up(self, *, is_embedding: bool) -> None:
        """Embed some of what was stored without vectors, once the embedder answers again.

        The caller's own texts are durable by now, so that nothing that fails here concerns them.
        What brings nothing is not tried again before the embedder has been down once more.
        """
        behind = self.house.is_behind
        if not is_embedding:
            behind.set()
        elif behind.is_set():
            behind.clear()
            with suppress(Unavailable):
                embed = EmbedPending(self.house, self.caller)
                caught_up = embed(batch=_CATCH_UP, one_by_one=False)
                if caught_up.count and caught_up.left:
                    behind.set()

    def rehearse(self, drafts: Sequence[Draft]) -> list[Outcome]:
        """Say what would become of drafts, as far as it can be told letter by letter."""
        gated = [prepare(draft, self.caller, house=self.house) for draft in drafts]
        look = Look(caller=self.caller, filter=Filter(), now=self.house.clock.now())
        with self.house.store.snapshot(self.caller.tenant) as tx:
            return [self._rehearse(tx, one, look=look) for one in gated]

    def _rehearse(self, tx: Transaction, one: Prepared | Rejected, *, look: Look) -> Outcome:
        if isinstance(one, Rejected):
            return rejected(one)
        known = find_exact(tx, one, look=look)
        return exists(known) if known else Outcome(status=Status.STORED)

    def settle(self, tx: Transaction, prepared: Prepared, *, look: Look, course: Course) -> Outcome:
        """Decide on one prepared draft against what is stored, and store it or say why not."""
        prepared = settle_sources(tx, prepared, look=look)
        refusal = check_skill(tx, prepared, caller=self.caller, besides=course.besides)
        if refusal is not None:
            return rejected(refusal)
        outcome = self._settle(tx, prepared, look=look, course=course)
        if outcome.status.is_new and course.compares_meaning and course.is_deed:
            credit_sources(tx, prepared, look=look, house=self.house)
        if not prepared.derived or outcome.id is None:
            return outcome
        barred = self._barred(tx, prepared, look=look)
        parts = [
            self._settle_part(
                tx,
                barred or no_more_than(part, prepared),
                look=look,
                course=course,
                source=outcome,
            )
            for part in prepared.derived
        ]
        return replace(outcome, derived=tuple(part_of(one) for one in parts))

    def _barred(self, tx: Transaction, prepared: Prepared, *, look: Look) -> Rejected | None:
        """Say why nothing is made of what a report marks, where action items let it through.

        A fact that a message marks is a fact: the exemption is of what reports, not of the rest.
        """
        if not is_report(prepared.admitted.kind, prepared.admitted.label):
            return None
        try:
            check_duties(tx, self.caller, projects=[prepared.project], now=look.now)
        except Refused as refusal:
            return Rejected(code=refusal.code, reason=refusal.message, hint=refusal.hint or "")
        return None

    def _settle(
        self, tx: Transaction, prepared: Prepared, *, look: Look, course: Course
    ) -> Outcome:
        known = find_exact(tx, prepared, look=look)
        if known is not None and known.id not in course.besides:
            is_found = prepared.draft.auto_captured and course.proposal is None
            if prepared.draft.derived_from and is_found:
                tell_again(tx, known, by=prepared.draft.derived_from, look=look)
            if not happened_again(known, prepared):
                return exists(known)
            return exists(known, times=self._recur(tx, known, look=look))
        judged = self._judge(tx, prepared, look=look, course=course)
        warnings = prepared.warnings
        near: tuple[Neighbour, ...]
        match judged.verdict:
            case Novel(similar=near):
                pass
            case Duplicate(of=of, is_refused=True) if not prepared.draft.distinct_because:
                return duplicate(prepared.admitted.kind, of)
            case Duplicate(of=of):
                near = (of,)
                kind = prepared.admitted.kind
                warnings = (*warnings, f"Another {kind} may say this already: {of.headline}")
        made = to_memory(prepared, self.caller, now=look.now, revises=course.revises)
        memory = course.held(made)
        memory = commit(tx, memory, prepared=prepared, caller=self.caller, house=self.house)
        link_sources(tx, memory, draft=prepared.draft, caller=self.caller)
        space = self.house.store.space
        suggested = (
            find_premises(tx, memory, prepared=prepared, look=look, space=space, but=course.besides)
            if course.compares_meaning
            else ()
        )
        self._mark_conflicts(tx, memory, judged=judged)
        if judged.recurring is not None:
            self._recur(tx, judged.recurring, look=look)
        told = stored(
            memory,
            near,
            conflicts=[one.neighbour for one in judged.conflicts],
            warnings=warnings,
            embedding_pending=prepared.vectors is None,
        )
        is_tied = prepared.draft.depends_on or course.revises or not course.compares_meaning
        hint = None if is_tied or suggested else premise_hint(tx, memory, look=look)
        return replace(told, hint=told.hint or hint, suggestions=suggested)

    def _settle_part(
        self,
        tx: Transaction,
        part: Prepared | Rejected,
        *,
        look: Look,
        course: Course,
        source: Outcome,
    ) -> Outcome:
        """Settle what a text marks, with the text as its source."""
        if isinstance(part, Rejected) or source.id is None:
            return rejected(part) if isinstance(part, Rejected) else source
        id_ = ids.parse(ids.MEMORY, source.id)
        draft = replace(part.draft, derived_from=(id_,))
        if source.kind is Kind.MESSAGE:
            draft = replace(draft, source_message_id=id_)
        if source.kind in HAPPENINGS and source.status is Status.STORED:
            # What happened again has its causes again, word for word or not.
            draft = replace(draft, occurred_at=draft.occurred_at or look.now)
        # What a text holds that is held back is held back with it, and proposes nothing itself.
        is_held = source.status is Status.QUARANTINED
        besides = course.besides | {id_}
        beside = replace(course, besides=besides, revises=0, proposal={} if is_held else None)
        return self._settle(tx, replace(part, draft=draft), look=look, course=beside)

    def _recur(self, tx: Transaction, known: Memory, *, look: Look) -> int:
        """Count one more occurrence of an event; give how often it came again."""
        detail = known.detail
        if not isinstance(detail, EventDetail):
            return 0
        counted = replace(detail, recurrences=detail.recurrences + 1)
        matters = known.salience
        # What its author said of its importance stands.
        if detail.importance is None:
            matters = recurring(matters, recurrences=counted.recurrences)
        again = replace(known, detail=counted, salience=matters)
        deed = Deed(action=Action.RECUR, caller=self.caller, at=look.now)
        amend(tx, known, after=again, deed=deed)
        return detail.recurrences + 1

    def _mark_conflicts(self, tx: Transaction, memory: Memory, *, judged: Judged) -> None:
        """Link a new memory to what it contradicts, where it is trusted enough to say so."""
        if memory.state in AWAITING_STATES:
            return
        for one in judged.conflicts:
            if one.neighbour.id in judged.contested:
                put_link(
                    tx,
                    memory,
                    to=one.neighbour.id,
                    type_=LinkType.CONFLICTS_WITH,
                    caller=self.caller,
                    basis=one.conflict.basis,
                )

    def _judge(self, tx: Transaction, prepared: Prepared, *, look: Look, course: Course) -> Judged:
        # What was said is kept however like something else it is, so nothing like it is looked for.
        # Of causes neither: told in other words they were observed once more.
        if not course.compares_meaning or prepared.admitted.kind in _KEPT_HOWEVER_ALIKE:
            return Judged(verdict=Novel())
        space = self.house.store.space
        return judge_neighbours(tx, prepared, look=look, space=space, besides=course.besides)
