"""Rule-based parsing of a clause: subject and verb, and whether it states a fact.

Every pattern is linear on hostile text: none repeats within a repeat.
"""

from collections.abc import Iterator, Sequence
from typing import Final

from commonbrain.text.patterns import lazy_pattern
from commonbrain.text.words import PAST_TENSE, UNCHANGED

_EDGE: Final = " \t\"'`*_,;:.!?()[]{}\u2014\u2013-"
"""Characters around a word or clause that carry no meaning."""

AUXILIARIES: Final = frozenset(
    "is are was were has have had does do did can cannot am be been isn't aren't wasn't weren't"
    " hasn't haven't hadn't doesn't don't didn't can't couldn't won't it's that's there's"
    " could would wouldn't".split()
)
_PAST: Final = (
    PAST_TENSE | UNCHANGED | frozenset("bound caved misread outgrew outran wound".split())
)
_PLAIN: Final = frozenset("run live go come start stop use take keep make need fail work".split())
_VERBS: Final = AUXILIARIES | _PAST | _PLAIN
_ADVERBS: Final = frozenset("never always still often not also just now both all only".split())
_NO_VERBS: Final = frozenset(
    "this its his us bus status process access address always perhaps towards as was has is"
    " business analysis basis previous various less unless plus news series class need speed feed"
    " seed hundred red bed shed used-up indeed based cached shared signed nested".split()
)
_DETERMINERS: Final = frozenset(
    "the a an this that these those my our your its his her their no every each some any all both"
    " two three four five of in on at by for with from to and or new old many few more".split()
)
_LINKS: Final = frozenset(
    "who which than as if when because since but so while until after before without into over"
    " under between during through across about against within per via only also just there".split()
)
_LINKING: Final = _DETERMINERS | _LINKS
_BRACKETED: Final = "()"
"""A word within brackets, which is neither subject nor verb."""
_UNREAL: Final = lazy_pattern(
    r"\b(?:would(?! not (?:build|start|boot))|(?<!nobody )could(?! no longer| not(?! have| be))"
    r"|might|should|must|shall|will|won't|wouldn't(?! (?:build|start|boot|load|open|compile|connect"
    r"|run|install|respond|stop|let)\b)|couldn't (?:have|be)|shouldn't|may not|may be|may have"
    r"|may cause|may lead|may result|'ll|going to|plans? to|planning to|wants? to|needs? to"
    r"|ought to|supposed to|let's|let us|please|todo|to-do|suppose|supposing|imagine|assume"
    r"|assuming|maybe|perhaps|probably|possibly|presumably|potentially|likely|suspects?|suspected"
    r"|suspicion|i think|i guess|i believe|my guess|my hunch|my theory|i bet|i'd say|we think"
    r"|we believe|not sure|unclear|seems?|seemed|seemingly|apparently|allegedly|supposedly"
    r"|hopefully|theory is|hypothesis|in theory|if only|unless|make sure|be sure|ensure that"
    r"|tomorrow|next (?:week|month|sprint|year|quarter|time|release)|false that|not true that"
    r"|untrue|nobody has shown|no evidence|no proof|no sign|doubts?|doubt it|denied|denies|rumou?r"
    r"|what if|in case|wonder|wondering|risk of|wish|whether|unlikely|myth|misconception|mistakenly"
    r"|wrongly|ruled? out that|disagree[sd]?|disputes? that|disputed that|lied|lying|contrary to"
    r"|according to|reportedly|(?:argue|claim|allege|insist|pretend|speculate|suggest|say)s? that"
    r"|said that|(?:argu|claim|alleg|insist|pretend|speculat)ed that|said to|thought to|believed to"
    r"|rumoured to|(?:it is|it's|it was) (?:simply |just |plain )?(?:false|wrong|incorrect"
    r"|a lie) that|(?:was|were|been) told|which is (?:wrong|false|untrue|not true|nonsense)"
    r"|(?:tests?|specs?) (?:checks?|asserts?|verify|verifies|ensures?) that|(?:in"
    r"|during) (?:[a-z]{1,12} )?(?:[a-z]{1,12} )?(?:drill|rehearsal|simulation|dry run)"
    r"|simulations? (?:show|shows|showed|suggests?|suggested|predicts?|predicted))\b|, (?:what|how"
    r"|any ideas?|can i|should i)\b|\b(?:i|we|you|they)'d (?!been|had)|^sorry\b|^(?:proposal|todo"
    r"|idea|plan): |^it(?:'s| is| was) (?:simply |just |plain )?(?:false|wrong|incorrect|a lie):"
    r"|^had (?:the|it|we|they|he|she|i|you|our|this|that|these|those|someone|somebody|nobody)\b"
    r"|^(?:can|does|do|did|is|was|are|were) (?:the|it|this|that|any|they|we|you|there|our)\b"
)
"""Words that mark a clause in lower case as not factual: modals, plans, guesses, denials."""
_MAY: Final = lazy_pattern(r"(?<!\bin )(?<!\bsince )(?<!\bof )(?<!\bby )\bmay\b")
"""The modal; the month is capitalized or follows a preposition."""
_ORDERS: Final = frozenset(
    "use make ensure restart do don't never always avoid remember consider check run add close open"
    " look ping call ask tell set keep put bump stop start try rotate fix update upgrade remove"
    " delete move rename write read send wait see note follow go get take give let pass pin prefer"
    " revert rebase merge commit push pull deploy roll turn switch enable disable increase reduce"
    " raise lower retry kill scale drain clear flush rebuild escalate page notify contact review"
    " test verify validate log skip ignore leave mark raise report file create copy press click"
    " enter select choose wrap catch return throw replace only focus shoot".split()
)
"""Words that open an instruction."""
_SOFTENING: Final = frozenset("just please then now simply so".split())
"""Words that may precede an instruction."""
_SPEAKERS: Final = frozenset("i we they you".split())


def words(text: str) -> list[str]:
    """Return the words of a clause in lower case, without surrounding punctuation."""
    return [
        bare
        for written in text.split()
        if (bare := written.casefold().replace("\u2019", "'").strip(_EDGE))
    ]


def is_question(text: str) -> bool:
    """Return whether a clause ends with a question mark, also within quotes or brackets."""
    return text.rstrip(_EDGE.replace("?", "")).endswith("?")


def is_factual(text: str) -> bool:
    """Return whether a sentence reports something as a fact.

    Questions, modals, plans, guesses, suppositions, denials and instructions are not factual.
    """
    plain = text.replace("\u2019", "'")
    lowered = plain.lower()
    if is_question(plain):
        return False
    return not _UNREAL.search(lowered) and not _MAY.search(plain) and not is_order(plain)


def is_order(text: str) -> bool:
    """Return whether a clause is an instruction."""
    opening_words = (word for word in words(text[:80]) if word not in _SOFTENING)
    return next(opening_words, "") in _ORDERS


def verb_at(tokens: Sequence[str]) -> int | None:
    """Return the position of the first likely finite verb after the first word.

    If none is recognized, the word after the first plural counts: "two customers embed it".
    """
    places = [place for place, word in enumerate(tokens) if word != _BRACKETED]
    outside = [tokens[place] for place in places]
    likely = (place for place in range(1, len(outside)) if _is_verb_at(outside, place))
    place = next(likely, None) or next(_after_plurals(outside), None)
    return None if place is None else places[place]


def _is_verb_at(tokens: Sequence[str], place: int) -> bool:
    following = tokens[place + 1] if place + 1 < len(tokens) else ""
    before = tokens[place - 1]
    # A noun belongs to what is before it: "Ann's expired certificate", not "it's stuck".
    is_genitive = before.endswith("'s") and before not in AUXILIARIES
    is_noun = is_genitive and following != "" and following not in _LINKING
    return not is_noun and _is_verb(tokens[place], before=before, after=following)


def _after_plurals(tokens: Sequence[str]) -> Iterator[int]:
    for place in range(1, len(tokens)):
        is_many = _may_be_plural(tokens[place - 1]) and tokens[place - 1] not in _NO_VERBS
        is_word = tokens[place].isalpha() and not tokens[place].isupper()
        if is_many and is_word and tokens[place] not in _LINKING:
            yield place


def _is_verb(word: str, *, before: str, after: str) -> bool:
    if word in AUXILIARIES or word in _PAST:
        return before not in {"the", "a", "an"}
    if before in _SPEAKERS and word not in _ADVERBS:
        return word.isalpha() and not word.isupper()
    if word in _NO_VERBS or before in _DETERMINERS or not word.isascii() or word.isupper():
        return False
    if word.endswith("ed"):
        return after not in AUXILIARIES
    is_third = word.endswith("s") and not word.endswith(("ss", "'s", "us", "is"))
    # Before a verb it is a noun.
    is_noun = after in _VERBS or after.endswith("ed")
    return is_third and word.isalpha() and not is_noun


def _may_be_plural(word: str) -> bool:
    return word.endswith("s") and not word.endswith("'s")
