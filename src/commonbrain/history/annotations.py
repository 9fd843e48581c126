"""What stands beside a memory: annotations, and links that lead from it."""

from __future__ import annotations

from commonbrain.history.change_plan import Note, Plan, PutLink, check_current, show
from commonbrain.history.unit_of_work import Act
from commonbrain.ingestion.secret_scanning import screened
from commonbrain.ingestion.sources import WIDTH
from commonbrain.model import ids
from commonbrain.model.errors import Invalid, Refused, one_of
from commonbrain.model.limits import NOTE_CHARS_MAX
from commonbrain.model.links import INHERITED, Link, LinkType, strengthened
from commonbrain.model.memory import Memory, State
from commonbrain.security.authority import Proposal, own_trust
from commonbrain.services import House
from commonbrain.text.normalisation import normalise

_KEPT_STATES = frozenset({State.ACTIVE, State.ARCHIVED, State.SUPERSEDED, State.QUARANTINED})
"""What may be annotated: all whose text is shown."""


def annotate(act: Act, memory: Memory, *, wanted: Proposal) -> Plan:
    """Note a text beside a memory; the same from the same author is noted once."""
    if memory.state not in _KEPT_STATES:
        raise Refused(
            f"{show(memory)} is {memory.state}: nothing is noted beside it.",
            code="not_current",
            hint="Restore it first.",
        )
    text = str(wanted.told["text"])
    there = act.tx.annotations.of([memory.id]).get(memory.id, [])
    is_noted = any(one.agent == act.caller.agent and one.text == text for one in there)
    return Plan(steps=() if is_noted else (Note(memory=memory, text=text),))


def link(act: Act, memory: Memory, *, wanted: Proposal) -> Plan:
    """Link a memory to another; linking again strengthens."""
    check_current(memory, act.now)
    other = act.fetch(ids.parse(ids.MEMORY, wanted.told["to"]))
    check_current(other, act.now)
    type_ = one_of(LinkType, wanted.told["type"])
    if type_ is LinkType.DERIVED_FROM:
        _check_source(memory, other)
    if (wanted.reason or "").startswith(INHERITED):
        raise Invalid(
            f'A reason may not begin with "{INHERITED.strip()}".',
            hint="Say it otherwise: so begin links that a revision takes over.",
        )
    made = Link(
        from_id=memory.id,
        to_id=other.id,
        type=type_,
        strength=float(wanted.told["strength"]),
        basis=wanted.reason,
        agent=act.caller.agent,
        trust=own_trust(act.caller),
        created_at=act.now,
        observed_at=act.now,
    )
    known = find_link(act, memory.id, to_id=other.id, type_=type_)
    now = strengthened(known, made) if known else made
    return Plan(steps=(PutLink(memory=memory, known=known, link=now),))


def _check_source(memory: Memory, source: Memory) -> None:
    """Hold a memory to the law that it is trusted no more, and seen no wider, than its sources.

    Raises:
        Refused: `source_beneath`.

    """
    if source.trust.weight < memory.trust.weight:
        what, less = f"has trust {memory.trust}", f"only {source.trust}"
    elif WIDTH[source.scope] < WIDTH[memory.scope]:
        what, less = f"has scope {memory.scope}", f"only {source.scope}"
    else:
        return
    raise Refused(
        f"{show(memory)} {what}, {show(source)} {less}: nothing is trusted more, or seen by more, "
        "than what it is derived from.",
        code="source_beneath",
        hint="Remember it anew with derived_from, which lowers it, or link it as depends_on.",
    )


def unlink(act: Act, memory: Memory, *, wanted: Proposal) -> Plan:
    """Take a link away."""
    other = act.fetch(ids.parse(ids.MEMORY, wanted.told["to"]))
    type_ = one_of(LinkType, wanted.told["type"])
    known = find_link(act, memory.id, to_id=other.id, type_=type_)
    return Plan(steps=(PutLink(memory=memory, known=known, link=None),) if known else ())


def find_link(act: Act, from_id: int, *, to_id: int, type_: LinkType) -> Link | None:
    """Find the link of a type from one memory to another."""
    there = act.tx.links.touching([from_id], types=[type_])
    return next((one for one in there if (one.from_id, one.to_id) == (from_id, to_id)), None)


def noted_text(text: str, house: House) -> str:
    """Give the text of an annotation as it may be kept: the one place that looks at it.

    Raises:
        Invalid: it is empty or too long.
        Refused: `secret_detected`.

    """
    plain = screened(normalise(text), what="annotation", house=house)
    if not 0 < len(plain) <= NOTE_CHARS_MAX:
        raise Invalid(
            f"The annotation has {len(plain)} characters; 1 to {NOTE_CHARS_MAX} are allowed.",
            hint="Remember a long one as a memory of its own and link the two.",
        )
    return plain
