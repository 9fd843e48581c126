"""Preparation: everything that needs no store (kind, validation, trust, scope, vectors)."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from datetime import datetime
from functools import cache, partial
from typing import TYPE_CHECKING, Any, Final, Unpack, cast

from commonbrain.clock import StageTimer, SystemClock
from commonbrain.embeddings.interface import Matrix, Vectors
from commonbrain.extras import extra_missing, is_installed, load_row
from commonbrain.ingestion.rationale import rationales
from commonbrain.ingestion.validation import Rejection, Valid, scan_drafts, validate
from commonbrain.model import ids, limits
from commonbrain.model.attachments import ATTACHMENT, attachment_text
from commonbrain.model.errors import InvalidInputError, RejectedError, parse_choice
from commonbrain.model.kind_columns import settable_columns
from commonbrain.model.kinds import (
    KINDS,
    CausalField,
    CauseExtraction,
    Detail,
    Kind,
    MessageDetail,
    Severity,
    TaskDetail,
    fields_of,
    kind_and_label,
)
from commonbrain.model.memory import (
    Draft,
    Sharing,
    ThreadRef,
    check_types,
    confidence_of,
    full_text,
    semantic_hash,
    texts_of,
)
from commonbrain.model.parameters import DEFAULTS, Parameters
from commonbrain.model.scope import Authority, Caller, Role, Scope, Trust, check_may_write, granted
from commonbrain.model.tasks import must_be_acknowledged
from commonbrain.model.timestamps import instant
from commonbrain.security.authority import author_agent, authority_of
from commonbrain.security.secrets import SecretScanner
from commonbrain.text.classification import (
    TaggedText,
    assignee_in,
    atom_of,
    classify,
    extract_tasks,
    kind_with,
    label_in,
    of_atom,
    own_lines,
    own_text,
    severity_of,
    sole_tag,
    tagged_texts,
    untagged,
    without_tags,
)
from commonbrain.text.entities import Entities, extract_entities
from commonbrain.text.normalisation import normalise, normalise_draft, without_injected_context
from commonbrain.text.preferences import is_of_user
from commonbrain.text.reading import read_undated
from commonbrain.text.search_words import count_words
from commonbrain.text.segmentation import split

if TYPE_CHECKING:
    from typing_extensions import TypedDict

    from commonbrain.model.atoms import Atom

    class DraftFields(TypedDict, total=False, extra_items=object):
        """What may be given with a text; None is the default of each.

        Any other name is a column of the kind, such as `severity` of a rule or `due_at` of a task:
        the reference of kinds lists them.
        """

        kind: str | None
        """rule, fact, incident, task, event, episode, atom or message; else the words decide."""
        headline: str | None
        """At most 15 words; by default the clause that carries the text."""
        label: str | None
        """The type of statement, such as decision."""
        project: str | None
        """By default the caller's."""
        scope: Scope | str | None
        """private, team (the default) or global."""
        trust: Trust | str | None
        """trusted_tool, user_claim or untrusted_web, at most the caller's own."""
        confidence: float | None
        """0..1, how certain the author is; lowers the computed value only."""
        tags: Sequence[str] | None
        people: Sequence[str] | None
        """People that the text does not mention by `@name`."""
        source_ref: str | None
        """Where it comes from: a URL, a file and line, a ticket."""
        cites: Sequence[str] | None
        """Code that it is about: `path:line`, `path:line-line` or `path#symbol`, at most 8."""
        source_message: str | None
        """The id of the message from which the text comes."""
        derived_from: Sequence[str] | None
        """Ids of its sources, which limit trust and scope."""
        depends_on: Sequence[str] | None
        """Ids of memories that must be valid for this one to be."""
        occurred_at: datetime | str | None
        """When it happened, ISO 8601 or words; by default now."""
        expires_at: datetime | str | None
        """When it stops being valid."""
        auto_captured: bool | None
        """Whether a program stores it without being asked."""
        extract_tasks: bool | None
        """Store sentences that state tasks as tasks."""
        extract_causes: bool | None
        """Store stated causes and effects as atoms."""
        distinct_because: str | None
        """Store it although a memory says the same, for this reason."""
        attachment: Mapping[str, object] | None
        """A JSON object of at most 256 KiB that `get` returns exactly; it is not searched."""
        thread: ThreadRef | None
        """Of a message."""
        detail: Detail | None
        """The columns of the kind as an object, instead of single arguments."""

else:
    # At run time it is a dictionary, which `draft_of` checks.
    DraftFields = dict


def draft_of(text: str, **known: Unpack[DraftFields]) -> Draft:
    """Build a draft from a text and its attributes; an atom's fields can replace its text.

    Raises:
        InvalidInputError: a name, scope, trust, id or time is invalid or of the wrong type.

    """
    given: dict[str, Any] = {name: value for name, value in known.items() if value is not None}
    columns = {name: given.pop(name) for name in sorted(_COLUMNS & given.keys())}
    unknown = sorted(set(given) - _FIELDS - {"source_message"})
    if unknown:
        raise InvalidInputError(f"There is no {', '.join(unknown)} to remember.", hint="See Draft.")
    try:
        read = {name: _PARSERS[name](value) for name, value in given.items() if name in _PARSERS}
    except (TypeError, AttributeError):
        wrong = ", ".join(name for name in given if name in _PARSERS)
        raise InvalidInputError(f"One of {wrong} is of a wrong type.", hint="See Draft.") from None
    if "source_message" in given:
        read["source_message_id"] = ids.parse(ids.MEMORY, str(given.pop("source_message")))
    if not text.strip() and given.get("kind") == Kind.ATOM:
        text = " | ".join(str(columns[name]) for name in CausalField if name in columns)
    return replace(Draft(body=text), columns=columns, **given | read)


def parse_drafts(
    text: str, *, is_chunked: bool | None, **known: Unpack[DraftFields]
) -> list[Draft]:
    """Parse a text as one statement, or as the chunks of a raw text.

    A text is raw if it has several chunks and no headline was given, and no kind either, unless it
    is too long for one memory of its kind; `is_chunked` overrides that.

    Raises:
        InvalidInputError: as for `draft_of`.
        RejectedError: `limit_exceeded`, the text has too many chunks.

    """
    whole = draft_of(text, **known)
    named = kind_and_label(whole.kind) if whole.kind else None
    is_atomic = named is not None and KINDS[named[0]].is_atomic
    is_too_long = is_atomic and count_words(text) > limits.ATOMIC_WORDS_MAX
    is_one = whole.headline is not None or (whole.kind is not None and not is_too_long)
    if is_chunked is False or (is_one and not is_chunked) or len(text) > limits.RAW_TEXT_BYTES_MAX:
        return [whole]
    chunks = split(normalise(without_injected_context(normalise(text))))
    if len(chunks) < 2:  # noqa: PLR2004 a single passage is the statement, with its heading
        return [whole]
    if len(chunks) > limits.CHUNKS_MAX:
        raise RejectedError(
            f"The text has {len(chunks):,} passages; {limits.CHUNKS_MAX:,} are allowed.",
            code="limit_exceeded",
            hint="Import it, or send it in parts.",
        )
    whole = replace(whole, own_lines=own_lines(text))
    return [replace(whole, body=one.text, section=one.section or None) for one in chunks]


def listed(drafts: Draft | Sequence[Draft]) -> list[Draft]:
    """Return the drafts as a list; a single draft becomes a list of one.

    Raises:
        InvalidInputError: it is neither a draft nor a list of drafts.

    """
    # Annotations do not stop a program from passing a number.
    given = cast("object", [drafts] if isinstance(drafts, Draft) else drafts)
    listed = list(cast("Sequence[object]", given)) if isinstance(given, Sequence) else [given]
    known = [one for one in listed if isinstance(one, Draft)]
    if len(known) < len(listed):
        raise InvalidInputError(
            "The argument is neither a text nor drafts.",
            hint="Give a text, a Draft, or a list of them.",
        )
    return known


def _names(given: Sequence[str]) -> tuple[str, ...]:
    return (given,) if isinstance(given, str) else tuple(given)


def _ids(given: Sequence[str]) -> tuple[int, ...]:
    return tuple(ids.parse(ids.MEMORY, one) for one in _names(given))


_LOG: Final = logging.getLogger(__name__)
_PARSERS: Final[Mapping[str, Callable[[Any], Any]]] = {
    "scope": partial(parse_choice, Scope),
    "trust": partial(parse_choice, Trust),
    "tags": _names,
    "people": _names,
    "cites": _names,
    "derived_from": _ids,
    "depends_on": _ids,
    "occurred_at": instant,
    "expires_at": instant,
}
# Readers are set by messages alone, chunks by importers, and proposals by reflection.
_INTERNAL_FIELDS: Final = {
    *("body", "audience", "part", "own_lines", "is_candidate", "sharing"),
    *("author", "imported_from", "pinned", "rating", "section", "salience"),
    *("believed_since", "access_count", "last_access_at", "original_ref"),
}
_FIELDS: Final = {field.name for field in fields(Draft)} - _INTERNAL_FIELDS
# Severity is a field of the draft because validation checks it separately; a lease is claimed.
_COLUMNS: Final = frozenset(column for policy in KINDS.values() for column in policy.columns) - {
    "severity",
    "lease_holder",
    "lease_until",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class PreparedDraft:
    """A validated draft with the authority of its author; `vectors` may be missing."""

    draft: Draft
    admitted: Valid
    scope: Scope
    trust: Trust
    authority: Authority
    project: str | None
    agent: str
    """Its author: the caller, or who wrote it in an imported source."""
    entities: Entities = field(default_factory=Entities)
    """Entities in the text."""
    warnings: tuple[str, ...] = ()
    derived: tuple[PreparedDraft | Rejection, ...] = ()
    """Drafts made from inline tags and extraction."""
    vectors: Vectors | None = None
    is_deferred: bool = False
    """Whether it is embedded after the reply."""
    salience: float | None = None
    """The salience predicted by a model; None uses the rule."""
    rationales: tuple[str, ...] = ()
    """The reasons stated in the text."""
    rationale_vectors: tuple[Matrix, ...] = ()
    parameters: Parameters = DEFAULTS
    """The parameters in force for its author."""
    seen: Mapping[str, object] = field(default_factory=dict[str, object])
    """What its author saw of the code that it cites, and where, for the payload."""

    @property
    def text(self) -> str:
        """The text to embed, hash and compare."""
        return full_text(self.admitted.headline, self.admitted.body)

    @property
    def semantic_hash(self) -> str:
        """The hash by which the same draft is found again."""
        why = self.draft.distinct_because
        return semantic_hash(self.admitted.kind, self.text, distinct_because=why)


def prepare_drafts(
    draft: Draft,
    caller: Caller,
    *,
    scanner: SecretScanner,
    parameters: Parameters,
    timer: StageTimer | None = None,
) -> PreparedDraft | Rejection:
    """Normalize, screen for secrets, classify and validate drafts, and settle trust and scope.

    Raises:
        RejectedError: the caller may not write that scope or claim that trust.
        InvalidInputError: a field of the draft has the wrong type.

    """
    timer = timer or StageTimer(SystemClock())
    check_types(draft)
    prepared = _prepare(draft, caller, scanner=scanner, parameters=parameters, timer=timer)
    if isinstance(prepared, Rejection):
        return prepared
    parts = [
        _prepare(part, caller, scanner=scanner, parameters=parameters, timer=timer)
        for part in _derived_drafts(prepared, given=draft)
    ]
    # An author who names the dependencies has stated the reasons.
    is_open = not prepared.draft.depends_on and not prepared.draft.auto_captured
    can_depend = is_open and KINDS[prepared.admitted.kind].can_depend
    reasons = rationales(prepared.text) if can_depend else ()
    return replace(
        prepared,
        derived=tuple(parts),
        rationales=reasons,
        warnings=prepared.warnings + _missing_causes(prepared),
    )


def _prepare(
    draft: Draft,
    caller: Caller,
    *,
    scanner: SecretScanner,
    parameters: Parameters,
    timer: StageTimer,
) -> PreparedDraft | Rejection:
    # A Draft built by a program may have plain strings instead of enum members.
    scope = parse_choice(Scope, draft.scope or Scope.TEAM)
    check_may_write(caller, scope)
    claimed = parse_choice(Trust, draft.trust) if draft.trust else None
    trust = granted(claimed, default=caller.trust_default, ceiling=caller.trust_ceiling)
    if len(draft.body) > limits.RAW_TEXT_BYTES_MAX:
        # Reject before reading: the work must be bounded by what is allowed.
        return _limit_exceeded(f"The text has {len(draft.body):,} characters.")
    violation = _check_bounds(draft)
    if violation is not None:
        return violation
    normal = normalise_draft(draft)
    timer.end_stage("normalise")
    if draft.body.strip() and not (normal.body or normal.headline):
        return _only_own_evidence()
    screened = scan_drafts(normal, scanner, on_secret=parameters.secrets)
    timer.end_stage("screen")
    if isinstance(screened, Rejection):
        return screened
    named = _classified(_expand_sole_tag(screened.draft))
    if caller.authority is not Authority.PERSON:
        named = _unembellished(named, calls_blocker=draft.severity is not None)
    is_preference = draft.kind is None and named.kind is Kind.RULE and is_of_user(named.body)
    timer.end_stage("classify")
    # Check limits again, because composed or extracted text may be longer.
    admitted = _check_bounds(named) or validate(named)
    # A preference of the user holds in every project.
    project = named.project or (None if is_preference else caller.project)
    if isinstance(admitted, Valid) and project is None and scope is not Scope.PRIVATE:
        admitted = _check_binds_all(admitted, caller)
    timer.end_stage("gate")
    if isinstance(admitted, Rejection):
        return admitted
    detail, who = admitted.detail, assignee_in(admitted.body)
    if who and isinstance(detail, TaskDetail) and not (detail.assignee or detail.must_ack):
        admitted = replace(admitted, detail=replace(detail, assignee=who))
    text = full_text(admitted.headline, admitted.body)
    # Most of an imported conversation was said by a model.
    is_said = draft.imported_from is not None and admitted.kind is Kind.MESSAGE
    is_captured = draft.auto_captured or is_said
    # Read here, so that the transaction that stores it finds it read.
    read_undated(admitted.headline, admitted.body)
    return PreparedDraft(
        draft=named,
        admitted=admitted,
        scope=scope,
        trust=trust,
        authority=authority_of(caller, trust=trust, is_captured=is_captured),
        project=project,
        agent=caller.agent if draft.imported_from is None else author_agent(named, caller),
        entities=_merge_entities(extract_entities(text), named),
        warnings=screened.warnings + admitted.warnings,
        parameters=parameters,
    )


def _unembellished(draft: Draft, *, calls_blocker: bool) -> Draft:
    """Return a draft with the headline and severity that it may have if no person wrote it."""
    # A boot shows a rule's headline alone. Not each "never" of a model waits for a person.
    severity = draft.severity if calls_blocker else draft.severity and Severity.PATTERN
    is_rule = draft.kind == Kind.RULE and draft.body.strip()
    return replace(draft, severity=severity, headline=None if is_rule else draft.headline)


def _check_binds_all(admitted: Valid, caller: Caller) -> Valid | Rejection:
    """Let only an admin block the writers of every project."""
    if caller.role is Role.ADMIN or not must_be_acknowledged(admitted.detail):
        return admitted
    return Rejection(
        code="scope_denied",
        reason="Without a project, must_ack blocks the writers of every project: that needs the "
        "role admin.",
        hint="Name the project that it blocks, or leave must_ack out.",
    )


def _only_own_evidence() -> Rejection:
    return Rejection(
        code="own_evidence",
        reason="There is nothing but private parts, what a recall answered, or control characters.",
        hint="Private parts are never stored, and what was recalled is stored already. Remember "
        "what you concluded from it, in your own words.",
    )


def _expand_sole_tag(draft: Draft) -> Draft:
    """Replace a text that is a single inline tag by its content."""
    if draft.kind is None:
        is_own = draft.own_lines is None or draft.body in draft.own_lines
        sole = sole_tag(draft.body) if is_own else None
    else:
        # The fields of an atom are read from its text, unless they were given.
        named = kind_and_label(draft.kind)
        has_fields = fields_of(draft.detail) or set(CausalField) & draft.columns.keys()
        is_atom = named is not None and named[0] is Kind.ATOM and not has_fields
        sole = atom_of(draft.body) if is_atom else None
    if sole is None:
        return draft
    return replace(
        draft,
        body=sole.text,
        kind=draft.kind or sole.kind,
        label=draft.label or sole.label,
        columns={**sole.columns, **draft.columns},
    )


def _classified(draft: Draft) -> Draft:
    if draft.kind is not None:
        return draft
    kind = kind_with(draft.columns, draft.body) if draft.columns else classify(draft.body)
    severity = severity_of(draft.body) if kind is Kind.RULE else None
    if severity and is_of_user(draft.body):
        # What a user prefers forbids nothing to others.
        severity = Severity.PATTERN
    label = draft.label or label_in(draft.body)
    return replace(draft, kind=kind, label=label, severity=draft.severity or severity)


def _merge_entities(entities: Entities, draft: Draft) -> Entities:
    """Put entities given by the author before those found in the text."""
    people = (name.casefold() for name in draft.people)
    return replace(
        entities,
        tags=tuple(dict.fromkeys((*draft.tags, *entities.tags)))[: limits.TAGS_MAX],
        people=tuple(dict.fromkeys((*people, *entities.people)))[: limits.TAGS_MAX],
    )


def _derived_drafts(source: PreparedDraft, *, given: Draft) -> Iterator[Draft]:
    """Return drafts for what its author tagged: no more trusted, never a BLOCKER.

    They are no wider than their text, except for what the sender of a direct message marks as a
    decision or convention: the mark is the sender's word that the team may know it.
    """
    draft = source.draft
    has_tasks = draft.extract_tasks and KINDS[source.admitted.kind].extracts_tasks
    extract_atoms = _load_patterns() if _extracts_causes(source) else None
    is_read = has_tasks or extract_atoms is not None or "@" in source.admitted.body
    own = own_text(source.admitted.body, of=given) if is_read else ""
    tagged = [*_whole(source), *tagged_texts(own), *(extract_tasks(own) if has_tasks else ())]
    if extract_atoms is not None:
        tagged += [
            of_atom(
                atom, confidence=confidence_of(atom, of=source.admitted.kind, trust=source.trust)
            )
            for atom in extract_atoms(untagged(own))
        ]
    detail = source.admitted.detail
    recipients = detail.recipients if isinstance(detail, MessageDetail) else ()
    for part in tagged:
        is_shared = part.label in _SHARED_LABELS and draft.sharing is not Sharing.NONE
        is_rule = part.kind is None and classify(part.text) is Kind.RULE
        yield Draft(
            body=part.text,
            kind=part.kind,
            label=part.label,
            severity=Severity.PATTERN if is_rule else None,
            columns=part.columns,
            confidence=part.confidence,
            project=source.project,
            scope=Scope.TEAM if is_shared else source.scope,
            trust=source.trust,
            source_ref=draft.source_ref,
            section=draft.section,
            occurred_at=draft.occurred_at,
            audience=() if is_shared else recipients,
            auto_captured=True,
            sharing=Sharing.MARKED if is_shared else Sharing.NONE,
        )


_SHARED_LABELS: Final = frozenset({Sharing.DECISION, Sharing.CONVENTION})


def _whole(source: PreparedDraft) -> Iterator[TaggedText]:
    """Return the whole text of a message if its sender shares it as a decision or convention."""
    sharing = source.draft.sharing
    if sharing in _SHARED_LABELS:
        kind = Kind.FACT if sharing is Sharing.DECISION else Kind.RULE
        text = without_tags(source.admitted.body)
        yield TaggedText(text=text, kind=kind, label=str(sharing))


def _extracts_causes(source: PreparedDraft) -> bool:
    """Return whether to extract causes: in messages by default, elsewhere on request."""
    extracts, is_requested = (
        KINDS[source.admitted.kind].extracts_causes,
        source.draft.extract_causes,
    )
    if is_requested is None:
        return extracts is CauseExtraction.BY_DEFAULT
    return is_requested and extracts is not CauseExtraction.NEVER


@cache
def _load_patterns() -> Callable[[str], Sequence[Atom]] | None:
    """Return what extracts causes from a text; None if its package is not installed."""
    if not is_installed("commonbrain_causes"):
        return None
    try:
        row = load_row("causes", "patterns", extra="causes")
    except InvalidInputError as error:
        # A package that is broken must not stop what can be stored without it.
        _LOG.warning("Causes are not extracted: %s", error)
        return None
    return cast("Callable[[str], Sequence[Atom]]", row)


def _missing_causes(source: PreparedDraft) -> tuple[str, ...]:
    """Warn an author who asks for causes that nothing here extracts them."""
    if not source.draft.extract_causes or not _extracts_causes(source) or _load_patterns():
        return ()
    error = extra_missing("commonbrain[causes]", extra="causes")
    return (f"Its causes were not extracted. {error.message} {error.hint}",)


def _check_bounds(draft: Draft) -> Rejection | None:
    for what, text in texts_of(draft):
        allowed = _CHARS_MAX.get(what, limits.SOURCE_REF_CHARS_MAX)
        if len(text) > allowed:
            return _limit_exceeded(
                f"The {what} has {len(text):,} characters; {allowed:,} are allowed."
            )
    if draft.attachment is not None:
        size = len(attachment_text(draft.attachment).encode())
        if size > limits.ATTACHMENT_BYTES_MAX:
            return _limit_exceeded(
                f"The attachment has {size:,} bytes as JSON; "
                f"{limits.ATTACHMENT_BYTES_MAX:,} are allowed."
            )
    if draft.confidence is not None and not 0 <= draft.confidence <= 1:
        return _limit_exceeded(f"The confidence is {draft.confidence}; 0 to 1 is allowed.")
    for what in ("tags", "people", "cites", "derived_from", "depends_on"):
        given, most = len(getattr(draft, what)), _COUNTS_MAX[what]
        if given > most:
            return _limit_exceeded(f"{given} {what} were given; {most} are allowed.")
    return None


_CHARS_MAX = {
    **dict.fromkeys(("project", "label", "tags", "people", "author"), limits.NAME_CHARS_MAX),
    # These two have checks of their own in validation.
    **dict.fromkeys(("body", "headline"), limits.RAW_TEXT_BYTES_MAX),
    # The whole attachment has a limit of its own.
    ATTACHMENT: limits.ATTACHMENT_BYTES_MAX,
    **{column.name: limits.TEXT_BYTES_MAX for column in settable_columns() if column.is_long},
}
_COUNTS_MAX = {
    **dict.fromkeys(("tags", "people"), limits.TAGS_MAX),
    "cites": limits.CITATIONS_MAX,
    **dict.fromkeys(("derived_from", "depends_on"), limits.SOURCES_MAX),
}


def _limit_exceeded(reason: str) -> Rejection:
    return Rejection(code="limit_exceeded", reason=reason, hint="Bring it within bounds.")
