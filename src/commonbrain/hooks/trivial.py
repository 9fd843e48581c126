"""Prompts and messages that say too little to be looked up or kept."""

import re
from typing import Final

from commonbrain.text.segmentation import count_words

WORDS_MIN: Final = 3
"""Below it a text is a word of assent, a name, a number."""
_COMMAND: Final = re.compile(r"/[\w:-]+(?:\s|$)|!")
"""What begins so is for the client itself: a command by its name, or a line for the shell."""
_CHECKED_CHARS: Final = 2000


def is_trivial(text: str) -> bool:
    """Say whether a text is a command for the client, or too short to be about anything."""
    stripped = text[:_CHECKED_CHARS].strip()
    return _COMMAND.match(stripped) is not None or count_words(stripped) < WORDS_MIN
