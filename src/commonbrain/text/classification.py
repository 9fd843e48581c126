"""Classify a text if no kind was given: by its label, else by how it is built."""

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Final

from commonbrain.model.atoms import Atom
from commonbrain.model.kinds import KINDS, Kind, Severity, kind_and_label
from commonbrain.text.given_names import GIVEN_NAMES
from commonbrain.text.kind_model import predict
from commonbrain.text.patterns import lazy_pattern
from commonbrain.text.segmentation import split_sentences
from commonbrain.text.words import is_past, read_words

_BLOCKING: Final = lazy_pattern(
    r"(?:^|[.;:!?,]\s|\n)\W{0,8}(?:please )?never\b"
    r"|\b(?:must|may|should|shall|to|do|but|and|you) never\b"
    r"|\b(?:must not|prohibited|forbidden|non-negotiable)\b",
    re.IGNORECASE,
)
"""A prohibition: "Never push to main", not "he never called"."""
_PERFECT: Final = frozenset({"have", "has", "had", "i've", "we've", "they've"})
_LABEL: Final = lazy_pattern(
    r"\W{0,4}(?P<label>decision|convention|bug)\b\W{0,4}"
    r"(?:(?:\([^()\n]{1,40}\)|(?:of|on|in|for|from|at|by) [^:\n]{1,40})\W{0,4})?"
    r"(?::|\s[-\u2013\u2014])\s",
    re.IGNORECASE,
)
"""A label before what it labels: "Decision: ...", "Bug in the export: ...", "Convention - ..."."""


def classify(text: str) -> Kind:
    """Return the kind of a text: rule, fact, event, incident or task.

    The kind of its label wins over facts, events and incidents, a convention over all.
    """
    predicted, label = predict(text), label_in(text)
    if predicted is Kind.RULE and _is_never_done(text):
        predicted = Kind.FACT
    named = kind_and_label(label) if label else None
    is_open = predicted in {Kind.FACT, Kind.EVENT, Kind.INCIDENT}
    if named and (is_open or named[0] is Kind.RULE):
        return named[0]
    return predicted


def _is_never_done(text: str) -> bool:
    """Return whether "never" is said of the past: "We have never had an outage"."""
    words = [word.plain for word in read_words(text)]
    return any(
        word == "never" and (not _PERFECT.isdisjoint(words[max(0, at - 2) : at]) or is_past(after))
        for at, (word, after) in enumerate(pairwise(words))
    )


def label_in(text: str) -> str | None:
    """Return the label with which a text begins: decision, convention or bug."""
    match = _LABEL.match(text)
    return match["label"].lower() if match else None


def kind_with(columns: Collection[str], text: str) -> Kind:
    """Return the kind that has all these columns; if several have, the text decides."""
    fitting = [kind for kind, policy in KINDS.items() if set(columns) <= set(policy.columns)]
    classified = classify(text)
    if classified in fitting or not fitting:
        return classified
    return Kind.TASK if Kind.TASK in fitting else fitting[0]


def severity_of(text: str) -> Severity:
    """Return the severity of a rule by its words."""
    return Severity.BLOCKER if _BLOCKING.search(text) else Severity.PATTERN


MARKED_MAX: Final = 20
"""Memories from the tags or tasks of one text; more is a log rather than a list of decisions."""

_MARK: Final = lazy_pattern(
    r"(?<!\S)@(?P<name>decision|convention|insight|remember|atom)\b"
    r"[ \t]*:?[ \t]*(?P<content>\S[^\n]*)"
)
_TASK_WORDS: Final = lazy_pattern(
    r"\b(?:needs? to|must|has to|have to|follow[- ]up|to-?do|action item)\b", re.IGNORECASE
)
_ASSIGNED: Final = lazy_pattern(
    r"\W*@(?P<who>[^\W\d_][\w-]*(?:\.[\w-]+)*)[,:]?\s+(?:needs?|must|has|have|should|will)\b"
)
_NO_ASSIGNEES: Final = frozenset(
    "all channel everybody everyone here team property dataclass override staticmethod"
    " classmethod".split()
)
"""What is mentioned with the sign and is no person."""
_BULLET: Final = lazy_pattern(r"^\s*(?:[-*+>]\s+|\d{1,3}[.)]\s+|\[[ xX]?\]\s+)*")


@dataclass(frozen=True, slots=True, kw_only=True)
class TaggedText:
    """A part of a text that becomes a memory of its own; without a kind, it is classified."""

    text: str
    kind: Kind | None = None
    label: str | None = None
    columns: Mapping[str, object] = field(default_factory=dict[str, object])
    confidence: float | None = None
    """Upper limit of its confidence, if known."""


_QUOTATION: Final = lazy_pattern(
    r"^[ \t]*(?:[-*+][ \t]+)?>.*$|^[ \t]*```.*$(?:\n(?![ \t]*```).*$)*(?:\n[ \t]*```)?",
    re.MULTILINE,
)
"""A quoted line, or a fenced block up to its end."""


def tagged_texts(text: str) -> list[TaggedText]:
    """Return the tagged parts in order; an address such as `a@decision.org` has no tag."""
    if "@" not in text:
        return []
    return [_marked(match) for match in _MARK.finditer(text)][:MARKED_MAX]


def without_quotations(text: str) -> str:
    """Remove quoted lines and fenced blocks, which are not the author's own words."""
    return _QUOTATION.sub("", text)


def sole_tag(text: str) -> TaggedText | None:
    """Return the content if the whole text is one tag."""
    match = _MARK.fullmatch(text)
    return _marked(match) if match else None


def without_tags(text: str) -> str:
    """Remove the tags; their memories were made when the text was first stored."""
    return _MARK.sub(lambda match: match["content"], text) if "@" in text else text


def untagged(text: str) -> str:
    """Remove the tagged parts, which say on their own what they say."""
    return _MARK.sub("", text) if "@" in text else text


def atom_of(text: str) -> TaggedText | None:
    """Parse one line as `@atom`, with or without the tag; None if it has no bars."""
    sole = sole_tag(text)
    if sole is not None and sole.kind is Kind.ATOM:
        return sole
    is_barred = "|" in text and "\n" not in text
    return (
        TaggedText(text=text, kind=Kind.ATOM, columns=_barred(text).columns) if is_barred else None
    )


def extract_tasks(text: str) -> list[TaggedText]:
    """Return the sentences that state a task."""
    sentences = (_BULLET.sub("", one).strip() for one in split_sentences(untagged(text)))
    tasks = (one for one in sentences if one and _TASK_WORDS.search(one))
    return [TaggedText(text=one, kind=Kind.TASK) for one in tasks][:MARKED_MAX]


def assignee_in(text: str) -> str | None:
    """Return who is mentioned as the subject of a task: "@maria needs to call the bank".

    Channels ("@here") and annotations of code ("@Transactional must be public") are none.
    """
    match = _ASSIGNED.match(text)
    if match is None or match["who"].casefold() in _NO_ASSIGNEES:
        return None
    first = re.split(r"[.\W_]", match["who"])[0]
    is_name = match["who"].islower() or first.casefold() in GIVEN_NAMES
    return match["who"] if is_name else None


def of_atom(atom: Atom, *, confidence: float | None = None) -> TaggedText:
    """Convert an atom to a tagged text."""
    return TaggedText(text=atom.body, kind=Kind.ATOM, columns=atom.columns, confidence=confidence)


def _marked(match: re.Match[str]) -> TaggedText:
    content = match["content"].strip()
    match match["name"]:
        case "atom":
            return of_atom(_barred(content))
        case "remember":
            return TaggedText(text=content)
        case "convention":
            return TaggedText(text=content, kind=Kind.RULE, label="convention")
        case name:
            return TaggedText(text=content, kind=Kind.FACT, label=name)


def _barred(content: str) -> Atom:
    """Parse subject, action, outcome and consequences, separated by bars."""
    subject, action, outcome, rest = (part.strip() for part in f"{content}|||".split("|", 3))
    return Atom(subject=subject, action=action, outcome=outcome, consequences=rest.rstrip("| "))
