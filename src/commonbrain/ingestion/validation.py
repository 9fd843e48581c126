"""The write gate: five checks; deduplication, the fifth, has its own module.

gate_kind > gate_severity > gate_headline > gate_atomicity > duplicate

The result is a closed union: `Valid`, or `Rejection` with the check, the reason and the next step.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum
from typing import Any, Final

from commonbrain.model import limits
from commonbrain.model.attachments import ATTACHMENT, as_assigned, named_texts
from commonbrain.model.errors import (
    CommonbrainError,
    InvalidInputError,
    RejectedError,
    parse_choice,
)
from commonbrain.model.kind_columns import KindColumn, columns_of
from commonbrain.model.kinds import (
    KINDS,
    Detail,
    Kind,
    KindPolicy,
    RuleDetail,
    Severity,
    kind_and_label,
)
from commonbrain.model.memory import Draft, texts_of, with_texts
from commonbrain.model.scope import OnSecret
from commonbrain.model.skills import read_trigger
from commonbrain.model.timestamps import instant
from commonbrain.security.secret_values import SecretMatch, redacted
from commonbrain.security.secrets import (
    PASSES_MAX,
    SecretScanner,
    describe_secret,
    secret_error,
)
from commonbrain.text.headlines import derive_headline
from commonbrain.text.patterns import lazy_pattern
from commonbrain.text.search_words import count_words


def _with_columns(detail: Detail, given: Mapping[str, object], *, kind: Kind) -> Detail:
    """Set plain values on a detail; the trigger of a skill is always checked.

    Raises:
        InvalidInputError: a value has the wrong type or is out of range.

    """
    columns = {column.name: column for column in columns_of(kind)}
    read: dict[str, Any] = {
        name: _read_column(columns[name], value)
        for name, value in given.items()
        if value is not None
    }
    detailed = replace(detail, **read)
    if isinstance(detailed, RuleDetail) and detailed.skill is not None:
        return replace(detailed, skill=read_trigger(detailed.skill))
    return detailed


def _read_column(column: KindColumn, value: object) -> object:
    is_choice = issubclass(column.value_type, StrEnum)
    checked = _checked(column.name, value, form=_TEXT if is_choice else _FORMS[column.value_type])
    if issubclass(column.value_type, StrEnum):
        return parse_choice(
            column.value_type, checked.upper() if column.value_type is Severity else checked
        )
    if column.value_type is tuple:
        return tuple(_checked(column.name, one, form=_TEXT) for one in checked)
    return instant(checked) if column.value_type is datetime else checked


def _checked(name: str, value: object, *, form: "_Form") -> Any:  # noqa: ANN401 of the form's types
    types, expected = form
    # A truth value is an integer to Python.
    if not isinstance(value, types) or (isinstance(value, bool) and types is not bool):
        raise InvalidInputError(f"{name[:40]} is not {expected}.", hint=f"Give {expected}.")
    return value


_Form = tuple[type | tuple[type, ...], str]
"""The types of a value, and what it is called in errors."""
_TEXT: Final = (str, "a text")
_FORMS: Final[Mapping[type, _Form]] = {
    str: _TEXT,
    bool: (bool, "true or false"),
    int: (int, "a whole number"),
    float: ((int, float), "a number"),
    datetime: ((str, datetime), "an ISO 8601 date or time"),
    tuple: ((list, tuple), "a list of names"),
    Mapping: (Mapping, "an object with name and keywords"),
}
"""The forms in which values of a column's type are given."""


_UPDATE_MARKER: Final = lazy_pattern(
    r"\b(?:update[ds]?|edit(?:ed)?|revised|amended|guardrail|addendum)\b\W{0,4}"
    r"(?:on\s+|of\s+)?\(?\d{4}-\d{2}-\d{2}",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Valid:
    """An accepted draft, and the warnings for its author."""

    kind: Kind
    label: str | None
    headline: str
    body: str
    detail: Detail
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Rejection:
    """A rejected draft: the code of the check, the reason, and the next step."""

    code: str
    reason: str
    hint: str

    @classmethod
    def of(cls, error: CommonbrainError) -> "Rejection":
        """Convert an error that concerns one draft."""
        return cls(code=error.code, reason=error.message, hint=error.hint)

    def error(self) -> RejectedError:
        """Convert the rejection to an error of the whole call."""
        return RejectedError(self.reason, code=self.code, hint=self.hint)


def validate(draft: Draft) -> Valid | Rejection:
    """Run a normalized, classified draft through the first four checks."""
    named = kind_and_label(draft.kind or "")
    if named is None:
        return Rejection(
            code="gate_kind",
            reason=f"Kind {(draft.kind or '')[:40]!r} is not one of {', '.join(Kind)}.",
            hint="Choose the kind by how long it should live: a rule binds, a fact is true for "
            "now.",
        )
    kind, alias = named
    policy = KINDS[kind]
    detail = _detail(policy, draft)
    if isinstance(detail, Rejection):
        return detail
    headline = draft.headline.strip() if draft.headline else derive_headline(draft.body)
    refusal = _check_headline(policy, headline) or _check_body(policy, draft.body)
    if refusal is not None:
        return refusal
    return Valid(
        kind=kind,
        label=draft.label or alias,
        headline=headline,
        body=draft.body,
        detail=detail,
        warnings=_warnings(policy, draft.body),
    )


def _detail(policy: KindPolicy, draft: Draft) -> Detail | Rejection:
    """Build the detail of the kind; reject a severity or columns of other kinds."""
    detail = draft.detail or policy.detail()
    is_other = type(detail) is not policy.detail
    foreign = sorted(set(draft.columns) - set(policy.columns))
    if is_other or foreign:
        return _foreign_columns(policy, type(detail).__name__ if is_other else ", ".join(foreign))
    try:
        detail = _with_columns(detail, draft.columns, kind=policy.kind)
    except InvalidInputError as error:
        code = error.code if error.code.startswith("gate_") else "gate_kind"
        return Rejection(code=code, reason=error.message, hint=error.hint)
    if draft.severity is None:
        return detail
    if not isinstance(detail, RuleDetail):
        return Rejection(
            code="gate_severity",
            reason=f"Severity is for rules only; this is a {policy.kind}.",
            hint="Leave severity out, or store it with kind rule.",
        )
    severity = draft.severity.strip().upper()
    if severity not in tuple(Severity):
        return Rejection(
            code="gate_severity",
            reason=f"Severity {severity[:40]!r} is not one of {', '.join(Severity)}.",
            hint="A BLOCKER must never be broken, a PATTERN is how things are done.",
        )
    return replace(detail, severity=Severity(severity))


def _foreign_columns(policy: KindPolicy, foreign: str) -> Rejection:
    return Rejection(
        code="gate_kind",
        reason=f"A {policy.kind} does not have the columns of {foreign[:80]}.",
        hint=f"Its own columns are {', '.join(policy.columns)}.",
    )


def _check_headline(policy: KindPolicy, headline: str) -> Rejection | None:
    words = len(headline.split())
    if not headline:
        reason = "There is no headline, and no text to derive one from."
    elif words > limits.HEADLINE_WORDS_MAX or len(headline) > limits.HEADLINE_CHARS_MAX:
        reason = f"The headline has {words} words and {len(headline)} characters."
    elif policy.is_atomic and not any(character.isalpha() for character in headline):
        reason = f"The headline {headline!r} has no letter."
    else:
        return None
    return Rejection(
        code="gate_headline",
        reason=reason,
        hint=(
            f"Give one of at most {limits.HEADLINE_WORDS_MAX} words and "
            f"{limits.HEADLINE_CHARS_MAX} characters that an agent can scan."
        ),
    )


def _check_body(policy: KindPolicy, body: str) -> Rejection | None:
    size = len(body.encode("utf-8", "replace"))
    words = count_words(body)
    if size > limits.TEXT_BYTES_MAX:
        reason = f"The body has {size:,} bytes; {limits.TEXT_BYTES_MAX:,} are allowed."
    elif policy.is_atomic and words > limits.ATOMIC_WORDS_MAX:
        allowed = limits.ATOMIC_WORDS_MAX
        reason = f"The body of this {policy.kind} has {words} words; {allowed} are allowed."
    elif policy.is_atomic and len(_UPDATE_MARKER.findall(body)) > 1:
        reason = "The body carries several date-stamped updates: it has been merged, not revised."
    else:
        return None
    return Rejection(
        code="gate_atomicity",
        reason=reason,
        hint="Store one statement per memory; supersede the old one when it changes.",
    )


def _warnings(policy: KindPolicy, body: str) -> tuple[str, ...]:
    words = count_words(body)
    if not policy.is_atomic or words <= limits.ATOMIC_WORDS_ADVISED:
        return ()
    return (f"{words} words is long for a {policy.kind}; {limits.ATOMIC_WORDS_ADVISED} read well.",)


@dataclass(frozen=True, slots=True, kw_only=True)
class ScannedText:
    """A draft without secrets, and the warnings for its author."""

    draft: Draft
    warnings: tuple[str, ...] = ()


REDACTED: Final = "Redacted: "
"""Begins the warning about a secret that was replaced by its type."""


def check_address(parts: Sequence[str], scanner: SecretScanner) -> None:
    """Refuse a secret in a name under which a program looks something up.

    Redacted, two names could become one, and none would be found again.

    Raises:
        RejectedError: `secret_detected`.

    """
    for part in parts:
        certain = [one for one in scanner.find(part) if one.is_certain]
        if certain:
            named = [f"{one.sort} in a key, path or session id" for one in certain]
            raise secret_error(named)


def scan_drafts(
    draft: Draft, scanner: SecretScanner, *, on_secret: OnSecret
) -> ScannedText | Rejection:
    """Scan every free text of a draft; reject or redact secrets, as configured."""
    matches = _find(draft, scanner)
    certain = [what for what, one in matches if one.is_certain]
    if not certain:
        todo = "if it is a secret, forget this memory and change the secret."
        warnings = tuple(f"There is {what}; {todo}" for what, _ in matches)
        return ScannedText(draft=draft, warnings=warnings)
    if on_secret is OnSecret.REJECT:
        return Rejection.of(secret_error(certain))
    for _ in range(PASSES_MAX):
        draft = with_texts(draft, lambda _, text: redacted(text, scanner.find(text)))
    left = [what for what, one in _find(draft, scanner) if one.is_certain]
    if left:
        return Rejection.of(secret_error(left))
    return ScannedText(draft=draft, warnings=tuple(f"{REDACTED}{what}." for what in certain))


def _find(draft: Draft, scanner: SecretScanner) -> list[tuple[str, SecretMatch]]:
    """Return field, type and position of every secret, never the text itself."""
    return [
        (describe_secret(one, text, what=name), one)
        for name, text in texts_of(draft)
        for one in scanner.find(text)
    ] + [
        (describe_secret(one, text, what=ATTACHMENT), one)
        # A text of the attachment may be a secret because of its name alone.
        for name, value in named_texts(draft.attachment)
        if not any(one.is_certain for part in (name, value) for one in scanner.find(part))
        for text in [as_assigned(name, value)]
        for one in scanner.find(text)
        if one.is_certain
    ]
