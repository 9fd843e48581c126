"""The atomizer: extract causes and effects from text by patterns of causal English.

A sentence is matched against the table of patterns from left to right and split at the first that
fits. Work is linear: no pattern repeats within a repeat, the number of matches per sentence is
bounded, and text longer than a sentence is skipped. Measured by `brain eval atomizer`.
"""

import re
from collections.abc import Iterator, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import replace
from itertools import islice, zip_longest
from typing import Final

from commonbrain.model.atoms import ATOMS_MAX, QUALITY_MIN, Atom
from commonbrain.text.causal_conditions import begins_as_question, is_denied, is_lesson, is_no_thing
from commonbrain.text.causal_cuts import Cut, Sentence, is_about_cause
from commonbrain.text.causal_patterns import CUES, LESSONS, PATTERNS, VERBS, Pattern
from commonbrain.text.causal_pronouns import resolve_pronouns
from commonbrain.text.causal_verbs import DID
from commonbrain.text.clauses import has_verb, is_factual, seconds_in, split_at_verb, trimmed, words
from commonbrain.text.patterns import lazy_pattern

TEXT_CHARS_MIN: Final = 30
"""A shorter text cannot state a cause and its effect."""
_SIGNS_MAX: Final = 8
"""Matches to try in one sentence."""
_SENTENCE_CHARS_MAX: Final = 600
"""Longer runs are logs or lists rather than sentences."""


def extract_atoms(text: str) -> tuple[Atom, ...]:
    """Extract at most three atoms, the best first."""
    if not is_causal(text):
        return ()
    sentences = list(_sentences(text))
    candidates = (_atom(one, after=after) for one, after in zip_longest(sentences, sentences[1:]))
    atoms = [one for one in candidates if one is not None and _is_informative(one)]
    return tuple(sorted(atoms, key=lambda one: (-one.quality, one.start))[:ATOMS_MAX])


def is_causal(text: str) -> bool:
    """Return whether a text is long enough and contains a causal word."""
    if len(text) < TEXT_CHARS_MIN:
        return False
    return not _CUES.isdisjoint(_cues(text.lower()))


def _cues(text: str) -> set[str]:
    return set(_CUE.findall(text))


def _is_informative(atom: Atom) -> bool:
    """Return whether a cause and an effect have two words each, or the atom is long enough."""
    cause, effect = words(f"{atom.subject} {atom.action}"), words(atom.outcome)
    has_words = len(cause) > 1 and len(effect) > 1
    return has_words or atom.quality >= QUALITY_MIN


def _atom(sentence: Sentence, *, after: Sentence | None) -> Atom | None:
    """Split a sentence at the first match that fits."""
    learned = _LEARNED.match(sentence.text)
    opener = learned or _FRAME.match(sentence.text)
    plain = sentence.text[opener.end() :] if opener else sentence.text
    cues = _cues(plain.lower())
    if not learned and CUES.isdisjoint(cues):
        return None
    if not is_factual(plain) or (opener and not is_factual(sentence.text)):
        return None
    is_next = after is not None and after.before == sentence.text
    stripped = replace(sentence, text=plain, after=after.text if after and is_next else "")
    atom = _split(stripped, cues=cues, has_lesson=learned is not None)
    if atom is None and learned and is_lesson(plain):
        subject, action = split_at_verb(_bare(plain))
        atom = Atom(subject=subject, action=action, pattern="learned")
    return atom and replace(atom, start=sentence.start, end=sentence.start + len(sentence.text))


def _split(sentence: Sentence, *, cues: AbstractSet[str], has_lesson: bool) -> Atom | None:
    """Split a sentence at the first sign that fits, without its place in the text."""
    lowered = sentence.text.lower()
    searched = _without_brackets(lowered if len(lowered) == len(sentence.text) else sentence.text)
    for pattern, match in _signs(searched, cues=cues, has_lesson=has_lesson):
        cut = pattern.cut(sentence, match)
        cut = cut and _without_alternative(cut)
        if cut is not None and _is_sound(cut, pattern) and pattern.fits(cut):
            named = resolve_pronouns(cut, sentence)
            if named is not None:
                return _made(named, pattern)
        elif pattern.is_label:
            # "Root cause: X broke Y" states the effect as well; "root cause" is no subject.
            rest = replace(sentence, text=sentence.text[match.end() :])
            is_stated = not is_about_cause(rest.text)
            return _split(rest, cues=cues, has_lesson=has_lesson) if is_stated else None
    return None


def _without_brackets(text: str) -> str:
    """Blank out what is in brackets, where no sign counts; every place stays the same."""
    return _BRACKETED.sub(lambda bracket: "\0" * len(bracket[0]), text)


def _signs(
    text: str, *, cues: AbstractSet[str], has_lesson: bool
) -> Iterator[tuple[Pattern, "re.Match[str]"]]:
    """Return the matches table by table, in each from left to right."""
    for table in (PATTERNS, VERBS, LESSONS) if has_lesson else (PATTERNS, VERBS):
        yield from _matches(table, text, cues=cues)


def _matches(
    table: Sequence[Pattern], text: str, *, cues: AbstractSet[str]
) -> list[tuple[Pattern, "re.Match[str]"]]:
    matches = [
        (pattern, match)
        for pattern in table
        if not pattern.cues.isdisjoint(cues)
        for match in islice(pattern.sign.finditer(text), _SIGNS_MAX)
    ]
    return sorted(matches, key=lambda one: one[1].start())[:_SIGNS_MAX]


def _is_sound(cut: Cut, pattern: Pattern) -> bool:
    """Return whether both sides have content, and the sign is not denied."""
    is_so = not is_denied(cut.head, within=pattern.denied_within)
    is_so = is_so and not begins_as_question(cut) and all(map(_is_whole, (cut.cause, cut.effect)))
    is_so = is_so and not (pattern.is_thing and is_no_thing(cut.head))
    return is_so and bool(words(cut.cause)) and bool(words(cut.effect))


def _is_whole(side: str) -> bool:
    """Return whether a side ends neither within brackets nor after a genitive."""
    return side.count("(") == side.count(")") and _HALF_GENITIVE.search(side) is None


def _made(cut: Cut, pattern: Pattern) -> Atom:
    """Build the atom: subject and action, outcome, consequences."""
    effect, following = _chained(cut.effect)
    # In "Y because X, so Z" the consequences follow the cause.
    cause, passed_on = _chained(cut.cause) if cut.is_effect_first else (cut.cause, "")
    subject, action = (_bare(cause), "") if pattern.is_thing else split_at_verb(_bare(cause))
    consequences = following or passed_on
    return Atom(
        subject=subject,
        action=action,
        outcome=_bare(effect),
        consequences=_bare(consequences),
        outcome_delay_s=seconds_in(effect),
        consequence_delay_s=seconds_in(consequences),
        pattern=pattern.name,
    )


def _chained(text: str) -> tuple[str, str]:
    """Split off what the text says happened next."""
    match = _FOLLOWING.search(text)
    if match is None or len(words(text[: match.start()])) < 2:  # noqa: PLR2004 one word is no clause
        return text, ""
    if not _is_whole(text[: match.start()]):
        return text, ""
    return text[: match.start()], text[match.end() :]


def _without_alternative(cut: Cut) -> Cut:
    """Remove from the cause what the text says not to be it: "an error, not the deploy"."""
    cause = _NOT_BECAUSE.sub("", cut.cause)
    if not has_verb(cause):
        cause = _NOT_BY.sub("", cause)
    return replace(cut, cause=cause, head=cause if cut.head == cut.cause else cut.head)


def _bare(text: str) -> str:
    return trimmed(_JOINING.sub("", trimmed(text), count=1))


def _sign(pattern: str) -> re.Pattern[str]:
    return lazy_pattern(pattern, re.IGNORECASE)


_LEARNED: Final = _sign(
    r"^(?:(?:i|we|today i|today we|the team|just) (?:have |also |just |then )?)?"
    r"(?:(?:learn(?:ed|t)|reali[sz]ed|discovered|found out|figured out|noticed)"
    r"(?: today| yesterday| now| that day)?(?::| that) |reali[sz]ed (?=the )|til:? (?:that )?"
    r"|(?:lesson learned|today's lesson|lesson): ?)"
)
_FRAME: Final = _sign(
    r"^(?:(?:oh|ok|so|huh|yep|ah),? )?(?:it )?turn(?:s|ed) out,? (?:that )?(?!to )"
)
"""Openers that add nothing to the clause which follows."""
_CUES: Final = CUES | frozenset(
    "learned learnt realized realised discovered found figured noticed til lesson".split()
)
_CUE: Final = lazy_pattern(r"[a-z'/]+")
_FOLLOWING: Final = _sign(
    rf"[,;] (?:which |and (?:this|that) )(?={DID} )|,? (?:causing|resulting in|leading to) "
    r"|[,;] (?:and )?so (?!that )"
    r"|[,;] (?:and )(?=[a-z0-9]{1,9} (?:second|minute|hour|day|week)s? later)"
)
_JOINING: Final = _sign(r"^(?:and|but|so|then|also|that|however|in the end|by)[, ]+")
_OTHER: Final = r",? (?:and |but )?(?:not|rather than|instead of) (?:just |only )?"
_NOT_BECAUSE: Final = _sign(
    rf"(?:{_OTHER}(?:due to|because(?: of)?|owing to|thanks to|on account of|as a result of) "
    r"|, (?:and |but )?not (?=(?:the|an?|our|its|their|his|her|any|some|this|that) ))[^,;]{1,200}"
)
"""A denied alternative to a cause, up to the next comma."""
_NOT_BY: Final = _sign(rf"(?:{_OTHER}(?:by|from|to) |,? rather than )[^,;]{{1,200}}")
"""The same of a noun; in a clause it says how something was done: "it used UTC rather than CET"."""
_BRACKETED: Final = lazy_pattern(r"\([^()]*\)")
_HALF_GENITIVE: Final = lazy_pattern(r"\w(?:['\u2019]s|(?<=s)['\u2019])\s*$")
"""A genitive without its noun."""

_FENCE: Final = lazy_pattern(r"[ \t]{0,3}(?:```|~~~)")
_NO_PROSE: Final = lazy_pattern(r"[ \t]{0,3}(?:>|\||#|    )")
"""Quotes, tables, headings and code: not the author's own account of what happened."""
_BULLET: Final = lazy_pattern(r"[ \t]*(?:(?:[-*+]|\d{1,3}[.)])[ \t]+)?(?:\[[ xX]\][ \t]+)?")
_COMMIT: Final = lazy_pattern(r"[a-z]{2,12}(?:\([\w./-]{1,40}\))?!?: (?=\w)")
"""The prefix of a commit message: `fix(api): `."""
_SENTENCE_END: Final = lazy_pattern(r"[.!?](?=[\s\"')]|$)")


def _sentences(text: str) -> Iterator[Sentence]:
    """Return the sentences of prose, each with the previous one of its paragraph."""
    before, is_code, start = "", False, 0
    for line in text.splitlines(keepends=True):
        is_fence = _FENCE.match(line) is not None
        is_code = is_code != is_fence
        if is_code or is_fence or _NO_PROSE.match(line) or not line.strip():
            before = ""
        else:
            for one in _cut_line(line, start=start, before=before):
                yield one
                before = one.text
        start += len(line)


def _cut_line(line: str, *, start: int, before: str) -> Iterator[Sentence]:
    opened = _BULLET.match(line)
    place = opened.end() if opened else 0
    commit = _COMMIT.match(line, place)
    place = commit.end() if commit else place
    ends = [match.end() for match in _SENTENCE_END.finditer(line)]
    for end in (*ends, len(line)):
        span = line[place:end]
        if span.strip(" \t\r\n.") and len(span) <= _SENTENCE_CHARS_MAX:
            lead = len(span) - len(span.lstrip())
            sentence = " ".join(span.split())
            yield Sentence(text=sentence, start=start + place + lead, before=before)
            before = sentence
        place = end
