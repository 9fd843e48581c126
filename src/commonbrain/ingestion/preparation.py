"""What can be decided before the store is opened: kind, gate, trust, scope, vectors."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from commonbrain.clock import Clock
from commonbrain.embeddings.interface import Embedder, Matrix, Vectors
from commonbrain.ingestion.embedding import embedded
from commonbrain.ingestion.secret_scanning import screen
from commonbrain.ingestion.validation import Admitted, Rejected, admit
from commonbrain.model.errors import Unavailable, one_of
from commonbrain.model.kinds import (
    Atom,
    CausalField,
    Detail,
    Kind,
    MessageDetail,
    Severity,
    fields_of,
    kind_and_label,
)
from commonbrain.model.limits import (
    NAME_CHARS_MAX,
    RAW_TEXT_BYTES_MAX,
    SOURCE_REF_CHARS_MAX,
    SOURCES_MAX,
    TAGS_MAX,
    TEXT_BYTES_MAX,
)
from commonbrain.model.memory import Draft, check_types, full_text, texts_of
from commonbrain.model.scope import Caller, Scope, check_may_write
from commonbrain.model.scoring import confidence_of
from commonbrain.model.trust import Trust, granted
from commonbrain.services import House
from commonbrain.text.causal_extraction import atoms
from commonbrain.text.classification import classify, kind_with, severity_of
from commonbrain.text.entities import Entities, found_in
from commonbrain.text.inline_tags import Marked, atom_of, duties, marked, of_atom, sole_mark
from commonbrain.text.normalisation import normalise_draft
from commonbrain.text.rationale import premises


@dataclass(slots=True)
class Stopwatch:
    """Counts the time between laps towards the stage that a lap ends."""

    clock: Clock
    stages_ms: dict[str, float] = field(default_factory=dict[str, float])
    _since: float = field(init=False)

    def __post_init__(self) -> None:
        """Start."""
        self._since = self.clock.elapsed_ms()

    def lap(self, stage: str) -> None:
        """Say that what was done since the last lap was this stage."""
        now = self.clock.elapsed_ms()
        self.stages_ms[stage] = round(self.stages_ms.get(stage, 0.0) + now - self._since, 3)
        self._since = now


STATING: Final = frozenset({Kind.FACT, Kind.RULE, Kind.TASK, Kind.EPISODE})
"""Kinds that may hold only while something else does."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Prepared:
    """A draft that passed the gate, with what its author may claim; `vectors` may be missing."""

    draft: Draft
    admitted: Admitted
    scope: Scope
    trust: Trust
    project: str | None
    entities: Entities = field(default_factory=Entities)
    """What its text names."""
    warnings: tuple[str, ...] = ()
    derived: tuple[Prepared | Rejected, ...] = ()
    """What its text marks to be remembered by itself."""
    vectors: Vectors | None = None
    salience: float | None = None
    """What a model foretells of it; None: the rule says it."""
    premises: tuple[str, ...] = ()
    """What its text says that it rests on, to be looked up."""
    premise_vectors: tuple[Matrix, ...] = ()

    @property
    def text(self) -> str:
        """What is embedded, hashed and compared."""
        return full_text(self.admitted.headline, self.admitted.body)


def prepare(
    draft: Draft, caller: Caller, *, house: House, watch: Stopwatch | None = None
) -> Prepared | Rejected:
    """Normalise, screen for secrets, classify, gate, and settle trust and scope.

    Raises:
        Refused: the caller may not write that scope or claim that trust.
        Invalid: a field of the draft is of another type than it must be.

    """
    watch = watch or Stopwatch(house.clock)
    check_types(draft)
    prepared = _prepare(draft, caller, house=house, watch=watch)
    if isinstance(prepared, Rejected):
        return prepared
    parts = [_prepare(part, caller, house=house, watch=watch) for part in _parts(prepared)]
    return replace(prepared, derived=tuple(parts), premises=_premises(prepared))


def embed(prepared: Sequence[Prepared], embedder: Embedder) -> list[Prepared]:
    """Give each its vectors in one batch, or leave all without when the embedder is down."""
    if not prepared:
        return []
    told = [one for source in prepared for one in _told(source)]
    try:
        vectors = iter(embedded(told, embedder))
    except Unavailable:
        return list(prepared)
    return [_embedded(one, next(vectors), rest=vectors) for one in prepared]


def _prepare(
    draft: Draft, caller: Caller, *, house: House, watch: Stopwatch
) -> Prepared | Rejected:
    # Whoever makes a Draft by hand may have put plain words where members belong.
    scope = one_of(Scope, draft.scope or Scope.TEAM)
    check_may_write(caller, scope)
    claimed = one_of(Trust, draft.trust) if draft.trust else None
    trust = granted(claimed, default=caller.trust_default, ceiling=caller.trust_ceiling)
    if len(draft.body) > RAW_TEXT_BYTES_MAX:
        # Not even read: the work done for a text must be in proportion to what is allowed.
        return _too_much(f"The text has {len(draft.body):,} characters.")
    beyond = _check_bounds(draft)
    if beyond is not None:
        return beyond
    normal = normalise_draft(draft)
    watch.lap("normalise")
    if draft.body.strip() and not (normal.body or normal.headline):
        return _nothing_said()
    screened = screen(normal, house)
    watch.lap("screen")
    if isinstance(screened, Rejected):
        return screened
    named = _classified(_unmarked(screened.draft))
    watch.lap("classify")
    # Bounds again, for what was composed or found in the text may have grown.
    admitted = _check_bounds(named) or admit(named)
    watch.lap("gate")
    if isinstance(admitted, Rejected):
        return admitted
    text = full_text(admitted.headline, admitted.body)
    return Prepared(
        draft=named,
        admitted=admitted,
        scope=scope,
        trust=trust,
        project=named.project or caller.project,
        entities=_with_own(found_in(text), named),
        warnings=screened.warnings + admitted.warnings,
    )


def _nothing_said() -> Rejected:
    return Rejected(
        code="own_evidence",
        reason="There is nothing but what a recall answered, or nothing that can be printed.",
        hint="It is stored already. Remember what you concluded from it, in your own words.",
    )


def _unmarked(draft: Draft) -> Draft:
    """Read a text that is one mark from beginning to end as what it marks, an atom by its bars."""
    sole = sole_mark(draft.body) if draft.kind is None else _atom(draft)
    if sole is None:
        return draft
    return replace(
        draft,
        body=sole.text,
        kind=draft.kind or sole.kind,
        label=draft.label or sole.label,
        columns={**sole.columns, **draft.columns},
    )


def _atom(draft: Draft) -> Marked | None:
    """Read the fields of what is to be an atom from its text, where none is given apart."""
    named = kind_and_label(draft.kind) if draft.kind else None
    is_told = fields_of(draft.detail) or set(CausalField) & draft.columns.keys()
    return atom_of(draft.body) if named and named[0] is Kind.ATOM and not is_told else None


def _classified(draft: Draft) -> Draft:
    if draft.kind is not None:
        return draft
    kind = kind_with(draft.columns, draft.body) if draft.columns else classify(draft.body)
    severity = severity_of(draft.body) if kind is Kind.RULE else None
    return replace(draft, kind=kind, severity=draft.severity or severity)


def _with_own(found: Entities, draft: Draft) -> Entities:
    """Put what the author named before what the text names."""
    people = (name.casefold() for name in draft.people)
    return replace(
        found,
        tags=tuple(dict.fromkeys((*draft.tags, *found.tags)))[:TAGS_MAX],
        people=tuple(dict.fromkeys((*people, *found.people)))[:TAGS_MAX],
    )


def _parts(source: Prepared) -> Iterator[Draft]:
    """Give what a text marks as drafts: no wider, no more trusted, never a blocking one."""
    draft, body = source.draft, source.admitted.body
    found = marked(body)
    if draft.finds_tasks and source.admitted.kind is not Kind.TASK:
        found += duties(body)
    if _finds_causes(source):
        found += [_told_cause(one, source) for one in atoms(body)]
    for part in found:
        yield Draft(
            body=part.text,
            kind=part.kind,
            label=part.label,
            severity=_severity(part),
            columns=part.columns,
            confidence=part.confidence,
            project=source.project,
            scope=source.scope,
            trust=source.trust,
            source_ref=draft.source_ref,
            occurred_at=draft.occurred_at,
            audience=_audience(source.admitted.detail),
            auto_captured=True,
        )


def _finds_causes(source: Prepared) -> bool:
    """Say whether causes are looked for: in messages unless told not to, elsewhere on request."""
    kind, wanted = source.admitted.kind, source.draft.finds_causes
    return kind is not Kind.ATOM and (kind is Kind.MESSAGE if wanted is None else wanted)


def _told_cause(atom: Atom, source: Prepared) -> Marked:
    return of_atom(
        atom, confidence=confidence_of(atom, of=source.admitted.kind, trust=source.trust)
    )


def _audience(detail: Detail) -> tuple[str, ...]:
    return detail.recipients if isinstance(detail, MessageDetail) else ()


def _severity(part: Marked) -> Severity | None:
    is_rule = part.kind is None and classify(part.text) is Kind.RULE
    return Severity.PATTERN if is_rule else None


def _told(source: Prepared) -> Iterator[tuple[str, Detail | None]]:
    """Give what of it is embedded: itself, what is made of its marks, and on what it rests."""
    made = (part for part in source.derived if isinstance(part, Prepared))
    yield from ((one.text, one.admitted.detail) for one in (source, *made))
    yield from ((premise, None) for premise in source.premises)


def _embedded(prepared: Prepared, vectors: Vectors, *, rest: Iterator[Vectors]) -> Prepared:
    parts = tuple(
        replace(part, vectors=next(rest)) if isinstance(part, Prepared) else part
        for part in prepared.derived
    )
    premises = tuple(next(rest).windows for _ in prepared.premises)
    return replace(prepared, vectors=vectors, derived=parts, premise_vectors=premises)


def _premises(prepared: Prepared) -> tuple[str, ...]:
    """Give the reasons of what states something; who said on what it rests is not asked."""
    is_open = not prepared.draft.depends_on and not prepared.draft.auto_captured
    return premises(prepared.text) if is_open and prepared.admitted.kind in STATING else ()


def _check_bounds(draft: Draft) -> Rejected | None:
    for what, text in texts_of(draft):
        allowed = _CHARS_MAX.get(what, SOURCE_REF_CHARS_MAX)
        if len(text) > allowed:
            return _too_much(f"The {what} has {len(text):,} characters; {allowed:,} are allowed.")
    if draft.confidence is not None and not 0 <= draft.confidence <= 1:
        return _too_much(f"The confidence is {draft.confidence}; 0 to 1 is allowed.")
    for what in ("tags", "people", "derived_from", "depends_on"):
        given, most = len(getattr(draft, what)), _COUNTS_MAX[what]
        if given > most:
            return _too_much(f"{given} {what} were given; {most} are allowed.")
    return None


_CHARS_MAX = {
    **dict.fromkeys(("project", "label", "tags", "people"), NAME_CHARS_MAX),
    # The gate has more to say about these two.
    **dict.fromkeys(("body", "headline"), RAW_TEXT_BYTES_MAX),
    **dict.fromkeys(("root_cause", "resolution", "outcome", "consequences"), TEXT_BYTES_MAX),
}
_COUNTS_MAX = {
    **dict.fromkeys(("tags", "people"), TAGS_MAX),
    **dict.fromkeys(("derived_from", "depends_on"), SOURCES_MAX),
}


def _too_much(reason: str) -> Rejected:
    return Rejected(code="limit_exceeded", reason=reason, hint="Bring it within bounds.")
