"""What the user says in a prompt that is to last: rules, wishes, decisions, facts, corrections.

"From now on use pnpm", "no, the port is 5433", "we decided to drop Python 3.9". Orders for one
task, bug reports, questions, suppositions, quotations and texts to be written are none of them. A
sentence counts only if it can be understood without what was said before.
"""

import re
from collections.abc import Iterator
from typing import Final

from commonbrain.model.kinds import Kind
from commonbrain.model.values import dataclass
from commonbrain.text.capture import is_durable
from commonbrain.text.clauses import is_order, is_question, verb_at, words
from commonbrain.text.normalisation import normalise
from commonbrain.text.patterns import lazy_pattern
from commonbrain.text.preferences import ASKED, Guidance, guidance_in
from commonbrain.text.prompts import is_trivial, typed_text
from commonbrain.text.quotations import first_indent, without_quotations, without_quoted_words
from commonbrain.text.reports import states_failure
from commonbrain.text.segmentation import GAP, split_sentences

DECISION: Final = "decision"
"""A fact with this label."""
STATEMENTS_MAX: Final = 3
"""Statements of one prompt; one with more is a specification."""
_CHARS_MAX: Final = 300
_WORDS: Final = range(3, 41)
_LONG_WORDS: Final = 150
"""A longer prompt specifies a task, in which "always" and "never" are of what is to be built."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UserStatement:
    """A sentence that lasts, without the words that introduced it."""

    text: str
    kind: str


def _any(*patterns: str) -> re.Pattern[str]:
    return lazy_pattern("|".join(f"(?:{one})" for one in patterns), re.IGNORECASE)


_SUPPOSED: Final = _any(
    r"^\W*(?:imagine|pretend|suppose|assume|act as|role-?play|hypothetically|let's (?:say"
    r"|assume))\b",
    r"^\W*(?:you are|you're) (?:an?|the) ",
)
"""What opens a prompt whose sentences are of another world."""
_TO_WRITE: Final = _any(
    r"^\W*(?:(?:please|now|then|and|ok(?:ay)?|can you|could you)\W+)*"
    r"(?:write|draft|compose|create|generate|prepare|translate|summari[sz]e|document|rephrase"
    r"|reword|proofread|explain|review|change|set|put|make|add|implement|build|design|test|check)\b"
    r"(?! (?:a )?note\b)"
    r"(?:[^.!?]*\b(?:read ?me|e?-?mail|message|post|article|prompts?|comments?|docstrings?|slogan"
    r"|story|text|page|section|paragraph|label|button|tooltip|polic(?:y|ies)|notes|announcement"
    r"|test"
    r"|rule|letter|answer|reply|document|guide|bot|assistant|agent)\b|.*:| that\b| to \w+:)",
)
"""An order for a text or a thing: what follows is its content."""
_HEDGED: Final = _any(
    r"\b(?:maybe|perhaps|probably|i (?:think|guess|wonder|suspect|suppose)|my (?:guess|hunch)"
    r"|not sure"
    r"|should (?:we|i)|(?:we|they|you|i) (?:could|might|may|can)|what if|might|could we|can we"
    r"|shall we|it (?:seems|looks))\b",
    r"^\W*(?:if|unless) ",
)
_REPORTED: Final = _any(
    r"\b(?:says?|said|wrote|writes|states|claims|told me|according to|reads|suggests|recommends)\b"
)
_ONCE: Final = _any(
    r"\b(?:for now|this (?:time|once)|just once|right now|at the moment|yet|today|tonight|tomorrow"
    r"|until (?:i|we|the|this|that)|in th(?:is|e) (?:pr|pull request|change|commit|branch|diff|file"
    r"|test"
    r"|function|case|task|step|session|conversation)|for th(?:is|e) (?:pr|change|commit|task|one"
    r"|demo)"
    r"|still|so far|again\?)\b"
)
"""What binds an order to the task at hand."""
_OF_TASK: Final = _any(
    r"^(?:the|this|your|my) (?:\w+ ){0,2}(?:bugs?|errors?|problem|issue|failure|tests?|build|diff"
    r"|cause"
    r"|button|title|label|header|color|colour|line)"
    r" (?:is|are|was|were|has|have|comes|lies|happens|fails?|pass(?:es)?|should|in|on|at)\b",
    r"^line \d",
    r"\b(?:should|must|needs? to|has to|ought to)\b",
)
"""What a correction says of the task at hand, which does not last."""
_LEANING: Final = _any(
    r"^\W*(?!it(?:'s| is) (?:important|crucial|essential|critical)\b)(?:it|that|this|these|those"
    r"|they|he"
    r"|she|there|here|which|who|its|their)\b(?! (?:repo|project|repository|codebase|team"
    r"|company)\b)",
    r"^(?:\S+\s+){1,7}(?:it|that|this|them|those|these|so)\W*$",
    r"\b(?:it|that|this|them|those|these|so)\W+(?:instead|again|any ?more|later|way|ones?|here|now"
    r"|too"
    r"|files?|functions?|lines?|errors?|things?|stuff)\b",
    r"\b(?:option|plan|variant) [a-e0-9]\b|\bnext (?:step|task|one)\b",
    r"\b(?:the )?(?:first|second|third|last|other|former|latter|previous|above|same|\w+er) (?:one"
    r"|option"
    r"|approach|version|solution|variant|idea|proposal|file|argument|way)\b",
)
"""What can only be understood by what was said before."""
_OWN_GUIDE: Final = _any(r"^our (?:\w+ ){1,3}(?:says?|states)\b")

_PLEASANTRY: Final = (
    r"(?:ok(?:ay)?|hey|hi|hello|thanks|thank you|great(?: work)?|good|perfect|nice|cool|fine|sure"
    r"|yes"
    r"|yeah|well|oh|and|also|but|so|btw|by the way|one more thing|another thing|just so you know"
    r"|looks (?:good|fine|great)|important|listen|again|please)"
)
_OPENER: Final = lazy_pattern(rf"^\W*(?:{_PLEASANTRY}\b[\s,:;!.\u2013\u2014-]+)+", re.IGNORECASE)
_LASTING: Final = (
    r"(?:from (?:now|here|today)(?: on(?:wards?)?)?|going forward|in (?:the )?future"
    r"|as a (?:general )?rule"
    r"|rule|henceforth)"
)
_LASTS: Final = lazy_pattern(
    rf"^\W*{_LASTING}\b[\s,:\u2013\u2014-]*(?:please always\b)?", re.IGNORECASE
)
_LASTS_LATER: Final = lazy_pattern(
    r"^(?P<text>.{10,}?)[\s,]+(?:from (?:now|here) on(?:wards)?|going forward|in (?:the )?future)\b"
    r"(?=\W*$|[,;]| and\b)",
    re.IGNORECASE,
)
_NOTED: Final = lazy_pattern(
    r"^\W*(?:(?:remember|keep in mind|bear in mind|don't forget|do not forget|never forget|note"
    r"|make a note|take note|be aware)(?: that\b|[,:]| (?=(?:we|our|all|every)\b))"
    r"|(?:remember|save|store|note|memori[sz]e) (?:this|the following)[,:]"
    r"|for (?:future |your |later )?reference[,:]?|for the record[,:]?|note (?:for later"
    r"|to self)[,:]"
    r"|correction[,:]|(?:i(?:'ve)? (?:already )?told you|i already said|as i said"
    r"|you keep forgetting)"
    r"(?: already| before)?(?: that\b|[,:]))\s*",
    re.IGNORECASE,
)
"""What introduces a fact to be kept."""
_MENTIONED: Final = lazy_pattern(r"^\W*(?:fyi|heads[ -]up)\b[,:]?\s*", re.IGNORECASE)
_DENIED: Final = lazy_pattern(
    r"^\W*(?:(?:no|nope|nah|wrong|incorrect|false|that(?:'s| is) (?:\w+ )?(?:wrong|incorrect|false"
    r"|not "
    r"(?:right|true|correct))|you(?:'re| are) wrong|not (?:right|true|correct))\b"
    r"(?:[\s,.:;!\u2013\u2014-]+|$))+(?:actually\b[\s,]*)?",
    re.IGNORECASE,
)
"""What opens a correction of the agent."""
_ACTUALLY: Final = lazy_pattern(r"^\W*actually\b[\s,]*", re.IGNORECASE)
_CONTRAST: Final = _any(
    r"(?:,| and| but)? not (?!sure|yet)\S", r"\b(?:instead of|rather than|no longer)\b"
)

_VERB: Final = (
    r"(?!(?:mind|the|a|an|been|got|had|seen|said|went|is|are|was|be|happen|return|get|see|hit|lose"
    r"|fail"
    r"|crash|end|receive|know|find|work)\b)[a-z]+(?<!ing)(?<!ed)(?<![^s]s)\b"
)
_RULE: Final = _any(
    rf"^(?:please )?(?:always|never(?:,? ever)?) (?:\w+ly )?{_VERB}",
    rf"\b(?:so|please) (?:always|never) {_VERB}",
    rf"^(?:please )?(?:don't|do not) ever {_VERB}",
    rf"^(?:please )?(?:don't|do not) (?!(?:worry|bother|run|start"
    rf"|try)\b){_VERB}.*\b(?:ever(?: again)?|any ?more|again|in general|unless i)\W*$",
    rf"\b(?:you (?:must|should|may|can|are to)|want you to|(?:important|sure) (?:that )?you"
    rf"|need you to)"
    rf" (?:always|never) {_VERB}",
    r"^(?:whenever|(?:next|each|every) time) you\b[^,]+, (?!(?:it|the|an?|this|that|we|i|you|they"
    r"|there|my"
    r"|our|some|every)\b)",
    r"^(?:all|every|each|any|new|no|for (?:all|every|each))\b.+,? always\W*$",
    rf"^we (?:always|never) {_VERB}",
    rf"^by default,? (?:please )?(?:write|use|{_VERB})",
    r"^(?:please )?(?:avoid|prefer|use|keep|don't use)\b.*\b(?:in general|generally"
    r"|by default)\W*$",
    r"^(?:please )?stop (?:add|us|writ|putt|creat|suggest|repeat|apologi[sz]|explain|ask|generat"
    r"|import"
    r"|mock|wrapp|assum|guess|renam|reformatt|formatt|invent|summari[sz])ing\b(?!.*\bin \S+\.\w+)",
    r"\bour (?:\w+ ){0,2}(?:convention|policy|style guide|standard|rule)s? (?:is|are|says?"
    r"|requires?)\b",
    r"^(?:no one|nobody|no \w+) (?:may|should|must|is to)\b",
)
_WHENEVER: Final = lazy_pattern(
    r"^(?:whenever|(?:each|every) time|any ?time) (?:you|we|i)\b", re.IGNORECASE
)
_PREFERRED: Final = _any(r"\bmy (?:preferred|usual|default)\b.* (?:is|are)\b")
_OF_PRESENT: Final = _any(
    r"\bprefer if you\b|\bkeep it\b",
    r"\b(?:like|hate|dislike|prefer|love|enjoy|stand) (?:the|this|your|how|what|where)\b",
    r"\brather (?:not|keep|leave|wait|do|go|start|fix|change|stay|have (?:the|this|it))\b",
)
"""A wish about what lies before the user."""
_OF_SELF: Final = _any(r"\b(?:i|i'[dm]|my)\b")
_DECIDED: Final = _any(
    r"^(?:so |and )?(?:we|the team)(?:'ve| have| has)? (?:finally |all |both |already )?"
    r"(?:decided(?! on the\b)|agreed|settled on|chose|chosen|picked|opted|standardi[sz]ed on)\b",
    r"^we(?:'re| are) (?:going with|standardi[sz]ing on|moving (?:to|off|away)|dropping"
    r"|sticking with)\b",
    r"^(?:the|our) (?:final )?decision(?: is|:)",
)
_OF_PROJECT: Final = _any(
    r"\b(?:in|for) (?:this|our) (?:repo|repository|project|codebase|team|company"
    r"|monorepo)\b.*\bwe\b",
    r"^(?:in|for) (?:this|our) (?:repo|repository|project|codebase|team|company|monorepo)\b",
    r"^we (?:no longer|don't|do not|only) (?:use|support|deploy|allow|write|ship|target|need)\b"
    r"(?! (?:the|this|that|it|these|those)\b)",
)
"""What holds for the project: said of the agent's work, and of no single task."""


def statements_in(prompt: str) -> list[UserStatement]:
    """Return what the user says in a prompt that is to last, at most `STATEMENTS_MAX`."""
    text = typed_text(prompt)
    if is_trivial(text) or _SUPPOSED.search(text):
        return []
    own = without_quotations(first_indent(text) + normalise(text))
    is_long = len(own.split()) > _LONG_WORDS
    statements: list[UserStatement] = []
    is_denied = False
    for sentence in _sentences(own):
        if _TO_WRITE.search(sentence) and not _lasts(sentence):
            break
        statement = _read(sentence, is_denied=is_denied, is_long=is_long)
        is_denied = _DENIED.sub("", sentence, count=1) == ""
        if statement is not None and statement not in statements:
            statements.append(statement)
    return statements[:STATEMENTS_MAX] if len(statements) <= 2 * STATEMENTS_MAX else []


def _sentences(text: str) -> Iterator[str]:
    """Yield the sentences of the user's own prose; items of a list are of a specification."""
    for sentence in split_sentences(text.replace("\u2019", "'"), at_semicolons=True):
        if not re.match(r"(?:[-*+\u2022#|]|\d+[.)])\s", sentence) and GAP not in sentence:
            yield sentence


def _lasts(sentence: str) -> bool:
    bare = _OPENER.sub("", sentence)
    return bool(_LASTS.search(bare) or _LASTS_LATER.search(bare) or _NOTED.search(bare))


def _read(sentence: str, *, is_denied: bool, is_long: bool) -> UserStatement | None:
    """Return the statement of a sentence; None if it states nothing that lasts."""
    bare = _OPENER.sub("", sentence)
    if is_question(sentence) or ASKED.search(bare) or _HEDGED.search(bare):
        return None
    lasting = _LASTS.sub("", bare, count=1)
    later = _LASTS_LATER.match(bare)
    if later is not None:
        return _made(later["text"], Kind.RULE)
    if lasting != bare:
        return _made(lasting, Kind.RULE)
    noted = _NOTED.sub("", bare, count=1)
    if noted != bare:
        return _stated(noted)
    kind = _kind_of(bare)
    if kind is not None and not (is_long and kind is Kind.RULE):
        return _made(_MENTIONED.sub("", bare, count=1), kind)
    return None if is_long else _corrected(bare, is_denied=is_denied)


def _corrected(bare: str, *, is_denied: bool) -> UserStatement | None:
    """Return the statement of a correction of the agent, or of what is mentioned in passing."""
    mentioned = _MENTIONED.sub("", bare, count=1)
    if mentioned != bare:
        return _made(mentioned, Kind.FACT) if is_durable(mentioned) else None
    denied, actually = _DENIED.sub("", bare, count=1), _ACTUALLY.sub("", bare, count=1)
    if denied != bare or is_denied:
        right = denied
    elif actually != bare and _CONTRAST.search(actually):
        right = actually
    else:
        return None
    is_passing = is_order(right) or states_failure(right) or _OF_TASK.search(right)
    return None if is_passing else _stated(right)


def _kind_of(text: str) -> str | None:
    """Return the kind of a sentence that lasts by its own words; None for others."""
    judged = without_quoted_words(text)
    if _REPORTED.search(judged) and not _OWN_GUIDE.search(judged):
        return None
    if _DECIDED.search(judged):
        return DECISION
    guidance = guidance_in(judged)
    is_whenever = _WHENEVER.search(judged) and Guidance.INSTRUCTION in guidance
    if is_whenever or _RULE.search(judged):
        return Kind.RULE
    is_preference = Guidance.PREFERENCE in guidance or _PREFERRED.search(judged)
    is_own = _OF_SELF.search(judged) and not _OF_PRESENT.search(judged)
    return Kind.FACT if (is_preference and is_own) or _OF_PROJECT.search(judged) else None


def _made(text: str, kind: str) -> UserStatement | None:
    """Return a statement of a text, unless it is of one task, or leans on what was said before."""
    text = text.strip(" \t,;:\u2013\u2014-").removesuffix(".")
    is_short = len(text.split()) in _WORDS and len(text) <= _CHARS_MAX
    if not is_short or is_question(text) or _ONCE.search(text) or _LEANING.search(text):
        return None
    return UserStatement(text=text, kind=str(kind))


_NO_SUBJECT: Final = frozenset("i you it that this to when how what why where who i'm i've".split())


def _stated(text: str) -> UserStatement | None:
    """Return what lasts by its own words, or a fact about something that the text names."""
    kind, tokens = _kind_of(text), words(text)
    is_fact = tokens and tokens[0] not in _NO_SUBJECT and verb_at(tokens) is not None
    return _made(text, kind or Kind.FACT) if kind or is_fact else None
