"""Sources: a derived memory is no more trusted and no wider than what it comes from."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from commonbrain.embeddings.interface import EmbeddingSpace
from commonbrain.ingestion.batch import WriteOptions
from commonbrain.ingestion.deduplication import find_exact, is_comparable
from commonbrain.ingestion.preparation import PreparedDraft
from commonbrain.ingestion.rationale import mentions
from commonbrain.ingestion.result import DependencySuggestion, SuggestionBasis
from commonbrain.ingestion.validation import Rejection
from commonbrain.model import ids
from commonbrain.model.errors import InvalidInputError, NotFoundError, RejectedError
from commonbrain.model.kinds import KINDS, Kind, MessageDetail, RuleDetail, kinds_where
from commonbrain.model.limits import SOURCES_MAX
from commonbrain.model.links import Link, LinkType, link_image
from commonbrain.model.memory import (
    AWAITING_STATES,
    CURRENT_STATES,
    FINDABLE_STATES,
    Draft,
    Memory,
    Sharing,
)
from commonbrain.model.query import FeedbackEvent, FeedbackMark, Filter
from commonbrain.model.revision import Action
from commonbrain.model.scope import Caller, Scope, is_visible
from commonbrain.services import Services
from commonbrain.storage.change_log import ChangeContext, record_feedback, record_related_change
from commonbrain.storage.interface import QueryScope
from commonbrain.text.repetition import may_repeat

if TYPE_CHECKING:
    from commonbrain.storage.store import Transaction

_HINT_CANDIDATES_MAX = 20
"""Memories read per entity for a hint, newest first."""
_JUSTIFYING = kinds_where(lambda policy: policy.can_justify)
_DECISION = "decision"
_NAMES_MAX: Final = 2
"""Recipients of a message that the source of a shared decision names."""
SCOPE_WIDTH = {Scope.PRIVATE: 0, Scope.TEAM: 1, Scope.GLOBAL: 2}
"""Scopes by the number of readers."""


def resolve_sources(
    tx: Transaction, prepared: PreparedDraft, *, query_scope: QueryScope
) -> PreparedDraft:
    """Lower trust and narrow scope to those of the sources; reads nothing without sources.

    Raises:
        NotFoundError: a source does not exist, is gone, or is not visible to the caller.
        InvalidInputError: the source message is not a message, or the thread or parent does not
            exist.
        RejectedError: `scope_denied`, private memories of different authors would be mixed.

    """
    sources = _sources(tx, prepared, caller=query_scope.caller)
    _check_thread(tx, prepared, query_scope=query_scope)
    if not sources:
        return prepared
    # A message addressed to the caller may be a source of the caller's private memories.
    if len({one.agent for one in sources if one.scope is Scope.PRIVATE}) > 1:
        raise RejectedError(
            "Private memories of different authors cannot be made into one.",
            code="scope_denied",
            hint="Derive it from your own, or from what the team sees.",
        )
    trust = min((prepared.trust, *(one.trust for one in sources)), key=lambda one: one.weight)
    scope = min((prepared.scope, *(one.scope for one in sources)), key=lambda one: SCOPE_WIDTH[one])
    warnings = prepared.warnings
    if scope is not prepared.scope:
        warnings = (*warnings, f"Its scope is {scope}, as that of a memory it is derived from.")
    return replace(prepared, trust=trust, scope=scope, warnings=warnings)


def check_skill(
    tx: Transaction, prepared: PreparedDraft, *, query_scope: QueryScope, options: WriteOptions
) -> Rejection | None:
    """Reject a trigger whose name another rule has, because skills are loaded by name."""
    detail = prepared.admitted.detail
    if not isinstance(detail, RuleDetail) or detail.skill is None:
        return None
    name = str(detail.skill["name"])
    taken = namesakes(tx, query_scope.caller, name=name, exclude_ids=options.exclude_ids)
    if not taken:
        return None
    # The very same rule is no namesake, unless another scope or project makes it a new memory.
    same = find_exact(tx, prepared, query_scope=query_scope, options=options)
    if same is not None and same.id in {one.id for one in taken}:
        return None
    return Rejection(
        code="gate_skill",
        reason=f"There is a skill {name} already: {ids.show(ids.MEMORY, taken[0].id)}.",
        hint="Choose another name, or supersede the rule that has it.",
    )


def link_sources(tx: Transaction, memory: Memory, *, draft: Draft, caller: Caller) -> None:
    """Link a new memory to its sources and dependencies."""
    for type_, to in (
        (LinkType.DERIVED_FROM, draft.derived_from),
        (LinkType.DEPENDS_ON, draft.depends_on),
    ):
        for one in dict.fromkeys(to):
            put_link(tx, memory, to=one, type_=type_, caller=caller)


def credit_sources(
    tx: Transaction, prepared: PreparedDraft, *, query_scope: QueryScope, services: Services
) -> None:
    """Record positive feedback for the sources of a stored text."""
    draft = prepared.draft
    if draft.auto_captured:
        return
    named = (one.id for one in mentions(prepared.text))
    source_ids = (*draft.derived_from, *draft.depends_on, *named)
    record_feedback(
        tx,
        services,
        use=FeedbackEvent.by(
            query_scope.caller, source_ids, mark=FeedbackMark.USED, at=query_scope.now
        ),
    )


def dependency_hint(tx: Transaction, memory: Memory, *, query_scope: QueryScope) -> str | None:
    """Suggest a rule or decision about the same entity as a possible dependency."""
    if not KINDS[memory.kind].suggests_dependency or not memory.references:
        return None
    criteria = Filter(kinds=_JUSTIFYING, project=memory.project, trust_min=0.0)
    there = QueryScope(caller=query_scope.caller, filter=criteria, now=query_scope.now)
    rules_and_facts = tx.memories.get(
        tx.memories.with_references(memory.references, there, limit=_HINT_CANDIDATES_MAX)
    )
    decided = [
        one
        for one in rules_and_facts.values()
        if one.id != memory.id and (KINDS[one.kind].is_binding or one.label == _DECISION)
    ]
    if not decided:
        return None
    one = max(decided, key=lambda memory: memory.id)
    shared = ", ".join(sorted(set(one.references) & set(memory.references)))
    own, its = (ids.show(ids.MEMORY, id_) for id_ in (memory.id, one.id))
    return (
        f"{its} decides on {shared} too. If this holds only while that does: "
        f"revise link {own}, other {its}, value depends_on."
    )


def limit_to_source(
    part: PreparedDraft | Rejection, source: PreparedDraft
) -> PreparedDraft | Rejection:
    """Limit an extracted draft to the trust and scope of its text, unless its sender shares it."""
    if isinstance(part, Rejection):
        return part
    if part.draft.sharing is Sharing.NONE or source.scope is not Scope.PRIVATE:
        return replace(part, trust=source.trust, scope=source.scope)
    draft = replace(part.draft, source_ref=_conversation(source))
    return replace(part, draft=draft, trust=source.trust)


def _conversation(source: PreparedDraft) -> str | None:
    """Name the thread and participants of a message, for readers who may not see it."""
    detail = source.admitted.detail
    if not isinstance(detail, MessageDetail):
        return None
    to = ", ".join(detail.recipients[:_NAMES_MAX])
    more = len(detail.recipients) - _NAMES_MAX
    others = f" and {more} more" if more > 0 else ""
    thread = f" in {ids.show(ids.THREAD, detail.thread_id)}" if detail.thread_id else ""
    return f"{detail.sender} to {to}{others}{thread}"


def add_supporting_sources(
    tx: Transaction, known: Memory, *, by: Sequence[int], query_scope: QueryScope
) -> None:
    """Link a derived memory to further texts that state it.

    A text with less trust or fewer readers only supports the memory; it is not a source.
    """
    supports = tx.graph.supports([known.id])
    sources = {one.to_id for one in supports if one.type is LinkType.DERIVED_FROM}
    # Earlier versions linked extracted memories to their message by name alone.
    named = {known.source_message_id} - {None} - sources
    for one in tx.memories.get([id_ for id_ in (*named, *by) if id_ is not None]).values():
        if one.id in sources or one.id == known.id or one.state not in CURRENT_STATES:
            continue
        can_hold = 0 < len(sources | named) < SOURCES_MAX and _can_be_source(one, known)
        if can_hold:
            _link_existing(tx, known, of=one, type_=LinkType.DERIVED_FROM, query_scope=query_scope)
        elif known.kind is Kind.ATOM and not _supports(tx, one, known=known):
            _link_existing(tx, one, of=known, type_=LinkType.SUPPORTS, query_scope=query_scope)


def _supports(tx: Transaction, one: Memory, *, known: Memory) -> bool:
    links = tx.links.touching([one.id], types=[LinkType.SUPPORTS])
    return any(link.to_id == known.id for link in links)


def _can_be_source(source: Memory, known: Memory) -> bool:
    """Return whether a memory is no more trusted and no wider than a later source."""
    is_own = known.scope is not Scope.PRIVATE or source.agent == known.agent
    is_wide = SCOPE_WIDTH[source.scope] >= SCOPE_WIDTH[known.scope]
    return is_own and is_wide and source.trust.weight >= known.trust.weight


def _link_existing(
    tx: Transaction, memory: Memory, *, of: Memory, type_: LinkType, query_scope: QueryScope
) -> None:
    """Link an existing memory, with the lower trust of the two."""
    trust = min((memory.trust, of.trust), key=lambda one: one.weight)
    now = replace(memory, trust=trust, recorded_at=query_scope.now)
    put_link(tx, now, to=of.id, type_=type_, caller=query_scope.caller)


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkEvidence:
    """What a link is based on, and how strong it is, 0..1."""

    basis: str | None = None
    strength: float = 1.0


NO_EVIDENCE: Final = LinkEvidence()


def put_link(
    tx: Transaction,
    memory: Memory,
    *,
    to: int,
    type_: LinkType,
    caller: Caller,
    evidence: LinkEvidence = NO_EVIDENCE,
) -> None:
    """Link a new memory to another, with its own author and trust."""
    now = memory.recorded_at
    link = Link(
        from_id=memory.id,
        to_id=to,
        type=type_,
        strength=evidence.strength,
        basis=evidence.basis,
        agent=caller.agent,
        trust=memory.trust,
        created_at=now,
        observed_at=now,
    )
    tx.links.put(link)
    change_context = ChangeContext(action=Action.LINK, caller=caller, at=now)
    record_related_change(
        tx, memory, change_context=change_context, before={}, after={"link": link_image(link)}
    )


def _sources(tx: Transaction, prepared: PreparedDraft, *, caller: Caller) -> list[Memory]:
    draft = prepared.draft
    message_id = draft.source_message_id
    source_ids = [*draft.derived_from, *([message_id] if message_id is not None else [])]
    all_ids = [*source_ids, *draft.depends_on]
    if not all_ids:
        return []
    known = tx.memories.get(all_ids)
    for id_ in all_ids:
        one = known.get(id_)
        if one is None or one.state not in FINDABLE_STATES or not is_visible(caller, one):
            raise NotFoundError(
                f"There is no memory {ids.show(ids.MEMORY, id_)} to rest it on.",
                hint="Check the id, or leave it out.",
            )
    if message_id is not None and known[message_id].kind is not Kind.MESSAGE:
        raise InvalidInputError(
            f"{ids.show(ids.MEMORY, message_id)} is no message.",
            hint="Name it in derived_from.",
        )
    return [known[id_] for id_ in dict.fromkeys(source_ids)]


def _check_thread(tx: Transaction, prepared: PreparedDraft, *, query_scope: QueryScope) -> None:
    """Check that the author can see the thread or parent of a message."""
    detail = prepared.admitted.detail
    if not isinstance(detail, MessageDetail):
        return
    if detail.thread_id is not None and not _is_open(tx, detail.thread_id, query_scope=query_scope):
        raise InvalidInputError(
            "There is no such thread.", hint="Ask which there are, or leave it out: it opens one."
        )
    if detail.parent_id is None:
        return
    parent = tx.memories.get([detail.parent_id]).get(detail.parent_id)
    if parent is None or not is_visible(query_scope.caller, parent):
        raise InvalidInputError("There is no such parent message.", hint="Leave parent_id out.")


def _is_open(tx: Transaction, thread_id: int, *, query_scope: QueryScope) -> bool:
    """Return whether the author can see a message of a thread; an empty thread is open to all."""
    is_begun = tx.threads.is_begun(thread_id)
    if not is_begun:
        return is_begun is False
    caller, now = query_scope.caller, query_scope.now
    return bool(tx.threads.messages(thread_id, caller, now=now, below=ids.LAST, limit=1))


_SUGGESTIONS_MAX: Final = 3
_NEAREST: Final = 5
_BASIS: Final = "because"


def find_dependencies(
    tx: Transaction,
    memory: Memory,
    *,
    prepared: PreparedDraft,
    query_scope: QueryScope,
    space: EmbeddingSpace,
    exclude_ids: Collection[int],
) -> tuple[DependencySuggestion, ...]:
    """Link a new memory to those it names as reasons, and suggest further ones."""
    if memory.state in AWAITING_STATES or not KINDS[memory.kind].can_depend:
        return ()
    # A revision does not depend on what it replaces.
    known = {*prepared.draft.depends_on, *prepared.draft.derived_from, memory.id, *exclude_ids}
    named = _link_named(tx, memory, known=known, query_scope=query_scope)
    suggested = {one.id: (one, SuggestionBasis.NAMED) for one in named}
    for one in _match_rationales(
        tx, memory, prepared=prepared, query_scope=query_scope, space=space
    ):
        if one.id not in known:
            suggested.setdefault(one.id, (one, SuggestionBasis.REASON))
    return tuple(_suggestion(memory, one, how=how) for one, how in suggested.values())[
        :_SUGGESTIONS_MAX
    ]


def _link_named(
    tx: Transaction, memory: Memory, *, known: set[int], query_scope: QueryScope
) -> list[Memory]:
    """Link memories named as reasons and add them to the known ones.

    Return those merely mentioned.
    """
    mentioned = {one.id: one.is_rationale for one in mentions(memory.text) if one.id not in known}
    memories = tx.memories.get(list(mentioned)) if mentioned else {}
    current = [one for one in memories.values() if _holds(one, query_scope)]
    for one in current:
        if mentioned[one.id]:
            known.add(one.id)
            put_link(
                tx,
                memory,
                to=one.id,
                type_=LinkType.DEPENDS_ON,
                caller=query_scope.caller,
                evidence=LinkEvidence(basis=_BASIS),
            )
    return [one for one in current if not mentioned[one.id]]


def _holds(one: Memory, query_scope: QueryScope) -> bool:
    is_current = one.state in CURRENT_STATES and not one.is_over(query_scope.now)
    return is_current and is_visible(query_scope.caller, one)


def _match_rationales(
    tx: Transaction,
    memory: Memory,
    *,
    prepared: PreparedDraft,
    query_scope: QueryScope,
    space: EmbeddingSpace,
) -> Iterator[Memory]:
    """Return the memories that state the reasons in the text, nearest first."""
    criteria = Filter(kinds=_JUSTIFYING, project=memory.project, trust_min=0.0)
    there = QueryScope(caller=query_scope.caller, filter=criteria, now=query_scope.now)
    for clause, vectors in zip(prepared.rationales, prepared.rationale_vectors, strict=False):
        hits = tx.index.nearest(vectors[0], there, limit=_NEAREST, at_least=space.similar_threshold)
        memories = tx.memories.get([hit.id for hit in hits])
        for hit in hits:
            one = memories.get(hit.id)
            if one is not None and _can_support(one, memory, clause=clause):
                yield one


def _can_support(one: Memory, memory: Memory, *, clause: str) -> bool:
    """Return whether a memory states the clause and is visible to all readers of the new memory."""
    is_other = one.id != memory.id and may_repeat(clause, known=one.text)
    return is_other and is_comparable(
        one, memory.scope, project=memory.project, readers=memory.audience
    )


def _suggestion(memory: Memory, one: Memory, *, how: SuggestionBasis) -> DependencySuggestion:
    own, its = (ids.show(ids.MEMORY, id_) for id_ in (memory.id, one.id))
    return DependencySuggestion(
        id=its,
        headline=one.headline,
        how=how,
        accept=f"brain revise link {own} --other {its} --value depends_on",
    )


def namesakes(
    tx: Transaction, caller: Caller, *, name: str, exclude_ids: Iterable[int]
) -> list[Memory]:
    """Return the other current rules with this name that the caller may see.

    Private rules of others are not checked, because a rejected name would reveal them.
    """
    others = [id_ for id_ in tx.memories.with_skill(name) if id_ not in set(exclude_ids)]
    return [one for one in tx.memories.get(others).values() if is_visible(caller, one)]
