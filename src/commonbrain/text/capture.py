"""Capture: choose the little of an agent's message that is worth storing unasked.

Most messages report work that the work itself documents. Worth storing are passages with lasting
content (a decision, a cause, a fix, a lesson) and whatever the author tagged.
"""

import re
from typing import Final

from commonbrain.model.kinds import Kind
from commonbrain.model.limits import HANDOFF_CHARS_MAX
from commonbrain.text.classification import classify, tagged_texts
from commonbrain.text.clause_roles import Role, role_of, states_cause
from commonbrain.text.clauses import is_factual
from commonbrain.text.normalisation import normalise, without_injected_context
from commonbrain.text.patterns import lazy_pattern
from commonbrain.text.segmentation import CHUNK_WORDS_MIN, count_words, passages
from commonbrain.text.statements import Statement, read_statement

CAPTURED_CHARS_MAX: Final = 1000
"""Characters that one message may add; a report of several screens is not a memory."""
_GAP: Final = "[...]"
_FENCED: Final = lazy_pattern(r"^[ \t]{0,3}(?:```|~~~)")
_INFORMATIVE: Final = lazy_pattern(
    r"\b(?:lessons? learn(?:ed|t)|learn(?:ed|t) that|turn(?:s|ed) out|root cause|"
    r"(?:cause|problem|culprit|reason|bug|fix|solution) (?:was|is)|caused by|"
    r"(?:fixed|solved|resolved|worked around) (?:\w+ ){0,6}?by|work-?around|"
    r"decided|decision|(?:chose|chosen|opted|settled on|agreed|prefer(?:s|red)?)|"
    r"instead of|rather than|from now on|going forward|never|always)\b",
    re.IGNORECASE,
)


def select_captured(text: str, mode: str) -> list[str]:
    """Choose what to store of a message: nothing (`off`), tagged lines (`tags`), or more (`turns`).

    `turns` gives one text of tagged and other lasting passages; the write path splits it.
    """
    match mode:
        case "tags":
            return marked_lines(text)
        case "turns":
            chosen = informative_passages(text)
            return [chosen] if chosen else []
        case _:
            return []


def informative_passages(text: str) -> str:
    """Return the passages with lasting content; empty if there are none."""
    chosen: list[str] = []
    budget = CAPTURED_CHARS_MAX
    for passage in _passages(text):
        is_whole = count_words(passage) >= CHUNK_WORDS_MIN
        is_worth = tagged_texts(passage) or (is_whole and is_informative(passage))
        if is_worth and len(passage) < budget:
            chosen.append(passage)
            budget -= len(passage) + 2
    return "\n\n".join(chosen)


def is_informative(text: str) -> bool:
    """Return whether a text states a decision, cause, fix or lesson."""
    return _INFORMATIVE.search(text) is not None


def marked_lines(text: str) -> list[str]:
    """Return the lines that their author tagged."""
    prose = "\n".join(_passages(text))
    return [line.strip() for line in prose.split("\n") if tagged_texts(line)]


def _passages(text: str) -> list[str]:
    """Split a message into passages of prose, without code and injected context."""
    whole = passages(without_injected_context(normalise(text)))
    return [one for one in whole if not _FENCED.match(one)]


def both_ends(text: str, *, chars_max: int = HANDOFF_CHARS_MAX) -> str:
    """Return the passages from both ends of a text that fit: its purpose and its next steps.

    A summary begins with the purpose and ends with the next steps; the middle can be dropped.
    """
    whole = passages(without_injected_context(normalise(text)))
    head: list[str] = []
    tail: list[str] = []
    budget = chars_max - len(_GAP) - 4
    takes_first = True
    while whole and len(whole[0 if takes_first else -1]) + 2 <= budget:
        taken = whole.pop(0) if takes_first else whole.pop()
        budget -= len(taken) + 2
        if takes_first:
            head.append(taken)
        else:
            tail.insert(0, taken)
        takes_first = not takes_first
    if not head and whole:
        head = [whole.pop(0)[:budget]]
    return "\n\n".join([*head, *([_GAP] if whole else []), *tail])


_WORDS_MIN: Final = 4
_WORDS_MAX: Final = 40
"""A longer sentence states several things."""
_LEANING: Final = lazy_pattern(
    r"\W*(?:it|its|this|that|these|those|they|them|their|he|she|his|her|there|which|who|and|but|or"
    r"|also|then|so|because|yes|yeah|no|ok|okay|well|oh|hey|hi|thanks|sure|sorry|wow)\b",
    re.IGNORECASE,
)
"""Openings of a sentence that depends on an earlier one."""
_LASTING: Final = lazy_pattern(
    r"\b(?:prefers?|favou?rite|allergic|vegetarian|vegan|hates?|loves?|owns|maintains|"
    r"is responsible for|is in charge of|works? (?:at|as|for)|works on|lives? in|"
    r"is (?:called|named)|uses?|runs? on|depends? on|requires?|supports|defaults? to"
    r"|is (?:set|configured) to|"
    r"listens? on|is (?:hosted|deployed|stored|kept) (?:on|in|at))\b",
    re.IGNORECASE,
)
"""Typical words of preferences, responsibilities and configuration."""


_PASSING: Final = lazy_pattern(
    r"\b(?:today|yesterday|tonight|tomorrow|this (?:morning|afternoon|evening|week)|right now"
    r"|so far|at the moment|for now|still|at \d{1,2}:\d\d)\b",
    re.IGNORECASE,
)
"""Times that bind a statement to its day."""
_FIRST_PERSON: Final = lazy_pattern(r"\W*i\b", re.IGNORECASE)


def is_durable(text: str) -> bool:
    """Return whether a sentence may be proposed as a fact.

    It states a decision, convention, cause, preference, owner or configuration that holds beyond
    its day. It is neither a question, a plan, an instruction, an open point nor a report that work
    goes on, and does not depend on another sentence.
    """
    role = role_of(text)
    if role is None or role is Role.OPEN or _PASSING.search(text):
        return False
    is_decision = role is Role.DECIDED and not _FIRST_PERSON.match(text)
    is_lasting = is_decision or states_cause(text)
    if role is not Role.DONE:
        is_lasting = is_lasting or is_informative(text) or _LASTING.search(text) is not None
    return is_lasting and is_claimable(text)


def is_claimable(text: str) -> bool:
    """Return whether a sentence makes a statement of its own that is not a rule.

    Rules are never extracted from a text: one sentence does not make a rule.
    """
    if not _WORDS_MIN <= len(text.split()) <= _WORDS_MAX or _LEANING.match(text):
        return False
    kind = classify(text)
    # What was decided or learned holds on; of a failure, its cause does when it is over.
    is_fact = kind in {Kind.FACT, Kind.EVENT} or (kind is Kind.INCIDENT and states_cause(text))
    return is_fact and is_factual(text) and read_statement(Statement(text=text)).is_claim
