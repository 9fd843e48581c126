"""Annotations and links of a memory."""

from __future__ import annotations

from commonbrain.history.change_plan import AddAnnotation, ChangePlan, PutLink, check_current, show
from commonbrain.history.unit_of_work import UnitOfWork
from commonbrain.ingestion.secret_scanning import scan_text
from commonbrain.ingestion.sources import SCOPE_WIDTH
from commonbrain.model import ids
from commonbrain.model.errors import InvalidInputError, RejectedError, parse_choice
from commonbrain.model.limits import NOTE_CHARS_MAX
from commonbrain.model.links import INHERITED, Link, LinkType, strengthened
from commonbrain.model.memory import Memory, State
from commonbrain.security.authority import Proposal, intrinsic_trust
from commonbrain.services import Services
from commonbrain.text.normalisation import normalise

_ANNOTATABLE_STATES = frozenset({State.ACTIVE, State.ARCHIVED, State.SUPERSEDED, State.QUARANTINED})
"""States of memories whose text is shown."""


def annotate(unit: UnitOfWork, memory: Memory, *, proposal: Proposal) -> ChangePlan:
    """Add an annotation; the same text by the same author is stored once."""
    if memory.state not in _ANNOTATABLE_STATES:
        raise RejectedError(
            f"{show(memory)} is {memory.state}: nothing is noted beside it.",
            code="not_current",
            hint="Restore it first.",
        )
    text = str(proposal.told["text"])
    there = unit.tx.annotations.of([memory.id]).get(memory.id, [])
    is_noted = any(one.agent == unit.caller.agent and one.text == text for one in there)
    return ChangePlan(steps=() if is_noted else (AddAnnotation(memory=memory, text=text),))


def link(unit: UnitOfWork, memory: Memory, *, proposal: Proposal) -> ChangePlan:
    """Link a memory to another; linking again strengthens the link."""
    check_current(memory, unit.now)
    other = unit.fetch(ids.parse(ids.MEMORY, proposal.told["to"]))
    check_current(other, unit.now)
    type_ = parse_choice(LinkType, proposal.told["type"])
    if type_ is LinkType.DERIVED_FROM:
        _check_source(memory, other)
    if (proposal.reason or "").startswith(INHERITED):
        raise InvalidInputError(
            f'A reason may not begin with "{INHERITED.strip()}".',
            hint="Say it otherwise: so begin links that a revision takes over.",
        )
    made = Link(
        from_id=memory.id,
        to_id=other.id,
        type=type_,
        strength=float(proposal.told["strength"]),
        basis=proposal.reason,
        agent=unit.caller.agent,
        trust=intrinsic_trust(unit.caller),
        created_at=unit.now,
        observed_at=unit.now,
    )
    known = find_link(unit, memory.id, to_id=other.id, type_=type_)
    now = strengthened(known, made) if known else made
    return ChangePlan(steps=(PutLink(memory=memory, known=known, link=now),))


def _check_source(memory: Memory, source: Memory) -> None:
    """Check that a memory is no more trusted and no wider than its sources.

    Raises:
        RejectedError: `source_beneath`.

    """
    if source.trust.weight < memory.trust.weight:
        what, less = f"has trust {memory.trust}", f"only {source.trust}"
    elif SCOPE_WIDTH[source.scope] < SCOPE_WIDTH[memory.scope]:
        what, less = f"has scope {memory.scope}", f"only {source.scope}"
    else:
        return
    raise RejectedError(
        f"{show(memory)} {what}, {show(source)} {less}: nothing is trusted more, or seen by more, "
        "than what it is derived from.",
        code="source_beneath",
        hint="Remember it anew with derived_from, which lowers it, or link it as depends_on.",
    )


def unlink(unit: UnitOfWork, memory: Memory, *, proposal: Proposal) -> ChangePlan:
    """Remove a link."""
    other = unit.fetch(ids.parse(ids.MEMORY, proposal.told["to"]))
    type_ = parse_choice(LinkType, proposal.told["type"])
    known = find_link(unit, memory.id, to_id=other.id, type_=type_)
    return ChangePlan(steps=(PutLink(memory=memory, known=known, link=None),) if known else ())


def find_link(unit: UnitOfWork, from_id: int, *, to_id: int, type_: LinkType) -> Link | None:
    """Return the link of a type from one memory to another."""
    there = unit.tx.links.touching([from_id], types=[type_])
    return next((one for one in there if (one.from_id, one.to_id) == (from_id, to_id)), None)


def checked_annotation(text: str, services: Services) -> str:
    """Return the text of an annotation, checked and without secrets.

    Raises:
        InvalidInputError: it is empty or too long.
        RejectedError: `secret_detected`.

    """
    plain = scan_text(normalise(text), what="annotation", services=services)
    if not 0 < len(plain) <= NOTE_CHARS_MAX:
        raise InvalidInputError(
            f"The annotation has {len(plain)} characters; 1 to {NOTE_CHARS_MAX} are allowed.",
            hint="Remember a long one as a memory of its own and link the two.",
        )
    return plain
