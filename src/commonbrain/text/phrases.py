"""Phrases that are looked for among the words of a clause."""

from collections import defaultdict
from collections.abc import Sequence
from typing import Final

from commonbrain.text.words import Word, stem


class Phrases:
    """Phrases, separated by commas; a word with an asterisk stands for all of its forms."""

    def __init__(self, listed: str) -> None:
        self._by_first: Final = defaultdict[str, list[Sequence[str]]](list)
        for phrase in listed.split(","):
            first, *rest = map(_form, phrase.split())
            self._by_first[first].append(rest)

    def place_in(self, words: Sequence[Word]) -> int | None:
        """Return where the first of the phrases begins; None if there is none."""
        return next((n for n in range(len(words)) if self._begins_at(words, n)), None)

    def are_in(self, words: Sequence[Word]) -> bool:
        """Return whether one of the phrases occurs."""
        return self.place_in(words) is not None

    def _begins_at(self, words: Sequence[Word], place: int) -> bool:
        word = words[place]
        return any(
            all(map(_is_form, words[place + 1 :], rest)) and len(words) - place > len(rest)
            for form in (word.plain, f"{word.stem}*")
            for rest in self._by_first.get(form, ())
        )


def _form(part: str) -> str:
    return f"{stem(part[:-1])}*" if part.endswith("*") else part


def _is_form(word: Word, part: str) -> bool:
    return part in {word.plain, f"{word.stem}*"}
