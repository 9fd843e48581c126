"""What the user says in a prompt that is to last: rules, wishes, decisions, facts, corrections.

"From now on use pnpm", "no, the port is 5433", "we decided to drop Python 3.9". Orders for one
task, bug reports, questions, suppositions, quotations and texts to be written are none of them. A
sentence counts only if it can be understood without what was said before.
"""

import re
from collections.abc import Mapping
from typing import Final

from commonbrain.model.kinds import Kind
from commonbrain.model.values import dataclass, replace
from commonbrain.text.clauses import is_order, is_question, verb_at, words
from commonbrain.text.languages import is_english
from commonbrain.text.normalisation import normalise
from commonbrain.text.patterns import lazy_pattern
from commonbrain.text.preferences import VERBS, is_of_user
from commonbrain.text.prompts import is_trivial, typed_text
from commonbrain.text.quotations import first_indent, without_quotations, without_quoted_words
from commonbrain.text.reports import states_failure
from commonbrain.text.segmentation import GAP, split_sentences

DECISION: Final = "decision"
"""A fact with this label."""
STATEMENTS_MAX: Final = 3
"""Statements of one prompt; one with more than twice as many is a specification."""
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
    """Whether the prompt begins with it, and the user says that it lasts."""


def _any(*patterns: str) -> re.Pattern[str]:
    return lazy_pattern("|".join(f"(?:{one})" for one in patterns), re.IGNORECASE)


_LASTS: Final = (
    r"from (?:now|here|today)(?: on(?:wards?)?)?(?: out)?|going forward(?! with)|henceforth"
    r"|in (?:the )?future(?! (?:releases?|versions?)\b)|as a (?:general )?rule(?! of\b)"
)
_NOTED: Final = (
    r"(?P<lead>[^.!?:\"]{0,60}[,:] (?:(?:also|please|pls|just) )?)?(?:remember(?: for (?:next time"
    r"|later))?(?: that\b|(?=[,:]| (?:we|our)\b| (?-i:[A-Z])))|(?:keep|bear) in mind(?: that\b)?)"
    r"|(?:don't forget|do not forget|never forget|note|make a note|be aware) that\b"
    r"|(?:remember|save|store|note) this(?=:)|(?:make a )?note (?:for later|to self|to you)\b"
    r"|for (?:your |later |future )reference|for the record|correction(?=:)"
    r"|(?:i(?:'ve)? already told you|i told you already|you keep forgetting)(?: that\b|(?=[,:]))"
)
_CORRECTS: Final = (
    r"(?:no|nope|nah|wrong(?: again)?|incorrect|that(?:'s| is)(?: not)? (?:wrong|incorrect|right"
    r"|true))(?=[,.:;!\u2013\u2014]|\W*$| (?:no|we|the|that|this|our)\b)|actually|fyi|heads[ -]up"
)
_OPENING: Final = lazy_pattern(
    r"^\W*(?:(?:ok(?:ay)?|hey|hi|yo|hm+|thanks|great(?: work)?|good|perfect|nice|cool|sure|yes|yeah"
    r"|well|oh|and|also|but|so|btw|by the way|(?:one more|another|one) thing(?: though)?|important"
    r"|looks (?:good|fine|great)|listen|again|just|please|pls"
    r"|(?P<asks>(?:[^,.!?]{0,40}, (?:but )?)?(?:(?:can|could) you(?: please| pls)?"
    r"|would you please)(?= (?:always|never)\b|.* from now on\b))"
    rf"|(?P<lasts>{_LASTS})|(?P<noted>{_NOTED})|(?P<corrects>{_CORRECTS}))(?![\w-])"
    r"[\s,:;.!\u2013\u2014-]*){1,9}",
    re.IGNORECASE,
)
"""What opens a sentence and says nothing of its own, but may say that the rest lasts."""
_LASTS_WITHIN: Final = _any(
    r"\bfrom (?:now|here) on\b", r"\b(?:going forward|in future)(?=\W*$|[,;]| and\b)"
)
_ENDORSED: Final = lazy_pattern(
    r"(?:^|[,;:.!\u2013\u2014]+) *(?:(?:please|pls|so|and) )*(?:(?P<always>always|ever|every time)"
    r"(?=\W*$|,| has been)|no exceptions\b|remember (?:it|this)(?=\W*$|,| (?:please|pls)\b)"
    r"|i keep (?:fixing|telling|correcting|repeating)\b|(?:that|this)(?:(?:'s| is) (?:the|our|a)"
    r" (?:rule|policy|convention)\b| (?:goes|holds|applies) (?:for|to) (?:every\w*|all)\b))",
    re.IGNORECASE,
)
"""What says at the end of a sentence, or right after it, that it lasts."""

_TO_WRITE: Final = _any(
    r"^\W*(?:(?:please|now|then|and|ok(?:ay)?|can you|could you)\W+)*(?:(?:write|draft|compose"
    r"|translate|summari[sz]e|rephrase|reword|proofread|document|explain)\b|(?:add|create|generate"
    r"|prepare|implement|build|design|change|make|test|refactor)\b.*(?::| that\b|\b(?:prompt|page"
    r"|text|test|rule|policy|guide|bot|agent|label|message)\b))",
    r"^\W*(?:requirements|imagine|pretend|suppose|assume|act as|hypothetically|you are an?\b)",
)
"""What asks for a text or a thing, or supposes another world: of that is what follows."""
_TEAM: Final = r"(?:repo|repository|project|code ?base|team|company|monorepo|app)\b"
_PASSING: Final = _any(
    r"\b(?:maybe|perhaps|probably|i (?:think|guess|wonder|suspect)|my (?:guess|hunch)|not sure"
    r"|should (?:we|i)|(?:we|they|i) (?:could|might|may|can)|might|what if|seems|looks)\b",
    r"^\W*(?:if|unless) ",
    r"\b(?:says?|said|wrote|claims|told me|according to|suggests|recommends|wants)\b",
    r"\b(?:for now|this (?:time|once)|just once|right now|at the moment|today|tonight|tomorrow"
    r"|until (?:i|we|the|this|that)|(?:in|for) the (?:pr|pull request|change|commit|branch|diff"
    r"|file|test|function|loop|demo)|still|so far|let's)\b",
    rf"\b(?:in|for|of|on|during) this (?!(?:\w+ )?{_TEAM})",
)
"""A guess, the words of another, or what is bound to the task at hand."""
_LEANING: Final = _any(
    r"^\W*(?:it|that|this|these|those|they|he|she|there|here|which|who|its|their)\b"
    r"(?!(?: is|'s) (?:an? \w+ (?:repo|project)|important|crucial|essential)\b)",
    r"^(?:(?!before|after|when)\S+\s+){1,7}(?:it|that|this|them|those|these|so)\W*$",
    r"\b(?:it|that|this|them|those|these)\W+(?:instead|again|any ?more|later|way|ones?|here|too)\b",
    r"\boption [a-e0-9]\b|\bthe (?!old|new)\w+ (?:one|option|approach|version|solution"
    r"|variant|idea|proposal)\b",
)
"""What can only be understood by what was said before."""

_VERB: Final = (
    r"(?!(?:mind|the|an?|been|had|saw|seen|said|did|went|is|are|was|were|be|happen|get|see|hit|fail"
    r"|end|know|work|at|in|on|for|from|with|when|if|by|to|too|so|as|have)\b|(?:return|show|display"
    r"|render|throw|close|hide|reject|drop)\b(?! me\b))[a-z]+(?<!ing)(?<!ed)(?<![^s]s)\b"
)
"""What people do; what programs do is no rule for the agent."""
_ORDER: Final = rf"(?:always|never(?:,? ever)?) (?:\w+ly )?{_VERB}"
_RULE: Final = _any(
    rf"(?:^|\b(?:so|please) )(?:please )?{_ORDER}",
    rf"(?:^|[,;:] |\bso )we {_ORDER} (?!(?:the|this|that|it)\b)",
    rf"\b(?:you (?:must|should|may|can|are to)|want you to|important (?:that )?you|need you to)"
    rf" {_ORDER}",
    r"^(?!(?:it|this|that|the|an?|my|there|i|we|users?|clients?)\b).*\b(?:(?:must|ha(?:s|ve) to)"
    rf" {_ORDER}|(?:always|never) ha(?:s|ve) to {_VERB})",
    rf"^(?:don'?t|do not|i don'?t want you to) (?:ever {_VERB}"
    rf"|{_VERB} (?!the\b|.*, ).*\b(?:ever|any ?more|again|in general|unless i)\b)",
    r"\boff[- ]limits\b|\bno-go\b|\bnever allowed\b|\byou(?:'re| are) not allowed to\b",
    rf"^(?:whenever|(?:each|every|next) time) you\b(?!.*\byou\b) \w+ (?!this\b).*\b{VERBS}\b",
    r"^stop (?!(?:running|starting|working)\b)\w+ing (?!(?:the|this|that|it)\b|.*\bin \S+\.\w+)",
    r"^i (?:always|never) want (?!(?:this|that|it|to|users?)\b)",
    r"\b(?:our|new|general|small|house|we(?:'ve| have) a) (?:\w+ )?(?:rule|policy|convention"
    r"|style guide|preference)(?: (?:for|of|in) (?!the\b)\w+(?: \w+)?)?"
    r"(?:: | is (?!(?:too|wrong|broken|not)\b))",
    r"^(?:rule|policy|convention): ",
)
_DECIDED: Final = _any(
    r"^(?:we|the team|i(?=.* we\b))(?:'ve| have| has|'re| are)? (?:\w+ )?(?:decided|agreed"
    r"|settled on|chose|chosen|picked|opted|standardi[sz](?:ed|ing) on|going with"
    r"|moving (?:to|off|away)|dropping|sticking with)\b(?! (?:on )?(?:the|an?|it|this)\b)",
    r"^(?:the |our |final )*decision(?: is|:| made)",
)
_OF_PRESENT: Final = _any(
    r"\b(?:like|hate|dislike|prefer|love|stand) (?:the|this|your|how|what|where)\b",
    r"\brather\b.* (?:the|this|that|it)\b|\bhere\b",
)
"""A wish about what lies before the user."""
_OURS: Final = _any(
    rf"^(?:in|for) (?:this|our) (?:\w+ )?{_TEAM},? (?:we (?!have\b)|all|no|only|always|never|use"
    r"|don't)",
    r"^we (?:no longer|(?:don't|do not|only) (?!(?:see|get|have|hit|know|find|need|want)\b)\w+ "
    r"(?!(?:the|this|that|it|these|those)\b))",
    r"^my (?:preferred|usual|default)\b.* (?:is|are)\b",
)
"""What holds for the project or the user: said of no single task."""
_CORRECTION: Final = _any(
    r"^(?!not\b|.*\b(?:should|bug|error|problem|issue)\b)(?:we (?!have|need|are)"
    r"|.*(?: not (?!sure|yet)\S|\b(?:is|are) \S*\d\S*))"
)
"""What is right in place of what the agent took for it: "X, not Y", a number, how we do it."""
_OF_ONE: Final = _any(r"^(?:the|this|it|users?|customers?|clients?|i (?:get|see|hit|have))\b")
"""How a report begins, or what a product is to do for its users."""
_DOUBTFUL: Final = _any(
    r"\b(?:may|can|fine|ok(?:ay)?|allowed|permitted|without (?:asking|approval|review))\b",
    r"\b(?:users?|customers?|clients?|visitors?|the app)\b",
)
"""A permission, which costs most if misread, or what a product is to do."""
_NO_SUBJECT: Final = frozenset("i you it that this to when how what why where who i'm i've".split())


def statements_in(prompt: str) -> list[UserStatement]:
    """Return what the user says in a prompt that is to last, at most `STATEMENTS_MAX`."""
    text = typed_text(prompt)
    if is_trivial(text) or not is_english(text):
        return []
    own = without_quotations(first_indent(text) + normalise(text))
    is_specification = len(own.split()) > _LONG_WORDS
    statements: dict[str, UserStatement] = {}
    is_explicit = True
    for sentence in _sentences(own):
        statement = _read(sentence)
        # What follows may be the words of another: "Slack from Bob: hi. From now on ...".
        is_explicit = is_explicit and statement is not None and statement.is_explicit
        if statement is not None and (statement.is_explicit or not is_specification):
            statement = replace(statement, is_explicit=is_explicit)
            statements.setdefault(statement.text, statement)
        is_specification |= _TO_WRITE.search(sentence) is not None
    return [*statements.values()][:STATEMENTS_MAX] if len(statements) <= 2 * STATEMENTS_MAX else []


def _sentences(text: str) -> list[str]:
    """Return the sentences of the user's own prose; items of a list are of a specification.

    What only opens or endorses a sentence is joined to it: "Nope. We use tabs. Always."
    """
    joined = [""]
    for sentence in split_sentences(text.replace("\u2019", "'"), at_semicolons=True):
        is_item = re.match(r"(?:[-*+\u2022#|]|\d+[.)])\s", sentence)
        if is_item or GAP in sentence or len(sentence) > 2 * _CHARS_MAX:
            joined.append("")
        elif 0 < len(joined[-1]) <= _CHARS_MAX and (
            _ENDORSED.match(sentence) or _OPENING.fullmatch(joined[-1])
        ):
            joined[-1] += f" {sentence}"
        else:
            joined.append(sentence)
    return joined[1:]


def _read(sentence: str) -> UserStatement | None:
    """Return the statement of a sentence; None if it states nothing that lasts."""
    opening = _OPENING.match(sentence)
    marks = opening.groupdict() if opening else {}
    text = sentence[opening.end() if opening else 0 :].rstrip("? " if marks.get("asks") else " ")
    text = text.strip(" \t,;:\u2013\u2014-").removesuffix(".")
    judged = without_quoted_words(text)
    is_short = len(text.split()) in _WORDS and len(text) <= _CHARS_MAX
    if not is_short or is_question(text) or _PASSING.search(judged) or _LEANING.search(judged):
        return None
    is_to_write = _TO_WRITE.search(judged) is not None
    lasts = marks.get("lasts") or (_LASTS_WITHIN.search(judged) and not is_to_write)
    if lasts:
        kind = None if _OF_ONE.search(judged) else str(Kind.RULE)
    else:
        kind = None if is_to_write else _kind_of(judged, marks=marks)
    is_own = not (marks.get("lead") or marks.get("asks") or _DOUBTFUL.search(judged))
    is_rule = marks.get("lasts") and (is_order(judged) or _RULE.search(judged))
    is_explicit = bool(is_own and (is_rule or marks.get("noted")))
    return UserStatement(text=text, kind=str(kind), is_explicit=is_explicit) if kind else None


def _kind_of(judged: str, *, marks: Mapping[str, str | None]) -> str | None:
    """Return the kind of a sentence that lasts; None for others."""
    if _DECIDED.search(judged):
        return DECISION
    if _RULE.search(judged):
        return Kind.RULE
    if (is_of_user(judged) and not _OF_PRESENT.search(judged)) or _OURS.search(judged):
        return Kind.FACT
    endorsed, is_failure = _ENDORSED.search(judged), states_failure(judged)
    if endorsed and endorsed.start():
        return None if is_failure or (endorsed["always"] and _OF_ONE.search(judged)) else Kind.RULE
    tokens = words(judged)
    is_fact = tokens and tokens[0] not in _NO_SUBJECT and verb_at(tokens) is not None
    is_correction = marks.get("corrects") and _CORRECTION.search(judged) and not is_failure
    is_said = marks.get("noted") or is_correction
    return Kind.FACT if is_said and is_fact and not is_order(judged) else None
