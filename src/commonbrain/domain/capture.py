"""What of an agent's message is kept when nobody asked to: by its words, and little of it.

Most turns say what was done, which the work itself tells better. Kept are passages that tell what
outlives it: a decision, a cause, a fix, a lesson; and whatever the writer marked.
"""

import re
from typing import Final

from commonbrain.domain.chunks import split
from commonbrain.domain.limits import HANDOFF_CHARS_MAX
from commonbrain.domain.marks import marked
from commonbrain.domain.normalise import normalise
from commonbrain.domain.own_evidence import without_own_evidence

KEPT_CHARS_MAX: Final = 1000
"""What one turn may leave; a report of several screens is not a memory."""
_GAP: Final = "[...]"
_FENCED: Final = re.compile(r"^[ \t]{0,3}(?:```|~~~)")
_TELLING: Final = re.compile(
    r"\b(?:lessons? learn(?:ed|t)|learn(?:ed|t) that|turn(?:s|ed) out|root cause|"
    r"(?:cause|problem|culprit|reason|bug|fix|solution) (?:was|is)|caused by|"
    r"(?:fixed|solved|resolved|worked around) (?:\w+ ){0,6}?by|work-?around|"
    r"decided|decision|(?:chose|chosen|opted|settled on|agreed|prefer(?:s|red)?)|"
    r"instead of|rather than|from now on|going forward|never|always)\b",
    re.IGNORECASE,
)


def to_keep(text: str, wanted: str) -> list[str]:
    """Choose what to keep of a message: nothing (off), what is marked (marks), or also the telling.

    With `turns` it is one text, marks included: the write path makes memories of them.
    """
    match wanted:
        case "marks":
            return marked_lines(text)
        case "turns":
            kept = worth_keeping(text)
            return [kept] if kept else []
        case _:
            return []


def worth_keeping(text: str) -> str:
    """Give the passages of a message that tell something lasting; empty when none does."""
    kept: list[str] = []
    room = KEPT_CHARS_MAX
    for passage in _passages(text):
        if (marked(passage) or is_telling(passage)) and len(passage) < room:
            kept.append(passage)
            room -= len(passage) + 2
    return "\n\n".join(kept)


def is_telling(text: str) -> bool:
    """Say whether a text tells a decision, a cause, a fix or a lesson."""
    return _TELLING.search(text) is not None


def marked_lines(text: str) -> list[str]:
    """Give the lines of a message that their writer marked to be kept."""
    prose = "\n".join(_passages(text, are_slight_kept=True))
    return [line.strip() for line in prose.split("\n") if marked(line)]


def _passages(text: str, *, are_slight_kept: bool = False) -> list[str]:
    """Cut a message into passages of prose: without code, and without what we had told it."""
    whole = split(without_own_evidence(normalise(text)))
    prose = [one for one in whole if not _FENCED.match(one.text)]
    kept = (one for one in prose if are_slight_kept or not one.is_slight or marked(one.text))
    return [one.text for one in kept]


def both_ends(text: str, *, chars_max: int = HANDOFF_CHARS_MAX) -> str:
    """Give the passages of a text from both its ends that fit: what it was about, what comes next.

    A summary tells its purpose first and its next steps last; the middle is what happened.
    """
    passages = [one.text for one in split(without_own_evidence(normalise(text)))]
    head: list[str] = []
    tail: list[str] = []
    room = chars_max - len(_GAP) - 4
    takes_first = True
    while passages and len(passages[0 if takes_first else -1]) + 2 <= room:
        taken = passages.pop(0) if takes_first else passages.pop()
        room -= len(taken) + 2
        if takes_first:
            head.append(taken)
        else:
            tail.insert(0, taken)
        takes_first = not takes_first
    if not head and passages:
        head = [passages.pop(0)[:room]]
    return "\n\n".join([*head, *([_GAP] if passages else []), *tail])
