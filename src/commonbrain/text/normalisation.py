"""Normalization: one spelling for texts that look the same, in memories and in queries."""

import json
import re
import unicodedata
from collections.abc import Iterator
from itertools import zip_longest
from typing import Any, Final, cast

from commonbrain.model import ids
from commonbrain.model.attachments import ATTACHMENT
from commonbrain.model.escaping import inert
from commonbrain.model.kind_columns import settable_columns
from commonbrain.model.memory import Draft, with_texts
from commonbrain.model.recall_result import HEADING
from commonbrain.text.patterns import lazy_pattern
from commonbrain.text.private_parts import CONTROLS, without_private
from commonbrain.text.segmentation import split_sentences

_ID: Final = rf"{ids.MEMORY}_[0-9A-HJKMNP-TV-Z]{{13}}"
_ITEM: Final = lazy_pattern(rf"\s*\[\d{{1,3}}\] {_ID}(?: \||\s*$)")
_OMISSION: Final = lazy_pattern(r"\s*\d{1,9} more left out; [^.]{1,40} or (?:raise )?max_tokens\.")
_JSON: Final = lazy_pattern(
    rf'\{{\s*(?:"notice"\s*:\s*"{re.escape(HEADING)}|"items"\s*:\s*\[\s*\{{\s*"id"\s*:\s*"{_ID}")'
)

_MARK: Final = "commonbrain-memory"
_OPENS: Final = f"<{_MARK}>"
_CLOSES: Final = f"</{_MARK}>"
_BLOCK: Final = lazy_pattern(
    rf"^[ \t>]*{_OPENS}[ \t]*$.*?(?:^[ \t>]*{_CLOSES}[ \t]*(?:\n|\Z)|\Z)",
    re.MULTILINE | re.DOTALL,
)
"""The marks are on lines of their own; a truncated block extends to the end."""


def injected_block(text: str) -> str:
    """Wrap a text in our marks, which `inert` lets no text imitate."""
    return f"{_OPENS}\n{inert(text).strip()}\n{_CLOSES}"


def without_injected_context(text: str, *, gap: str = "") -> str:
    """Remove marked blocks and recall results, as text or JSON; keep the rest.

    Args:
        text: the text.
        gap: what is left in place of a block, or of the lines of a result.

    """
    if _OPENS in text:
        text = _BLOCK.sub(gap, text)
    if f"{ids.MEMORY}_" not in text:
        return text
    return "\n".join(_outside(_without_json(text), gap=gap))


def _outside(text: str, *, gap: str) -> Iterator[str]:
    """Return the lines outside results: not a heading, item, quoted line or count."""
    is_inside = False
    for line in text.split("\n"):
        opens = HEADING in line or _ITEM.match(line) is not None
        is_quoted = is_inside and line.lstrip().startswith(">")
        if opens and not is_inside and gap:
            yield gap
        is_inside = opens or is_quoted
        if not is_inside and not _OMISSION.fullmatch(line):
            yield line


def _without_json(text: str) -> str:
    parts: list[str] = []
    done = 0
    while match := _JSON.search(text, done):
        end = _end_of_answer(text, match.start())
        if end is None:
            # Truncated or altered; trying every later brace would take quadratic time.
            break
        parts.append(text[done : match.start()])
        done = end
    return "".join([*parts, text[done:]])


def _end_of_answer(text: str, start: int) -> int | None:
    try:
        value, end = json.JSONDecoder().raw_decode(text, start)
    except (ValueError, RecursionError):
        return None
    answer = cast("dict[str, Any]", value)
    return end if {"items", "verdict", "trace_id"} <= answer.keys() else None


_TRAILING: Final = lazy_pattern(r"(?<![ \t])[ \t]+$", re.MULTILINE)
"""Matches once per run of spaces; from each space, a long run would take quadratic time."""
_LONG: Final = frozenset(column.name for column in settable_columns() if column.is_long)
"""Columns that may have several lines."""


def normalise(text: str) -> str:
    """Apply Unicode NFC and remove carriage returns, control characters and trailing spaces.

    Private parts are removed, too: every text goes through here before it is stored.
    """
    # A lone surrogate cannot be written as UTF-8; it becomes a question mark.
    printable = text.encode("utf-8", "replace").decode("utf-8")
    composed = unicodedata.normalize("NFC", printable)
    plain = composed.replace("\r\n", "\n").replace("\r", "\n")
    # A control character within a mark does not hide it.
    return _TRAILING.sub("", without_private(CONTROLS.sub("", plain))).strip()


def normalise_line(text: str | None) -> str | None:
    """Normalize a single line such as a name; None if it is blank."""
    return " ".join(normalise(text or "").split()) or None


def normalise_draft(draft: Draft) -> Draft:
    """Normalize the texts of a draft; an empty text stays empty, for validation to reject.

    Private parts are removed from all texts, evidence blocks of an earlier recall from the body.
    """
    return with_texts(draft, _spelt)


def _spelt(name: str, text: str) -> str:
    if name == ATTACHMENT:
        return without_private(text)
    if name == "body":
        return normalise(without_injected_context(normalise(text)))
    return normalise(text) if name in _LONG else normalise_line(text) or ""


_OPENING: Final = lazy_pattern(
    r"(?P<bullet>(?:(?:[-*+\u2022>]|\d+[.)])\s)*)"
    r"(?P<first>(?:[AI]|[^\W\d_]{2,})(?:['\u2019-][^\W\d_]+)*)(?=[,;:.!?]*(?:\s|$))"
)
"""The first word of a sentence, if it is made of letters alone."""
_SHOUTED: Final = lazy_pattern(r"[^\W_]+(?:['\u2019-][^\W\d_]+)*[,;:.!?]*")
_SHOUTED_WORDS_MIN: Final = 4
"""Fewer words in capitals may be a name, a constant or a command."""


def is_same_text(one: str, other: str) -> bool:
    """Return whether two texts differ only in spacing and in capitals that mean nothing.

    Those are the first letter of a sentence that begins with an ordinary word, and sentences that
    are written in capitals. Any other capital may tell identifiers, flags, paths or names apart.
    """
    is_alike = " ".join(one.split()).casefold() == " ".join(other.split()).casefold()
    return is_alike and not differ_in_capitals(one, other)


def differ_in_capitals(one: str, other: str) -> bool:
    """Return whether two texts have the same words, but not the same capitals in them."""
    one, other = " ".join(one.split()), " ".join(other.split())
    if one == other or one.casefold() != other.casefold():
        return False
    return not all(
        _with_small_start(here) == _with_small_start(there)
        or (here.casefold() == there.casefold() and (_is_shouted(here) or _is_shouted(there)))
        for here, there in zip_longest(split_sentences(one), split_sentences(other), fillvalue="")
    )


def _with_small_start(sentence: str) -> str:
    match = _OPENING.match(sentence)
    if match is None or match["first"][1:].lower() != match["first"][1:]:
        return sentence
    return f"{match['bullet']}{match['first'].lower()}{sentence[match.end() :]}"


def _is_shouted(sentence: str) -> bool:
    words = sentence.split()
    is_upper = len(words) >= _SHOUTED_WORDS_MIN and sentence.isupper()
    return is_upper and all(_SHOUTED.fullmatch(word) for word in words)
