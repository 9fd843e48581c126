"""Marks by which writers say what to keep: `@decision`, `@insight`, `@remember`, `@atom`; duties.

Every pattern is linear: a mark is looked for once a line, and a line is cut once.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from commonbrain.model.kinds import Atom, Kind

MARKED_MAX: Final = 20
"""Memories made of the marks or duties of one text; a log full of marks is no list of decisions."""

_MARK: Final = re.compile(
    r"(?<!\S)@(?P<name>decision|insight|remember|atom)\b[ \t]*:?[ \t]*(?P<said>\S[^\n]*)"
)
_DUTY: Final = re.compile(
    r"\b(?:needs? to|must|has to|have to|follow[- ]up|to-?do|action item)\b", re.IGNORECASE
)
_SENTENCE_END: Final = re.compile(r"(?<=[.!?])\s+|\n")
_BULLET: Final = re.compile(r"^\s*(?:[-*+>]\s+|\d{1,3}[.)]\s+|\[[ xX]?\]\s+)*")


@dataclass(frozen=True, slots=True, kw_only=True)
class TaggedText:
    """A part of a text that is to become a memory of its own; no kind: its words decide."""

    text: str
    kind: Kind | None = None
    label: str | None = None
    columns: Mapping[str, object] = field(default_factory=dict[str, object])
    confidence: float | None = None
    """How sure it is at most, where that is known."""


def tagged_texts(text: str) -> list[TaggedText]:
    """Find what a text marks, in its order; an address such as `a@decision.org` marks nothing."""
    if "@" not in text:
        return []
    return [_marked(match) for match in _MARK.finditer(text)][:MARKED_MAX]


def sole_tag(text: str) -> TaggedText | None:
    """Give what a text says when it is one mark from beginning to end."""
    match = _MARK.fullmatch(text)
    return _marked(match) if match else None


def without_tags(text: str) -> str:
    """Give a text without its marks: what they made was made when it was first told."""
    return _MARK.sub(lambda match: match["said"], text) if "@" in text else text


def atom_of(text: str) -> TaggedText | None:
    """Read one line as `@atom` is read, with or without that mark; None where it has no bars."""
    sole = sole_tag(text)
    if sole is not None and sole.kind is Kind.ATOM:
        return sole
    is_barred = "|" in text and "\n" not in text
    return (
        TaggedText(text=text, kind=Kind.ATOM, columns=_barred(text).columns) if is_barred else None
    )


def extract_tasks(text: str) -> list[TaggedText]:
    """Find the sentences that say what is still to be done; nobody is ever made to confirm one."""
    sentences = (_BULLET.sub("", one).strip() for one in _SENTENCE_END.split(text))
    owed = (one for one in sentences if one and _DUTY.search(one) and not _MARK.match(one))
    return [TaggedText(text=one, kind=Kind.TASK) for one in owed][:MARKED_MAX]


def of_atom(atom: Atom, *, confidence: float | None = None) -> TaggedText:
    """Give an atom as what is to become a memory."""
    return TaggedText(text=atom.body, kind=Kind.ATOM, columns=atom.columns, confidence=confidence)


def _marked(match: re.Match[str]) -> TaggedText:
    said = match["said"].strip()
    match match["name"]:
        case "atom":
            return of_atom(_barred(said))
        case "remember":
            return TaggedText(text=said)
        case name:
            return TaggedText(text=said, kind=Kind.FACT, label=name)


def _barred(said: str) -> Atom:
    """Read subject, action, outcome and consequences, parted by bars."""
    subject, action, outcome, rest = (part.strip() for part in f"{said}|||".split("|", 3))
    return Atom(subject=subject, action=action, outcome=outcome, consequences=rest.rstrip("| "))
