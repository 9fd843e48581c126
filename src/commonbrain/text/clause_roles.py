"""What a clause of a report says: a decision, a result, an open point, or only that work goes on.

Every pattern is linear on hostile text: none repeats within a repeat over the same characters.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from enum import StrEnum
from typing import Final

from commonbrain.text.clauses import has_verb, is_negation, is_question, verb_at, words
from commonbrain.text.patterns import lazy_pattern
from commonbrain.text.segmentation import pieces, split_sentences


class Role(StrEnum):
    """What a clause says; the order is the order in a summary."""

    DECIDED = "Decided"
    DONE = "Done"
    NOTED = "Noted"
    OPEN = "Open"


_GREETING: Final = lazy_pattern(
    r"\W*(?:(?:good |happy )?(?:morning|afternoon|evening|night|friday)|hi|hello|hey|hm+|ok(?:ay)?"
    r"|thanks?|thank you|great|nice|cool|sorry|see you|bye|welcome|congratulations|lunch|break"
    r"|yes|no(?= problem| worr| thank| idea|,|\W*$)|yep|nope|sure|agreed|done"
    r"|waited|ideas|heartbeat ok)\b[^.:;\d]{0,40}[.!?\s]*$",
    re.IGNORECASE,
)
_PROGRESS: Final = lazy_pattern(
    r"\W*(?:(?:i |we |i'm |i am |we're |we are |now |just |still |also )*"
    r"(?:start(?:ed|ing|s)? (?:(?:to |with |on |work|writing|looking|reading|reviewing)|\w+ing\b)"
    r"|began|begin(?:ning|s)?|look(?:ing|ed)? (?:at|into|for|through|over)"
    r"|work(?:ing|ed) (?:on|through)"
    r"|continu(?:e|es|ed|ing)|investigat(?:e|ing)|check(?:ing)? (?:the|a|on|if|whether|in)"
    r"|let(?:'s| us| me) (?:see|check|look|try|start|do)"
    r"|(?:i will|i'll|next i will) (?:look|check|try|see)"
    r"|will (?:look|check|try|review|see)|about to|trying|reading|reviewing|thinking|preparing"
    r"|writing|sketching|comparing|waiting|debugging|exploring|digging)\b)",
    re.IGNORECASE,
)
"""Openings that say that work goes on, not what came of it."""
_GERUND: Final = lazy_pattern(r"\W*(?:still |now |also |just )?[a-z]{2,20}ing\b", re.IGNORECASE)
_DECIDED: Final = lazy_pattern(
    r"\b(?:decid(?:e|ed|es)|decisions?|agreed?(?: that| to| on| with)|settled on|chose|chosen|opted"
    r"|resolved to|signed off|from now on|going forward|no longer|instead of|rather than"
    r"|(?:is|are) (?:allowed|limited|required|replaced by|switched off|dropped|banned)"
    r"|polic(?:y|ies)|convention|the (?:goal|target|deadline|rule) (?:is|for|of)"
    r"|(?:must|shall|may) (?:not |never |only )?\w+"
    r"|(?<!has )(?<!have )(?<!was )(?<!were )(?:never|always) \w+|holds? back)\b",
    re.IGNORECASE,
)
_DECISION: Final = lazy_pattern(
    r"\W*(?:(?:\w+ ){0,3}(?:decided|decision|agreed|settled on|chose)\b"
    r"|(?:the )?(?:ADR|RFC|proposal)[- ]?[\w-]{0,12} (?:(?:is|was|has been) )?"
    r"(?:accepted|adopted|approved|rejected)\b"
    r"|let(?:'s|\u2019s| us) (?:not |now |all )?(?:use|go (?:with|for|back)|keep|adopt|take|drop"
    r"|stick|switch|stay|move|pick|choose|build|store|put|make|avoid|remove|replace|rename|pin"
    r"|host|ship|add)\b"
    r"|(?:we|i)(?: are|['\u2019]re| am|['\u2019]m| will|['\u2019]ll)?(?: now)?"
    r" (?:go|going|went) with\b)",
    re.IGNORECASE,
)
_UNDECIDED: Final = lazy_pattern(
    r"\b(?:not|never|nothing|nobody|no one|(?:has|have|is|are|was|were|did|could|ca)n['\u2019]t"
    r"|cannot|yet to)(?: \w{1,12}){0,2} (?:decided?|agreed?|chosen|choose)\b"
    r"|\b(?:no decision|undecided)\b"
    r"|\bdecisions?(?: \w{1,20}){0,8} (?:is|are|was|were|(?:has|have) been) (?:\w{1,12} )?"
    r"(?:postponed|deferred|delayed|adjourned|put off|left open|open|missing|pending|due)\b",
    re.IGNORECASE,
)
_GUESS: Final = lazy_pattern(
    r"\W*(?:i|we)(?: \w{1,9})? (?:think|hope|guess|believe|suspect|assume|expect|wonder|doubt"
    r"|suppose|fear|feel)\b",
    re.IGNORECASE,
)
_WE_DO: Final = lazy_pattern(
    r"\W*we (?!are\b|were\b|have\b|had\b|was\b|saw\b|need\b|should\b|could\b|can(?:not|'t)?\b|did\b"
    r"|don't know|do not know|still\b|might\b|would\b|\w+ed\b|got\b|ran\b|went\b|took\b|sent\b)"
    r"(?:now |only |also |do not |don't )?[a-z]+\b(?!\?)",
    re.IGNORECASE,
)
"""A present-tense statement of what "we" do: a decision or a convention."""
_OWNS: Final = lazy_pattern(
    r"\b(?:owns?|maintains?|is responsible for|takes? over|i(?: will)? take|is on call|on call)\b",
    re.IGNORECASE,
)
_OPEN: Final = lazy_pattern(
    r"\b(?:open(?: question| point| issue)?:|action(?: item)?:)"
    r"|\b(?:still (?:open|to|has|have|needs?|missing|contains?)"
    r"|not (?:yet|done|settled|started|finished|answered|sure|clear|decided)"
    r"|(?:has|have|is|are) not (?:yet|been|answered|confirmed|read|settled)|hasn't"
    r"|haven't|no answer|no reply|yet\b"
    r"|to-?do|waits? (?:for|until)|waiting for|wait(?:s)? with"
    r"|do not know|don't know|nobody has|remains?|left to|stays? off"
    r"|(?:has|have|needs?) to (?:be |answer|agree|review|confirm|do)"
    r"|someone has|somebody has|to be (?:done|run|written|added|replaced|decided)|does not start"
    r"|must (?:first|still)|before \w+ can|ask(?:s|ed) (?:whether|if)|due (?!to\b(?! be\b))\w+"
    r"|follow[- ]up|clarif(?:y|ies)|next steps?|review is with)\b"
    r"|(?<!valid )(?<!leave )\b(?:until|by|before|due) (?:the end of )?"
    r"(?:tomorrow|tonight|next week|(?:mon|tues|wednes|thurs|fri|satur|sun)day"
    r"|\d{1,2} (?:january|february|march|april|may|june"
    r"|july|august|september|october|november|december)|20\d\d-\d\d-\d\d)\b",
    re.IGNORECASE,
)
"""Words of what is not finished or answered, and terms that are still to come."""
_STATES: Final = frozenset(
    "blocked pending unclear unknown unsettled unresolved unexplained missing remaining".split()
)
"""Adjectives of what is open, unless they only describe a noun: "the missing index was added"."""
_STATE: Final = "|".join(sorted(_STATES))
_OPEN_STATE: Final = lazy_pattern(
    rf"^\W*(?:(?:{_STATE})\s*[:\u2013\u2014]|what is (?:still )?(?:{_STATE})\b)"
    rf"|(?<!that )(?<!\w which )(?<!what )\b(?:is|are|am|be|been|(?P<past>was|were)|seems?|looks?"
    rf"|(?:it|that|there)['\u2019]s|(?:we|they)['\u2019]re) (?:(?:still|now|currently|also|again"
    rf"|all|both|partly|mostly|completely) ){{0,2}}(?:{_STATE})\b"
    rf"|\bthere (?:is|are) (?:\w{{1,20}} ){{0,6}}(?:{_STATE})\b",
    re.IGNORECASE,
)
_FAILS_STILL: Final = lazy_pattern(
    r"\bstill (?:\w{1,12} )?(?:fails?|failing|crash(?:es|ing)|breaks?|broken|times out)\b"
    r"|\b(?:fails?|failing|crash(?:es|ing)|breaks?|broken|times out) again\b"
    r"|\bagain (?:fails?|crashes)\b",
    re.IGNORECASE,
)
_DONE: Final = lazy_pattern(
    r"\b(?:fixed|solved|resolved|merged|released|deployed|shipped|rolled (?:back|out)|reverted"
    r"|is (?:live|done|merged|deployed|ready|implemented|written|approved|closed|moved|up|back)"
    r"|are (?:live|done|merged|deployed|ready|implemented|moved|added|kept|masked)"
    r"|works? (?:again|now)|ran through|went through|passed|since \d{1,2}:\d\d|now \w+s)\b",
    re.IGNORECASE,
)
_FAILED: Final = lazy_pattern(
    r"\b(?:fails?|failed|failing|broke|crash(?:es|ed)|timed out|aborted|was rejected)\b",
    re.IGNORECASE,
)
_REPAIRED: Final = lazy_pattern(
    r"\b(?:fixed|solved|resolved|no longer|did not|didn't)\b", re.IGNORECASE
)
_PASSIVE: Final = lazy_pattern(
    r"\b(?:was|were|(?:was|were)n['\u2019]t|(?:has|have|had) been|got) "
    r"(?:(?:\w{1,14}ly|now|not|never|just|also|then|again|already|all|both|once|soon) ){0,3}"
    r"(?P<participle>\w{2,20}ed|done|undone|made|sent|set|reset|put|cut|built|rebuilt|written"
    r"|rewritten|given|taken|chosen|kept|brought|drawn|split|run|rerun|sold|paid|withdrawn|frozen"
    r"|thrown away|shut down|taken over)\b",
    re.IGNORECASE,
)
_NO_RESULTS: Final = frozenset(
    "used needed supposed expected planned scheduled required located called named asked noticed"
    " observed detected reported affected blocked delayed postponed caused tired interested limited"
    " based related indeed involved surprised confused concerned worried overloaded exhausted"
    " corrupted leaked hacked rejected refused denied exceeded interrupted damaged".split()
)
"""Participles that say what was the case, or was suffered, not what was done."""
_FINITE: Final = frozenset(
    "is are was were has have had can cannot will must should may do does don't can't".split()
)
_RESULT_VERBS: Final = frozenset(
    "sent made cut set put shut took gave wrote rebuilt built found got kept brought chose reset"
    " began told paid went ran came led left held hit lost broke".split()
)
_CAUSE: Final = lazy_pattern(
    r"\b(?:because|root cause|cause(?:d| is| was|:)|due to|turn(?:s|ed) out|the reason"
    r"|learn(?:ed|t)|lesson)\b",
    re.IGNORECASE,
)
_LABEL: Final = lazy_pattern(
    r"\W*(?:decision|decided|agreed|result|update|fyi|note|postmortem|action(?: item)?|still open"
    r"|open question(?: for \w+)?|question|open|not done|todo|to-do)\s*:\s*",
    re.IGNORECASE,
)
_LEAD: Final = lazy_pattern(
    r"\W*(?:we|i)(?: have|'ve)?(?: also| now)? (?:decided|agreed) (?:that|to) ",
    re.IGNORECASE,
)
"""Openings that the heading of a section says already."""
_NEXT_CLAUSE: Final = lazy_pattern(r"; |, (?:and |but |while )| [\u2013\u2014] ")
_SUBORDINATE: Final = lazy_pattern(
    r",? (?:so that|because|since|which|although|even though|while|as soon as) "
    r"|, (?:so|as|not|who|after|before|but|and) "
)
_DEPENDENT: Final = lazy_pattern(
    r",? (?:after|although|though|even though|when|while|because|before|until|once|unless|so that"
    r"|which|as soon as|since(?! \d)) ",
    re.IGNORECASE,
)
_DEPENDENT_FIRST: Final = lazy_pattern(
    r"\W*(?:after|although|though|even though|when|while|because|once|as soon as|since) ",
    re.IGNORECASE,
)
_CLAUSE_WORDS_MIN: Final = 5
_SENTENCE_CHARS_MAX: Final = 400


def clauses_of(text: str) -> Iterator[str]:
    """Split a text into its clauses: sentences, and their parts that have a subject and a verb."""
    for sentence in split_sentences(text):
        # A text without sentence ends is cut between words.
        is_long = len(sentence) > _SENTENCE_CHARS_MAX
        parts = pieces(sentence) if is_long else [(0, len(sentence))]
        for start, end in parts:
            yield from _split(sentence[start:end].strip())


def _split(sentence: str) -> Iterator[str]:
    start = 0
    for match in _NEXT_CLAUSE.finditer(sentence):
        head, tail = sentence[start : match.start()], sentence[match.end() :]
        whole = min(len(head.split()), len(tail.split())) >= _CLAUSE_WORDS_MIN
        if whole and has_verb(head) and has_verb(tail) and _has_subject(tail):
            yield head
            start = match.end()
    yield sentence[start:]


def shortened(clause: str) -> str:
    """Return a clause without what its first subordinate clause adds."""
    for match in _SUBORDINATE.finditer(clause):
        head = clause[: match.start()]
        if len(head.split()) >= _CLAUSE_WORDS_MIN and has_verb(head):
            return head
    return clause


def _has_subject(clause: str) -> bool:
    place = verb_at(words(clause))
    return place is not None and place >= 1


def is_progress(text: str) -> bool:
    """Return whether a clause only greets, or says that work goes on."""
    if _GREETING.match(text) or _PROGRESS.match(text):
        return True
    return _GERUND.match(text) is not None and verb_at(words(text)) is None


def role_of(text: str) -> Role | None:
    """Return what a clause says; None if it only greets, or says that work goes on."""
    if is_question(text):
        return Role.OPEN if len(words(text)) >= _CLAUSE_WORDS_MIN else None
    return next((role for role, applies in _ROLES if applies(text)), Role.NOTED)


def states_cause(text: str) -> bool:
    """Return whether a clause names a cause or a lesson."""
    return _CAUSE.search(text) is not None


def states_failure(text: str) -> bool:
    """Return whether a clause says that something failed, and not that this is over."""
    return _FAILED.search(text) is not None and _REPAIRED.search(_main_clause(text)) is None


def without_lead(text: str) -> str:
    """Drop an opening such as "We decided that", which the section says, and the final mark."""
    plain = without_label(text)
    match = _LEAD.match(plain)
    rest = plain[match.end() :] if match else plain
    return (rest if len(rest.split()) > 1 else plain).rstrip(" .;,")


def without_label(text: str) -> str:
    """Drop an opening such as "Decision:"."""
    match = _LABEL.match(text)
    return text[match.end() :] if match and match.end() < len(text) else text


def _main_clause(text: str) -> str:
    """Return a clause without the first clause that depends on it."""
    if _DEPENDENT_FIRST.match(text):
        return text.partition(", ")[2] or text
    match = _DEPENDENT.search(text)
    return text[: match.start()] if match else text


def _is_denied(text: str) -> bool:
    """Return whether the end of a text is denied, from its last comma on."""
    last = text.replace("not only", "").rpartition(",")[2]
    return any(map(is_negation, words(last)))


def _is_open(text: str) -> bool:
    if _OPEN.search(text) or _UNDECIDED.search(text):
        return True
    still = _FAILS_STILL.search(text)
    if still and not _is_denied(text[: still.end()]):
        return True
    state = _OPEN_STATE.search(text)
    if state is None:
        # A note such as "Review pending".
        return (
            bool(_STATES.intersection(words(text)[-1:]))
            and not has_verb(text)
            and not _is_denied(text)
        )
    is_over = state["past"] is not None and _DONE.search(text, state.end()) is not None
    return not is_over and not _is_denied(text[: state.end()])


def _is_decision(text: str) -> bool:
    return _DECISION.match(text) is not None and _UNDECIDED.search(text) is None


def _is_result(text: str) -> bool:
    main = _main_clause(text)
    passive = _PASSIVE.search(main)
    if passive and passive["participle"].casefold() not in _NO_RESULTS:
        return not _is_denied(main[: passive.end()])
    if _DONE.search(main):
        return True
    tokens = words(main)
    place = verb_at(tokens)
    verbs = [tokens[place]] if place is not None else []
    if tokens and not _describes(tokens):
        verbs.append(tokens[0])
    return any(verb.endswith("ed") or verb in _RESULT_VERBS for verb in verbs)


def _describes(tokens: Sequence[str]) -> bool:
    """Return whether the first word describes a subject: "Blocked users cannot log in"."""
    return not _FINITE.isdisjoint(tokens[2:4])


_ROLES: Final[Sequence[tuple[Role | None, Callable[[str], object]]]] = (
    (Role.DECIDED, _is_decision),
    (Role.OPEN, _is_open),
    (None, is_progress),
    (Role.NOTED, _GUESS.match),
    (Role.DECIDED, lambda text: _DECIDED.search(text) or _WE_DO.match(text) or _OWNS.search(text)),
    (Role.NOTED, _CAUSE.search),
    (Role.DONE, _is_result),
)
"""The first that applies is the role; a clause to which none applies is noted."""
