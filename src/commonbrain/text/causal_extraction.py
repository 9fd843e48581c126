"""The atomizer: extract causes and effects from text by patterns of causal English.

A sentence is matched against the table of patterns from left to right and split at the first that
fits. Work is linear: no pattern repeats within a repeat, the number of matches per sentence is
bounded, and text longer than a sentence is skipped. Measured by `brain eval atomizer`.
"""

import re
from collections.abc import Iterator
from dataclasses import replace
from itertools import islice
from typing import Final

from commonbrain.model.kinds import ATOMS_MAX, QUALITY_MIN, Atom
from commonbrain.text.causal_patterns import DID, LESSONS, PATTERNS, Pattern, is_denied, is_no_thing
from commonbrain.text.clauses import (
    Cut,
    Sentence,
    is_factual,
    seconds_in,
    split_at_verb,
    trimmed,
    words,
)

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
    found = (_atom(sentence) for sentence in _sentences(text))
    kept = [one for one in found if one is not None and one.quality >= QUALITY_MIN]
    return tuple(sorted(kept, key=lambda one: (-one.quality, one.start))[:ATOMS_MAX])


def is_causal(text: str) -> bool:
    """Return whether a text is long enough and contains a causal word."""
    return len(text) >= TEXT_CHARS_MIN and _CAUSAL_WORD.search(text) is not None


def _atom(sentence: Sentence) -> Atom | None:
    """Split a sentence at the first match that fits."""
    plain = _LEARNED.sub("", sentence.text, count=1)
    told = replace(sentence, text=plain)
    if plain == sentence.text and _CAUSAL_WORD.search(plain) is None:
        return None
    if not is_factual(plain) or not is_factual(sentence.text):
        return None
    for pattern, sign in _signs(plain, was_learned=plain != sentence.text):
        cut = pattern.cut(told, sign)
        if cut is None or not _is_sound(cut, pattern) or not pattern.fits(cut):
            continue
        made = _made(cut, pattern)
        end = sentence.start + len(sentence.text)
        return replace(made, start=sentence.start, end=end)
    return None


def _signs(text: str, *, was_learned: bool) -> list[tuple[Pattern, "re.Match[str]"]]:
    """Return the matches from left to right; at the same position, in the order of the table."""
    table = (*PATTERNS, *LESSONS) if was_learned else PATTERNS
    found = [
        (pattern, sign)
        for pattern in table
        for sign in islice(pattern.sign.finditer(text), _SIGNS_MAX)
    ]
    return sorted(found, key=lambda one: one[1].start())[:_SIGNS_MAX]


def _is_sound(cut: Cut, pattern: Pattern) -> bool:
    """Return whether both sides have content, and the sign is not denied."""
    is_so = not is_denied(cut.head, within=pattern.denied_within)
    is_so = is_so and not (pattern.is_thing and is_no_thing(cut.head))
    return is_so and bool(words(cut.cause)) and bool(words(cut.effect))


def _made(cut: Cut, pattern: Pattern) -> Atom:
    """Build the atom: subject and action, outcome, consequences."""
    effect, following = _chained(cut.effect)
    # In "Y because X, so Z" the consequences follow the cause.
    is_behind = cut.head == cut.effect
    cause, passed_on = _chained(cut.cause) if is_behind else (cut.cause, "")
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
    found = _FOLLOWING.search(text)
    if found is None or len(words(text[: found.start()])) < 2:  # noqa: PLR2004 one word is no clause
        return text, ""
    return text[: found.start()], text[found.end() :]


def _bare(text: str) -> str:
    return trimmed(_JOINING.sub("", trimmed(text), count=1))


def _sign(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern, re.IGNORECASE)


_LEARNED: Final = _sign(
    r"^(?:(?:i|we|today i|today we|the team|just) (?:have |also |just |then )?)?"
    r"(?:(?:learn(?:ed|t)|reali[sz]ed|discovered|found out|figured out|noticed)"
    r"(?: today| yesterday| now| that day)? that |til:? (?:that )?|lesson learned: ?)"
)
_CAUSAL_WORD: Final = _sign(
    r"\b(?:because|since|due to|thanks to|owing to|on account of|caus(?:e|es|ed|ing)"
    r"|result(?:s|ed|ing)?|lead(?:s|ing)? to|led to|trigger(?:s|ed|ing)?|which|this|that|these|it"
    r"|so|therefore|hence|thus|consequently|when|whenever|every time|each time|as soon as|once"
    r"|if|by|with|stems?|stemmed|broke|breaks|brought|brings|set off|gave rise|breaking|forcing"
    r"|leaving|making)\b"
)
_FOLLOWING: Final = _sign(
    rf"[,;] (?:which |and (?:this|that) )(?={DID} )|,? (?:causing|resulting in|leading to) "
    r"|[,;] (?:and )?so (?!that )"
    r"|[,;] (?:and )(?=[a-z0-9]{1,9} (?:second|minute|hour|day|week)s? later)"
)
_JOINING: Final = _sign(r"^(?:and|but|so|then|also|that|however|in the end|by)[, ]+")

_FENCE: Final = re.compile(r"[ \t]{0,3}(?:```|~~~)")
_NO_PROSE: Final = re.compile(r"[ \t]{0,3}(?:>|\||#|    )")
"""Quotes, tables, headings and code: not the author's own account of what happened."""
_BULLET: Final = re.compile(r"[ \t]*(?:(?:[-*+]|\d{1,3}[.)])[ \t]+)?(?:\[[ xX]\][ \t]+)?")
_COMMIT: Final = re.compile(r"[a-z]{2,12}(?:\([\w./-]{1,40}\))?!?: (?=\w)")
"""The prefix of a commit message: `fix(api): `."""
_SENTENCE_END: Final = re.compile(r"[.!?](?=[\s\"')]|$)")


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
    ends = [found.end() for found in _SENTENCE_END.finditer(line)]
    for end in (*ends, len(line)):
        said = line[place:end]
        if said.strip(" \t\r\n.") and len(said) <= _SENTENCE_CHARS_MAX:
            lead = len(said) - len(said.lstrip())
            told = " ".join(said.split())
            yield Sentence(text=told, start=start + place + lead, before=before)
            before = told
        place = end
