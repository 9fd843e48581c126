"""What the user says in a prompt that is to last: rules, wishes, decisions, facts, corrections.

"From now on use pnpm", "no, the port is 5433", "we decided to drop Python 3.9". Orders for one
task, bug reports, questions, suppositions, quotations and texts to be written are none of them. A
sentence counts only if it can be understood without what was said before.
"""

import re
from collections.abc import Iterator
from typing import Final

from commonbrain.model.kinds import Kind
from commonbrain.model.values import dataclass, replace
from commonbrain.text.capture import is_durable
from commonbrain.text.clauses import is_order, is_question, verb_at, words
from commonbrain.text.normalisation import normalise
from commonbrain.text.patterns import lazy_pattern
from commonbrain.text.preferences import ASKED, VERBS, Guidance, guidance_in
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
    is_explicit: bool = False
    """Whether the user said that it lasts: "from now on", "remember"."""


def _any(*patterns: str) -> re.Pattern[str]:
    return lazy_pattern("|".join(f"(?:{one})" for one in patterns), re.IGNORECASE)


_SUPPOSED: Final = _any(
    r"^\W*(?:imagine|pretend|suppose|assume|act as|role-?play|hypothetically|let's (?:say"
    r"|assume))\b",
    r"^\W*(?:you are|you're) (?:an?|the) ",
)
"""What opens a prompt whose sentences are of another world."""
_MAKING: Final = (
    r"^\W*(?:(?:please|now|then|and|ok(?:ay)?|can you|could you)\W+)*(?:write|draft|compose|create"
    r"|generate|prepare|translate|summari[sz]e|document|rephrase|reword|proofread|explain|review"
    r"|change|set|put|make|add|implement|build|design|test|check)\b(?! (?:a )?note\b)"
)
_TO_WRITE: Final = _any(
    rf"{_MAKING}"
    r"(?:[^.!?]*\b(?:read ?me|e?-?mail|message|post|article|prompts?|comments?|docstrings?|slogan"
    r"|story|text|page|section|paragraph|label|button|tooltip|polic(?:y|ies)|notes|announcement"
    r"|test|rule|letter|answer|reply|document|guide|bot|assistant|agent)\b|.*:| that\b| to \w+:)",
)
"""An order for a text or a thing: what follows is its content."""
_HEDGED: Final = _any(
    r"\b(?:maybe|perhaps|probably|i (?:think|guess|wonder|suspect|suppose)|my (?:guess|hunch)"
    r"|not sure|should (?:we|i)|(?:we|they|you|i) (?:could|might|may|can)|what if|might|could we"
    r"|can we|shall we|it (?:seems|looks))\b",
    r"^\W*(?:if|unless) ",
)
_REPORTED: Final = _any(
    r"\b(?:says?|said|wrote|writes|states|claims|told me|according to|reads:|suggests|recommends)\b"
)
_ONCE: Final = _any(
    r"\b(?:for now|this (?:time|once)|just once|right now|at the moment|today|tonight|tomorrow"
    r"|until (?:i|we|the|this|that)|in th(?:is|e) (?:pr|pull request|change|commit|branch|diff|file"
    r"|test|function|case|task|step|session|conversation)|for th(?:is|e) (?:pr|change|commit|task"
    r"|one|demo)|still|so far)\b",
    r"(?:n't|\bnot)\b[^,]*\byet\b",
)
"""What binds an order to the task at hand."""
_OF_TASK: Final = _any(
    r"^(?:the|this|your|my) (?:\w+ ){0,2}(?:bugs?|errors?|problem|issue|failure|tests?|build|diff"
    r"|cause|button|title|label|header|color|colour|line)"
    r" (?:is|are|was|were|has|have|comes|lies|happens|fails?|pass(?:es)?|should|in|on|at)\b",
    r"\b(?:should|must|needs? to|has to|ought to)\b",
)
"""What a correction says of the task at hand, which does not last."""
_OF_ONE: Final = _any(r"^(?:the|this|that|it|an?)\b")
_LEANING: Final = _any(
    r"^\W*(?!it(?:'s| is) (?:important|crucial|essential|critical)\b)(?:it|that|this|these|those"
    r"|they|he|she|there|here|which|who|its|their)\b(?! (?:is an? \w+ )?(?:repo|project|repository"
    r"|codebase|team|company)\b)",
    r"^(?:(?!before|after|when)\S+\s+){1,7}(?:it|that|this|them|those|these|so)\W*$",
    r"\b(?:it|that|this|them|those|these|so)\W+(?:instead|again|any ?more|later|way|ones?|here|now"
    r"|too|files?|functions?|lines?|errors?|things?|stuff)\b",
    r"\b(?:option|plan|variant) [a-e0-9]\b|\bnext (?:step|task|one)\b",
    r"\b(?:first|second|third|last|other|former|latter|previous|above|same|the \w+er) (?:one|option"
    r"|approach|version|solution|variant|idea|proposal|file|argument|way)\b",
)
"""What can only be understood by what was said before."""
_OWN_GUIDE: Final = _any(r"^our (?:\w+ ){1,3}(?:says?|states)\b")

_PLEASANTRY: Final = (
    r"(?:ok(?:ay)?|hey|hi|hello|thanks|thank you|great(?: work)?|good|perfect|nice|cool|fine|sure"
    r"|yes|yeah|well|oh|and|also|but|so|btw|by the way|one more thing|another thing"
    r"|just so you know|looks (?:good|fine|great)|important|listen|again|please|pls)"
)
_OPENER: Final = lazy_pattern(rf"^\W*(?:{_PLEASANTRY}\b[\s,:;!.\u2013\u2014-]+)+", re.IGNORECASE)
_LASTING: Final = (
    r"(?:from (?:now|here|today)(?: on(?:wards?)?)?|going forward|in (?:the )?future"
    r"|as a (?:general )?rule|henceforth)"
)
_LASTS: Final = lazy_pattern(
    rf"^\W*{_LASTING}\b(?!-\w| (?:releases?|versions?)\b)[\s,:\u2013\u2014-]*(?:please always\b)?",
    re.IGNORECASE,
)
_LASTS_LATER: Final = lazy_pattern(
    r"^(?P<text>.{10,}?)[\s,]+(?:from (?:now|here) on(?:wards)?|going forward|in (?:the )?future)\b"
    r"(?=\W*$|[,;]| and\b)",
    re.IGNORECASE,
)
_LASTS_WITHIN: Final = lazy_pattern(
    r"(?P<lead>(?:[,;:] )(?:so |and |but )*)?\bfrom (?:now|here) on(?:wards| out)?\b[\s,:]*",
    re.IGNORECASE,
)
_NOTED: Final = lazy_pattern(
    r"^\W*(?:(?:[^.!?:\"]{0,60}[,:] )?(?:(?:please|pls|also|just) )*(?:remember(?: for (?:next time"
    r"|later|the future))?(?: that\b|[,:]| (?=(?:we|our|all|every|(?-i:[A-Z]\w+))\b))|(?:keep"
    r"|bear) in mind\b(?: that\b|[,:])?)|(?:don't forget|do not forget|never forget|note"
    r"|make a note|take note|be aware)(?: that\b|[,:]| (?=(?:we|our|all|every)\b))|(?:remember|save"
    r"|store|note|memori[sz]e) (?:this|the following)[,:]|for (?:future |your "
    r"|later )?reference[,:]?|for the record[,:]?|note (?:for later|to self)[,:]|correction[,:]"
    r"|(?:i(?:'ve)? (?:already )?told you|i already said|as i said|you keep forgetting)(?: already"
    r"| before)?(?: that\b|[,:]))\s*",
    re.IGNORECASE,
)
"""What introduces a fact to be kept."""
_NAMED_RULE: Final = lazy_pattern(
    r"^(?!here\b)(?:[^.!?:\"]{0,80}\b(?:an?|one|another|small|(?:our|my)(?: \w+)?) )?"
    r"(?:(?:rule|policy|convention|preference)\b[^.!?:]{0,60}|[^.!?:]{0,60}\bthis is final): ",
    re.IGNORECASE,
)
"""What calls that which follows a rule."""
_ENDORSED: Final = lazy_pattern(
    r"(?:^\W*|[,;:] )(?:(?:please|pls|so|and) )*(?:remember (?:it|this)(?=\W*$|,| (?:please|pls"
    r"|when|whenever|from|next|always)\b)|(?:that|this)(?:'s| is| has)(?: been)? (?:the|our"
    r"|a) (?:rule|deal|policy|convention)\b|(?:that|this) (?:goes|holds|applies"
    r"|must be true)\b.*\b(?:every\w*|all|always)\b|i keep (?:fixing|telling|correcting"
    r"|repeating)\b)|^\W*(?P<always>always|no exceptions)(?: has been)?\W*$",
    re.IGNORECASE,
)
"""What says that the sentence or clause before it lasts."""
_POLITE: Final = lazy_pattern(
    r"^(?:[^,.!?]{0,40}, (?:but )?)?(?:(?:can|could) you(?: please| pls)?|would you please) "
    r"(?=(?:always|never)\b|.*\bfrom (?:now|here) on\b)",
    re.IGNORECASE,
)
"""What makes a question of a wish that lasts."""
_MENTIONED: Final = lazy_pattern(r"^\W*(?:just )?(?:fyi|heads[ -]up)\b[,:]?\s*", re.IGNORECASE)
_DENIED: Final = lazy_pattern(
    r"^\W*(?:(?:no|nope|nah|wrong|incorrect|false|that(?:'s| is) (?:\w+ )?(?:wrong|incorrect|false"
    r"|not (?:right|true|correct))|you(?:'re| are) wrong|not (?:right|true|correct))"
    r"(?:[,.:;!\u2013\u2014]+\s*|\s-+\s|\W*$|\s+(?=(?:no|we|the|that(?:'s)?|it(?:'s)?|this|our|you|i"
    r"|use|don't)\b)))+(?:actually\b[\s,]*)?",
    re.IGNORECASE,
)
"""What opens a correction of the agent."""
_ACTUALLY: Final = lazy_pattern(r"^\W*actually\b[\s,]*", re.IGNORECASE)
_CONTRAST: Final = _any(
    r"(?:,| and| but)? not (?!sure|yet)\S", r"\b(?:instead of|rather than|no longer)\b"
)

_NOT: Final = r"(?:don'?t|do not)"
_VERB: Final = (
    r"(?!(?:mind|the|a|an|been|got|have|had|saw|seen|said|did|went|is|are|was|be|happen|return|get|see"
    r"|hit|lose|fail|crash|end|receive|know|find|work|at|in|on|for|from|with|when|if|because|by|to"
    r"|too|so|as)\b)[a-z]+(?<!ing)(?<!ed)(?<![^s]s)\b"
)
_IMPERATIVE: Final = rf"(?:please )?(?:always|never(?:,? ever)?) (?:\w+ly )?{_VERB}"
_PROJECT: Final = (
    r"(?:this|our) (?:\w+ )?(?:repo|repository|project|code ?base|team|company|monorepo|app)\b"
)
_NORM: Final = r"^(?!(?:it|this|that|the|an?|my|when|there|i|users?|clients?)\b)"
"""What opens a rule of many things, not a report of one or a requirement of the task."""
_RULE: Final = _any(
    rf"(?:^|\b(?:so|please) ){_IMPERATIVE}",
    rf"^(?!{_MAKING}|fix\b|(?:the|an?)\b.*\b(?:should|must|needs? to)\b)"
    rf"(?:(?!\balways\b|\bnever\b).)*[,;] {_IMPERATIVE}",
    rf"(?:^|[,;:] |\bso )we {_IMPERATIVE}",
    rf"^(?:please )?{_NOT} ever {_VERB}",
    rf"^(?:please )?{_NOT} (?!(?:worry|bother|run|start"
    rf"|try)\b){_VERB}.*\b(?:ever(?: again)?|any ?more|again|in general|unless i)\W*$",
    rf"\b(?:you (?:must|should|may|can|are to)|want you to|(?:important|sure) (?:that )?you"
    rf"|need you to|remember to) {_IMPERATIVE}",
    rf"{_NORM}(?!we\b|you\b).*\b(?:(?:must|ha(?:s|ve) to) (?:always|never)"
    r"|(?:always|never) ha(?:s|ve) to)\b",
    rf"^(?!{_MAKING})(?!(?:it|the|i (?:get|see|hit|have))\b)"
    r".*, (?:always|ever|no exceptions)(?=\W*$|,)",
    r"\boff[- ]limits\b|\bno-go\b|\bnever allowed\b|\byou(?:'re| are) not allowed to\b",
    r"\b(?:is|are) (?:not allowed|forbidden|banned) (?:in(?! the)|outside|without|unless)\b",
    rf"{_NORM}.*\b(?:always {VERBS}\b.*\bnever|never {VERBS}\b.*\balways)\b",
    r"^(?:whenever|(?:next|each|every) time) you\b[^,]+, (?!(?:it|the|an?|this|that|we|i|you|they"
    r"|there|my|our|some|every)\b)",
    rf"^(?:all|every|each|any|new)\b(?! my\b).*\b(?:always|never) {VERBS}\b",
    rf"^by default,? (?:please )?(?:write|use|{_VERB})",
    r"^(?:please )?(?:avoid|prefer|use|keep|don't use)\b.*\b(?:in general|generally"
    r"|by default)\W*$",
    r"^(?:please )?stop (?:add|us|writ|putt|creat|suggest|repeat|apologi[sz]|explain|ask|generat"
    r"|import"
    r"|mock|wrapp|assum|guess|renam|reformatt|formatt|invent|summari[sz])ing\b(?!.*\bin \S+\.\w+)",
    r"\bour (?:\w+ ){0,2}(?:convention|policy|style guide|standard|rule)s? (?:is|are|says?"
    r"|requires?)\b",
    r"^i never want (?!(?:this|that|these|it)\b|.*\bto\b)",
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
    r"^i(?:'ve| have)(?: now| finally)? decided (?:that )?we\b",
    r"^we(?:'re| are) (?:going with|standardi[sz]ing on|moving (?:to|off|away)|dropping"
    r"|sticking with)\b",
    r"^(?:the|our) (?:final )?decision(?: is|:)",
)
_SETUP: Final = r"(?:staging|prod|production|ci|deploy|default|integration|e2e|our)"
_OF_PROJECT: Final = _any(
    rf"^(?:in|for) {_PROJECT},? (?:please )?"
    r"(?:we|all|every|each|any|no|only|always|never|use|don't|do not)\b",
    r"^we (?:don't|do not|never|always|only) (?!(?:see|get|have|hit|know|find|need)\b)"
    rf".* in {_PROJECT}",
    r"^we (?:no longer|don't|do not|only) (?:use|support|deploy|allow|write|ship|target|need)\b"
    r"(?! (?:the|this|that|it|these|those)\b)",
    r"^(?-i:[A-Z][a-z]+) (?:owns|maintains)\b(?!.*\b(?:ticket|issue|bug|task|pr)\b)",
    rf"^(?:\S+ ){{0,2}}{_SETUP} (?:\S+ ){{0,3}}(?:listens? on|runs? (?:on|against|as)"
    r"|lives? (?:in|on|at)|(?:is|are) called)\b",
    rf"^(?:\S+ )?{_SETUP}\b.* (?:is|are) (?-i:\S*[\dX_/.-]\S*), not \S",
    r"(?:^|, so )(?:\S+ ){1,4}belongs? in\b.*\bnot\b",
    r"\bis our\b.*, not \S",
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
    is_denied, before = False, ""
    for sentence in _sentences(own):
        if _TO_WRITE.search(sentence) and not _lasts(sentence):
            break
        endorsing = _ENDORSED.match(sentence)
        if endorsing:
            statement = _endorsed(before, by_always=bool(endorsing["always"]))
        else:
            statement = _read(sentence, is_denied=is_denied, is_long=is_long)
            before = "" if statement else sentence
        is_denied = _DENIED.sub("", sentence, count=1) == ""
        if statement is not None and statement.text not in [one.text for one in statements]:
            statements.append(replace(statement, is_explicit=_lasts(sentence)))
    return statements[:STATEMENTS_MAX] if len(statements) <= 2 * STATEMENTS_MAX else []


def _sentences(text: str) -> Iterator[str]:
    """Yield the sentences of the user's own prose; items of a list are of a specification."""
    for sentence in split_sentences(text.replace("\u2019", "'"), at_semicolons=True):
        is_item = re.match(r"(?:[-*+\u2022#|]|\d+[.)])\s", sentence)
        if not is_item and GAP not in sentence and len(sentence) <= 2 * _CHARS_MAX:
            yield sentence


def _lasts(sentence: str) -> bool:
    bare = _OPENER.sub("", sentence)
    return bool(_LASTS.search(bare) or _LASTS_LATER.search(bare) or _NOTED.search(bare))


def _read(sentence: str, *, is_denied: bool, is_long: bool) -> UserStatement | None:
    """Return the statement of a sentence; None if it states nothing that lasts."""
    bare = _OPENER.sub("", sentence)
    opening = _POLITE.match(bare)
    if opening:
        bare = bare[opening.end() :].rstrip("? ")
    if is_question(bare) or ASKED.search(bare) or _HEDGED.search(bare):
        return None
    lasting = _lasting(bare)
    if lasting:
        return _made(lasting, Kind.RULE)
    noted = _NOTED.sub("", bare, count=1)
    if noted != bare:
        return _stated(noted)
    endorsed = _ENDORSED.search(bare)
    if endorsed and _ENDORSED.search(without_quoted_words(bare)):
        return _endorsed(bare[: endorsed.start()], by_always=False)
    kind = _kind_of(bare)
    if kind is not None and not (is_long and kind is Kind.RULE):
        return _made(_MENTIONED.sub("", bare, count=1), kind)
    return None if is_long else _corrected(bare, is_denied=is_denied)


def _lasting(bare: str) -> str:
    """Return what a sentence orders from now on, or calls a rule; empty for others."""
    later = _LASTS_LATER.match(bare)
    if later is not None:
        return later["text"]
    lasting = _NAMED_RULE.sub("", _LASTS.sub("", bare, count=1), count=1)
    if lasting != bare:
        return lasting
    judged, within = without_quoted_words(bare), _LASTS_WITHIN.search(bare)
    if within is None or not _LASTS_WITHIN.search(judged) or _REPORTED.search(judged):
        return ""
    return bare[within.end() :] if within["lead"] else bare


def _endorsed(sentence: str, *, by_always: bool) -> UserStatement | None:
    """Return the statement of a sentence of which the user says that it lasts."""
    bare = _OPENER.sub("", sentence)
    is_of_task = _OF_ONE.search(bare) and (by_always or _OF_TASK.search(bare))
    is_unsaid = is_question(bare) or _HEDGED.search(bare) or _REPORTED.search(bare)
    if is_of_task or is_unsaid or states_failure(bare):
        return None
    return _made(bare, _kind_of(bare) or (Kind.RULE if is_order(bare) else Kind.FACT))


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
