"""Prompts and messages that say too little to be looked up or kept."""

import re
from typing import Final

from commonbrain.text.chunks import count_words

WORDS_MIN: Final = 3
"""Below it a text is a word of assent, a name, a number."""
_COMMAND: Final = re.compile(r"/[\w:-]+(?:\s|$)|!")
"""What begins so is for the client itself: a command by its name, or a line for the shell."""
_LOOKED_AT_CHARS: Final = 2000


def is_trivial(text: str) -> bool:
    """Say whether a text is a command for the client, or too short to be about anything."""
    said = text[:_LOOKED_AT_CHARS].strip()
    return _COMMAND.match(said) is not None or count_words(said) < WORDS_MIN
