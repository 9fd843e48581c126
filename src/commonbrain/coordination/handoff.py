"""Handoffs: a session's report to the next one, stored as one searchable text of four parts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import TYPE_CHECKING, Final

from commonbrain.coordination.registry import own_session
from commonbrain.history.supersede import InheritOptions, supersede_with
from commonbrain.history.unit_of_work import UnitOfWork, read_unit
from commonbrain.ingestion.preparation import PreparedDraft, embed_drafts, prepare_drafts
from commonbrain.ingestion.result import ItemResult, exists, rejected
from commonbrain.ingestion.service import Remember, WriteOptions
from commonbrain.model.errors import InvalidInputError, RejectedError
from commonbrain.model.kinds import EpisodeDetail, Kind
from commonbrain.model.limits import HANDOFF_CHARS_MAX, TEXT_BYTES_MAX
from commonbrain.model.memory import Draft, Memory
from commonbrain.model.query import Filter
from commonbrain.model.scope import Caller
from commonbrain.services import Services
from commonbrain.storage.interface import QueryScope
from commonbrain.text.normalisation import normalise, normalise_line, without_injected_context

if TYPE_CHECKING:
    from commonbrain.storage.store import Transaction

LABEL: Final = "handoff"
"""Label of an episode that is a handoff."""
_NEXT_STEPS: Final = "Next steps:"
_BLOCKERS: Final = "Blockers:"
_CONTEXT: Final = "Context:"


@dataclass(frozen=True, slots=True, kw_only=True)
class Handoff:
    """What was done, the next steps, the blockers, and the context needed for them."""

    summary: str
    next_steps: Sequence[str] = ()
    blockers: Sequence[str] = ()
    context: str = ""
    is_automatic: bool = False
    """Whether it was captured automatically; one written by the agent replaces it."""


def text_of(handoff: Handoff) -> str:
    """Render a handoff as stored text: its parts in order, without empty ones.

    Injected context is removed from each part.

    Raises:
        InvalidInputError: the summary is missing.
        RejectedError: `limit_exceeded`, it has more than 2,000 characters in all.

    """
    parts = (handoff.summary, *handoff.next_steps, *handoff.blockers, handoff.context)
    given = sum(map(len, parts))
    if given > TEXT_BYTES_MAX:
        # Reject before reading: the work must be bounded by what is allowed.
        raise _too_long(given)
    summary = _prose(handoff.summary)
    if not summary:
        raise InvalidInputError(
            "A handoff needs a summary.", hint="Describe in a few sentences what was done."
        )
    text = "\n\n".join((summary, *_rest(handoff)))
    if len(text) > HANDOFF_CHARS_MAX:
        raise _too_long(len(text))
    return text


def _rest(handoff: Handoff) -> Iterator[str]:
    for heading, items in ((_NEXT_STEPS, handoff.next_steps), (_BLOCKERS, handoff.blockers)):
        lines = [line for item in items if (line := normalise_line(without_injected_context(item)))]
        if lines:
            yield "\n".join((heading, *(f"- {line}" for line in lines)))
    context = _prose(handoff.context)
    if context:
        yield f"{_CONTEXT}\n{context}"


def _prose(text: str) -> str:
    return normalise(without_injected_context(normalise(text)))


def _too_long(chars: int) -> RejectedError:
    return RejectedError(
        f"The handoff has {chars:,} characters, {chars - HANDOFF_CHARS_MAX:,} more than the "
        f"{HANDOFF_CHARS_MAX:,} allowed.",
        code="limit_exceeded",
        hint="Shorten it: remember long parts as memories and name their ids.",
    )


_LATER: Final = "Replaced by a later handoff of the session."
_OWN: Final = "Replaced by a handoff that the agent wrote."
_FIRST_PAGE: Final = 8
"""Handoffs read first; more only if all of these are the caller's own."""


@dataclass(frozen=True, slots=True)
class PendingHandoff:
    """A validated handoff, prepared before the transaction."""

    ready: PreparedDraft | ItemResult
    is_automatic: bool = False

    def store(self, unit: UnitOfWork) -> ItemResult:
        """Store it in place of the session's earlier one, or return why it was rejected."""
        if isinstance(self.ready, ItemResult):
            return self.ready
        own = Filter(
            kinds=(Kind.EPISODE,),
            labels=(LABEL,),
            agent=unit.caller.agent,
            session=unit.caller.session,
            trust_min=0,
        )
        known = unit.tx.memories.newest(unit.query_scope(own), limit=1)
        before = unit.tx.memories.get([hit.id for hit in known])
        for id_, old in before.items():
            if self.is_automatic and not old.auto_captured:
                return replace(exists(old), reason=_OWN)
            if old.text != self.ready.text:
                return supersede_with(
                    unit, self.ready, old_id=id_, reason=_LATER, inherit_options=InheritOptions()
                )
        writer = Remember(unit.services, unit.caller)
        # A handoff repeats what was done, so similar memories are not searched.
        options = WriteOptions(checks_similarity=False)
        return writer.store_draft(
            unit.tx, self.ready, query_scope=unit.query_scope(Filter()), options=options
        )


def prepare_handoff(services: Services, caller: Caller, *, handoff: Handoff) -> PendingHandoff:
    """Validate a handoff; its period is that of the session so far.

    Raises:
        InvalidInputError: the summary is missing.
        RejectedError: it is too long, or the caller may not write.

    """
    text = text_of(handoff)
    with read_unit(services, caller) as unit:
        session = own_session(unit)
    began = min(session.started_at, unit.now)
    draft = Draft(
        body=text,
        kind=Kind.EPISODE,
        label=LABEL,
        project=caller.project or session.project,
        source_ref=f"session:{session.key}",
        auto_captured=handoff.is_automatic,
        detail=EpisodeDetail(started_at=began, ended_at=unit.now),
    )
    prepared = prepare_drafts(draft, caller, services=services)
    if not isinstance(prepared, PreparedDraft):
        return PendingHandoff(rejected(prepared))
    [ready] = embed_drafts([prepared], services.embedder)
    return PendingHandoff(ready, is_automatic=handoff.is_automatic)


def last_handoff(
    tx: Transaction, caller: Caller, *, project: str | None, now: datetime
) -> Memory | None:
    """Return the newest handoff of another session in a project, or in all.

    A handoff without a project counts for each.
    """
    criteria = Filter(kinds=(Kind.EPISODE,), labels=(LABEL,), project=project)
    query_scope, limit = QueryScope(caller=caller, filter=criteria, now=now), _FIRST_PAGE
    while True:
        newest = tx.briefing.latest(query_scope, limit=limit)
        known = tx.memories.get(newest)
        for id_ in newest:
            if not _is_own(known[id_], caller):
                return known[id_]
        if len(newest) < limit:
            return None
        limit *= 4


def _is_own(memory: Memory, caller: Caller) -> bool:
    own = (caller.agent, caller.session)
    return caller.session is not None and (memory.agent, memory.session) == own
