"""People that a text names without an @, recognized by rule: they say, own or are asked something.

Precision comes before recall. A capital alone is no person, as products, teams, places and the
first words of sentences have one too. A name counts where the sentence treats it as a person's, and
only if it begins with a common given name or follows a title.
"""

import re
import unicodedata
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Final

from commonbrain.text.given_names import GIVEN_NAMES, NAMES_OF_PLACES, NAMES_THAT_ARE_WORDS
from commonbrain.text.patterns import lazy_pattern
from commonbrain.text.products import ALIASES, PRODUCTS

_CHARS_MAX: Final = 20_000
"""Characters of a text that are searched."""
_PEOPLE_MAX: Final = 50
_NAME_CHARS_MAX: Final = 24
_WORDS_MAX: Final = 3
"""Words of one name."""
_LISTED_MAX: Final = 10
"""Names of one list."""
_CACHED: Final = 256

_TOKEN: Final = lazy_pattern(r"[^\W\d_]+(?:['\u2019-](?!s\b)[^\W\d_]+)*|\n|\S")
_ENDS: Final = frozenset(".!?:;\n")
_NO_NAMES: Final = frozenset(
    # Days, months and the words that begin sentences.
    "monday tuesday wednesday thursday friday saturday sunday january february march april may"
    " june july august september october november december feb mar apr jun jul aug sep sept oct"
    " nov dec today yesterday tomorrow tonight then"
    " now later earlier after before when while if because since although though however but and"
    " or so also finally first last next once still yet as at by for from in into of on to with"
    " without the a an this that these those there here it he she they we you i who what which"
    " why how where my your his her our their its nobody somebody everybody everyone someone"
    " anyone anybody all some many most few both either neither each another other others"
    " people users customers clients developers engineers reviewers operators admins managers"
    " partners vendors no not only even just please maybe perhaps usually note ps fyi re hi"
    " hello dear thanks thank ok okay yes"
    # Teams, roles, and what else speaks, decides and owns in a company.
    " support legal finance accounting marketing sales design engineering product security"
    " platform infra infrastructure operations ops devops sre qa data research hr management"
    " leadership procurement compliance billing payments checkout search growth analytics mobile"
    " web frontend backend core docs documentation team teams board committee council company"
    " customer client vendor partner user admin owner manager director ceo cto cfo coo vp pm"
    " lead engineer developer designer analyst agent assistant bot reviewer maintainer author"
    " auditor lawyer doctor inc corp ltd gmbh llc labs group bank university school institute"
    " ministry government agency office department division unit cloud studio suite server"
    " service services system systems api app database cluster pipeline build release production"
    " staging the internet".split()
)
_SPEECH: Final = frozenset(
    "said says asked asks told tells wrote writes thinks thought suggested suggests explained"
    " explains promised promises replied replies volunteered mentioned mentions insisted insists"
    " argued argues complained admitted believes hopes remembers forgot joked answered"
    " answers".split()
)
"""Verbs of speech: their subject is a person, even if the name is better known as a city."""
_FINITE_SPEECH: Final = frozenset(
    "said says asks told tells wrote writes thinks thought insists believes remembers"
    " forgot".split()
)
"""Verbs of speech that are neither participles nor nouns: after "Mark", a person and no order."""
_VERBS: Final = _SPEECH | frozenset(
    "agreed agrees recommended recommends proposed proposes owns owned decided decides"
    " approved approves confirmed confirms reported reports reviewed reviews wants wanted"
    " prefers preferred noted notes requested requests objected resigned maintains leads led"
    " manages managed signed fixed investigated investigates debugged merged documented"
    " presented interviewed hired joined left likes dislikes loves hates knows knew learned"
    " found noticed discovered started finished works worked moved deployed released reverted"
    " rolled shipped pushed committed opened closed removed added changed updated migrated rewrote"
    " refactored implemented blocked tested rejected paused restarted".split()
)
"""Verbs of speech, ownership and work; their subject may be a person."""
_JOINTS: Final = frozenset({"and", "or", "&"})
"""Words before the last name of a list."""
_STROKES: Final = str.maketrans("\u00f8\u0142\u0111\u0131", "oldi")
"""Letters that Unicode does not decompose: o, l and d with a stroke, and i without its dot."""
_WHERE: Final = frozenset("in on at near from to by around across through within during".split())
"""Words before a place or time: a name after one of these is no subject."""
_MONTH: Final = "jan"
_SINCE: Final = frozenset("since until till last next this".split())
_AUXILIARIES: Final = frozenset(
    "has had have will would also just already never always then again recently finally"
    " once".split()
)
_HAS: Final = frozenset("has had would".split())
_MODAL: Final = "Will"
_SENTENCE_WORDS: Final = 40
_BRACKETED_MAX: Final = 6
"""Words in brackets after a name, such as a role."""
_BEFORE: Final = lazy_pattern(
    r"(?<![\w-])(?:(?:owned|written|reviewed|approved|reported|maintained|led|managed|proposed"
    r"|suggested|requested|signed off|taken over|authored|filed|raised|discovered|documented|merged"
    r"|fixed|deployed|blocked|released|reverted|rolled back|rolled out|tested|implemented|created"
    r"|added|built|opened|closed|answered|investigated|confirmed|decided|signed|handled|started"
    r"|shipped|rejected|paused|caused|found|reproduced|migrated|updated|changed|removed) by"
    r"|(?:assigned|reassigned|handed over|escalated|delegated|reports|according) to"
    r"|(?:ask|asked|ping|pinged|tell|told|remind|reminded|thank|thanked|emailed|met with|met"
    r"|spoke with|spoke to|speak with|speak to|talked to|talked with|talk to|talk with"
    r"|paired with|pair with|agreed with|checked with|check with|waiting for|cc|hired|promoted"
    r"|said|colleague|intern|teammate))\s+",
    re.IGNORECASE,
)
"""Words before a person who did something or was asked."""
_TITLE: Final = lazy_pattern(r"\b(?:Mr|Mrs|Ms|Dr|Prof)\b\.?[ ]")
# Long gaps are bounded: it is matched at every word.
_AFTER: Final = lazy_pattern(
    r"(?:['\u2019]s\s{1,4}(?:birthday|vacation|holiday|parental leave|shift|desk|laptop|opinion"
    r"|idea|suggestion|wife|husband|partner|son|daughter|mother|father|family|manager|proposal)"
    r"|\s{1,4}(?:is|was|will be)\s{1,4}(?:on[ -]call|on vacation|on leave|on holiday"
    r"|on parental leave|sick|out sick|out of office|responsible for|in charge of|away"
    r"|back from))\b"
)
"""Words after a person: what only people have and are."""


@lru_cache(maxsize=_CACHED)
def people_in(text: str) -> tuple[str, ...]:
    """List the people that a text treats as such, case-folded, in order of first mention.

    A first name is left out if the text has one full name that begins with it.
    """
    text = unicodedata.normalize("NFC", text[:_CHARS_MAX])
    tokens = list(_TOKEN.finditer(text))
    words = [token[0] for token in tokens]
    titled = {match.end() for match in _TITLE.finditer(text)}
    expected = {match.end() for match in _BEFORE.finditer(text)} | titled
    names: dict[int, str] = {}
    for at, token in enumerate(tokens):
        if token.start() in expected:
            names |= _names_from(words, at, has_title=token.start() in titled)
        if at and (token[0] in _VERBS or _AFTER.match(text, tokens[at - 1].end())):
            names |= _subjects(words, at)
    ordered = list(dict.fromkeys(name for _, name in sorted(names.items())))[:_PEOPLE_MAX]
    return tuple(name for name in ordered if not _is_shortened(name, ordered))


def _is_shortened(name: str, names: Iterable[str]) -> bool:
    return sum(one.startswith(f"{name} ") for one in names) == 1


def _subjects(words: Sequence[str], at: int) -> dict[int, str]:
    """Return the names before a verb by their places: "Ann Lee, Bo and Al", also with "has"."""
    names: dict[int, str] = {}
    end = at
    while end > 0 and words[end - 1] in _AUXILIARIES:
        end -= 1
    is_certain = words[end] in _HAS or words[at] in _FINITE_SPEECH
    end = _before_brackets(words, end)
    # The modal has no past after it: "Will approved it".
    is_past = words[at].endswith("ed") and not _asks(words, at)
    is_certain = is_certain or (words[end - 1] == _MODAL and is_past)
    has_joint = False
    while end > 0:
        start = end
        while start > 0 and end - start < _WORDS_MAX and _is_name_word(words[start - 1]):
            start -= 1
        if start == end or not _is_person(words, start, end=end, is_certain=is_certain):
            break
        before = words[start - 1] if start else ""
        if before.casefold() in _WHERE:
            # "In Milan, Ann agreed" is about Ann; "in Milan, Paris and Rome" lists places.
            return {} if NAMES_OF_PLACES.issuperset(names.values()) else names
        names[start] = " ".join(words[start:end]).casefold()
        if start <= 1 or not (before in _JOINTS or (before == "," and has_joint)):
            break
        has_joint = True
        end = start - 1
        if before in _JOINTS and words[end - 1] == ",":
            end -= 1
    is_place = words[at] in _VERBS - _SPEECH and NAMES_OF_PLACES.issuperset(names.values())
    return {} if is_place else names


def _asks(words: Sequence[str], at: int) -> bool:
    """Return whether the sentence is a question: "Will merged branches be deleted?"."""
    return next((word for word in words[at : at + _SENTENCE_WORDS] if word in _ENDS), "") == "?"


def _before_brackets(words: Sequence[str], end: int) -> int:
    """Return where a remark in brackets before a verb begins: "Ann Lee (CTO) approved it"."""
    if end < 1 or words[end - 1] != ")":
        return end
    first = max(end - 2 - _BRACKETED_MAX, 0)
    return next((at for at in range(end - 2, first, -1) if words[at] == "("), end)


def _names_from(words: Sequence[str], at: int, *, has_title: bool) -> dict[int, str]:
    """Return the names that begin where a person is expected, by their places."""
    names: dict[int, str] = {}
    start = at
    while start < len(words) and len(names) < _LISTED_MAX:
        end = start
        while end < len(words) and end - start < _WORDS_MAX and _is_name_word(words[end]):
            end += 1
        if end == start or not (has_title or _is_person(words, start, end=end)):
            break
        names[start] = " ".join(words[start:end]).casefold()
        start = end
        while start < min(end + 2, len(words)) and words[start] in _JOINTS | {","}:
            start += 1
        if start == end:
            break
    return names


def _is_person(words: Sequence[str], start: int, *, end: int, is_certain: bool = False) -> bool:
    """Return whether capitalized words begin with a given name that is no word here.

    It is none even at the beginning of a sentence if only a person can have the verb.
    """
    parts = words[start].casefold().split("-")
    if not (_are_capitals(words[start]) and _NO_NAMES.isdisjoint(parts)):
        return False
    if parts == [_MONTH] and _is_month(words, start, end=end):
        return False
    name = _without_accents(parts[0])
    if name in NAMES_THAT_ARE_WORDS:
        return is_certain or not _opens(words, start) or end - start > 1
    return name in GIVEN_NAMES


def _without_accents(word: str) -> str:
    """Return a name as it is listed: José as "jose", Søren as "soren"."""
    letters = unicodedata.normalize("NFKD", word.translate(_STROKES))
    return "".join(one for one in letters if not unicodedata.combining(one))


def _are_capitals(word: str) -> bool:
    """Return whether each part of a name with hyphens has a capital: Jean-Luc, not Mark-up."""
    return all(part[:1].isupper() for part in word.split("-"))


def _is_month(words: Sequence[str], start: int, *, end: int) -> bool:
    """Return whether "Jan" is January: after "in" or "since", or before a number."""
    before = words[start - 1].casefold() if start else ""
    # After "by" and "to" a person may be expected: "owned by Jan".
    is_after = before in _SINCE | _WHERE - {"by", "to", "from"}
    return is_after or (end < len(words) and words[end][0].isdigit())


def _is_name_word(word: str) -> bool:
    """Return whether a word is written like a part of a name, and is not known as another."""
    folded = word.casefold()
    is_written = word[0].isupper() and not word.isupper() and len(word) <= _NAME_CHARS_MAX
    return is_written and folded not in _NO_NAMES and ALIASES.get(folded, folded) not in PRODUCTS


def _opens(words: Sequence[str], at: int) -> bool:
    return at == 0 or words[at - 1] in _ENDS
