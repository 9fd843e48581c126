"""Sources: a derived memory is no more trusted and no wider than what it comes from."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

from commonbrain.embeddings.interface import EmbeddingSpace
from commonbrain.ingestion.batch import WriteContext
from commonbrain.ingestion.deduplication import is_comparable
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
from commonbrain.model.query import FeedbackMark, Filter
from commonbrain.model.revision import Action
from commonbrain.model.scope import Scope, is_visible, lowest
from commonbrain.storage.change_log import ChangeContext, record_related_change
from commonbrain.text.repetition import may_repeat

_HINT_CANDIDATES_MAX = 20
"""Memories read per entity for a hint, newest first."""
_JUSTIFYING = kinds_where(lambda policy: policy.can_justify)
_DECISION = "decision"
_NAMES_MAX: Final = 2
"""Recipients of a message that the source of a shared decision names."""
SCOPE_WIDTH = {Scope.PRIVATE: 0, Scope.TEAM: 1, Scope.GLOBAL: 2}
"""Scopes by the number of readers."""


def resolve_sources(context: WriteContext, prepared: PreparedDraft) -> PreparedDraft:
    """Lower trust and authority, and narrow scope, to those of the sources, if there are any.

    Raises:
        NotFoundError: a source does not exist, is gone, or is not visible to the caller.
        InvalidInputError: the source message is not a message, or the thread or parent does not
            exist.
        RejectedError: `scope_denied`, private memories of different authors would be mixed.

    """
    sources = _sources(context, prepared)
    _check_thread(context, prepared)
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
    authority = lowest([prepared.authority, *(one.authority for one in sources)])
    if context.options.revision_number:
        # A revision inherits sources, but its words are those of its author.
        authority = prepared.authority
    scope = min((prepared.scope, *(one.scope for one in sources)), key=lambda one: SCOPE_WIDTH[one])
    warnings = prepared.warnings
    if authority is not prepared.authority:
        warnings = (
            *warnings,
            f"Its authority is {authority}, as that of a memory it is derived from.",
        )
    if scope is not prepared.scope:
        warnings = (*warnings, f"Its scope is {scope}, as that of a memory it is derived from.")
    return replace(prepared, trust=trust, authority=authority, scope=scope, warnings=warnings)


def check_skill(
    context: WriteContext, prepared: PreparedDraft, *, exact: Memory | None
) -> Rejection | None:
    """Reject a trigger whose name another rule has, because skills are loaded by name.

    `exact` is the stored memory with the same text, if there is one.
    """
    detail = prepared.admitted.detail
    if not isinstance(detail, RuleDetail) or detail.skill is None:
        return None
    name = str(detail.skill["name"])
    taken = [
        rule
        for rule in namesakes(context, name=name, exclude_ids=context.options.exclude_ids)
        # A lower authority takes no name from a higher one.
        if rule.authority.covers(prepared.authority)
    ]
    # The very same rule is no namesake, unless another scope or project makes it a new memory.
    if not taken or (exact is not None and exact.id in {rule.id for rule in taken}):
        return None
    return Rejection(
        code="gate_skill",
        reason=f"There is a skill {name} already: {ids.show(ids.MEMORY, taken[0].id)}.",
        hint="Choose another name, or supersede the rule that has it.",
    )


def link_sources(context: WriteContext, memory: Memory, *, draft: Draft) -> None:
    """Link a new memory to its sources and dependencies."""
    for source_id in dict.fromkeys(draft.derived_from):
        put_link(context, memory, to=source_id, type_=LinkType.DERIVED_FROM)
    for support_id in dict.fromkeys(draft.depends_on):
        put_link(context, memory, to=support_id, type_=LinkType.DEPENDS_ON)


def credit_sources(context: WriteContext, prepared: PreparedDraft) -> None:
    """Record positive feedback for the sources of a stored text."""
    draft = prepared.draft
    if draft.auto_captured:
        return
    named = (mention.id for mention in mentions(prepared.text))
    source_ids = (*draft.derived_from, *draft.depends_on, *named)
    context.credit(source_ids, mark=FeedbackMark.USED)


def dependency_hint(context: WriteContext, memory: Memory) -> str | None:
    """Suggest a rule or decision about the same entity as a possible dependency."""
    if not KINDS[memory.kind].suggests_dependency or not memory.references:
        return None
    there, memories = context.query_scope(_justifying(memory)), context.tx.memories
    named = memories.with_references(memory.references, there, limit=_HINT_CANDIDATES_MAX)
    decided = [
        id_
        for id_, (kind, label) in named.items()
        if id_ != memory.id and (KINDS[kind].is_binding or label == _DECISION)
    ]
    latest = next(iter(memories.get(decided[:1]).values()), None)
    if latest is None:
        return None
    shared = ", ".join(sorted(set(latest.references) & set(memory.references)))
    own, its = (ids.show(ids.MEMORY, id_) for id_ in (memory.id, latest.id))
    return (
        f"{its} decides on {shared} too. If this holds only while that does: "
        f"revise link {own}, other {its}, value depends_on."
    )


def _justifying(memory: Memory) -> Filter:
    """Select what may be the reason for a memory."""
    return Filter(kinds=_JUSTIFYING, project=memory.project, trust_min=0.0)


def limit_to_source(
    part: PreparedDraft | Rejection, source: PreparedDraft
) -> PreparedDraft | Rejection:
    """Give an extracted draft the trust, authority and scope of its text; a sender may share it."""
    if isinstance(part, Rejection):
        return part
    if part.draft.sharing is Sharing.NONE or source.scope is not Scope.PRIVATE:
        return replace(part, trust=source.trust, authority=source.authority, scope=source.scope)
    draft = replace(part.draft, source_ref=_conversation(source))
    return replace(part, draft=draft, trust=source.trust, authority=source.authority)


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


def add_supporting_sources(context: WriteContext, known: Memory, *, by: Sequence[int]) -> None:
    """Link a derived memory to further texts that state it.

    A text with less trust or fewer readers only supports the memory; it is not a source.
    """
    tx = context.tx
    supports = tx.graph.supports([known.id])
    sources = {support.to_id for support in supports if support.type is LinkType.DERIVED_FROM}
    # Earlier versions linked extracted memories to their message by name alone.
    named = {known.source_message_id} - {None} - sources
    for text in tx.memories.get([id_ for id_ in (*named, *by) if id_ is not None]).values():
        if text.id in sources or text.id == known.id or text.state not in CURRENT_STATES:
            continue
        is_own = known.scope is not Scope.PRIVATE or text.agent == known.agent
        is_wide = SCOPE_WIDTH[text.scope] >= SCOPE_WIDTH[known.scope]
        is_trusted = text.trust.weight >= known.trust.weight
        is_below_limit = 0 < len(sources | named) < SOURCES_MAX
        if is_below_limit and is_own and is_wide and is_trusted:
            _link_existing(context, known, of=text, type_=LinkType.DERIVED_FROM)
        elif known.kind is Kind.ATOM:
            links = tx.links.touching([text.id], types=[LinkType.SUPPORTS])
            if all(link.to_id != known.id for link in links):
                _link_existing(context, text, of=known, type_=LinkType.SUPPORTS)


def _link_existing(context: WriteContext, memory: Memory, *, of: Memory, type_: LinkType) -> None:
    """Link an existing memory, with the lower trust of the two."""
    trust = min((memory.trust, of.trust), key=lambda trust: trust.weight)
    now = replace(memory, trust=trust, recorded_at=context.now)
    put_link(context, now, to=of.id, type_=type_)


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkEvidence:
    """What a link is based on, and how strong it is, 0..1."""

    basis: str | None = None
    strength: float = 1.0


NO_EVIDENCE: Final = LinkEvidence()


def put_link(
    context: WriteContext,
    memory: Memory,
    *,
    to: int,
    type_: LinkType,
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
        agent=context.caller.agent,
        trust=memory.trust,
        authority=memory.authority,
        created_at=now,
        observed_at=now,
    )
    context.tx.links.put(link)
    change_context = ChangeContext(action=Action.LINK, caller=context.caller, at=now)
    image = {"link": link_image(link)}
    record_related_change(context.tx, memory, change_context=change_context, before={}, after=image)


def _sources(context: WriteContext, prepared: PreparedDraft) -> list[Memory]:
    draft = prepared.draft
    message_id = draft.source_message_id
    source_ids = [*draft.derived_from, *([message_id] if message_id is not None else [])]
    all_ids = [*source_ids, *draft.depends_on]
    if not all_ids:
        return []
    known = context.tx.memories.get(all_ids)
    for id_ in all_ids:
        source = known.get(id_)
        is_findable = source is not None and source.state in FINDABLE_STATES
        if source is None or not is_findable or not is_visible(context.caller, source):
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


def _check_thread(context: WriteContext, prepared: PreparedDraft) -> None:
    """Check that the author can see the thread or parent of a message."""
    detail, tx = prepared.admitted.detail, context.tx
    if not isinstance(detail, MessageDetail):
        return
    if detail.thread_id is not None and not _is_open(context, detail.thread_id):
        raise InvalidInputError(
            "There is no such thread.", hint="Ask which there are, or leave it out: it opens one."
        )
    if detail.parent_id is None:
        return
    parent = tx.memories.get([detail.parent_id]).get(detail.parent_id)
    if parent is None or not is_visible(context.caller, parent):
        raise InvalidInputError("There is no such parent message.", hint="Leave parent_id out.")


def _is_open(context: WriteContext, thread_id: int) -> bool:
    """Return whether the author can see a message of a thread; an empty thread is open to all."""
    threads = context.tx.threads
    is_begun = threads.is_begun(thread_id)
    if not is_begun:
        return is_begun is False
    caller, now = context.caller, context.now
    return bool(threads.messages(thread_id, caller, now=now, below=ids.LAST, limit=1))


_SUGGESTIONS_MAX: Final = 3
_NEAREST: Final = 5
_BASIS: Final = "because"


def find_dependencies(
    context: WriteContext, memory: Memory, *, prepared: PreparedDraft, space: EmbeddingSpace
) -> tuple[DependencySuggestion, ...]:
    """Link a new memory to those it names as reasons, and suggest further ones."""
    if memory.state in AWAITING_STATES or not KINDS[memory.kind].can_depend:
        return ()
    draft = prepared.draft
    # A revision does not depend on what it replaces.
    known = {*draft.depends_on, *draft.derived_from, memory.id, *context.options.exclude_ids}
    named = _link_named(context, memory, known=known)
    suggested = {other.id: (other, SuggestionBasis.NAMED) for other in named}
    for reason in _match_rationales(context, memory, prepared=prepared, space=space):
        if reason.id not in known:
            suggested.setdefault(reason.id, (reason, SuggestionBasis.REASON))
    return tuple(_suggestion(memory, other, how=how) for other, how in suggested.values())[
        :_SUGGESTIONS_MAX
    ]


def _link_named(context: WriteContext, memory: Memory, *, known: set[int]) -> list[Memory]:
    """Link memories named as reasons and add them to the known ones.

    Return those merely mentioned.
    """
    mentioned = {one.id: one.is_rationale for one in mentions(memory.text) if one.id not in known}
    memories = context.tx.memories.get(list(mentioned)) if mentioned else {}
    current = [
        other
        for other in memories.values()
        if other.state in CURRENT_STATES
        and not other.is_over(context.now)
        and is_visible(context.caller, other)
    ]
    evidence = LinkEvidence(basis=_BASIS)
    for other in current:
        if mentioned[other.id]:
            known.add(other.id)
            put_link(context, memory, to=other.id, type_=LinkType.DEPENDS_ON, evidence=evidence)
    return [other for other in current if not mentioned[other.id]]


def _match_rationales(
    context: WriteContext, memory: Memory, *, prepared: PreparedDraft, space: EmbeddingSpace
) -> Iterator[Memory]:
    """Return the memories that state the reasons in the text, nearest first."""
    tx, at_least = context.tx, space.similar_threshold
    there = context.query_scope(_justifying(memory))
    for clause, vectors in zip(prepared.rationales, prepared.rationale_vectors, strict=False):
        hits = tx.index.nearest(vectors[0], there, limit=_NEAREST, at_least=at_least)
        memories = tx.memories.get([hit.id for hit in hits])
        for hit in hits:
            reason = memories.get(hit.id)
            if reason is not None and _can_support(reason, memory, clause=clause):
                yield reason


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


def namesakes(context: WriteContext, *, name: str, exclude_ids: Iterable[int]) -> list[Memory]:
    """Return the other current rules with this name that the caller may see.

    Private rules of others are not checked, because a rejected name would reveal them.
    """
    memories = context.tx.memories
    others = [id_ for id_ in memories.with_skill(name) if id_ not in set(exclude_ids)]
    return [rule for rule in memories.get(others).values() if is_visible(context.caller, rule)]
