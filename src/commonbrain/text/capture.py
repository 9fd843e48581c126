"""What of an agent's message is kept when nobody asked to: by its words, and little of it.

Most turns say what was done, which the work itself tells better. Kept are passages that tell what
outlives it: a decision, a cause, a fix, a lesson; and whatever the writer marked.
"""

import re
from typing import Final

from commonbrain.model.kinds import Kind
from commonbrain.model.limits import HANDOFF_CHARS_MAX
from commonbrain.text.chunks import split
from commonbrain.text.classification import classify
from commonbrain.text.clauses import is_factual
from commonbrain.text.injected_context import without_injected_context
from commonbrain.text.inline_tags import tagged_texts
from commonbrain.text.normalisation import normalise
from commonbrain.text.statements import Statement, read_statement

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
        case "tags":
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
        if (tagged_texts(passage) or is_informative(passage)) and len(passage) < room:
            kept.append(passage)
            room -= len(passage) + 2
    return "\n\n".join(kept)


def is_informative(text: str) -> bool:
    """Say whether a text tells a decision, a cause, a fix or a lesson."""
    return _TELLING.search(text) is not None


def marked_lines(text: str) -> list[str]:
    """Give the lines of a message that their writer marked to be kept."""
    prose = "\n".join(_passages(text, are_slight_kept=True))
    return [line.strip() for line in prose.split("\n") if tagged_texts(line)]


def _passages(text: str, *, are_slight_kept: bool = False) -> list[str]:
    """Cut a message into passages of prose: without code, and without what we had told it."""
    whole = split(without_injected_context(normalise(text)))
    prose = [one for one in whole if not _FENCED.match(one.text)]
    kept = (one for one in prose if are_slight_kept or not one.is_slight or tagged_texts(one.text))
    return [one.text for one in kept]


def both_ends(text: str, *, chars_max: int = HANDOFF_CHARS_MAX) -> str:
    """Give the passages of a text from both its ends that fit: what it was about, what comes next.

    A summary tells its purpose first and its next steps last; the middle is what happened.
    """
    passages = [one.text for one in split(without_injected_context(normalise(text)))]
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


_WORDS_MIN: Final = 4
_WORDS_MAX: Final = 40
"""A longer sentence says several things, and a fact says one."""
_LEANING: Final = re.compile(
    r"\W*(?:it|its|this|that|these|those|they|them|their|he|she|his|her|there|which|who|and|but|or"
    r"|also|then|so|because|yes|yeah|no|ok|okay|well|oh|hey|hi|thanks|sure|sorry|wow)\b",
    re.IGNORECASE,
)
"""How a sentence begins that only makes sense after another one."""
_LASTING: Final = re.compile(
    r"\b(?:prefers?|favou?rite|allergic|vegetarian|vegan|hates?|loves?|owns|maintains|"
    r"is responsible for|is in charge of|works? (?:at|as|for|on)|lives? in|is (?:called|named)|"
    r"uses?|runs? on|depends? on|requires?|supports?|defaults? to|is (?:set|configured) to|"
    r"listens? on|is (?:hosted|deployed|stored|kept) (?:on|in|at))\b",
    re.IGNORECASE,
)
"""How people tell what somebody or something is like: preferences, duties, how it is set up."""


def is_durable(text: str) -> bool:
    """Say whether a sentence of somebody may be proposed as a fact.

    It tells a decision, a lesson, a preference or how something is set up, as so and not as asked,
    planned or ordered, and it leans on no other sentence.
    """
    return bool(is_informative(text) or _LASTING.search(text)) and is_claimable(text)


def is_claimable(text: str) -> bool:
    """Say whether a sentence states something by itself, and binds nobody.

    What binds is never taken from a text: one sentence makes no rule.
    """
    if not _WORDS_MIN <= len(text.split()) <= _WORDS_MAX or _LEANING.match(text):
        return False
    is_fact = classify(text) is Kind.FACT and is_factual(text)
    return is_fact and read_statement(Statement(text=text)).is_claim
