"""Capture: choose the little of an agent's message that is worth storing unasked.

Most messages report work that the work itself documents. Worth storing are passages with lasting
content (a decision, a cause, a fix, a lesson) and whatever the author tagged.
"""

from typing import Final

from commonbrain.model.limits import HANDOFF_CHARS_MAX
from commonbrain.text.classification import own_lines, tagged_texts
from commonbrain.text.clauses import is_factual, is_question
from commonbrain.text.frames import stems_of
from commonbrain.text.normalisation import normalise, without_injected_context
from commonbrain.text.quotations import first_indent, without_quotations, without_quoted_words
from commonbrain.text.reports import (
    ClauseType,
    reports_decision,
    role_of,
    states_cause,
    states_decision,
    states_failure,
)
from commonbrain.text.search_words import count_words
from commonbrain.text.segmentation import CHUNK_WORDS_MIN, GAP, passages
from commonbrain.text.words import Phrases, Sort, read_words

CAPTURED_CHARS_MAX: Final = 1000
"""Characters that one message may add; a report of several screens is not a memory."""
_LESSON: Final = Phrases("lesson*,learned that,workaround,worked around,prefer*")
_FIXING: Final = stems_of("fix solve resolve")
_BY_WITHIN: Final = 8
"""Words after "fixed" within which "by" tells how."""


_JUDGED_CHARS_MAX: Final = 20_000
"""Characters of a message without a tag that are judged, which costs time."""


def select_captured(text: str, mode: str) -> list[str]:
    """Choose what to store of a message: nothing (off), tagged lines (propose), or more (auto).

    `auto` gives one text of tagged and other lasting passages, which is stored as one memory.
    """
    match mode:
        case "propose":
            return marked_lines(text)
        case "auto":
            chosen = informative_passages(text)
            return [chosen] if chosen else []
        case _:
            return []


def informative_passages(text: str) -> str:
    """Return the passages with lasting content; empty if there are none."""
    chosen: list[str] = []
    budget, judged = CAPTURED_CHARS_MAX, 0
    for passage in _passages(text):
        if len(passage) >= budget:
            continue
        is_worth = bool(tagged_texts(passage))
        if not is_worth and count_words(passage) >= CHUNK_WORDS_MIN:
            judged += len(passage)
            is_worth = judged <= _JUDGED_CHARS_MAX and is_informative(without_quoted_words(passage))
        if is_worth:
            chosen.append(passage)
            budget -= len(passage) + 2
    return "\n\n".join(chosen)


def is_informative(text: str) -> bool:
    """Return whether a text states a decision, cause, fix, preference or lesson."""
    words = read_words(text)
    is_fix = any(
        word.stem in _FIXING and any(one.plain == "by" for one in words[n + 1 : n + _BY_WITHIN])
        for n, word in enumerate(words)
    )
    return is_fix or states_cause(text) or _LESSON.are_in(words) or states_decision(text)


def marked_lines(text: str) -> list[str]:
    """Return the lines that their author tagged."""
    prose = "\n\n".join(_passages(text))
    own = own_lines(prose)
    lines = (line.strip() for line in prose.split("\n"))
    return [line for line in lines if line in own and tagged_texts(line)]


def _passages(text: str) -> list[str]:
    """Split a message into passages of its author, without quotations and injected context."""
    own = without_injected_context(first_indent(text) + normalise(text), gap=f"{GAP}\n")
    return passages(without_quotations(own))


def both_ends(text: str, *, chars_max: int = HANDOFF_CHARS_MAX) -> str:
    """Return the passages from both ends of a text that fit: its purpose and its next steps.

    A summary begins with the purpose and ends with the next steps; the middle can be dropped.
    """
    whole = passages(without_injected_context(normalise(text)))
    head: list[str] = []
    tail: list[str] = []
    budget = chars_max - len(GAP) - 4
    while whole:
        place = 0 if len(head) == len(tail) else -1
        if len(whole[place]) + 2 > budget:
            break
        budget -= len(whole[place]) + 2
        (tail if place else head).append(whole.pop(place))
    if not head and whole:
        head = [whole.pop(0)[:budget]]
    return "\n\n".join([*head, *([GAP] if whole else []), *reversed(tail)])


_WORDS_MIN: Final = 4
_WORDS_MAX: Final = 40
"""A longer sentence states several things."""
_LEANING: Final = frozenset(
    "it its this that these those they them their he she his her there here which who and but or"
    " also then so hence thus therefore because yes yeah no ok okay well oh hey hi thanks thank"
    " sure sorry wow please let if".split()
)
"""Words that open a sentence which depends on an earlier one, or addresses the reader."""
_CODE_SIGNS: Final = frozenset("{}=\\")
_LASTING: Final = Phrases(
    "prefer*,favorite,favourite,allergic,vegetarian,vegan,hates,loves,owns,maintains"
    ",responsible for,in charge of,works at,works as,works for,works on,lives in,is called,is named"
    ",uses,use,run on,runs on,depends on,depend on,requires,require,supports,defaults to"
    ",is set to,is configured to,listens on,listen on,is hosted,is deployed on,is stored,is kept"
)
"""Phrases of preferences, responsibilities and configuration."""
_PASSING: Final = Phrases(
    "today,yesterday,tonight,tomorrow,this morning,this afternoon,this evening,this week,right now"
    ",so far,at the moment,for now,still"
)
"""Times that bind a statement to its day."""


def is_durable(text: str) -> bool:
    """Return whether a sentence may be proposed as a fact.

    It states a decision, convention, cause, preference, owner or configuration that holds beyond
    its day. It is neither a question, a plan, an instruction, an open point nor a report that work
    goes on, and does not depend on another sentence.
    """
    if not _WORDS_MIN <= len(text.split()) <= _WORDS_MAX:
        return False
    role, words = role_of(text), read_words(text)
    if role is None or role is ClauseType.OPEN or _PASSING.are_in(words):
        return False
    is_lasting = is_informative(text) and words[0].plain != "i"
    if role is ClauseType.DONE:
        is_lasting = states_cause(text)
    return (is_lasting or (role is ClauseType.NOTED and _LASTING.are_in(words))) and is_claimable(
        text
    )


def is_claimable(text: str) -> bool:
    """Return whether a sentence makes a statement of its own, and prescribes nothing.

    Rules are never extracted from a text: one sentence does not make a rule. What was decided is a
    fact, also where it is a rule.
    """
    first = next((word.plain for word in read_words(text) if word.sort is not Sort.STOP), "")
    is_short = _WORDS_MIN <= len(text.split()) <= _WORDS_MAX
    if not is_short or first.partition("'")[0] in _LEANING or _CODE_SIGNS.intersection(text):
        return False
    if is_question(text) or text.rstrip().endswith((":", ";")):
        return False
    if reports_decision(text):
        return True
    # The cause of a failure holds when the failure is over.
    is_passing = states_failure(text) and not states_cause(text)
    return not is_passing and role_of(text) is not ClauseType.OPEN and is_factual(text)
