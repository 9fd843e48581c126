"""Headlines: a short text itself, else the clause of a longer one that says its point.

Each sentence is scored by a few features of its words: a subject with a verb that says how things
are, a result, a number, a name, a denial. What "I" or "we" did, greetings and thanks score low. If
the best sentence does not fit, its best part is taken: from where a clause begins to where a clause
or phrase ends. Code, tables and mail headers give a headline only for want of sentences.

Every pattern is linear on hostile text: none repeats within a repeat over the same characters.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from commonbrain.model.limits import HEADLINE_CHARS_MAX, HEADLINE_WORDS_MAX
from commonbrain.text.clauses import is_order
from commonbrain.text.frames import CONDITIONS, PREPOSITIONS, place_of_verb, stems_of
from commonbrain.text.patterns import lazy_pattern
from commonbrain.text.salience import COURTEOUS_WORDS
from commonbrain.text.search_words import count_words
from commonbrain.text.segmentation import split_sentences
from commonbrain.text.words import (
    ARTICLES,
    Sort,
    is_negation,
    is_past,
    read_words,
    stem,
)

_LINES_MAX: Final = 150
_LINE_CHARS_MAX: Final = 2000
_SENTENCES_MAX: Final = 40
_SENTENCE_WORDS_MAX: Final = 60
_ELLIPSIS: Final = "\u2026"


def derive_headline(body: str) -> str:
    """Derive a headline within the limits of words and characters; empty only for a blank text."""
    lines, rest, is_plain = _read_lines(body.strip())
    whole = " ".join(" ".join(lines).split())
    if (is_plain or len(lines) == 1) and whole and _fits(whole):
        return whole
    return _best(lines) if lines else shorten_to_headline(rest or body)


def shorten_to_headline(text: str) -> str:
    """Return one line within the limits of a headline: the text, or what it mainly says."""
    line = " ".join(text[:_LINE_CHARS_MAX].split())
    return line if _fits(line) else _best([line])


def _best(lines: Sequence[str]) -> str:
    """Return the sentence that says most, shortened, with what it needs and fits before it."""
    sentences = [(line, one) for line in lines for one in split_sentences(line)][:_SENTENCES_MAX]
    # One sentence alone says most.
    scores = [_worth(one) for _, one in sentences] if len(sentences) > 1 else [0.0]
    at = scores.index(max(scores))
    line, sentence = sentences[at]
    if at and sentences[at - 1][0] == line and sentence.split(" ", 1)[0].casefold() in _BACK:
        both = f"{sentences[at - 1][1]} {sentence}"
        sentence = both if _fits(both) else sentence
    short = _shortened(" ".join(sentence.split()))
    speaker = _SPEAKER.match(line)
    labelled = f"{speaker[0]}{short}" if speaker and not line.startswith(sentence) else short
    return labelled if _fits(labelled) else short


# Lines.

_FENCE: Final = lazy_pattern(r"\s*(?:```[^`]*$|~~~)")
_FENCES: Final = lazy_pattern(r"```|~~~")
_MARKS: Final = lazy_pattern(r"\s*(?:(?:[-*+•>]|#{1,6}|\(?\d{1,3}[.)]|\[[ xX]?\])\s+)*")
_RULE: Final = lazy_pattern(r"[\s|:+=_*-]*")
_HEADER: Final = lazy_pattern(
    r"(?:From|To|Cc|Date|Sent|Author|Reply-To|(?:Signed-off|Co-authored)-by):\s"
    r"|commit [0-9a-f]{7,40}\b|Traceback |File \"|<?https?://\S+>?\s*$|<!--|On .{5,120} wrote:\s*$"
)
"""Lines that say who and when, and lines without words."""
_CLOCK: Final = r"\d\d:\d\d(?::\d\d(?:[.,]\d{1,9})?)?"
_PREFIX: Final = lazy_pattern(
    rf"(?:\[?\d{{4}}-\d\d-\d\d[T ]{_CLOCK}\S*|\[{_CLOCK}\]"
    rf"|{_CLOCK}(?! (?:is|was|to|and|or|until|in|on)\b| [\u2013-])"
    r"|\[[\w./:-]{1,40}\](?= [A-Z]{4})"
    rf"|(?:<\d{{1,3}}>)?[A-Z][a-z][a-z]\s{{1,2}}\d{{1,2}} {_CLOCK} \S+(?: [\w./-]+\[\d+\]:)?"
    r"|(?:TRACE|DEBUG|INFO|NOTICE|WARN(?:ING)?|ERROR|FATAL|CRITICAL):?|(?:[Ss]ubject|Re|Fwd?):)"
    r"\s+(?=\S)"
)
"""A time, level or logger before a message."""
_PREFIXES_MAX: Final = 6
_COMMENT: Final = lazy_pattern(r"\s*(?:#(?!!)|//+|--|/\*+)\s*(?=\w)")
_DEFINITION: Final = lazy_pattern(
    r"\s*(?:export |public |async )*(?:def|class|fn|func|function|interface|struct|enum|type)\s"
)
_SPEAKER: Final = lazy_pattern(r"[A-Z][\w.'-]{0,30}(?: [A-Z][\w.'-]{0,30})?: (?=\S)")
_EMPHASIS: Final = lazy_pattern(r"(?<!\w)\*\*([^*\n]+)\*\*(?!\w)")
_WRAPPED_CHARS_MIN: Final = 60


def _read_lines(body: str) -> tuple[list[str], str, bool]:
    """Return lines of prose without marks, the best other line, and whether all are plain prose."""
    prose, rows, code, others = list[str](), list[str](), list[str](), list[str]()
    is_fenced, is_plain, before = False, True, ""
    has_table = "-|-" in body.replace(" ", "").replace("+", "|")
    for line in (one[:_LINE_CHARS_MAX] for one in body.split("\n", _LINES_MAX)[:_LINES_MAX]):
        bare = line[_end(_MARKS.match(line)) :].strip()
        text = _FENCES.sub(" ", bare).strip()
        for _ in range(_PREFIXES_MAX):
            text = text[_end(_PREFIX.match(text)) :]
        text = _EMPHASIS.sub(r"\1", text)
        kind = None
        if _FENCE.match(bare):
            is_fenced = not is_fenced
        elif is_fenced or line.startswith("$ "):
            kind, text = code, line.strip().lstrip("> ")
        elif _RULE.fullmatch(line) is None:
            is_row = bare.startswith("|") or (has_table and "|" in bare)
            kind = rows if is_row else others if _HEADER.match(bare) else prose
        if kind is prose and len(before) >= _WRAPPED_CHARS_MIN and line[:1].islower():
            prose[-1] = f"{prose[-1]} {text}"
        elif kind is not None and text:
            kind.append(text)
        before = line if kind is prose and text else ""
        is_plain &= text == line.strip() and (kind is prose or not text)
    if rows:
        cells = [", ".join(one.strip() for one in row.split("|") if one.strip()) for row in rows]
        return prose, ": ".join(cells[:2]), False
    described = (one for one in code if _COMMENT.match(one) or _DEFINITION.match(one))
    line = next(described, next(iter([*code, *others]), ""))
    rest = line[_end(_COMMENT.match(line)) :].rstrip(" :{") or _FENCES.sub(" ", body).strip()
    return prose, rest, is_plain


def _end(match: "re.Match[str] | None") -> int:
    return match.end() if match else 0


# Sentences.


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


WEIGHTS: Final = {
    "content": 3.4,
    "is_current": 1.5,
    "denies": 1.2,
    "has_number": 1.0,
    "is_result": 1.0,
    "has_name": 0.8,
    "has_verb": 0.7,
    "is_of_speaker": -1.1,
    "is_long": -1.4,
    "is_social": -1.6,
}
"""Fitted by logistic regression to labelled texts of four styles (`headlines.jsonl` of the
evaluations, and its notes with two sentences joined), and rounded. Where a sentence stands in its
text helps with one style and harms with another; that it asks, and how near its vector is to that
of the whole text, change the choice in about one text of a hundred."""
_DEPENDENT_COSTS: Final = 3.0
"""For a part that is only a subordinate clause; other faults of a part cost up to 1 each."""
_SPEAKERS: Final = _words("i we i'm i've i'd i'll we've we're we'd we'll my our me us")
"""Words of who tells what they did, rather than how things are."""
_BACK: Final = _words("it its this that these those they he she")
"""Openings that an earlier sentence explains."""
_BINDING: Final = _words("must cannot should shall only forbidden prohibited until")
_SOCIAL: Final = COURTEOUS_WORDS | _words("dear please hope ok okay you your")
"""Words of greetings and thanks, and those that address a reader."""
_RESULT: Final = lazy_pattern(
    r"\b(?:turn(?:s|ed) out|decided|decisions?|results?|outcome|conclusion|cause[ds]?|agreed"
    r"|settled|from now on|as of|no longer|instead|(?:found|discovered) (?:out )?that)\b",
    re.IGNORECASE,
)
"""Words that announce what came of something."""
_CONTENT_MAX: Final = 6
"""Content words beyond these add nothing."""
_LONG_WORDS: Final = 20
"""A sentence with more words tells how something went."""
_PART_CONTENT_MAX: Final = 8
"""The same for a part of a sentence."""


_INTRO: Final = lazy_pattern(r"(?::|\bthat)\s+(?=\S+ \S+ \S)")
"""What announces a clause: "What nobody had thought of: ...", "We found that ..."."""


def _worth(sentence: str) -> float:
    """Score a sentence, or the clause that it announces if that says more."""
    intro = _INTRO.search(sentence)
    texts = [sentence, *([sentence[intro.end() :]] if intro else [])]
    read = [features(text) for text in texts]
    return max(_score(one) for one in read if one is read[0] or one["has_verb"])


def _score(values: Mapping[str, float]) -> float:
    return sum(WEIGHTS[name] * value for name, value in values.items())


def features(text: str, *, content_max: int = _CONTENT_MAX) -> Mapping[str, float]:
    """Return the features of a sentence or clause, each from 0 to 1, by the names of WEIGHTS."""
    tokens = [word for word in read_words(text) if word.sort is not Sort.STOP]
    plain = [word.plain for word in tokens]
    place = place_of_verb(tokens)
    verb = plain[place] if place is not None else ""
    # A word alone, such as the heading "Fix", orders nothing.
    has_verb = place is not None or (len(tokens) > 1 and is_order(text))
    content = sum(word.is_content for word in tokens)
    return {
        "has_verb": float(has_verb),
        "is_current": float(has_verb and not is_past(verb)),
        "denies": float(any(one.sort is Sort.NEGATION or one.plain in _BINDING for one in tokens)),
        "has_number": float(any(one.sort is Sort.NUMBER for one in tokens)),
        "has_name": float(any(one.sort in {Sort.NAME, Sort.CODE} for one in tokens[1:])),
        "content": min(content / content_max, 1.0),
        "is_result": float(_RESULT.search(text) is not None),
        "is_long": float(len(tokens) > _LONG_WORDS),
        "is_of_speaker": float(not _SPEAKERS.isdisjoint(plain)),
        "is_social": float(not _SOCIAL.isdisjoint(plain)),
    }


# Parts of a sentence.

_JOINING: Final = _words("and but so hence therefore because since")
_CLOSING: Final = _JOINING | _words("unless until if while when or which who")
"""Words before which a clause ends."""
_DEPENDENT: Final = CONDITIONS | _words(
    "after although though as because before given since to where which who whose with without"
    " during despite provided"
)
_SAYING: Final = _words("that says said")
_DOUBTED: Final = stems_of(
    "deny reject refuse doubt dispute claim assume propose suggest believe think suspect wonder"
)
"""Verbs of what somebody else said: what follows "that" does not hold by itself."""
_SUBJECTS: Final = _words("i we you they he she it one there")
_UNENDING: Final = (
    ARTICLES | PREPOSITIONS | _words("and or not no is are was were must may can will be has have")
)
"""Words that a part must not end with."""
_UNOPENING: Final = _JOINING | PREPOSITIONS
_DASHES: Final = _words("\u2014 \u2013 -")
_EDGE: Final = ",;:.!?()\"'"
_SUBJECT_WORDS_MAX: Final = 6


def _shortened(sentence: str) -> str:
    """Return a sentence, or the part of it that says most and fits."""
    if _fits(sentence):
        return sentence
    parts = list(_parts(sentence.split()[:_SENTENCE_WORDS_MAX]))
    if parts:
        return max(parts, key=lambda part: part[1])[0]
    short = " ".join(sentence.split()[:HEADLINE_WORDS_MAX])[: HEADLINE_CHARS_MAX - 1]
    if count_words(short) > HEADLINE_WORDS_MAX:
        # Without blanks it is cut after a clause, for a verb that denies comes last in Japanese.
        fits = [at for at in range(len(short)) if count_words(short[:at]) <= HEADLINE_WORDS_MAX]
        ends = [at for at in fits[len(fits) // 4 :] if short[at] in "\uff0c\u3001\uff1b,; "]
        short = short[: (ends or fits)[-1]]
    return f"{short.rstrip()}{_ELLIPSIS}"


def _fits(text: str) -> bool:
    return len(text) <= HEADLINE_CHARS_MAX and count_words(text) <= HEADLINE_WORDS_MAX


def _parts(tokens: Sequence[str]) -> Iterator[tuple[str, float]]:
    """Yield the parts of a sentence that fit and can stand alone, with their scores."""
    plain = [one.casefold().replace("\u2019", "'").strip(_EDGE) for one in tokens]
    starts = [at for at in range(len(tokens)) if _is_start(tokens, plain, at=at)]
    for start in starts:
        opening = plain[start + 1 : start + 2] if plain[start] in _JOINING else plain[start:][:1]
        tried = set[float]()
        for end in range(min(len(tokens), start + HEADLINE_WORDS_MAX), start + 3, -1):
            part = " ".join(tokens[start:end])
            text = part if end == len(tokens) else f"{part.rstrip(' ,;:(')}{_ELLIPSIS}"
            cut = _cut(tokens, plain, end=end)
            # A shorter part that is cut no better says no more.
            if cut is None or cut in tried or not _fits(text):
                continue
            tried.add(cut)
            clauses = [at for at in starts if start + 1 < at < end]
            has_intro = any(tokens[at - 1].endswith(":") for at in clauses)
            is_dependent = not clauses and not _DEPENDENT.isdisjoint(opening)
            is_vague = start > 1 and plain[start] in _BACK
            # Who opens a part says nothing about where the sentence is cut.
            values = {**features(text, content_max=_PART_CONTENT_MAX), "is_of_speaker": 0.0}
            if start <= 1 or values["has_verb"]:
                costs = cut + (has_intro or is_vague) + _DEPENDENT_COSTS * is_dependent
                yield text, _score(values) - costs


def _is_start(tokens: Sequence[str], plain: Sequence[str], *, at: int) -> bool:
    """Return whether a clause may begin here, or the sentence without its article."""
    if at <= 1:
        return at == 0 or plain[0] in ARTICLES | _JOINING
    before = tokens[at - 1]
    if before.endswith((":", ";")) or before in _DASHES:
        return True
    if plain[at] in _SUBJECTS and plain[0] in PREPOSITIONS and _SUBJECTS.isdisjoint(plain[:at]):
        return True
    is_said = plain[at - 1] in _SAYING and not _is_doubted(tokens[:at], plain[:at])
    is_joined = plain[at - 1] in _JOINING and tokens[at - 2].endswith(",")
    is_next = before.endswith(",") and plain[at] not in _UNOPENING
    return (is_said or is_joined or is_next) and _opens_clause(tokens[at:])


def _is_doubted(tokens: Sequence[str], plain: Sequence[str]) -> bool:
    """Return whether what is said after these words does not hold by itself, or ends with them."""
    is_closed = any(one.endswith(",") for one in tokens)
    return is_closed or any(stem(one) in _DOUBTED or is_negation(one) for one in plain)


def _opens_clause(tokens: Sequence[str]) -> bool:
    """Return whether a subject and its verb come before the next comma or conjunction."""
    end = next((n for n, one in enumerate(tokens) if one.endswith(",") or one in _JOINING), None)
    words = read_words(" ".join(tokens[: None if end is None else end + 1]))
    return place_of_verb(words) is not None and not _begins_with_verb(tokens)


def _begins_with_verb(plain: Sequence[str]) -> bool:
    return place_of_verb(read_words(f"it {' '.join(plain[:_SUBJECT_WORDS_MAX])}")) == 1


def _cut(tokens: Sequence[str], plain: Sequence[str], *, end: int) -> float | None:
    """Return how badly a part is cut, from 0 for the end of the sentence; None if it must not."""
    if end == len(tokens):
        return 0.0
    last = tokens[end - 1]
    is_open = plain[end - 1] in _UNENDING
    if not is_open and (last.endswith((*",;:)!",)) or plain[end] in _CLOSING):
        return 0.25
    if is_open or (last[-1].isdigit() and plain[end] not in PREPOSITIONS):
        return None
    return 0.5 if plain[end] in PREPOSITIONS else 1.0
