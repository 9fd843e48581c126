"""The words of full text: what is stored and what is asked are split alike, in every script.

Both engines split a text at blanks and signs. So they are given a text in which scripts without
blanks have them: every two neighbouring characters of a run are a word, as in the CJK analyzer of
Lucene, or three letters, and what is written in another script within a run is one too. Nearness in
meaning does not tell one hash from another, and the engines know no part of a hash and no emoji:
these are added.
"""

import re
from collections.abc import Sequence
from typing import Final
from unicodedata import category, is_normalized, normalize

from commonbrain.text.patterns import lazy_pattern

_HASH_CHARS: Final = 7
"""What Git abbreviates a hash to."""
_HASH: Final = lazy_pattern(
    r"(?<![0-9a-z])(?=[a-f]{0,62}\d)(?=\d{0,62}[a-f])[0-9a-f]{7,64}(?:-[0-9a-f]{4,12}){0,4}"
    r"(?![0-9a-z_])"
)
"""Of Git, a file or an image, or a UUID: hexadecimal with digits and letters, in lower case."""
_EMOJI: Final = lazy_pattern("[\u231a-\u23ff\u2600-\u27bf\u2b05-\u2b55\U0001f000-\U0001faff]")
"""One picture, or a part of one: of a flag, or of several that are joined."""
# Letters by script, from Scripts.txt of Unicode 16. Marks are none: they are removed before.
HAN: Final = "\u3005\u3400-\u4dbf\u4e00-\u9fff\U00020000-\U0003ffff"
HIRAGANA: Final = "\u3041-\u3096\u309d-\u309f"
KATAKANA: Final = "\u30a1-\u30fa\u30fc-\u30ff\u31f0-\u31ff"
HANGUL: Final = "\uac00-\ud7a3"
SOUTHEAST_ASIAN: Final = "\u0e01-\u0e46\u0e81-\u0ec6\u1000-\u103f\u1050-\u109f\u1780-\u17b3"
"""Thai, Lao, Myanmar and Khmer."""
UNSPACED: Final = f"{HAN}{HIRAGANA}{KATAKANA}{HANGUL}{SOUTHEAST_ASIAN}"
"""Letters that words of other scripts follow, and are followed by, without a blank."""
_RUN: Final = lazy_pattern(
    rf"[{HAN}]+|[{HIRAGANA}]+|[{KATAKANA}]+|[{HANGUL}]+|[{SOUTHEAST_ASIAN}]+"
)
"""Letters of one script: the stem of a Japanese verb is Han, its ending is Hiragana."""
CHARACTERS: Final = lazy_pattern(rf"[{HAN}{HIRAGANA}{KATAKANA}]")
LETTERS: Final = lazy_pattern(rf"[{SOUTHEAST_ASIAN}]")
_PER_WORD: Final = (2, 4)
"""About how many characters, or letters, make a word."""
_FOREIGN: Final = lazy_pattern(r"[^\x00-\x7f]")
_SIGN: Final = lazy_pattern(r"[^\w\s\x00-\u036f]")
"""Signs, and marks beyond those of Latin letters, which both engines remove themselves."""
_MORE_LATIN: Final = "\u1d00-\u1dbf\u1e00-\u1eff\u2c60-\u2c7f\ua720-\ua7ff\uab30-\uab6f"
"""Latin letters of Vietnamese, Yoruba, Igbo and others, and the capital sharp s."""
NOT_LATIN: Final = lazy_pattern(rf"[^\W\x00-\u036f{_MORE_LATIN}]")
"""A letter beyond Latin."""
_FAR: Final = rf"[^\W\x00-\u03ff{_MORE_LATIN}]"
_CHANGE: Final = lazy_pattern(rf"(?<=[A-Za-z])(?={_FAR})|(?<={_FAR})(?=[A-Za-z])")
"""Where a Latin name has an Arabic prefix or a Russian ending."""


def spaced(text: str) -> str:
    """Return a text in compatible letters, with blanks in scripts that put none between words.

    Full-width letters and ligatures become plain ones, and the marks of scripts other than Latin
    are removed: the engines would split words at them. Signs become no part of a word.
    """
    text = folded(text)
    if text.isascii() or NOT_LATIN.search(text) is None:
        return text
    return _CHANGE.sub(" ", _RUN.sub(_parts, text))


def folded(text: str) -> str:
    """Return a text in the letters that `spaced` gives, where its words are looked for."""
    if text.isascii():
        return text
    if not is_normalized("NFKC", text):
        text = normalize("NFKC", _FOREIGN.sub(_apart, text))
    if NOT_LATIN.search(text) is None:
        return text
    return _SIGN.sub(lambda sign: sign[0] * (category(sign[0])[0] != "M"), text)


def _apart(match: "re.Match[str]") -> str:
    """Put blanks around what is no letter: two and a half is not 21/2."""
    sign = match[0]
    is_joined = sign.isalpha() or sign.isdecimal() or category(sign)[0] == "M"
    return sign if is_joined else f" {sign} "


def _parts(match: "re.Match[str]") -> str:
    run = match[0]
    # Of forty letters, two together are in nearly every Thai note, three in two of five.
    size = 3 if LETTERS.match(run) else 2
    parts = (run[at : at + size] for at in range(max(len(run) - size, 0) + 1))
    return f" {' '.join(parts)} "


def count_words(text: str) -> int:
    """Count words, approximately for scripts without spaces."""
    if text.isascii():
        return len(text.split())
    characters, letters = len(CHARACTERS.findall(text)), len(LETTERS.findall(text))
    return len(text.split()) + characters // _PER_WORD[0] + letters // _PER_WORD[1]


PARTICLE: Final = lazy_pattern(rf"[{HIRAGANA}]+|.?[\u7684\u4e86\u5417\u55ce\u5462\u5427].?")
"""Hiragana alone, which writes endings, and the commonest particles of Chinese: words that say
little by themselves, as "the" does in English."""


def names_to_repeat(words: Sequence[str]) -> list[str]:
    """List what to search for again: a word among pairs counts as much as the pairs of a word."""
    names = [word for word in words if not _RUN.match(word)]
    times = _PER_WORD[any(map(LETTERS.match, words))]
    return names * (times - 1) if len(names) < len(words) else []


def extra_words(text: str) -> tuple[str, ...]:
    """Return the extra words of a text in lower case, each once; mostly none.

    They are the first seven characters of hashes, and the code points of emoji.
    """
    words = [one[:_HASH_CHARS] for one in _HASH.findall(text.lower())]
    if not text.isascii():
        words += (f"u{ord(one):x}" for one in _EMOJI.findall(text))
    return tuple(dict.fromkeys(words))


def indexed_text(text: str) -> str:
    """Return a text as full text indexes it, with its extra words."""
    return " ".join((spaced(text), *extra_words(text)))
