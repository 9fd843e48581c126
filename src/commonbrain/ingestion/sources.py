"""The stage that settles where a memory comes from: no more trusted, no wider than its sources."""

from collections.abc import Sequence
from dataclasses import replace

from commonbrain.ingestion.preparation import Prepared
from commonbrain.ingestion.skills import namesakes
from commonbrain.ingestion.validation import Rejected
from commonbrain.model import ids
from commonbrain.model.errors import Invalid, NotFound, Refused
from commonbrain.model.kinds import Kind, MessageDetail, RuleDetail
from commonbrain.model.limits import SOURCES_MAX
from commonbrain.model.links import Link, LinkType, link_image
from commonbrain.model.memory import CURRENT_STATES, FINDABLE_STATES, Draft, Memory
from commonbrain.model.query import Filter, Mark, Use
from commonbrain.model.revision import Action
from commonbrain.model.scope import Caller, Scope, is_visible
from commonbrain.services import House
from commonbrain.storage.change_log import Deed, credit, record_beside
from commonbrain.storage.interface import Look, Transaction
from commonbrain.text.rationale import mentions

_PREMISES_MAX = 20
"""Looked at of what names the same thing, the newest."""
_DECISION = "decision"
WIDTH = {Scope.PRIVATE: 0, Scope.TEAM: 1, Scope.GLOBAL: 2}
"""How many see what has a scope: the more, the greater."""


def settle_sources(tx: Transaction, prepared: Prepared, *, look: Look) -> Prepared:
    """Lower trust and narrow scope to those of the sources; asks nothing when none is named.

    Raises:
        NotFound: a source does not exist, is gone, or may not be seen by the caller.
        Invalid: the source message is no message, or the thread or parent does not exist.
        Refused: `scope_denied`, private memories of different authors would be mixed.

    """
    sources = _sources(tx, prepared, caller=look.caller)
    _check_thread(tx, prepared, look=look)
    if not sources:
        return prepared
    # What went to the caller alone may be a source of what the caller keeps to itself.
    if len({one.agent for one in sources if one.scope is Scope.PRIVATE}) > 1:
        raise Refused(
            "Private memories of different authors cannot be made into one.",
            code="scope_denied",
            hint="Derive it from your own, or from what the team sees.",
        )
    trust = min((prepared.trust, *(one.trust for one in sources)), key=lambda one: one.weight)
    scope = min((prepared.scope, *(one.scope for one in sources)), key=lambda one: WIDTH[one])
    warnings = prepared.warnings
    if scope is not prepared.scope:
        warnings = (*warnings, f"Its scope is {scope}, as that of a memory it is derived from.")
    return replace(prepared, trust=trust, scope=scope, warnings=warnings)


def check_skill(
    tx: Transaction, prepared: Prepared, *, caller: Caller, besides: frozenset[int]
) -> Rejected | None:
    """Refuse a trigger whose name another rule has: a skill is loaded by its name."""
    detail = prepared.admitted.detail
    if not isinstance(detail, RuleDetail) or detail.skill is None:
        return None
    name = str(detail.skill["name"])
    taken = namesakes(tx, caller, name=name, besides=besides)
    if not taken:
        return None
    return Rejected(
        code="gate_skill",
        reason=f"There is a skill {name} already: {ids.show(ids.MEMORY, taken[0].id)}.",
        hint="Choose another name, or supersede the rule that has it.",
    )


def link_sources(tx: Transaction, memory: Memory, *, draft: Draft, caller: Caller) -> None:
    """Link a new memory to what it is derived from, and to what it depends on."""
    for type_, to in (
        (LinkType.DERIVED_FROM, draft.derived_from),
        (LinkType.DEPENDS_ON, draft.depends_on),
    ):
        for one in dict.fromkeys(to):
            put_link(tx, memory, to=one, type_=type_, caller=caller)


def credit_sources(tx: Transaction, prepared: Prepared, *, look: Look, house: House) -> None:
    """Mark what a text that got in is built on: what it is derived from, depends on, or names."""
    draft = prepared.draft
    if draft.auto_captured:
        return
    named = (one.id for one in mentions(prepared.text))
    wanted = (*draft.derived_from, *draft.depends_on, *named)
    credit(tx, house, use=Use.by(look.caller, wanted, mark=Mark.USED, at=look.now))


def premise_hint(tx: Transaction, memory: Memory, *, look: Look) -> str | None:
    """Say on which rule or decision a new fact or task may depend: one on a thing that it names."""
    if memory.kind not in {Kind.FACT, Kind.TASK} or not memory.references:
        return None
    wanted = Filter(kinds=(Kind.RULE, Kind.FACT), project=memory.project, trust_min=0.0)
    there = Look(caller=look.caller, filter=wanted, now=look.now)
    found = tx.memories.get(tx.memories.naming(memory.references, there, limit=_PREMISES_MAX))
    decided = [
        one
        for one in found.values()
        if one.id != memory.id and (one.kind is Kind.RULE or one.label == _DECISION)
    ]
    if not decided:
        return None
    one = max(decided, key=lambda premise: premise.id)
    shared = ", ".join(sorted(set(one.references) & set(memory.references)))
    own, its = (ids.show(ids.MEMORY, id_) for id_ in (memory.id, one.id))
    return (
        f"{its} decides on {shared} too. If this holds only while that does: "
        f"revise link {own}, other {its}, value depends_on."
    )


def no_more_than(part: Prepared | Rejected, source: Prepared) -> Prepared | Rejected:
    """Hold what was found in a text to the trust and scope that the text itself was left with."""
    if isinstance(part, Rejected):
        return part
    return replace(part, trust=source.trust, scope=source.scope)


def tell_again(tx: Transaction, known: Memory, *, by: Sequence[int], look: Look) -> None:
    """Rest what was derived from others on the texts that tell it once more, too.

    A text that is trusted less, or that fewer may see, holds nothing up: it only supports it.
    """
    supports = tx.graph.supports([known.id])
    sources = {one.to_id for one in supports if one.type is LinkType.DERIVED_FROM}
    # What earlier versions found in a message rests on it by name alone.
    named = {known.source_message_id} - {None} - sources
    for one in tx.memories.get([id_ for id_ in (*named, *by) if id_ is not None]).values():
        if one.id in sources or one.id == known.id or one.state not in CURRENT_STATES:
            continue
        holds = 0 < len(sources | named) < SOURCES_MAX and _may_hold(one, known)
        if holds:
            _put_again(tx, known, of=one, type_=LinkType.DERIVED_FROM, look=look)
        elif known.kind is Kind.ATOM and not _supports(tx, one, known=known):
            _put_again(tx, one, of=known, type_=LinkType.SUPPORTS, look=look)


def _supports(tx: Transaction, one: Memory, *, known: Memory) -> bool:
    links = tx.links.touching([one.id], types=[LinkType.SUPPORTS])
    return any(link.to_id == known.id for link in links)


def _may_hold(source: Memory, known: Memory) -> bool:
    """Say whether a memory is no more trusted and no wider than a source that comes to it late."""
    is_own = known.scope is not Scope.PRIVATE or source.agent == known.agent
    is_wide = WIDTH[source.scope] >= WIDTH[known.scope]
    return is_own and is_wide and source.trust.weight >= known.trust.weight


def _put_again(tx: Transaction, memory: Memory, *, of: Memory, type_: LinkType, look: Look) -> None:
    """Link a memory that was there before, now, in the trust of the lesser of the two."""
    trust = min((memory.trust, of.trust), key=lambda one: one.weight)
    now = replace(memory, trust=trust, recorded_at=look.now)
    put_link(tx, now, to=of.id, type_=type_, caller=look.caller)


def put_link(
    tx: Transaction,
    memory: Memory,
    *,
    to: int,
    type_: LinkType,
    caller: Caller,
    basis: str | None = None,
) -> None:
    """Link a new memory to another, in its own name and trust."""
    now = memory.recorded_at
    link = Link(
        from_id=memory.id,
        to_id=to,
        type=type_,
        strength=1.0,
        basis=basis,
        agent=caller.agent,
        trust=memory.trust,
        created_at=now,
        observed_at=now,
    )
    tx.links.put(link)
    deed = Deed(action=Action.LINK, caller=caller, at=now)
    record_beside(tx, memory, deed=deed, before={}, after={"link": link_image(link)})


def _sources(tx: Transaction, prepared: Prepared, *, caller: Caller) -> list[Memory]:
    draft = prepared.draft
    message_id = draft.source_message_id
    wanted = [*draft.derived_from, *([message_id] if message_id is not None else [])]
    every = [*wanted, *draft.depends_on]
    if not every:
        return []
    known = tx.memories.get(every)
    for id_ in every:
        one = known.get(id_)
        if one is None or one.state not in FINDABLE_STATES or not is_visible(caller, one):
            raise NotFound(
                f"There is no memory {ids.show(ids.MEMORY, id_)} to rest it on.",
                hint="Check the id, or leave it out.",
            )
    if message_id is not None and known[message_id].kind is not Kind.MESSAGE:
        raise Invalid(
            f"{ids.show(ids.MEMORY, message_id)} is no message.",
            hint="Name it in derived_from.",
        )
    return [known[id_] for id_ in dict.fromkeys(wanted)]


def _check_thread(tx: Transaction, prepared: Prepared, *, look: Look) -> None:
    """Let a message into a thread, and answer one, of which its author sees something."""
    detail = prepared.admitted.detail
    if not isinstance(detail, MessageDetail):
        return
    if detail.thread_id is not None and not _is_open(tx, detail.thread_id, look=look):
        raise Invalid(
            "There is no such thread.", hint="Ask which there are, or leave it out: it opens one."
        )
    if detail.parent_id is None:
        return
    parent = tx.memories.get([detail.parent_id]).get(detail.parent_id)
    if parent is None or not is_visible(look.caller, parent):
        raise Invalid("There is no such parent message.", hint="Leave parent_id out.")


def _is_open(tx: Transaction, thread_id: int, *, look: Look) -> bool:
    """Say whether the author sees anything of a thread; one without a message is open to all."""
    is_begun = tx.threads.is_begun(thread_id)
    if not is_begun:
        return is_begun is False
    caller, now = look.caller, look.now
    return bool(tx.threads.messages(thread_id, caller, now=now, below=ids.LAST, limit=1))
