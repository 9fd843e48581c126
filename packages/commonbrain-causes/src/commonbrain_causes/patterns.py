"""Causes and effects that a text states, read without a model.

A sentence yields a cause and its effect if three things hold:

1. It reports: questions, orders, plans, wishes, guesses and claims of others assert no cause.
2. It has a *sign*, words that say which side is the cause ("because", "so", "led to", "was blocked
   by", "root cause:"), and nothing denies them.
3. Both sides fit the sign. After "because" and around "when" there are clauses. Before "led to" and
   after "due to" there is a thing: a noun phrase that names no person and no amount.

The first sign with which all this holds splits the sentence. A pronoun becomes the subject of the
sentence before it, if that names nothing else.

Patterns run on one sentence of bounded length, and none repeats within a repeat.
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import chain, islice
from typing import Final

from commonbrain.model.atoms import ATOMS_MAX, Atom
from commonbrain.text.clauses import is_factual, is_order
from commonbrain.text.languages import is_english
from commonbrain.text.patterns import lazy_pattern, lower_case
from commonbrain.text.words import ARTICLES, read_words, stem
from commonbrain_causes import signs
from commonbrain_causes.signs import CausalSide, Cut, Sign, is_person, side_words, verb_at

TEXT_CHARS_MIN: Final = 30
"""A shorter text cannot state a cause and its effect."""
_SENTENCE_CHARS_MAX: Final = 600
"""Longer runs are logs or lists rather than sentences."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Sentence:
    """A sentence of prose, with the one before it in the paragraph."""

    text: str
    start: int
    before: str


def extract_atoms(text: str) -> tuple[Atom, ...]:
    """Return at most `ATOMS_MAX` causes with their effects, the most detailed first."""
    if len(text) < TEXT_CHARS_MIN or not is_english(text):
        return ()
    atoms = [
        replace(atom, start=one.start, end=one.start + len(one.text))
        for one in _sentences(text)
        if (atom := _atom(one)) is not None
    ]
    return tuple(sorted(atoms, key=lambda one: (-one.quality, one.start))[:ATOMS_MAX])


def _atom(sentence: _Sentence) -> Atom | None:
    """Read a sentence after its opener: "Learned that", "It turned out that"."""
    opener = _OPENER.match(sentence.text) or _REPORT.match(sentence.text)
    plain = sentence.text[opener.end() :] if opener else sentence.text
    matches = _matches(plain)
    first = next(matches, None)
    is_lesson = opener is not None and opener.groupdict().get("learned") is not None
    # Most sentences have no sign, which is sooner seen than that they report nothing.
    if (first is None and not is_lesson) or not is_factual(sentence.text):
        return None
    rest = replace(sentence, text=plain) if opener else sentence
    atom = _split(rest, chain([first], matches)) if first else None
    return _lesson(plain) if atom is None and is_lesson else atom


def _lesson(text: str) -> Atom | None:
    """Read what an action does, which is its effect: "restarting the proxy drops all sessions"."""
    subject, effect = _split_at_verb(text)
    is_action = bool(effect) and subject.partition(" ")[0].endswith("ing")
    return Atom(subject=subject, outcome=effect, pattern="learned") if is_action else None


def _split(sentence: _Sentence, matches: Iterable[tuple[Sign, "re.Match[str]"]]) -> Atom | None:
    """Split a sentence at the first sign that fits."""
    for sign, match in matches:
        for cut in _cuts(sentence, sign, match=match):
            is_whole = _is_whole(cut.cause) and _is_whole(cut.effect)
            if is_whole and not is_order(cut.effect) and sign.accepts(cut):
                named = _with_named_subject(cut, sentence)
                return named and _made(named, sign)
        # "Root cause: X broke Y" states the effect as well.
        if sign.name == "root cause" and not match[0].endswith(": "):
            return None
    return None


def _is_whole(side: str) -> bool:
    """Return whether a side has no half of a bracket or quotation."""
    return side.count("(") == side.count(")") and side.count('"') % 2 == 0


def _matches(text: str) -> Iterator[tuple[Sign, "re.Match[str]"]]:
    """Yield the signs from left to right, then the verbs that are signs by themselves."""
    lowered = lower_case(text)
    present = set(map(stem, _CUE.findall(lowered)))
    # A sign in brackets belongs to an aside; every place stays the same.
    searched = signs.BRACKETED.sub(lambda one: "\0" * len(one[0]), lowered)
    for table in (signs.SIGNS, signs.VERBS):
        matches = [
            (sign, match)
            for sign in table
            if not sign.cues.isdisjoint(present)
            for match in sign.matches(searched)
        ]
        yield from sorted(matches, key=lambda one: one[1].start())


def _cuts(sentence: _Sentence, sign: Sign, *, match: "re.Match[str]") -> Iterator[Cut]:
    """Yield the ways to split a sentence at a sign."""
    text, groups = sentence.text, match.re.groupindex
    head, rest = _BREAK.split(text[: match.start()])[-1], text[match.end() :].partition("; ")[0]
    rest = _ALTERNATIVE.sub("", rest)
    if "effect" in groups and match["effect"]:
        yield Cut(cause=rest, effect=text[slice(*match.span("effect"))])
    elif sign.is_cause_first:
        effect = text[match.start("verb") :] if "verb" in groups else text[match.end() :]
        if head or is_factual(sentence.before):
            yield Cut(cause=head or sentence.before, effect=effect, head=head)
    elif head and not head.endswith((" and", " but")):
        verb = text[slice(*match.span("verb"))] if "verb" in groups else ""
        # After a thing, what follows a comma is another clause, or the rest of an interrupted one.
        cause, _, others = (
            (rest, "", "") if sign.sides[0] is CausalSide.CLAUSE else rest.partition(", ")
        )
        is_whole = sign.sides != (CausalSide.THING, CausalSide.ANY)
        if not verb and _HAPPENED.fullmatch(head) and is_factual(sentence.before):
            # "This was caused by a typo": what is meant is the whole sentence before.
            yield Cut(cause=cause, effect=sentence.before.rstrip("."))
        elif not others or is_whole or verb_at(side_words(head)) is not None:
            yield Cut(cause=cause, effect=f"{head} {verb}".strip(), head=head)
    else:
        is_label = sign.name in {"root cause", "caused by"}
        if is_label and is_factual(sentence.before):
            yield Cut(cause=rest, effect=sentence.before)
        is_bare = sign.name == "because of" and ", " not in rest
        ends = () if is_label else (_SUBJECT if is_bare else _COMMA).finditer(rest)
        for end in islice(ends, signs.PLACES_MAX):
            yield Cut(cause=rest[: end.start()], effect=rest[end.end() :])


def _made(cut: Cut, sign: Sign) -> Atom:
    """Build the atom: subject and action, outcome, consequences."""
    effect, following = _chained(cut.effect)
    # In "Y because X, so Z" the consequences follow the cause.
    cause, passed_on = (cut.cause, "") if sign.is_cause_first else _chained(cut.cause)
    is_clause = sign.sides[0] is CausalSide.CLAUSE
    subject, action = _split_at_verb(cause) if is_clause else (_bare(cause), "")
    consequences = following or passed_on
    return Atom(
        subject=subject,
        action=action,
        outcome=_bare(effect),
        consequences=_bare(consequences),
        outcome_delay_s=_seconds_in(effect),
        consequence_delay_s=_seconds_in(consequences),
        pattern=sign.name,
    )


def _chained(text: str) -> tuple[str, str]:
    """Split off what the text says happened next."""
    match = _FOLLOWING.search(text)
    if match is None or len(text[: match.start()].split()) < 2:  # noqa: PLR2004 one word is no clause
        return text, ""
    return text[: match.start()], text[match.end() :]


def _with_named_subject(cut: Cut, sentence: _Sentence) -> Cut | None:
    """Replace a pronoun by the subject of the sentence before; None if nothing is named."""
    pronouns = [signs.pronoun_of(words) for words in cut.words]
    first = int(cut.head == cut.effect)
    if pronouns[first] not in _PRONOUNS:
        return cut
    sides = [_bare(cut.cause), _bare(cut.effect)]
    is_first = bool(cut.head) and sentence.text.startswith(cut.head)
    subject = _antecedent(pronouns[first], sentence.before) if is_first else None
    if subject is None:
        is_vague = pronouns[first] in _POINTING or pronouns[1 - first] in _PRONOUNS
        return None if is_vague or sides[first].casefold() == pronouns[first] else cut
    cause, effect = (
        _with_subject(side, subject) if pronoun == pronouns[first] else side
        for side, pronoun in zip(sides, pronouns, strict=True)
    )
    return replace(cut, cause=cause, effect=effect)


def _antecedent(pronoun: str, before: str) -> str | None:
    """Return the subject of a sentence, if it is the only thing that the sentence names."""
    subject, action = _split_at_verb(before) if is_factual(before) else ("", "")
    words = side_words(subject)
    if not action or not words or is_person(words) or signs.pronoun_of(words) in _PRONOUNS:
        return None
    noun = signs.noun_phrase(words)[-1].plain
    is_plural = noun.endswith("s") and not noun.endswith(("ss", "us", "is"))
    is_only = all(word.plain not in ARTICLES for word in side_words(action))
    return subject if is_only and is_plural == (pronoun == "they") else None


def _with_subject(clause: str, subject: str) -> str:
    """Replace the first word, keeping a verb that is joined to it: "it's", "they've"."""
    first, _, rest = clause.partition(" ")
    verb = _JOINED.get(first.replace("\u2019", "'").partition("'")[2], "")
    return " ".join(filter(None, (subject, verb, rest)))


def _split_at_verb(text: str) -> tuple[str, str]:
    """Split a clause into its subject and the rest, which is empty without a verb."""
    words = side_words(text)
    place = verb_at(words)
    if place is None:
        return _bare(text), ""
    verb = words[place].written
    same_before = sum(word.written == verb for word in words[:place])
    tokens = _TOKEN.finditer(signs.plain_text(text))
    starts = [token.start() for token in tokens if token[0] == verb]
    start = starts[same_before] if same_before < len(starts) else len(text)
    return _bare(text[:start]), _bare(text[start:])


def _bare(text: str) -> str:
    """Strip punctuation, but for brackets with their partner, and an opening conjunction."""
    plain = _JOINING.sub("", " ".join(text.split()).strip(_EDGE))
    missing = plain.count("(") - plain.count(")")
    return f"{plain})" if missing > 0 else f"({plain}" if missing < 0 else plain


_CUE: Final = lazy_pattern(r"[a-z/]+")
_TOKEN: Final = lazy_pattern(r"\w+(?:['\u2019.]\w+)*")
_EDGE: Final = " \t\r\n\"'`*_,;:.!?()[]{}\u2014\u2013-"
_COMMA: Final = lazy_pattern(r", (?:then )?|(?<! and) then ")
_SUBJECT: Final = lazy_pattern(r" (?=(?:the|our|we|it|they) )")
_BREAK: Final = lazy_pattern(r"[;:] ")
_JOINING: Final = lazy_pattern(r"^(?:and|but|so|then|also|however|by)[, ]+", re.IGNORECASE)
_ALTERNATIVE: Final = lazy_pattern(
    r",? (?:(?:and |but )?not (?:due to|because|by|to|the|an?)|(?:rather than|instead of)"
    r" (?:by )?(?:the|an?)) [^,;]{1,200}$",
    re.IGNORECASE,
)
"""A cause that is denied after the one that is stated."""
_FOLLOWING: Final = lazy_pattern(
    r",? (?:causing|resulting in|leading to) |, (?:which |and this )(?=\w{3,12}ed |broke |took |cut"
    r" |led |made )|[,;] (?:and )?so (?!that )"
    r"|[,;] and (?=\w{1,9} (?:second|minute|hour|day|week)s? later)",
    re.IGNORECASE,
)
_OPENER: Final = lazy_pattern(
    r"(?P<learned>(?:(?:i|we|today i|today we|just) (?:have |also |just )?)?(?:learn(?:ed|t)"
    r"|reali[sz]ed|discovered|found out|figured out|noticed)(?::| that) |til:? (?:that )?"
    r"|(?:today's )?lesson(?: learned)?: )|(?:it )?turn(?:s|ed) out,? (?:that )?(?!to )",
    re.IGNORECASE,
)
_REPORT: Final = lazy_pattern(
    r"(?![^,.;:]{0,60}(?:\bno|\bnot|\bnever|\bnobody|n't)\b)"
    r"[^,.;:]{1,60}? (?:confirmed|showed|revealed|found) that "
)
_HAPPENED: Final = lazy_pattern(r"(?:this|that|it)(?: happened| occurred)?", re.IGNORECASE)
_POINTING: Final = frozenset("this that these those".split())
_PRONOUNS: Final = _POINTING | {"it", "they", "he", "she"}
_JOINED: Final = {"s": "is", "re": "are", "ve": "have", "d": "had"}
_FENCE: Final = lazy_pattern(r"[ \t]{0,3}(?:```|~~~)")
_NO_PROSE: Final = lazy_pattern(r"[ \t]{0,3}(?:>|\||#|    )|\s*$")
"""Quotes, tables, headings and code: not the author's own account of what happened."""
_PREFIX: Final = lazy_pattern(
    r"[ \t]*(?:(?:[-*+]|\d{1,3}[.)])[ \t]+)?(?:\[[ xX]\][ \t]+)?"
    r"(?:[a-z]{2,12}(?:\([\w./-]{1,40}\))?!?: (?=\w))?"
)
"""A bullet, and the type of a commit: `fix(api): `."""
_SENTENCE_END: Final = lazy_pattern(r"[.!?](?=[\s\"')]|$)")


def _sentences(text: str) -> Iterator[_Sentence]:
    """Yield the sentences of prose, each with the one before it in its paragraph."""
    before, is_code, start = "", False, 0
    for line in text.splitlines(keepends=True):
        is_fence = _FENCE.match(line) is not None
        is_code = is_code != is_fence
        if is_code or is_fence or _NO_PROSE.match(line):
            before = ""
            start += len(line)
            continue
        prefix = _PREFIX.match(line)
        place = prefix.end() if prefix else 0
        for end in (*(match.end() for match in _SENTENCE_END.finditer(line)), len(line)):
            span, lead = line[place:end], len(line[place:end]) - len(line[place:end].lstrip())
            if span.strip(" \t\r\n.") and len(span) <= _SENTENCE_CHARS_MAX:
                sentence = " ".join(span.split())
                yield _Sentence(text=sentence, start=start + place + lead, before=before)
                before = sentence
            place = end
        start += len(line)


_UNITS_S: Final = {
    "second": 1,
    "minute": 60,
    "hour": 3600,
    "morning": 86_400,
    "day": 86_400,
    "week": 604_800,
    "month": 2_592_000,
    "year": 31_536_000,
}
_ONE: Final = frozenset("a an one next following".split())
_DELAY_WITHIN: Final = 3
"""Words between "after" and the unit of a delay: "after about two hours"."""


def _seconds_in(text: str) -> float | None:
    """Return the delay stated in a clause ("two hours later", "within 5 minutes"), in seconds."""
    plain = [word.plain for word in read_words(text)]
    for at, word in enumerate(plain):
        unit_s = _UNITS_S.get(word.removesuffix("s"))
        before, after = plain[max(0, at - _DELAY_WITHIN) : at], plain[at + 1 : at + 3]
        if unit_s is None or not before:
            continue
        is_later = after[:1] in (["later"], ["afterwards"]) or after == ["after", "that"]
        is_delay = is_later or not {"after", "within"}.isdisjoint(before)
        is_next = before[-2:] in (["the", "next"], ["the", "following"])
        count = 0.5 if "half" in before[-2:] else _count(before[-1])
        if count and (is_delay or is_next):
            return count * unit_s
    return None


def _count(word: str) -> float:
    is_number = word.replace(".", "", 1).isdecimal()
    return float(word) if is_number else float(word in _ONE)
