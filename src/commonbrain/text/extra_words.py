"""Words that full text is given for what it does not split from a text or leaves out.

Nearness in meaning does not tell one hash from another, and full text knows no part of a hash, no
emoji, and no Latin name in a sentence without blanks. What is stored and what is asked get the same
words.
"""

from typing import Final

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
_UNSPACED: Final = (
    "\u0e01-\u0edf\u1000-\u109f\u1780-\u17d3\u3040-\u30ff\u3400-\u9fff\uac00-\ud7a3\uf900-\ufaff"
)
"""Letters of scripts that put no blank between a word of theirs and a Latin one."""
_EMBEDDED: Final = lazy_pattern(
    rf"(?<=[{_UNSPACED}])[A-Za-z0-9_]++|(?<![A-Za-z0-9_])[A-Za-z0-9_]++(?=[{_UNSPACED}])"
)


def extra_words(text: str) -> tuple[str, ...]:
    """Return the extra words of a text in lower case, each once; mostly none.

    They are the first seven characters of hashes, the code points of emoji, and Latin words within
    Chinese, Japanese, Korean or Thai.
    """
    words = [one[:_HASH_CHARS] for one in _HASH.findall(text.lower())]
    if not text.isascii():
        words += (f"u{ord(one):x}" for one in _EMOJI.findall(text))
        words += map(str.lower, _EMBEDDED.findall(text))
    return tuple(dict.fromkeys(words))


def indexed_text(text: str) -> str:
    """Return a text as full text indexes it, with its extra words."""
    return " ".join((text, *extra_words(text)))
