"""What a question names exactly: a hash, number, version, path, code, flag or emoji.

Nearness in meaning says nothing of these: 3.11 is as near to 3.12 as to itself. A text has such a
term if it contains it as a whole; of a hash or a path, one may be a part of the other.
"""

import re
from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import chain
from typing import Final

from commonbrain.text.code_names import PLACE, is_path
from commonbrain.text.patterns import lazy_pattern
from commonbrain.text.words import UNITS, Sort, Word, read_words

Forms = tuple[str, ...]
"""The forms of one exact term, of which a text has to have one."""
_TERMS_MAX: Final = 8
"""More are a pasted text, not what a question asks for."""
_CACHED: Final = 512
_DIGITS_MIN: Final = 3
"""A shorter number is exact only after a word: "port 80", but not "top 5 risks"."""
_NUMBER_SHARE: Final = 0.5
"""Value of a whole number without such a word: it may be in a text by chance."""
_NAMES: Final = frozenset({Sort.WORD, Sort.NAME, Sort.CODE})
_HASH_CHARS: Final = 7
"""What Git abbreviates a hash to."""
_HASH: Final = lazy_pattern(
    r"(?<![0-9a-z])(?=[a-f]{0,62}\d)(?=\d{0,62}[a-f])[0-9a-f]{7,64}(?:-[0-9a-f]{4,12}){0,4}"
    r"(?![0-9a-z_])"
)
"""Of Git, a file or an image, or a UUID: hexadecimal with digits and letters, in lower case."""
_SIGNED: Final = lazy_pattern(r"^-|[\d_/.@#:$]")
"""Code that no sentence contains by chance; other names in mixed case are words."""
_NUMBERED: Final = lazy_pattern(r"^[vV#](?=\d)")
_NUMBER: Final = lazy_pattern(r"\d+(?:[.,:/-]\d+)*")
_NUMBER_BEGINS: Final = r"(?<!\d)(?<!\d[.,])"
_NUMBER_ENDS: Final = r"(?=[A-Za-z%]{0,3}(?!\w))(?!\.\d|,\d{3}(?!\d))"
"""A unit may follow without a blank: "25MB"."""
_ENDS: Final = r"(?!\w|[.-]\w)"
_WORD: Final = lazy_pattern(r"[^\W_]+")
_VARIANT: Final = "\ufe0f"
"""Asks for a coloured picture; an emoji is the same without it."""
_PICTURES: Final = (
    "\u231a-\u23ff\u2600-\u27bf\u2b05-\u2b55\U0001f000-\U0001f1e5\U0001f200-\U0001f3fa"
    "\U0001f400-\U0001faff"
)
_PICTURE: Final = f"[{_PICTURES}][\U0001f3fb-\U0001f3ff]?"
_EMOJI: Final = lazy_pattern(rf"[\U0001f1e6-\U0001f1ff]{{2}}|{_PICTURE}(?:\u200d{_PICTURE}){{0,8}}")
"""A flag, or pictures that are joined to one."""
_FACE: Final = lazy_pattern("[\U0001f600-\U0001f64f]")
"""Unicode's block Emoticons: next to words they say in which mood something is asked."""
_UNSPACED: Final = (
    "\u0e01-\u0edf\u1000-\u109f\u1780-\u17d3\u3040-\u30ff\u3400-\u9fff\uac00-\ud7a3\uf900-\ufaff"
)
"""Letters of scripts that put no blank between a word of theirs and a Latin one."""
_EMBEDDED: Final = lazy_pattern(
    rf"(?<=[{_UNSPACED}])[A-Za-z0-9_]++|(?<![A-Za-z0-9_])[A-Za-z0-9_]++(?=[{_UNSPACED}])"
)

_ASKS: Final = (
    r"(?:(?:and|but|so)\s+)?(?:(?:at|by|for|from|in|of|on|to|with)\s+)?"
    r"(?:who|whose|what|when|where|which|why|how|is|are|was|were|do|does|did|can|should|will)\b"
)
_ASKING: Final = lazy_pattern(_ASKS, re.IGNORECASE)
_CUT: Final = lazy_pattern(
    rf"(?<=\?)\s+|(?:(?<=[.,:;!])\s+|(?<=[{_PICTURES}])\s*)(?={_ASKS})", re.IGNORECASE
)
"""Where a question begins or ends."""
_REFERRING: Final = lazy_pattern(r"\b(?:it|this|that|these|those|they|them)\b", re.IGNORECASE)
_CONTENT_WORDS_MIN: Final = 2
"""Content words from which a question says by itself what it is about."""


def asked_part(text: str) -> str:
    """Return the questions of a text that stand by themselves, else the text.

    What is said before or after is background: "We are on Vite 5.0. Where is the proxy?" does not
    ask about 5.0, "Vite 5.0: what is wrong with it?" does.
    """
    parts = _CUT.split(text)
    return " ".join(filter(_is_self_contained, parts)) or text if len(parts) > 1 else text


def _is_self_contained(part: str) -> bool:
    if not _ASKING.match(part) or _REFERRING.search(part):
        return False
    return sum(word.is_content for word in read_words(part)) >= _CONTENT_WORDS_MIN


@lru_cache(maxsize=_CACHED)
def exact_terms(question: str) -> tuple[Forms, ...]:
    """List the exact terms of a question in order, at most eight; mostly none."""
    words = [word for word in read_words(question) if word.sort is not Sort.OPERATOR]
    emoji = [(one,) for one in _emoji(question) if not (words and _FACE.match(one))]
    near = zip([None, *words], words, [*words[1:], None], strict=False)
    others = (_forms(word, before=before, after=after) for before, word, after in near)
    return tuple(dict.fromkeys([*emoji, *filter(None, others)]))[:_TERMS_MAX]


def _emoji(text: str) -> list[str]:
    return [] if text.isascii() else _EMOJI.findall(text.replace(_VARIANT, ""))


def _forms(word: Word, *, before: Word | None, after: Word | None) -> Forms:
    """Return what is to be found of a word; nothing if other texts may say it otherwise."""
    if word.sort not in {Sort.CODE, Sort.NUMBER}:
        return ()
    if hashes := _hashes(word.written):
        return (hashes[0],)
    written = word.plain if word.sort is Sort.NUMBER else _NUMBERED.sub("", word.written)
    if number := _NUMBER.fullmatch(written.lstrip("+-")):
        has_unit = word.written[0].isdecimal() and word.written[-1].isalpha()
        forms = _number_forms(number[0], before=before, after=after)
        return (*forms, word.written) if has_unit else tuple(forms)
    path = PLACE.sub("", word.written).removeprefix("./").removeprefix("~/").strip("/")
    return (path,) if _SIGNED.search(path) and is_path(path) else ()


def _number_forms(number: str, *, before: Word | None, after: Word | None) -> Iterator[str]:
    """Yield a number after its word: "port 80"; a long one alone, or with what it counts."""
    is_long = len(number) >= _DIGITS_MIN
    counts = number.isdecimal() and after is not None and after.plain == f"{after.stem}s"
    if before is not None and before.sort in _NAMES and (is_long or not counts):
        yield f"{before.written} {number}"
    if is_long:
        has_unit = after is not None and not UNITS.keys().isdisjoint({after.plain, after.stem})
        yield f"{number} {after.stem}" if after and counts and not has_unit else number


def _hashes(text: str) -> list[str]:
    return [one.replace("-", "") for one in _HASH.findall(text.lower())]


def exact_share(terms: Sequence[Forms], text: str) -> float:
    """Return the share of exact terms that a text has, 0..1; of a path the parts that it has."""
    if not terms:
        return 0.0
    plain = text.replace(_VARIANT, "")
    lower = plain.lower()
    shares = (max(_share_of(form, plain, lower=lower) for form in forms) for forms in terms)
    return sum(shares) / len(terms)


def _share_of(form: str, text: str, *, lower: str) -> float:
    part, patterns = _patterns(form)
    if part not in lower:
        return 0.0
    if not patterns:
        return float(any(one.startswith(form) or form.startswith(one) for one in _hashes(lower)))
    return next((share for share, pattern in patterns if pattern.search(text)), 0.0)


@lru_cache(maxsize=_CACHED)
def _patterns(form: str) -> tuple[str, Sequence[tuple[float, re.Pattern[str]]]]:
    """Return what finds a form, each with the share of it: of a path also its last parts.

    Every text that has any of it contains the first value in lower case. Hashes have no pattern:
    they are compared.
    """
    if _HASH.fullmatch(form):
        return form[:_HASH_CHARS], ()
    if _EMOJI.match(form):
        return form, [(1.0, lazy_pattern(form))]
    flags = re.ASCII if form.startswith("-") else re.ASCII | re.IGNORECASE
    first, _, last = form.partition(" ")
    if _NUMBER.fullmatch(first):
        rest = rf"\W{{0,3}}{re.escape(last)}\w*" if last else _NUMBER_ENDS
        share = _NUMBER_SHARE if first.isdecimal() else 1.0
        number = lazy_pattern(f"{_NUMBER_BEGINS}{_digits(first)}{rest}", flags)
        return first[-_DIGITS_MIN:], [(share, number)]
    if last:
        body = rf"(?<!\w){re.escape(first)}\W{{0,3}}{_digits(last)}{_NUMBER_ENDS}"
        return last[-_DIGITS_MIN:], [(1.0, lazy_pattern(body, flags))]
    parts = form.split("/")
    plural = "s?" if form[-1].isdecimal() else ""
    whole = lazy_pattern(rf"(?<![\w-])(?<!\w\.){re.escape(form)}{plural}{_ENDS}", flags)
    shorter = ("/".join(parts[at:]) for at in range(1, len(parts)))
    tails = (lazy_pattern(rf"(?<![\w./-]){re.escape(one)}{_ENDS}", flags) for one in shorter)
    shares = (1 - at / len(parts) for at in range(len(parts)))
    return parts[-1].lower(), list(zip(shares, [whole, *tails], strict=True))


def _digits(number: str) -> str:
    """Return a pattern of a number, with or without a sign between its thousands."""
    if not number.isdecimal():
        return re.escape(number)
    return re.sub(r"(?<=\d)(?=(?:\d{3})+$)", "[,']?", number)


def searched_words(question: str) -> tuple[str, ...]:
    """Return what full text finds the exact terms of a question by: phrases and extra words."""
    forms = chain.from_iterable(exact_terms(question))
    phrases = (form for form in forms if len(_WORD.findall(form)) > 1)
    return tuple(dict.fromkeys((*phrases, *map(str.lower, extra_words(question)))))


def indexed_text(text: str) -> str:
    """Return a text as full text indexes it, with its extra words."""
    return " ".join((text, *dict.fromkeys(extra_words(text))))


def extra_words(text: str) -> Iterator[str]:
    """Yield words by which full text finds what it does not split from a text or leaves out.

    Those are the code points of emoji, Latin words inside of a script without blanks, and the first
    seven characters of hashes. What is stored and what is asked have the same.
    """
    if not text.isascii():
        for emoji in _emoji(text):
            yield from (f"u{ord(one):x}" for one in emoji if one != "\u200d")
        yield from _EMBEDDED.findall(text)
    yield from (one[:_HASH_CHARS] for one in _hashes(text))
