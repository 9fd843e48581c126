"""What can be decided before the store is opened: kind, gate, trust, scope, vectors."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from commonbrain.domain.choice import one_of
from commonbrain.domain.classify import classify, severity_of
from commonbrain.domain.errors import Unavailable
from commonbrain.domain.gate import Admitted, Rejected, admit
from commonbrain.domain.kinds import Kind
from commonbrain.domain.limits import NAME_CHARS_MAX, SOURCE_REF_CHARS_MAX, TAGS_MAX
from commonbrain.domain.memory import Draft, full_text
from commonbrain.domain.normalise import normalise_draft
from commonbrain.domain.scope import Caller, Scope, check_may_write
from commonbrain.domain.trust import Trust, granted
from commonbrain.ports.models import Embedder, Matrix


@dataclass(frozen=True, slots=True, kw_only=True)
class Prepared:
    """A draft that passed the gate, with what its author may claim; `vectors` may be missing."""

    draft: Draft
    admitted: Admitted
    scope: Scope
    trust: Trust
    project: str | None
    vectors: Matrix | None = None

    @property
    def text(self) -> str:
        """What is embedded, hashed and compared."""
        return full_text(self.admitted.headline, self.admitted.body)


def prepare(draft: Draft, caller: Caller) -> Prepared | Rejected:
    """Normalise, classify, gate, and settle trust and scope.

    Raises:
        Refused: the caller may not write that scope or claim that trust.

    """
    # Whoever makes a Draft by hand may have put plain words where members belong.
    scope = one_of(Scope, draft.scope or Scope.TEAM)
    check_may_write(caller, scope)
    claimed = one_of(Trust, draft.trust) if draft.trust else None
    trust = granted(claimed, default=caller.trust_default, ceiling=caller.trust_ceiling)
    named = _classified(normalise_draft(draft))
    match _check_bounds(draft) or admit(named):
        case Rejected() as refusal:
            return refusal
        case Admitted() as admitted:
            return Prepared(
                draft=named,
                admitted=admitted,
                scope=scope,
                trust=trust,
                project=named.project or caller.project,
            )


def embed(prepared: Sequence[Prepared], embedder: Embedder) -> list[Prepared]:
    """Give each its vectors in one batch, or leave all without when the embedder is down."""
    try:
        vectors = embedder.passages([one.text for one in prepared])
    except Unavailable:
        return list(prepared)
    return [replace(one, vectors=v) for one, v in zip(prepared, vectors, strict=True)]


def _classified(draft: Draft) -> Draft:
    if draft.kind is not None:
        return draft
    kind = classify(draft.body)
    severity = severity_of(draft.body) if kind is Kind.RULE else None
    return replace(draft, kind=kind, severity=draft.severity or severity)


def _check_bounds(draft: Draft) -> Rejected | None:
    names = {"project": draft.project, "label": draft.label, "kind": draft.kind}
    names |= {f"tag {number}": tag for number, tag in enumerate(draft.tags, 1)}
    sizes = {what: (len(name or ""), NAME_CHARS_MAX) for what, name in names.items()}
    sizes["source_ref"] = (len(draft.source_ref or ""), SOURCE_REF_CHARS_MAX)
    for what, (given, allowed) in sizes.items():
        if given > allowed:
            return _too_much(f"The {what} has {given} characters; {allowed} are allowed.")
    if draft.confidence is not None and not 0 <= draft.confidence <= 1:
        return _too_much(f"The confidence is {draft.confidence}; 0 to 1 is allowed.")
    if len(draft.tags) > TAGS_MAX:
        return _too_much(f"{len(draft.tags)} tags were given; {TAGS_MAX} are allowed.")
    return None


def _too_much(reason: str) -> Rejected:
    return Rejected(code="limit_exceeded", reason=reason, hint="Bring it within bounds.")
