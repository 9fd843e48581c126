"""Classify a text if no kind was given: by its label, else by how it is built.

How it is built tells a linear model. Its features are the words of each sentence and their pairs,
how it opens, and its verb; names, numbers and code count by their sort, other words also by their
ending. No embedder is asked: the kind is decided before a vector exists, and must be the same
whichever embedder a store has. With the vector of the default one, three or four texts more in a
hundred would be right.

`data/kind_weights.bin` comes from `brain eval kinds --fit PATH`: ridge regression on the half
calibrate of `kinds.jsonl` in `commonbrain-evals`, texts of many trades and styles by several hands.
"""

import re
from bisect import bisect_right
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from importlib.resources import files
from itertools import accumulate, islice, pairwise
from math import sqrt
from struct import Struct
from typing import Final
from zlib import crc32

from commonbrain.model.atoms import Atom
from commonbrain.model.kinds import KINDS, Kind, Severity, kind_and_label
from commonbrain.model.memory import Draft
from commonbrain.text.entities import listed_names
from commonbrain.text.frames import (
    DATES,
    place_of_verb,
    read_report,
    sentences_of,
    split_clauses,
)
from commonbrain.text.languages import is_english
from commonbrain.text.normalisation import normalise
from commonbrain.text.patterns import lazy_pattern
from commonbrain.text.quotations import (
    begins_statement,
    first_indent,
    is_quoted,
    quoted_spans,
    without_quotations,
)
from commonbrain.text.segmentation import split_sentences
from commonbrain.text.words import GROUP_OF, Sort, Word, is_past, read_words

_BLOCKING: Final = lazy_pattern(
    r"(?:^|[.;:!?,]\s|\n)\W{0,8}(?:please )?never\b|\b(?:must|may|should|shall|to|do|but|and"
    r"|you) never\b|\b(?:must not|prohibited|forbidden|non-negotiable)\b",
    re.IGNORECASE,
)
"""A prohibition: "Never push to main", not "he never called"."""
_PERFECT: Final = frozenset({"have", "has", "had", "i've", "we've", "they've"})
_LABEL: Final = lazy_pattern(
    r"\W{0,4}(?P<label>decision|convention|bug)\b\W{0,4}(?:(?:\([^()\n]{1,40}\)|(?:of|on|in|for"
    r"|from|at|by) [^:\n]{1,40})\W{0,4})?(?::|\s[-\u2013\u2014])\s",
    re.IGNORECASE,
)
"""A label before what it labels: "Decision: ...", "Bug in the export: ...", "Convention - ..."."""


def classify(text: str) -> Kind:
    """Return the kind of a text: rule, fact, event, incident or task.

    The kind of its label wins over facts, events and incidents, a convention over all. Without one,
    a text in another language than English is a fact.
    """
    predicted, label = predict(text) if is_english(text) else Kind.FACT, label_in(text)
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
_TASK_MARK: Final = lazy_pattern(r"\bTODO:")
"""A word for tasks in every language; in some, "todo" alone is "all"."""
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


def tagged_texts(text: str) -> list[TaggedText]:
    """Return the parts that the author tagged, in order; what the text quotes has no tags.

    Nor has an address such as `a@decision.org`.
    """
    own = (match for match, is_own in _marks(text) if is_own)
    return [_marked(match) for match in islice(own, MARKED_MAX)]


def own_lines(text: str) -> frozenset[str]:
    """Return the lines of a text, without outer blanks, that neither are quoted nor quote a tag."""
    own = without_quotations(first_indent(text) + normalise(text))
    lines = own.split("\n")
    starts = [*accumulate((len(line) + 1 for line in lines), initial=0)]
    tagged: dict[bool, set[int]] = {True: set(), False: set()}
    for match, is_own in _marks(own):
        tagged[is_own].add(bisect_right(starts, match.start()) - 1)
    quoting = tagged[False] - tagged[True]
    return frozenset(line.strip() for at, line in enumerate(lines) if at not in quoting)


def own_text(text: str, *, of: Draft) -> str:
    """Return what the author says in the normalised text of a draft, without what it quotes."""
    if of.own_lines is None:
        return without_quotations(first_indent(of.body) + text)
    return "\n".join(line for line in text.split("\n") if line.strip() in of.own_lines)


def _marks(text: str) -> Iterator[tuple[re.Match[str], bool]]:
    """Yield each tag with its line, and whether it is the author's own."""
    spans = quoted_spans(text) if "@" in text else ()
    at = 0
    while match := _MARK.search(text, at):
        at = match.start()
        is_own = begins_statement(text, at) and not is_quoted(text, at, spans=spans)
        yield match, is_own
        at = match.end() if is_own else match.start() + 1


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
    """Return the sentences that state a task, outside of what the text quotes."""
    plain = untagged(text)
    task_words = _TASK_WORDS if is_english(plain) else _TASK_MARK
    spans = quoted_spans(plain) if task_words.search(plain) else ()
    tasks: list[str] = []
    at = 0
    for sentence in split_sentences(plain):
        at = plain.index(sentence, at)
        words = task_words.finditer(sentence)
        if any(not is_quoted(plain, at + word.start(), spans=spans) for word in words):
            tasks.append(_BULLET.sub("", sentence).strip())
        at += len(sentence)
    return [TaggedText(text=one, kind=Kind.TASK) for one in tasks if one][:MARKED_MAX]


def assignee_in(text: str) -> str | None:
    """Return who is mentioned as the subject of a task: "@maria needs to call the bank".

    Channels ("@here") and annotations of code ("@Transactional must be public") are none.
    """
    match = _ASSIGNED.match(text)
    if match is None or match["who"].casefold() in _NO_ASSIGNEES:
        return None
    first = re.split(r"[.\W_]", match["who"])[0]
    is_name = match["who"].islower() or first.casefold() in listed_names("given")
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


PREDICTED: Final = (Kind.RULE, Kind.FACT, Kind.EVENT, Kind.INCIDENT, Kind.TASK)
"""The kinds that are chosen, in the order of the weights in a row."""
ROW: Final = Struct(f"<I{len(PREDICTED)}b")
"""A row of the table: the hash of a feature, and its weight for each kind."""
WEIGHTS_FILE: Final = "data/kind_weights.bin"
BIAS: Final = "bias"
"""The feature that every text has."""
_BIAS_VALUE: Final = 0.5
_CHARS_MAX: Final = 1000
"""A longer text is known by its beginning."""
_SIGNS: Final = {Sort.NUMBER: "#1", Sort.CODE: "#c", Sort.NAME: "#n", Sort.OPERATOR: "#o"}
"""What words count as that say which thing is meant, not what is said of it."""
_LISTED: Final = {Sort.FUNCTION, Sort.MODAL, Sort.NEGATION, Sort.QUANTIFIER, Sort.STOP}
_TIMES: Final = frozenset(
    "yesterday today tonight ago last weekend morning noon afternoon evening night week month day"
    " year spring summer autumn winter".split()
)
_TIME: Final = lazy_pattern(r"\d:\d|\d(?:st|nd|rd|th)$|^(?:19|20)\d\d$")
# How much a feature counts before it is fitted; chosen by cross-validation.
_STRONG: Final = 2.0
_WEAK: Final = 0.5


def predict(text: str) -> Kind:
    """Return the kind that fits a text best: rule, fact, event, incident or task.

    A report of a new value without a time is a fact, for it says what holds from then on.
    """
    table, scores = _weights(), [0.0] * len(PREDICTED)
    for feature, value in read_features(text).items():
        weights = table.get(feature)
        # Most words are in no text that the model was fitted to.
        for place, weight in enumerate(weights) if weights else ():
            scores[place] += value * weight
    best = PREDICTED[max(range(len(scores)), key=scores.__getitem__)]
    words = read_words(text[:_CHARS_MAX])
    is_statement = best is Kind.EVENT and not _names_time(words) and _reports_value(words)
    return Kind.FACT if is_statement else best


def _names_time(words: Sequence[Word]) -> bool:
    """Return whether it says when: on a day, in a month, at a time, this morning, two weeks ago."""
    return any(
        word.plain in _TIMES
        or GROUP_OF.get(word.plain, DATES) < DATES
        or (word.sort is Sort.NUMBER and _TIME.search(word.written) is not None)
        for word in words
    )


def _reports_value(words: Sequence[Word]) -> bool:
    """Return whether it reports a new value, which holds on: "We raised the limit to 25 MB"."""
    return any(
        read_report(clause, place_of_verb(clause)) is not None
        for sentence in sentences_of(words)
        for clause in split_clauses(sentence)
    )


def read_features(text: str) -> Mapping[int, float]:
    """Return the hashes of a text's features with their values: a vector of length 1, and bias."""
    features = dict(_features(read_words(text[:_CHARS_MAX])))
    length = sqrt(sum(value * value for value in features.values())) or 1.0
    hashed = {crc32(name.encode()): value / length for name, value in features.items()}
    return {**hashed, crc32(BIAS.encode()): _BIAS_VALUE}


@lru_cache(maxsize=1)
def _weights() -> Mapping[int, Sequence[int]]:
    table = files("commonbrain.text").joinpath(WEIGHTS_FILE).read_bytes()
    return {feature: weights for feature, *weights in ROW.iter_unpack(table)}


def _features(words: Sequence[Word]) -> Iterator[tuple[str, float]]:
    for number, sentence in enumerate(sentences_of(words)):
        plain = ["^", *(_SIGNS.get(word.sort, word.plain) for word in sentence), "$"]
        shapes = ["^", *map(_shape, sentence), "$"]
        for word, name in zip(sentence, plain[1:], strict=False):
            yield f"word {name}", 1.0
            yield f"stem {name if word.sort in _SIGNS else word.stem}", 1.0
        for pair, shape_pair in zip(pairwise(plain), pairwise(shapes), strict=True):
            yield "words " + " ".join(pair), _STRONG
            yield "shapes " + " ".join(shape_pair), _WEAK
            yield f"mixed {pair[0]} {shape_pair[1]}", 1.0
        if not number:
            yield f"first {plain[1]}", _STRONG
            yield f"first {plain[1]} {' '.join(shapes[2:3])}", _STRONG
            yield f"opening {' '.join(shapes[1:3])}", _STRONG
            yield f"opening {' '.join(shapes[1:4])}", _STRONG
        yield from ((name, 1.0) for name in _of_verb(sentence))
    yield f"length {len(words) // 8}", 1.0


def _of_verb(sentence: Sequence[Word]) -> Iterator[str]:
    """Yield where the verb is and its form; an order begins with one, so that it has none."""
    place = place_of_verb(sentence)
    yield f"verb at {None if place is None else min(place, 3)}"
    yield f"opens in the past {is_past(sentence[0].plain)}"
    yield f"opens with a capital {sentence[0].written[:1].isupper()}"
    if place is not None:
        yield f"verb {_shape(sentence[place])}"
        yield f"verb stem {sentence[place].stem}"
        yield f"before the verb {_shape(sentence[place - 1]) if place else '^'}"
        yield f"verb in the past {is_past(sentence[place].plain)}"


def _shape(word: Word) -> str:
    """Return a function word itself, and of another what its sort and ending say."""
    plain = word.plain
    if word.sort in _LISTED:
        return plain
    if GROUP_OF.get(plain, DATES) < DATES:
        return "#day"
    if word.sort in _SIGNS:
        return "#t" if word.sort is Sort.NUMBER and ":" in plain else _SIGNS[word.sort]
    endings = (ending for ending in ("ed", "ing", "s") if plain.endswith(ending))
    return f"#{next(endings, 'w')}"
