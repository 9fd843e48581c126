"""Safe text: nothing that a terminal obeys, a reader does not see, or a model takes for a frame.

What reaches a model, a terminal or the page goes through `inert`.
"""

import json
import re
import unicodedata
from typing import Final

_EMOJI: Final = (
    "\u00a9\u00ae\u203c\u2049\u2122\u2139\u2190-\u21ff\u2300-\u23ff\u24c2\u25a0-\u27bf"
    "\u2900-\u297f\u2b00-\u2bff\u3030\u303d\u3297\u3299\U0001f000-\U0001faff"
)
"""What a variation selector shows as a picture or as text, and a joiner joins to a picture."""
_JOINING: Final = (
    "\u0620-\u06ff\u0710-\u08ff\u0900-\u0dff\u1000-\u109f\u1780-\u17b3\u17b6-\u17d3\u1820-\u18aa"
    "\ufb50-\ufdff\ufe70-\ufefc\U00011000-\U000113ff"
)
"""Letters and marks of Arabic, Persian, Indic and other scripts that joiners shape."""
_UNSPACED: Final = "\u0e01-\u0eff\u0f00-\u0fff\u1000-\u109f\u1780-\u17b3\u17b6-\u17e9"
"""Letters of Thai, Lao, Tibetan, Burmese and Khmer, whose words a zero-width space divides."""
# Control characters affect the terminal, direction marks display text in another order than it is
# read, and the others are read by models and invisible to people: those with the property
# Default_Ignorable_Code_Point (Unicode 16, DerivedCoreProperties.txt), and the other characters of
# the category Cf that have no picture. A joiner or selector stays where it changes the character
# before it, once.
_HIDDEN: Final = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200e\u200f"
    "\u2028-\u202e\u2060-\u206f\u3164\ufe00-\ufe0d\ufeff\uffa0\ufff0-\ufffb"
    "\U00013430-\U0001343f\U00016fe4\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff]"
    f"|(?<![{_EMOJI}])[\ufe0e\ufe0f](?!(?<=[0-9#*].)\u20e3)"
    f"|(?<![{_JOINING}])\u200c"
    f"|(?<![{_JOINING}])\u200d(?!(?:(?<=[{_EMOJI}].)|(?<=[{_EMOJI}]\ufe0f.))[{_EMOJI}])"
    f"|\u200b(?!(?<=[{_UNSPACED}].)[{_UNSPACED}])"
)
_FRAMES: Final = (
    "commonbrain-memory|system|system-reminder|system-instructions?|user-instructions"
    "|user-query|environment-context|user-prompt-submit-hook|function-(?:calls|results?)"
    "|tool-(?:calls?|results?|use)|start-of-turn|end-of-turn"
).replace("-", r"[\s_\u2010-\u2015-]?")
_MARK: Final = re.compile(
    rf"<(?=\s*+/?\s*+(?:(?:{_FRAMES})[\s/>]|<\s*+/?\s*+sys\s*+>))"
    r"|<(?=\s*+\|[^\s|<>]{1,40}\|\s*+>)"
    r"|\[(?=\s*+/?\s*+INST\s*+\])",
    re.IGNORECASE,
)
"""Where a mark opens that imitates our block, or one of a client or a chat format, or closes it."""


def inert(text: str) -> str:
    """Remove invisible characters with effects, and open marks of frames with `(`.

    Tab, newline, and what emoji and scripts need stay.
    """
    # Printable ASCII has none of them, and checking that first is much faster.
    if not (text.isascii() and text.isprintable()):
        text = _HIDDEN.sub("", text)
    return _MARK.sub("(", text) if text.isascii() else _without_marks(text)


def _without_marks(text: str) -> str:
    """Open marks with `(` also if they are written in full-width or other forms of letters."""
    if unicodedata.is_normalized("NFKC", text):
        return _MARK.sub("(", text)
    plain = (unicodedata.normalize("NFKC", one) for one in text)
    folded = "".join(new if len(new) == 1 else old for new, old in zip(plain, text, strict=True))
    parts: list[str] = []
    done = 0
    for mark in _MARK.finditer(folded):
        parts += [text[done : mark.start()], "("]
        done = mark.end()
    return "".join([*parts, text[done:]])


def inert_line(text: str) -> str:
    """Return a text as one safe line."""
    return inert(" ".join(text.split()))


def inert_part(text: str) -> str:
    """Return a text as one safe part of a line whose parts are divided by bars."""
    return inert_line(text).replace("|", "/")


def escaped(written: str) -> str:
    """Return equivalent JSON with those characters, and the first of marks, as escapes."""
    shown = _HIDDEN.sub(lambda match: json.dumps(match[0])[1:-1], written)
    return _MARK.sub(lambda match: f"\\u{ord(match[0]):04x}", shown)


def pluralize(count: int, one: str, *, many: str) -> str:
    """Return a count with its noun."""
    return f"{count:,} {one if count == 1 else many}"
