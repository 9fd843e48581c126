"""Whether a text says what must be mentioned, what no longer holds, or takes the latter back.

Phrases are compared as StateBench does, whatever their case, but only as whole words: "PIP" is not
in "pipeline", nor "$45" in "$45,000".
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from typing import Final

_SENTENCE: Final = re.compile(r"(?<=[.!?])\s+")
_DENIED_BEFORE: Final = re.compile(
    # A negation denies what follows at once, the others what follows in the sentence.
    r"(?:\b(?:not|never)\b|n't\b)(?:\W+\w+){0,3}\W*\Z"
    r"|\b(?:no longer|instead of|rather than|originally|original|previously|previous|formerly"
    r"|used to|wrong|incorrect|outdated|invalidated|cancel\w*|replaces|(?:value|it|which) was"
    r"|(?:moved|changed|switched|shifted)\b.*\bfrom)\b.*\Z",
    re.IGNORECASE | re.DOTALL,
)
_DENIED_AFTER: Final = re.compile(
    r"\b(?:no longer|(?:is|was|are|were|been) (?:not|wrong|incorrect|outdated|cancel\w*|dropped"
    r"|based on incorrect|considered)|based on (?:wrong|incorrect))\b",
    re.IGNORECASE,
)
_CHANGE: Final = re.compile(
    r"\b(?:actual\w*|correct(?:ion|ed)|moved|changed|switched|updated|no longer|final|instead)\b",
    re.IGNORECASE,
)
"""Makes a text that names both values one that says which of them holds."""


class Says(StrEnum):
    """What a text says of a question."""

    CURRENT = "current"
    """What must be mentioned; what must not is absent or taken back."""
    STALE = "stale"
    """What must not be mentioned, as if it held."""
    BOTH = "both"
    """Both, without a word that says which of them holds."""
    NEITHER = "neither"


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerPhrases:
    """What the answer to one question must and must not contain."""

    must: tuple[str, ...]
    must_not: tuple[str, ...]

    def read(self, text: str) -> Says:
        """Judge one text."""
        is_current = any(says(text, phrase) for phrase in self.must)
        stale = [phrase for phrase in self.must_not if says(text, phrase)]
        if not stale:
            return Says.CURRENT if is_current else Says.NEITHER
        if is_current and _CHANGE.search(text):
            return Says.CURRENT
        if all(takes_back(text, phrase) for phrase in stale):
            return Says.CURRENT if is_current else Says.NEITHER
        return Says.BOTH if is_current else Says.STALE


def says(text: str, phrase: str) -> bool:
    """Return whether a text contains a phrase, or one of several parted by `|`."""
    return any(_pattern(one).search(text) for one in phrase.split("|"))


def takes_back(text: str, phrase: str) -> bool:
    """Return whether a text denies a phrase wherever it contains it."""
    return all(
        _DENIED_BEFORE.search(before) or _DENIED_AFTER.search(after)
        for before, after in _surroundings(text, phrase)
    )


def _surroundings(text: str, phrase: str) -> Iterator[tuple[str, str]]:
    """Yield what stands before and after each occurrence in its sentence."""
    for sentence in _SENTENCE.split(text):
        for one in phrase.split("|"):
            for match in _pattern(one).finditer(sentence):
                yield sentence[: match.start()], sentence[match.end() :]


@cache
def _pattern(phrase: str) -> re.Pattern[str]:
    words = r"\s+".join(map(re.escape, phrase.split()))
    start = r"(?<!\w)(?<!\d[.,])" if phrase.strip()[:1].isalnum() else ""
    # "March 18" is in "March 18th", "call" in "calls".
    end = r"(?:st|nd|rd|th|s)?(?!\w)(?![.,]\d)"
    return re.compile(rf"{start}{words}{end}", re.IGNORECASE)


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownItem:
    """One item that a system shows."""

    text: str
    is_marked: bool = False
    """Whether it says itself that it no longer holds, or needs review."""
    is_restricted: bool = False
    """Whether the asker may not see it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StateOutcome:
    """What one system shows for one question; None where the question cannot tell."""

    mentioned: bool | None
    """Whether any item says what must be mentioned."""
    current_first: bool | None
    """Whether an item that says it, and nothing stale, precedes every unmarked stale one."""
    stale_above: bool | None
    """Whether an unmarked stale item precedes all that say what is current."""
    stale_or_both_above: bool | None
    """The same, if what says both counts as stale too."""
    leaked: bool | None
    """Whether something is shown that may not be."""
    first_stale: str | None
    """The text of the first unmarked stale item, if it stands above what is current."""


def judge(
    phrases: AnswerPhrases, shown: Sequence[ShownItem], *, is_ranked: bool, leak: Says | None
) -> StateOutcome:
    """Judge what a system shows, best first.

    `is_ranked` says whether the store holds both a current and a stale text, and `leak` what a text
    says that leaks: None where nothing is to be hidden, `NEITHER` where only restricted texts are.
    """
    read = [phrases.read(one.text) for one in shown]
    # A marked item says itself that it may not hold.
    unmarked = [Says.NEITHER if one.is_marked else of for one, of in zip(shown, read, strict=True)]
    current = _first(read, {Says.CURRENT})
    stale = _first(unmarked, {Says.STALE})
    stale_or_both = _first(unmarked, {Says.STALE, Says.BOTH})
    is_above = stale < current
    leaked = None
    if leak is not None:
        is_restricted = any(one.is_restricted for one in shown)
        leaked = is_restricted or (leak is Says.STALE and leak in unmarked)
    return StateOutcome(
        mentioned=bool({Says.CURRENT, Says.BOTH} & set(read)) if phrases.must else None,
        current_first=current < stale if is_ranked else None,
        stale_above=is_above if is_ranked else None,
        stale_or_both_above=stale_or_both < current if is_ranked else None,
        leaked=leaked,
        first_stale=shown[stale].text if is_ranked and is_above else None,
    )


def _first(read: Sequence[Says], expected: set[Says]) -> int:
    return next((place for place, one in enumerate(read) if one in expected), len(read))
